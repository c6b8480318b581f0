"""Changes that users make between runs, on a real cluster: histories of past faults, and random schedules."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import OptionError
from tests.faults.use import runs, streams, writes
from tests.faults.use.histories import STREAMS, WRITES
from tests.faults.use.steps import KINDS, Use, steps_of
from tests.faults.use.topics import Log
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.spark(4, 2)  # schedules with limits, and with Spark's calls since 4.2

_SHORT, _MANY = 8, 25


@pytest.mark.parametrize(
    ("kind", "seeds", "group"),
    [*seldom(("alone", (0, 1), "")), ("member", (4, 6), "zookeeper"), *seldom(("pair", (0, 1), "zookeeper"))],
)
def test_short_schedules(one_broker: LocalCluster, kind: str, seeds: tuple[int, ...], group: str) -> None:
    """A few short random schedules satisfy all invariants of `streams`; members and pairs join groups in ZooKeeper."""
    for seed in seeds:
        uses = [step.arguments[0] for step in steps_of(seed, kind, _SHORT) if step.name == "start"]
        assert {use.group for use in uses} == {group}, f"choose another seed than {seed}"
    found = [streams.find(one_broker, seed, kind, length=_SHORT) for seed in seeds]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.xdist_group(f"use of {kind}")) for kind in (*KINDS, *writes.KINDS)]
)
def test_many_schedules(one_broker: LocalCluster, kind: str, request: pytest.FixtureRequest) -> None:
    """Many random schedules of streams and of writes satisfy all invariants; `--zkafka-seed` chooses others."""
    first = 1000 * request.config.getoption("--zkafka-seed")
    find = writes.find if kind in writes.KINDS else streams.find
    failures = [text for seed in range(first, first + _MANY) if (text := find(one_broker, seed, kind)) is not None]
    assert not failures, "\n".join(failures)


@pytest.mark.long
@pytest.mark.parametrize("history", STREAMS)
def test_histories_of_streams(one_broker: LocalCluster, history: str) -> None:
    """Stream histories that once exposed a fault satisfy all invariants."""
    found = streams.violation(one_broker, STREAMS[history])
    assert found is None, found


@pytest.mark.long
@pytest.mark.parametrize("history", WRITES)
def test_histories_of_writes(one_broker: LocalCluster, history: str) -> None:
    """Write histories that once exposed a fault satisfy all invariants."""
    found = writes.violation(one_broker, WRITES[history])
    assert found is None, found


def test_records_that_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill, a group may read again what it has not committed; a query without a group may read nothing again."""
    schedule: Any = streams.Schedule(None, [])  # type: ignore[arg-type]
    schedule.is_disturbed = True
    read = {(Log("a", 0, partition), offset) for partition in (0, 1) for offset in range(3)}
    monkeypatch.setattr(schedule, "_stored", lambda use: {Log("a", 0, 0): 2})
    query = schedule.queries[0]
    for group, left in (("zookeeper", {(Log("a", 0, 0), 2), *((Log("a", 0, 1), n) for n in range(3))}), ("", set())):
        query.use, query.uncommitted = Use(group=group), read
        schedule._note_planned(query, is_idle=True)
        assert query.uncommitted == left


@pytest.mark.parametrize(("by", "text"), [(signal.SIGABRT, "exit code -6"), (signal.SIGSTOP, "has not ended")])
def test_run_that_does_not_end_in_order(by: signal.Signals, text: str) -> None:
    """A run that has aborted, or does not end after SIGTERM, is reported when it is stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_END_S", 1.0)
        planner = runs.Planner({})
        with pytest.raises(OptionError):
            planner.call("initialOffset")
        os.kill(planner._process.pid or 0, by)
        time.sleep(0.5)  # signals that are pending at the same time arrive by their numbers
        with pytest.raises(runs.Died, match=text):
            planner.stop()
