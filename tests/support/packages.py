"""Packages from the package index that no environment has: tests run them in other programs, or run their test suites."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark_zkafka.testing.jars import cache_folder, made_once

__all__ = ["package_folder", "source_folder"]


def package_folder(name: str, version: str) -> Path:
    """Return the folder of a package without its dependencies. pip installs the package once, into the cache."""
    return _fetched(f"{name}-{version}", lambda into: _pip("install", "--target", str(into), f"{name}=={version}"))


def source_folder(name: str, version: str) -> Path:
    """Return the folder of a package's source distribution. pip fetches it once, into the cache."""

    def fetch(into: Path) -> None:
        _pip("download", "--no-binary", name, "--dest", str(into), f"{name}=={version}")
        (archive,) = into.iterdir()
        shutil.unpack_archive(archive, into)
        archive.unlink()

    (folder,) = _fetched(f"{name}-{version}-source", fetch).iterdir()
    return folder


def _fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    return made_once(cache_folder() / "packages" / name, lambda into, lock: fetch(into))


def _pip(command: str, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", *arguments]
    done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(pip)} failed: {done.stdout}")
