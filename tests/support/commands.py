"""Commands in the documentation, checked without running them."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
import typer.main

from benchmarks.cli import app as benchmarks_app
from pyspark_zkafka.tools import app as zkafka_app

__all__ = ["is_known", "problem"]

ROOT = Path(__file__).resolve().parents[2]
_SPARK = Path(pyspark.__file__).parent / "bin"
_PROGRAMS = {
    "pip": [sys.executable, "-m", "pip"],
    "pytest": [sys.executable, "-m", "pytest"],
    "spark-submit": [str(_SPARK / "spark-submit")],
    "pyspark": [str(_SPARK / "pyspark")],
}
_HARMLESS = ("export", "cd", "mkdir")


def is_known(name: str) -> bool:
    """Return True for a program that can be checked."""
    return name in ("zkafka", "make", "python", *_PROGRAMS, *_HARMLESS)


def problem(words: list[str]) -> str | None:
    """Return why a command would fail (subcommand, option, target or extra), or None."""
    name, *arguments = words
    if name == "zkafka":
        return _typer_problem("zkafka", zkafka_app, arguments)
    if name == "python":
        return _module_problem(arguments)
    if name == "make":
        targets = [word for word in arguments if not word.startswith("-") and "=" not in word]
        return next((f"no target {target} in the Makefile" for target in targets if target not in _targets()), None)
    if name in _PROGRAMS:
        return _extra_problem(arguments) or _option_problem(name, arguments)
    return None if is_known(name) else f"{name} is unknown here: check it, or say why it is not run"


def _module_problem(arguments: list[str]) -> str | None:
    if arguments[:2] == ["-m", "benchmarks"]:
        return _typer_problem("python -m benchmarks", benchmarks_app, arguments[2:])
    return f"python {' '.join(arguments)} is unknown here: check it, or say why it is not run"


def _typer_problem(name: str, app: typer.Typer, arguments: list[str]) -> str | None:
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while (commands := getattr(command, "commands", None)) and rest and not rest[0].startswith("-"):
        command = commands.get(rest.pop(0))
        if command is None:
            return f"no such command: {name} {' '.join(arguments)}"
    known = {"--help", *(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)]
    return next((f"{name} {command.name} has no option {option}" for option in given if option not in known), None)


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _extra_problem(arguments: list[str]) -> str | None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = [extra for word in arguments for extra in re.findall(r"^(?:pyspark-zkafka|\.)\[(.*)\]$", word)]
    extras = {extra for names in wanted for extra in names.split(",")}
    unknown = sorted(extras.difference(setup["options.extras_require"]))
    return f"no extra {', '.join(unknown)} in setup.cfg" if unknown else None


def _option_problem(name: str, arguments: list[str]) -> str | None:
    given = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    subcommand = arguments[:1] if name == "pip" else []
    known = _help(name, *subcommand) if given else ""
    return next((f"{name} has no option {o}" for o in given if not re.search(rf"{o}(?![\w-])", known)), None)


@cache
def _help(name: str, *subcommand: str) -> str:
    command = [*_PROGRAMS[name], *subcommand, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return shown.stdout + shown.stderr
