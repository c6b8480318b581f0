"""The live table of lag and rates, and the time to catch up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyspark_zkafka.errors import OptionError, ZooKeeperError
from pyspark_zkafka.inspect.groups import (
    GroupReport,
    GroupReports,
    LogBounds,
    LogsReport,
    Member,
    Owner,
    PartitionReport,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.tools.output import Output
from pyspark_zkafka.tools.watch import Observation, Progress, progress, total, watch_groups
from tests.support.cases import each


class Reads:
    """Reads that return the prepared answers in turn, then raise Ctrl-C."""

    def __init__(self, *answers: GroupReports | Exception) -> None:
        self._answers: Iterator[GroupReports | Exception] = iter(answers)

    def __call__(self) -> GroupReports:
        answer = next(self._answers, None)
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Exception):
            raise answer
        return answer


T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def rows(current: int, *, alone: bool = True) -> GroupReports:
    """Return a group with a partition in a log that ends at 100, or also with two more partitions and an idle member."""
    group = GroupReport("g", owners={T0: Owner("g_c1-0")}, offsets={T0: StoredOffset(current)})
    logs = {T0: LogBounds(0, 100)}
    if not alone:
        idle = {"g_c2": Member(ConsumerRegistration({"t": 1}))}
        group = replace(group, members=idle, offsets={**group.offsets, T1: StoredOffset(0)})
        logs |= {T1: LogBounds(0, 5), T2: LogBounds(0, 7)}
    return GroupReports({"g": group}, logs=LogsReport(logs))


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """A table is written after each read, and the first one has no rates."""
    watch_groups(Output(), Reads(rows(10), rows(60)), 0.1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("g ")]
    assert lines[0] == ["g", "t", "0", "10", "100", "90", "-", "-", "-", "g_c1"]
    assert lines[1][:6] == ["g", "t", "0", "60", "100", "40"]
    assert float(lines[1][6]) > 0
    assert lines[1][7] == "0.0"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With JSON, each line is a list; a group ends with totals of partitions with an offset, without idle members."""
    watch_groups(Output(as_json=True), Reads(rows(10, alone=False), rows(60, alone=False)), 0.1)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(row["topic"], row["partition"], row["lag"]) for row in first] == [
        ("t", 0, 90),
        ("t", 1, 5),
        ("t", 2, None),
        (None, None, 95),
    ]
    assert [row["lag"] for row in second] == [40, 5, None, 45]
    assert second[0]["consumed_per_s"] == second[3]["consumed_per_s"] > 0


def test_offsets_of_deleted_topics(capsys: pytest.CaptureFixture[str]) -> None:
    """Totals leave out partitions that no longer exist: their lag would remain unknown."""
    found = rows(10, alone=False)
    deleted = replace(
        found.groups["g"], offsets={**found.groups["g"].offsets, TopicPartition("deleted", 0): StoredOffset(7)}
    )
    watch_groups(Output(as_json=True), Reads(replace(found, groups={"g": deleted})), 0.1)
    table = json.loads(capsys.readouterr().out)
    assert [(row["topic"], row["lag"]) for row in (table[0], table[-1])] == [("deleted", None), (None, 95)]


def test_errors_that_may_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """A retriable error is shown and followed by the next table, and any other error ends the command."""
    lost = ZooKeeperError("NO_ZOOKEEPER", "No answer")
    watch_groups(Output(), Reads(rows(1), lost, rows(2)), 0.1)
    out = capsys.readouterr().out
    assert out.index(" 1 ") < out.index("[NO_ZOOKEEPER] No answer") < out.index(" 2 ")
    with pytest.raises(OptionError):
        watch_groups(Output(), Reads(OptionError("INVALID_OPTION", "wrong")), 0.1)


# --- rates -------------------------------------------------------------------------------------------------------------


def seen(time_s: float, *offsets: tuple[int | None, int | None]) -> Observation:
    """Return an observation of a topic's partitions, by current offsets and ends of logs."""
    return Observation(time_s, tuple(PartitionReport("g", "t", n, *found) for n, found in enumerate(offsets)))


def test_rates() -> None:
    """Rates are differences of offsets divided by the time between two observations."""
    (found,) = progress(seen(10.0, (100, 400)), seen(12.0, (180, 420)))
    assert found == Progress(240, 40.0, 10.0)
    assert found.catch_up_s == 8.0


def test_first_observation() -> None:
    """The first observation, new partitions and partitions without an earlier offset have no rates."""
    assert progress(seen(10.0, (1, 3)), seen(10.0, (1, 3))) == [Progress(2)]
    assert progress(seen(10.0, (None, 3)), seen(11.0, (1, 3), (0, 0))) == [Progress(2, None, 0.0), Progress(0)]


@each(
    ("found", "seconds"),
    [
        (Progress(0), 0.0),
        (Progress(-3, 0.0, 0.0), 0.0),
        (Progress(10, 5.0, 5.0), None),
        (Progress(10, 5.0, 5.0 - 1e-12), None),
        (Progress(10, -5.0, 0.0), None),
        (Progress(10, 5.0, None), None),
        (Progress(None, 5.0, 1.0), None),
        (Progress(10, 6.0, 1.0), 2.0),
    ],
)
def test_time_to_catch_up(found: Progress, seconds: float | None) -> None:
    """The time to catch up is known if the group consumes faster than the log grows, and is 0 without a lag."""
    assert found.catch_up_s == seconds


def test_totals() -> None:
    """Totals are sums, and are unknown if a part is unknown."""
    assert total([Progress(10, 1.0, 2.0), Progress(5, None, 3.0)]) == Progress(15, None, 5.0)
    assert total([Progress(-4, 1.0, 2.0), Progress(5, 1.0, 3.0)]).lag == 5
    assert total([Progress()]) == Progress()
