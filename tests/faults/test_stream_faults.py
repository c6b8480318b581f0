"""Streams while the cluster changes: what they read and report, and that they survive."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

Create = Callable[[str, list[list[int]]], None]
MakeTopic = Callable[..., str]
NewStream = Callable[..., Any]
"""Factory of `Stream`, see conftest.py."""
FROM_START = {"startingOffsets": "earliest"}
LENIENT = {"failOnDataLoss": "false"}
OUTAGE_S = 10
SILENCE_S = 6
"""Longer than the session timeout of 2 s plus the time to reconnect."""


pytestmark = pytest.mark.usefixtures("all_brokers")


def values(found: Any) -> list[str]:
    """Return the values that a stream has read, in order."""
    return [row.value.decode() for row in found.rows]


def brokers_alone(cluster: LocalCluster) -> dict[str, str]:
    """Return options that reach the cluster without ZooKeeper."""
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


class Pause:
    """Holds streams at the end of their first micro-batch, so that the test can act before the next one is planned."""

    def __init__(self, *streams: Any) -> None:
        self._over = threading.Event()
        for one in streams:
            one.in_batch = self._hold

    def _hold(self, frame: object, number: int) -> None:
        assert number > 0 or self._over.wait(60)

    def end(self) -> None:
        """Let the streams continue."""
        self._over.set()


def fails(one: Any, expected: str) -> None:
    """Wait until a stream fails with the expected error."""
    error = one.wait_for_error()
    assert isinstance(error, StreamingQueryException)
    assert re.search(expected, str(error))


class TestReplacedTopic:
    """A topic that is deleted, or deleted and recreated, between two micro-batches."""

    @pytest.mark.parametrize(
        ("records", "how"), [(3, "brokers"), *seldom((30, "zookeeper"), (3, "zookeeper"), (30, "brokers"))]
    )
    def test_created_again(
        self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic, records: int, how: str
    ) -> None:
        """A recreated topic is not mistaken for the old one: the stream fails, or reads all of the new topic."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 10, 1, value="old")
        connection = None if how == "zookeeper" else brokers_alone(zkafka_cluster)
        strict = stream({"subscribe": topic, **FROM_START}, connection, "strict")
        lenient = stream({"subscribe": topic, **FROM_START, **LENIENT}, connection, "lenient")
        pause = Pause(strict, lenient)
        strict.start()
        lenient.start()
        for one in (strict, lenient):
            one.wait_for(10)
        zkafka_cluster.delete_topic(topic)
        zkafka_cluster.create_topic(topic, partitions=2)
        fill(zkafka_cluster, topic, records, 1, value="new")
        pause.end()
        fails(strict, rf"\[TOPIC_REPLACED\] topic {topic} was (deleted and )?created again")
        lenient.wait_for(10 + records)
        assert values(lenient) == [f"old{n}" for n in range(10)] + [f"new{n}" for n in range(records)]
        assert len(strict.rows) == 10

    @pytest.mark.long
    def test_deleted(
        self, stream: NewStream, zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: MakeTopic
    ) -> None:
        """After a topic's deletion a stream fails, or reads the others, and later all of a new topic of that name."""
        topic, other = new_topic(), new_topic()
        fill(zkafka_cluster, topic, 10, value="old")
        both = {"subscribe": f"{topic},{other}"}
        strict = stream({**both, **FROM_START}, name="strict")
        lenient = stream({**both, **LENIENT, **FROM_START}, name="lenient")
        asking = stream({**both, **LENIENT, **FROM_START}, brokers_alone(zkafka_cluster), "asking")
        pause = Pause(strict, lenient, asking)
        for one in (strict, lenient, asking):
            one.start()
        for one in (strict, lenient, asking):
            one.wait_for(10)
        zkafka_cluster.delete_topic(topic)
        pause.end()
        fails(strict, rf"\[PARTITIONS_GONE\] {topic}-0 no longer exist: the topic was deleted")
        fill(zkafka_cluster, other, 5, value="other")
        for one in (lenient, asking):
            one.wait_for(15)
        zkafka_cluster.create_topic(topic)
        fill(zkafka_cluster, topic, 3, value="new")
        for one in (lenient, asking):
            one.wait_for(18)
            assert values(one)[10:] == [f"other{n}" for n in range(5)] + [f"new{n}" for n in range(3)]

    def test_deleted_before_it_is_read(
        self, planner: Callable[..., StreamDriver], zkafka_cluster: LocalCluster, new_topic: MakeTopic
    ) -> None:
        """A topic deleted after its micro-batch was planned, but before it was split, is an error or is left out."""
        topic, other = new_topic(), new_topic()
        strict, lenient = (planner({"subscribe": f"{topic},{other}", **FROM_START, **o}) for o in ({}, LENIENT))
        for name in (topic, other):
            fill(zkafka_cluster, name, 10)
        ends = [one.latest(one.initial(), limited=True) for one in (strict, lenient)]
        zkafka_cluster.delete_topic(topic)
        with pytest.raises(DataLoss, match=rf"\[PARTITIONS_GONE\] {topic}-0 of the micro-batch no longer exist"):
            strict.splits(ends[0])
        splits, _ = lenient.splits(ends[1])
        assert [(s.partition.topic, s.start, s.until) for s in splits] == [(other, 0, 10)]


