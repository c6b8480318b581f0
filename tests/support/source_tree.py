"""Copies of the source tree for builds and installations."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["copy_source_tree"]

_ROOT = Path(__file__).resolve().parent.parent.parent


def copy_source_tree(to: Path) -> Path:
    """Copy what a build needs, without files of earlier builds, to the folder `to`, and return it."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(_ROOT / "pyspark_zkafka", to / "pyspark_zkafka", ignore=ignored)
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, to)
    return to
