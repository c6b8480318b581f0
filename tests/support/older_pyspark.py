"""Other versions of pyspark than the installed one, for programs that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark_zkafka.testing import cache_folder
from tests.support.documentation import ROOT

__all__ = ["with_pyspark"]


def with_pyspark(version: str) -> dict[str, str]:
    """Return the environment of a program that imports this version of pyspark, and the project's tests.

    The version is installed once, into the cache, from where it precedes the installed one.
    """
    folder = cache_folder() / f"pyspark-{version}"
    if not folder.is_dir():
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".partial-pyspark-") as partial:
            made = Path(partial) / "made"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made)]
            done = subprocess.run([*pip, f"pyspark=={version}"], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"pip could not install pyspark {version}: {done.stdout}{done.stderr}")
            made.rename(folder)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "SPARK_HOME": str(folder / "pyspark")}
