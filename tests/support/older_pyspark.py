"""Other versions of pyspark than the installed one, for programs that tests start."""

from __future__ import annotations

import os

from tests.support.documentation import ROOT
from tests.support.packages import package_folder

__all__ = ["with_pyspark"]


def with_pyspark(version: str) -> dict[str, str]:
    """Return the environment of a program that imports this version of pyspark, and the project's tests.

    The version is installed once, into the cache, from where it precedes the installed one.
    """
    folder = package_folder("pyspark", version)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "SPARK_HOME": str(folder / "pyspark")}
