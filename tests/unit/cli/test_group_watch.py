"""The live table of lag and rates."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyspark_zkafka.cli.group_watch import watch_groups
from pyspark_zkafka.cli.output import Output
from pyspark_zkafka.errors import OptionError, ZooKeeperError
from pyspark_zkafka.operations.group_reads import Described
from pyspark_zkafka.operations.group_state import PartitionDescription


class Reads:
    """Answers one after the other, then Ctrl-C."""

    def __init__(self, *answers: Described | Exception) -> None:
        self._answers: Iterator[Described | Exception] = iter(answers)

    def __call__(self) -> Described:
        answer = next(self._answers, None)
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Exception):
            raise answer
        return answer


def rows(current: int, *more: PartitionDescription) -> Described:
    """A group with a partition at an offset, whose log ends at 100."""
    return Described({"g": (PartitionDescription("g", "t", 0, current, 100, consumer_id="g_c1"), *more)})


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """A table is written each time, the first one without rates."""
    watch_groups(Output(), Reads(rows(10), rows(60)), 0.1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("g ")]
    assert lines[0] == ["g", "t", "0", "10", "100", "90", "-", "-", "-", "g_c1"]
    assert lines[1][:6] == ["g", "t", "0", "60", "100", "40"]
    assert float(lines[1][6]) > 0
    assert lines[1][7] == "0.0"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With JSON, each line is a list; a group ends with the totals of partitions with an offset, without idle members."""
    none = PartitionDescription("g", "t", 2, None, 7)
    other, idle = PartitionDescription("g", "t", 1, 0, 5), PartitionDescription("g", consumer_id="g_c2")
    watch_groups(Output(as_json=True), Reads(rows(10, other, none, idle), rows(60, other, none, idle)), 0.1)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(row["topic"], row["partition"], row["lag"]) for row in first] == [
        ("t", 0, 90),
        ("t", 1, 5),
        ("t", 2, None),
        (None, None, 95),
    ]
    assert [row["lag"] for row in second] == [40, 5, None, 45]
    assert second[0]["consumed_per_s"] == second[3]["consumed_per_s"] > 0


def test_errors_that_may_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """A retriable error is shown, and the next table follows; any other ends the command."""
    lost = ZooKeeperError("NO_ZOOKEEPER", "No answer")
    watch_groups(Output(), Reads(rows(1), lost, rows(2)), 0.1)
    out = capsys.readouterr().out
    assert out.index(" 1 ") < out.index("[NO_ZOOKEEPER] No answer") < out.index(" 2 ")
    with pytest.raises(OptionError):
        watch_groups(Output(), Reads(OptionError("INVALID_OPTION", "wrong")), 0.1)
