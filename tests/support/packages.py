"""Packages from the package index that no environment has: tests run them in other programs, or run their test suites."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark_zkafka.testing import cache_folder

__all__ = ["package_folder"]


def package_folder(name: str, version: str) -> Path:
    """Return the folder of a package without its dependencies. pip installs the package once, into the cache."""
    folder = cache_folder() / f"{name}-{version}"
    if not folder.is_dir():
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=f".partial-{name}-") as partial:
            made = Path(partial) / "made"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made)]
            done = subprocess.run([*pip, f"{name}=={version}"], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"pip could not install {name} {version}: {done.stdout}{done.stderr}")
            made.rename(folder)
    return folder
