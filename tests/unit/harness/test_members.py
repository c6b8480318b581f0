"""Ends of queries, and workloads as values."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_zkafka.conditions import NO_LEADER
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.stream import parse_stream
from tests.faults.drivers.harness_member import Member, outcome
from tests.faults.harness import members
from tests.faults.harness.history import Interrupted, merged
from tests.faults.harness.journal import Journal
from tests.faults.harness.members import shortened
from tests.faults.harness.values import digest, value
from tests.faults.harness.workloads import KINDS, TRANSPORTS, workload
from tests.support.applications import Outcome
from tests.support.eventually import eventually


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kafka", ["", "4.3.1"])
def test_options(kind: str, transport: str, kafka: str) -> None:
    """The package accepts the options of each workload, with and without ZooKeeper."""
    found = workload(kind, transport, kafka=kafka)
    for member in found.member_names:
        options = parse_stream(found.source(member, "127.0.0.1:1/x", "127.0.0.1:2"))
        assert options.group is not None
        assert options.group.name == found.name
    sink = found.sink("127.0.0.1:1/x", "127.0.0.1:2")
    assert (sink.get("deliveryGuarantee") == "exactly-once") is found.is_exactly_once
    servers = {name: value for name, value in sink.items() if name in ("zookeeper.connect", "kafka.bootstrap.servers")}
    assert (parse_connection(servers).zookeeper is None) is (kafka == "4.3.1")


@pytest.mark.parametrize(("engine", "has_limits"), [("spark", True), ("4.2.1", True), ("4.1.4", False), ("4.0.5", False)])
def test_limits(engine: str, has_limits: bool) -> None:
    """Spark limits micro-batches from 4.2 on, and the package refuses limits before it."""
    options = workload("stream-kafka", engine=engine).source("a", "127.0.0.1:1/x", "127.0.0.1:2")
    assert ("maxOffsetsPerTrigger" in options) is has_limits


def test_short_errors() -> None:
    """A short error stays as it is, and a long error is shortened but names all of its conditions."""
    assert shortened("[NO_LEADER] text") == "[NO_LEADER] text"
    assert shortened(f"[STREAM_FAILED] {'x' * 5000} [NO_LEADER] y").endswith("... [STREAM_FAILED] [NO_LEADER]")


@pytest.mark.parametrize(
    ("error", "shown"),
    [(NO_LEADER("orders-0"), "[NO_LEADER] orders-0"), (KeyError("leader"), "KeyError: 'leader'")],
)
def test_error_of_a_query(error: Exception, shown: str) -> None:
    """A driver reports any error of its query, instead of ending as if it was killed."""
    spark: Any = SimpleNamespace(streams=SimpleNamespace(active=[]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Member, "run", lambda self: _raise(error))
        assert outcome(spark, {"name": "member-0", "run": 0, "kind": "stream"})["error"] == shown


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("offsets", "commits", "batch"), [(1, 0, 0), (2, 1, 1), (2, 2, None)])
def test_interrupted_run(offsets: int, commits: int, batch: int | None, tmp_path: Path) -> None:
    """After a run, a member journals how many slots of its incomplete micro-batch are written; a complete one has none."""
    asked: list[tuple[str, int]] = []

    def written(query: str, number: int) -> int:
        asked.append((query, number))
        return 3

    journal = Journal(tmp_path / "journal.jsonl")
    member = members.Member("m", workload("sink-exactly-once"), tmp_path, journal, ({}, {}), written)
    for folder, count in (("offsets", offsets), ("commits", commits)):
        (member.checkpoint / folder).mkdir(parents=True)
        for number in range(count):
            (member.checkpoint / folder / str(number)).touch()
    (member.checkpoint / "metadata").write_text('{"id": "8f1c"}')
    member.application = Application(tmp_path / "marks")  # type: ignore[assignment]
    member.start()
    eventually(lambda: member.run_number > 0)
    member.end()
    assert set(asked) == (set() if batch is None else {("8f1c", batch)})
    assert {one.slots for one in merged([journal.path]).of(Interrupted)} == (set() if batch is None else {3})


class Application:
    """An application that is killed soon after each start."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def start(self, request: object) -> None:
        """Start nothing."""

    def wait(self, timeout_s: float) -> Outcome:
        time.sleep(0.01)
        return Outcome(killed=True)

    def leave(self, mark: str) -> None:
        """Ignore the mark."""

    def close(self) -> None:
        """Close nothing."""


def test_values() -> None:
    """Each record has a different value."""
    values = {value(topic, number) for topic in ("a", "b") for number in range(200)}
    assert len({digest(one) for one in values}) == 400
