"""The versions of Python and pyspark that the package is for: run by ``make matrix``.

A session whose Python is not on the machine is reported as skipped, or fails with ``--error-on-missing-interpreters``.
"""

from __future__ import annotations

import shutil
import subprocess

import nox
from nox.logger import logger

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PAIRS = [
    *((python, "4.0") for python in PYTHONS if python != "3.14"),  # which pyspark 4.0 does not name
    *((python, "4.1") for python in PYTHONS),
    *((python, "4.2") for python in PYTHONS),
    *((python, "4.3") for python in PYTHONS if python != "3.10"),  # pyspark 4.3 needs Python 3.11
]

_VERSIONS = "import sys, pyspark; print('Python', sys.version.split()[0], 'pyspark', pyspark.__version__)"

nox.options.download_python = "never"  # missing versions are listed instead
nox.options.reuse_venv = "yes"


def _is_here(python: str) -> bool:
    command = shutil.which(f"python{python}")  # may be pyenv's, which fails for versions that are not chosen
    return command is not None and subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0


HERE = tuple(filter(_is_here, PYTHONS))
if HERE != PYTHONS:
    logger.warning("Not on this machine, and skipped: Python %s", ", ".join(p for p in PYTHONS if p not in HERE))


def _server_pairs() -> list[tuple[str, str]]:
    """The oldest pair, the newest Python on this machine with each pyspark, and the newest pair."""
    newest = {spark: (python, spark) for python, spark in PAIRS if python in HERE}
    return list(dict.fromkeys([PAIRS[0], *newest.values(), PAIRS[-1]]))


def _pytest(session: nox.Session, spark: str, *arguments: str) -> None:
    session.install("--editable", ".[test,connect]", f"pyspark[connect]=={spark}.*")
    session.run("python", "-c", _VERSIONS)
    session.run("python", "-m", "pytest", *arguments, *session.posargs)


@nox.session
@nox.parametrize(("python", "spark"), PAIRS)
def unit(session: nox.Session, spark: str) -> None:
    """Unit tests, property tests and doctests."""
    _pytest(session, spark, "tests/unit", "tests/property", "pyspark_zkafka")


@nox.session
@nox.parametrize(("python", "spark"), _server_pairs())
def servers(session: nox.Session, spark: str) -> None:
    """Tests with real servers, none of which may be skipped."""
    workers = ("--numprocesses", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
    _pytest(session, spark, "-m", "server and not long", "--zkafka-require-servers", *workers)
