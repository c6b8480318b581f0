"""Steps of the demo, and checks of its claims."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.tools import demo
from pyspark_zkafka.tools.demo import open_spark, prove, step, table


@pytest.fixture
def console() -> Console:
    """A console that keeps its output."""
    return Console(file=io.StringIO(), width=100)


def output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_step(console: Console) -> None:
    """A step shows its title and call before its block runs, and its duration afterwards."""
    with step(console, "Stop a broker", "cluster.stop(0)"):
        assert "Stop a broker" in output(console)
        assert "cluster.stop(0)" in output(console)
    assert output(console).rstrip().endswith(" s")


class FakeBuilder:
    """A builder of sessions that notes the Python that Spark would start, and ends there."""

    def __init__(self) -> None:
        self.pythons: list[str] = []

    def config(self, *_: str) -> FakeBuilder:
        return self

    master = appName = config  # noqa: N815  # PySpark's names

    def getOrCreate(self) -> None:  # noqa: N802
        self.pythons = [os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]]
        raise InterruptedError


def test_python_of_spark(console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark runs the demo's own Python, whatever the environment names."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python-elsewhere")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "jupyter")
    builder = FakeBuilder()
    monkeypatch.setattr(demo, "SparkSession", SimpleNamespace(builder=builder))
    with pytest.raises(InterruptedError), open_spark(console, 1, tmp_path / "log"):
        pass
    assert builder.pythons == [sys.executable] * 2


def test_claims(console: Console) -> None:
    """A true claim is printed as proved, and a false one ends the demo."""
    prove(console, "1 record read", True)
    assert output(console) == "proved 1 record read\n"
    with pytest.raises(ZKafkaError, match=r"DEMO_FAILED.*2 records read; please report it"):
        prove(console, "2 records read", False)


def test_table(console: Console) -> None:
    """A table has a title, columns, and rows of any values."""
    console.print(table("Leaders", ("partition", "leader"), [("orders-0", 1)]))
    assert [word in output(console) for word in ("Leaders", "partition", "orders-0")] == [True] * 3