@pytest.mark.spark(4, 2)
@pytest.mark.long
def test_retention(stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """When unread records are deleted, a stream fails and names them, or continues after them and repeats none."""
    topic = new_topic()
    strict = stream({"subscribe": topic, **FROM_START}, name="strict")
    lenient = stream({"subscribe": topic, **FROM_START, **LENIENT, "maxOffsetsPerTrigger": "10"}, name="lenient")
    stopped = stream({"subscribe": topic, **FROM_START}, name="stopped")
    fill(zkafka_cluster, topic, 10)
    stopped.run()
    pause = Pause(strict, lenient)
    strict.start()
    lenient.start()
    for one in (strict, lenient):
        one.wait_for(10)
    fill(zkafka_cluster, topic, 30)
    zkafka_cluster.delete_records(topic, {0: 25})
    pause.end()
    fails(strict, rf"{topic}-0: records \[10, 25\) of the range \[10, 40\) are gone")
    lenient.wait_for(25)
    assert lenient.offsets() == [*range(10), *range(25, 40)]
    assert len(strict.rows) == 10
    with pytest.raises(StreamingQueryException, match=rf"OFFSET_OUT_OF_RANGE\] {topic}-0: .* 10 .* which spans \[25, 40\)"):
        stopped.run()


@pytest.mark.long
def test_truncation(stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """When an unclean election truncates records already read, a stream fails, or continues at the new end of the log."""
    topic = new_topic(assignment={0: [0, 1]}, config={"unclean.leader.election.enable": "true"})
    fill(zkafka_cluster, topic, 10, value="kept")
    zkafka_cluster.wait_in_sync(topic)
    try:
        zkafka_cluster.stop(1)
        fill(zkafka_cluster, topic, 10, value="lost")
        strict = stream({"subscribe": topic, **FROM_START}, name="strict")
        lenient = stream({"subscribe": topic, **FROM_START, **LENIENT}, name="lenient")
        strict.start()
        lenient.start()
        for one in (strict, lenient):
            one.wait_for(20)
        zkafka_cluster.stop(0)
        zkafka_cluster.restart(1)
        assert zkafka_cluster.wait_for_leader(topic, 0) == 1
        fails(strict, rf"\[OFFSET_WENT_BACK\] {topic}-0: the log ends at 10, and was read or planned up to 20")
        # Records written before the query has found the new end may lie below it.
        eventually(lambda: fill(zkafka_cluster, topic, 1, value="new") and len(lenient.rows) > 20, 60, poll_s=0.5)
        (offsets,) = fill(zkafka_cluster, topic, 5, value="later").values()
        lenient.wait_for(20 + offsets[-1] + 1 - lenient.rows[20].offset)
        found = [(r.offset, r.value.decode()) for r in lenient.rows[20:]]
        first = found[0][0]
        assert first >= 10
        assert found[:-5] == [(offset, "new0") for offset in range(first, offsets[0])]
        assert found[-5:] == [(offset, f"later{n}") for n, offset in enumerate(offsets)]
    finally:
        for broker in {0, 1} - set(zkafka_cluster.running_broker_ids):
            zkafka_cluster.restart(broker)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_partitions_without_leader(
    stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic, create_without_waiting: Create
) -> None:
    """A partition without a leader waits while others are read; once it has one, none of its records is lost.

    This applies to partitions read before, to queries started meanwhile, and to topics created meanwhile.
    """
    topic = new_topic(assignment={0: [0], 1: [1]})
    for partition in (0, 1):
        fill(zkafka_cluster, topic, 5, partition)
    pattern = {"subscribePattern": f"{topic}(-later)?"}
    running = stream({**pattern, **FROM_START}, name="running")
    asking = stream({**pattern, **FROM_START}, brokers_alone(zkafka_cluster), "asking")
    waiting = stream({**pattern, **FROM_START}, name="waiting")
    tail = stream(pattern, name="tail")
    for one in (running, asking, tail):
        one.start()
    for one in (running, asking):
        one.wait_for(10)
    tail.wait_for_start()
    fill(zkafka_cluster, topic, 1)
    tail.wait_for(1)
    zkafka_cluster.stop(1)
    try:
        waiting.start()
        create_without_waiting(f"{topic}-later", [[0], [1]])
        for name in (topic, f"{topic}-later"):
            fill(zkafka_cluster, name, 5)
        for one, records in ((running, 21), (asking, 21), (waiting, 16), (tail, 11)):
            one.wait_for(records)
    finally:
        zkafka_cluster.restart(1)
    for name in (topic, f"{topic}-later"):
        zkafka_cluster.wait_for_leader(name, 1)  # a partition that never had one is missing from metadata
        fill(zkafka_cluster, name, 5, 1)
    for one, records in ((running, 31), (asking, 31), (waiting, 31), (tail, 21)):
        # Four queries and a starting broker share the machine; without ZooKeeper, several requests may time out first.
        one.wait_for(records, timeout_s=300)
    for one in (running, asking, waiting):
        assert one.offsets(0, topic) == list(range(11))
        assert one.offsets(1, topic) == list(range(10))
    assert tail.offsets(0, topic) == list(range(5, 11))
    assert tail.offsets(1, topic) == list(range(5, 10))
    for one in (running, asking, waiting, tail):
        assert [one.offsets(p, f"{topic}-later") for p in (0, 1)] == [list(range(5))] * 2


class Journal:
    """A producer that writes numbered records continuously and notes the offset of each acknowledged record."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int) -> None:
        self.acknowledged: dict[tuple[int, int], str] = {}
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        from confluent_kafka import Producer

        def note(error: object, message: Any) -> None:
            if error is None:
                self.acknowledged[message.partition(), message.offset()] = message.value().decode()

        settings = {"bootstrap.servers": self._cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**settings, "on_delivery": note, "error_cb": lambda error: None})
        number = 0
        while not self._over.wait(0.01):
            producer.produce(self._topic, str(number), partition=number % self._partitions)
            producer.poll(0)
            number += 1
        assert producer.flush(60) == 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write during the block; on leaving it, all records are acknowledged."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join(90)


def missing(journal: Journal, one: Any) -> list[tuple[tuple[int, int], str]]:
    """Return acknowledged records that a stream has not read, by partition and offset."""
    read = {(row.partition, row.offset): row.value.decode() for row in one.rows}
    return sorted(journal.acknowledged.items() - read.items())


@pytest.mark.parametrize("ends", [["kill"], *seldom(["kill", "stop", "kill"])], ids=" ".join)
def test_leaders_killed(stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic, ends: list[str]) -> None:
    """While leaders are killed or stopped, streams read every acknowledged record once, in the order of its partition."""
    topic = new_topic(partitions=2, replication=3, config={"min.insync.replicas": "2"})
    journal = Journal(zkafka_cluster, topic, 2)
    both = [
        stream({"subscribe": topic, **FROM_START}, name="watching"),
        stream({"subscribe": topic, **FROM_START}, brokers_alone(zkafka_cluster), "asking"),
    ]
    for one in both:
        one.start()
        one.in_batch = lambda frame, number: None
    with journal.writing():
        for one in both:
            one.wait_for(1)
        for end in ends:
            enough = len(journal.acknowledged) + 50
            eventually(lambda enough=enough: len(journal.acknowledged) > enough)
            zkafka_cluster.wait_in_sync(topic)
            leader = zkafka_cluster.wait_for_leader(topic, 0)
            getattr(zkafka_cluster, end)(leader)
            zkafka_cluster.wait_for_leader(topic, 0, not_broker=leader)
            zkafka_cluster.restart(leader)
    for one in both:
        # By their places: a killed leader may leave records whose acknowledgement was lost.
        one.wait_until(lambda one=one: not missing(journal, one), message=lambda one=one: missing(journal, one))
        rows = one.rows
        for partition in (0, 1):
            offsets = [row.offset for row in rows if row.partition == partition]
            assert offsets == list(range(len(offsets)))


@pytest.mark.long
def test_controller_gone(zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """A client that has been open for a while finds the next controller, the next leaders and new partitions."""
    topic = new_topic(partitions=2, replication=3)
    with zkafka_cluster.zookeeper() as client:
        controller = json.loads(client.get("/controller")[0])["brokerid"]
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as admin:
        assert admin.snapshot([topic]).controller == controller
        assert admin.list_offsets({TopicPartition(topic, p): LATEST for p in (0, 1)}).keys()
        zkafka_cluster.add_partitions(topic, 3)
        assert admin.list_offsets({TopicPartition(topic, 2): LATEST}) == {TopicPartition(topic, 2): 0}
        zkafka_cluster.stop(controller)
        try:
            begin = time.monotonic()
            partitions = [TopicPartition(topic, p) for p in range(3)]
            zkafka_cluster.wait_for_leader(topic, 0, not_broker=controller)
            assert admin.list_offsets(dict.fromkeys(partitions, LATEST)) == dict.fromkeys(partitions, 0)
            found = admin.snapshot([topic])
            assert found.controller not in (None, controller)
            assert found.without_leader(partitions) == []
            assert time.monotonic() - begin < 25
        finally:
            zkafka_cluster.restart(controller)


@pytest.mark.long
def test_all_brokers_down(stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """A stream survives an outage of all brokers and reads the records written afterwards."""
    topic = new_topic(partitions=2, replication=2)
    both = [
        stream({"subscribe": topic, **FROM_START}, name="watching"),
        stream({"subscribe": topic, **FROM_START}, brokers_alone(zkafka_cluster), "asking"),
    ]
    fill(zkafka_cluster, topic, 5)
    for one in both:
        one.start()
    for one in both:
        one.wait_for(5)
    for broker in zkafka_cluster.broker_ids:
        zkafka_cluster.kill(broker)
    time.sleep(OUTAGE_S)
    for broker in zkafka_cluster.broker_ids:
        zkafka_cluster.restart(broker)
    for partition in (0, 1):
        zkafka_cluster.wait_for_leader(topic, partition)
        fill(zkafka_cluster, topic, 5, partition)
    for one in both:
        one.wait_for(15, timeout_s=120)  # starting brokers share the machine
        assert one.offsets(0) == list(range(10))
        assert one.offsets(1) == list(range(5))


@pytest.mark.long
def test_zookeeper_silent(stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """A stream reads on while ZooKeeper is silent for longer than a session, and finds a new topic soon afterwards."""
    topic = new_topic()
    quick = {"zookeeper.session.timeout.ms": "2000"}
    found = stream({"subscribePattern": f"{topic}(-more)?", **FROM_START, **quick})
    fill(zkafka_cluster, topic, 5)
    found.start()
    found.wait_for(5)
    zkafka_cluster.pause("zookeeper")
    try:
        begin = time.monotonic()
        while time.monotonic() < begin + SILENCE_S:
            fill(zkafka_cluster, topic, 1)
            found.wait_for(len(found.rows) + 1)
        read = len(found.rows)
    finally:
        zkafka_cluster.resume("zookeeper")
    zkafka_cluster.wait_ready()
    zkafka_cluster.create_topic(f"{topic}-more")
    fill(zkafka_cluster, topic, 5)
    fill(zkafka_cluster, f"{topic}-more", 5)
    found.wait_for(read + 10, timeout_s=30)
    assert found.offsets(0, topic) == list(range(read + 5))
    assert found.offsets(0, f"{topic}-more") == list(range(5))


class TestAvailableNow:
    """Queries with fixed end offsets, which must not finish before reaching them."""

    @pytest.mark.spark(4, 2)
    @pytest.mark.long
    def test_silent_broker(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
        """A query waits for a leader that is silent for a while."""
        topic = new_topic(assignment={number: [number] for number in range(3)})
        fill(zkafka_cluster, topic, 10, range(3))
        found = stream({"subscribe": topic, "maxOffsetsPerTrigger": "15", **FROM_START})
        self._run_through_silence(found, zkafka_cluster, 2)
        assert [found.offsets(number) for number in range(3)] == [list(range(10))] * 3

    @pytest.mark.spark(4, 2)
    def test_silent_zookeeper(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
        """A member whose session has expired joins again and reads the rest."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 20, range(2))
        options = {"group.id": topic, "zookeeper.session.timeout.ms": "2000", "maxOffsetsPerTrigger": "20"}
        found = stream({"subscribe": topic, **options, **FROM_START})
        sessions: list[int] = []

        def note_session() -> None:
            with zkafka_cluster.zookeeper() as client:
                paths = [f"/consumers/{topic}/ids/{name}" for name in client.get_children(f"/consumers/{topic}/ids")]
                sessions.extend(client.exists(path).ephemeralOwner for path in paths)

        self._run_through_silence(found, zkafka_cluster, "zookeeper", note_session)
        assert len(set(sessions)) > 1, "the session has not expired"
        assert [set(found.offsets(number)) for number in range(2)] == [set(range(20))] * 2

    def test_restart_after_a_kill(
        self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: MakeTopic, planner_pid: Callable[[], int]
    ) -> None:
        """A query restarted right after its planner was killed waits until the old claims expire."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 5, range(2))
        found = stream({"subscribe": topic, "group.id": topic, **FROM_START})
        found.start(processingTime="1 hour")
        found.wait_for(10)
        os.kill(planner_pid(), signal.SIGKILL)
        found.stop()
        fill(zkafka_cluster, topic, 5, range(2))
        found.run()
        assert [set(found.offsets(number)) for number in range(2)] == [set(range(10))] * 2

    def _run_through_silence(
        self, one: Any, cluster: LocalCluster, server: Any, note: Callable[[], None] = lambda: None
    ) -> None:
        """Run a stream while a server is paused for some seconds from the first micro-batch on. Call `note` in each."""
        resume = threading.Timer(SILENCE_S, cluster.resume, [server])

        def silence(frame: object, number: int) -> None:
            note()
            if number == 0:
                cluster.pause(server)
                resume.start()

        one.in_batch = silence
        one.run()
        resume.join()
        cluster.wait_ready()  # the brokers' sessions of 6 s may have expired
