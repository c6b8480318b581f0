"""The SPARK_HOME of tests, with the files that Spark's scripts and workers need."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import pytest

from tests.support.quick_spark import start_fast


def test_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME has scripts, jars and py4j, and workers import pyspark from files whose bytecode is kept."""
    monkeypatch.delenv("SPARK_HOME")
    start_fast()
    home = Path(os.environ["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").is_file()
    assert list(home.glob("jars/spark-core_*.jar"))
    assert list(home.glob("python/lib/py4j-*.zip"))
    found = PathFinder.find_spec("pyspark", [str(home / "python" / "lib" / "pyspark.zip")])
    assert found is not None
    assert isinstance(found.loader, SourceFileLoader)
    assert found.cached


def test_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing SPARK_HOME is kept."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    start_fast()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
