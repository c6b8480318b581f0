"""The C compiler for tests of the compiled code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from pyspark_zkafka.records.native import library

__all__ = ["SOURCES", "compile_c", "compiler"]

SOURCES = Path(library.__file__).parent
_WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]


def compiler() -> str:
    """Return the path of the C compiler, or fail the test if there is none."""
    found = shutil.which("cc") or shutil.which("gcc")
    assert found is not None, "this test needs a C compiler: cc or gcc"
    return found


def compile_c(out: Path, *arguments: str | Path) -> Path:
    """Compile C sources without warnings; fails the test otherwise."""
    command = [compiler(), *_WARNINGS, "-o", out, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out
