"""Steps of the demo, and checks of its claims."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.tools.demo import prove, step, table


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
