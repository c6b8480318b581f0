"""Copies of the source tree, to build and install from."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["copy_source_tree"]

_ROOT = Path(__file__).resolve().parent.parent.parent


def copy_source_tree(to: Path) -> Path:
    """The folder `to`, with what a build needs and nothing that an earlier build has left."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(_ROOT / "pyspark_zkafka", to / "pyspark_zkafka", ignore=ignored)
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, to)
    return to
