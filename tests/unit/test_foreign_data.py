"""No data becomes code: the package neither evaluates nor unpickles what it reads, and starts no shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pyspark_zkafka"

FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "breakpoint", "input"),
    *("os.system", "os.popen", "os.execv", "os.execvp", "os.spawnv"),
    *("subprocess.getoutput", "subprocess.getstatusoutput"),
    *("ast.literal_eval", "importlib.import_module", "ctypes.PyDLL", "numpy.load", "np.load"),
    "tempfile.mktemp",
}
FORBIDDEN_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml", "pty", "commands", "joblib"}
PROCESSES = {"Popen", "run", "call", "check_call", "check_output"}
PLACES = {
    "testing": "LocalCluster starts Java, by a list of arguments and without a shell",
}
"""Packages that may start processes, with the reason."""


def modules() -> list[Path]:
    """The modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def offences(path: Path, tree: ast.Module) -> Iterator[str]:
    """What a module does with foreign data, or with a shell, that it must not do."""
    top = path.relative_to(PACKAGE).parts[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in FORBIDDEN_MODULES)
            if "subprocess" in names and top not in PLACES:
                yield "imports subprocess"
        if isinstance(node, ast.Call):
            yield from called(node)


def called(node: ast.Call) -> Iterator[str]:
    """What a call does that it must not do."""
    name = ast.unparse(node.func)
    if name in FORBIDDEN_CALLS:
        yield f"calls {name}"
    if name.rpartition(".")[2] in PROCESSES and name.startswith("subprocess."):
        if not all(k.arg is not None for k in node.keywords):
            yield f"calls {name} with keywords that cannot be checked"
        if any(k.arg == "shell" for k in node.keywords):
            yield f"calls {name} with shell="
    if name.rpartition(".")[2] in {"read_csv", "load"} and any(k.arg == "allow_pickle" for k in node.keywords):
        yield f"calls {name} with allow_pickle="


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_data_becomes_code(path: Path) -> None:
    """No eval, exec or pickle, no module by a name that was read, and no shell; processes in the named places alone."""
    assert list(offences(path, ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pickle", "imports pickle"),
        ("from pickle import loads", "imports pickle"),
        ("import yaml.loader", "imports yaml.loader"),
        ("import subprocess", "imports subprocess"),
        ("eval('1')", "calls eval"),
        ("import os\nos.system('ls')", "calls os.system"),
        ("subprocess.run('ls', shell=True)", "calls subprocess.run with shell="),
        ("subprocess.run('ls', **more)", "calls subprocess.run with keywords that cannot be checked"),
    ],
)
def test_offences_are_found(text: str, found: str) -> None:
    """The check finds what it is for."""
    assert found in list(offences(PACKAGE / "stream" / "reader.py", ast.parse(text)))


def test_named_places_exist() -> None:
    """A place that no longer starts processes is no longer named."""
    for place in PLACES:
        texts = [path.read_text(encoding="utf-8") for path in (PACKAGE / place).rglob("*.py")]
        assert any("import subprocess" in text for text in texts)
