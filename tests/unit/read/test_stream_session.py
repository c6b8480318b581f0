"""Sessions of streams: brokers that have left ZooKeeper, reports of data loss, and warnings that repeat."""

from __future__ import annotations

import logging
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_zkafka.conditions import PARTITIONS_GONE
from pyspark_zkafka.errors import ClusterStateError, DataLoss
from pyspark_zkafka.group import membership
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_session import StreamSession, StreamWarnings
from tests.support.clock import Clock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_warnings_repeat_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A subject is logged again only after a minute, whatever its text; another subject is logged at once."""
    clock = Clock()
    reports = StreamWarnings(fail_on_data_loss=True, clock=clock)
    for clock.now, subject, text in ((0, "leader", "a"), (59, "leader", "b"), (61, "leader", "c"), (61, "broker", "d")):
        reports.warn(subject, text)
    assert [record.message for record in caplog.records] == ["a", "c", "d"]


def test_partitions_of_warnings() -> None:
    """A warning names each partition once a minute."""
    clock = Clock()
    reports = StreamWarnings(fail_on_data_loss=True, clock=clock)
    assert reports.due("offline", [T0]) == [T0]
    clock.now = 30
    assert reports.due("offline", [T0, T1]) == [T1]
    assert reports.due("moved", [T0]) == [T0]
    clock.now = 61
    assert reports.due("offline", [T0, T1]) == [T0]


@pytest.mark.parametrize(("answers", "have_left"), [([False], False), ([True, True, False], False), ([True], True)])
def test_brokers_that_have_left_zookeeper(answers: list[bool], have_left: bool) -> None:
    """Brokers have left ZooKeeper if none has registered for 30 seconds: the last one may have been restarting."""
    clock = Clock()
    group = {"zookeeper.connect": "z:2181", "subscribe": "t", "group.id": "g"}
    session = StreamSession(parse_stream(group), clock, clock.sleep)
    left = iter(answers)
    zookeeper: Any = SimpleNamespace(all_brokers_migrated=lambda: next(left, answers[-1]))
    assert session._have_brokers_left(zookeeper) == have_left
    assert clock.now == (30 if have_left else len(answers) - 1)


def test_offsets_that_only_zookeeper_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that moves to Kafka with its brokers is refused if offsets of present topics are missing or behind there."""

    class Admin:
        def __enter__(self) -> Admin:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def committed(self, group: str) -> dict[TopicPartition, int]:
            return in_kafka

        def snapshot(self, topics: Collection[str]) -> Any:
            return SimpleNamespace(all_partitions=lambda: [tp for tp in (T0, T1) if tp.topic in topics])

    monkeypatch.setattr(membership, "GroupAdmin", SimpleNamespace(of=lambda *_: Admin()))
    zookeeper: Any = SimpleNamespace(group_offsets=lambda group: {T0: 9, T1: -1, TopicPartition("deleted", 0): 9})
    options = {"zookeeper.connect": "z:2181", "kafka.bootstrap.servers": "k:9092", "subscribe": "t", "group.id": "g"}
    read = parse_stream({**options, "offsets.storage": "kafka"}).read
    assert read.stores == ("kafka", "zookeeper")
    in_kafka: dict[TopicPartition, int] = {}
    for offsets in ({T0: 9}, {T0: 10, T1: 3}):
        in_kafka = offsets
        membership.refuse_unmigrated(zookeeper, "g", read)
    for offsets in ({}, {T0: 8}):
        in_kafka = offsets
        with pytest.raises(ClusterStateError, match="MIGRATED_TO_KRAFT"):
            membership.refuse_unmigrated(zookeeper, "g", read)


def test_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Data loss raises an error, or logs a warning with failOnDataLoss=false."""
    with pytest.raises(DataLoss, match=r"\[PARTITIONS_GONE\] t-0 is gone; some records may be lost"):
        StreamWarnings(fail_on_data_loss=True, clock=lambda: 0.0).lose(PARTITIONS_GONE, "t-0 is gone")
    with caplog.at_level(logging.WARNING):
        StreamWarnings(fail_on_data_loss=False, clock=lambda: 0.0).lose(PARTITIONS_GONE, "t-0 is gone")
    assert "t-0 is gone; some records may be lost" in caplog.text
