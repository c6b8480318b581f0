"""Streaming reads on real brokers: from where to where each micro-batch goes, what it holds, and what a restart does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.errors import ClusterStateError, DataLoss, OptionError
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.protocol.checkpoint import StreamOffset
from pyspark_zkafka.stream.driver import StreamDriver

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
NewStream = Callable[..., Any]
"""Makes a `Stream`, see conftest.py."""
KEPT = {"retention.ms": "-1"}
"""For records of years ago."""


def fill(cluster: LocalCluster, topic: str, records: int = 10, partition: int = 0, size_bytes: int = 1) -> None:
    """Records in one partition."""
    cluster.produce(topic, [{"value": b"v" * size_bytes, "partition": partition} for _ in range(records)])


def offset_file(checkpoint: Path, number: int) -> str:
    """What a checkpoint holds of the end of a micro-batch, as it is written."""
    return (checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]


@pytest.fixture
def planner(zookeeper: dict[str, str]) -> Iterator[Callable[..., StreamDriver]]:
    """Makes planners, which do what Spark's planning calls ask for: ``planner({"subscribe": topic})``."""
    made: list[StreamDriver] = []

    def make(options: dict[str, str], **arguments: Any) -> StreamDriver:
        made.append(StreamDriver(parse_stream({**zookeeper, **options}), **arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


def initial(planner: StreamDriver) -> dict[str, Any]:
    """Where a new query starts; Spark asks for the latest offset next, and that is when errors are raised."""
    start = planner.initial()
    planner.latest(start, limited=True)
    return start


def positions(offset: dict[str, Any], topic: str) -> dict[str, int]:
    """Where each partition of a topic ends."""
    found: dict[str, list[int]] = offset["topics"][topic]["partitions"]
    return {partition: span[1] for partition, span in found.items()}


class TestStarts:
    """Where a new query starts."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [10, 10, 0]),
            ({"startingOffsets": "latest"}, [10, 10, 0]),
            ({"startingOffsets": "earliest"}, [4, 0, 0]),
            ({"startingOffsets": '{"TOPIC": {"0": 7, "1": -2, "2": -1}}'}, [7, 0, 0]),
            ({"startingOffsets": '{"TOPIC": "earliest"}'}, [4, 0, 0]),
            ({"startingOffsets": '{"TOPIC": {"0": 10}}', "auto.offset.reset": "earliest"}, [10, 0, 0]),
            ({"startingTimestamp": "1005", "startingOffsetsByTimestampStrategy": "latest"}, [5, 5, 0]),
            ({"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"}, [10, 10, 0]),
            (
                {
                    "startingOffsetsByTimestamp": '{"TOPIC": {"0": 1006, "1": 1001, "2": 0}}',
                    "startingOffsetsByTimestampStrategy": "latest",
                },
                [6, 1, 0],
            ),
            ({"assign": '{"TOPIC": [1]}', "startingOffsets": '{"TOPIC": {"1": 3}}'}, [3]),
            ({"assign": '{"TOPIC": [0, 1]}', "startingTimestamp": "1009"}, [9, 9]),
        ],
    )
    def test_start(
        self, planner: Callable[..., StreamDriver], timed: str, options: dict[str, str], expected: list[int]
    ) -> None:
        """Each partition starts where it is told to: at an offset, an end of the log, or a timestamp."""
        given = {name: value.replace("TOPIC", timed) for name, value in options.items()}
        found = initial(planner(given if "assign" in given else {"subscribe": timed, **given}))
        assert list(positions(found, timed).values()) == expected

    @pytest.fixture
    def timed(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        """Two partitions of ten records at 1000 ms and on, the first without its first four, and an empty partition."""
        topic = new_topic(partitions=3, config=KEPT)
        zkafka_cluster.produce(topic, [{"partition": n % 2, "timestamp": 1000 + n // 2} for n in range(20)])
        zkafka_cluster.delete_records(topic, {0: 4})
        return topic

    def test_refused(self, planner: Callable[..., StreamDriver], timed: str) -> None:
        """Starts that do not fit what is there are named."""
        subscribe = {"subscribe": timed}
        with pytest.raises(OptionError, match=f"startingOffsets does not name {timed}-1, {timed}-2"):
            initial(planner({**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 7}}}}'}))
        with pytest.raises(OptionError, match=f"startingOffsets names {timed}-3"):
            initial(planner({**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 7, "1": 7, "2": 0, "3": 0}}}}'}))
        with pytest.raises(ClusterStateError, match=rf"NO_OFFSET_FOR_TIMESTAMP.*{timed}-2"):
            initial(planner({**subscribe, "startingTimestamp": "1005"}))
        outside = {**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 3, "1": 11, "2": 0}}}}'}
        with pytest.raises(DataLoss, match=rf"OFFSET_OUT_OF_RANGE.*{timed}-0: .* 3 .*\[4, 10\).*{timed}-1: .* 11 "):
            initial(planner(outside))
        lenient = initial(planner({**outside, "failOnDataLoss": "false"}))
        assert positions(lenient, timed) == {"0": 4, "1": 10, "2": 0}

    def test_latest(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """By default a query reads what is produced after its start, and nothing before."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        new = stream({"subscribe": topic})
        query = new.start()
        query.processAllAvailable()
        fill(zkafka_cluster, topic, 3)
        query.processAllAvailable()
        assert new.offsets() == [5, 6, 7]


class TestColumns:
    """What a row holds."""

    def test_all(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """All columns of a record come as they were produced, through ZooKeeper and through the brokers alone."""
        topic = new_topic(partitions=2, replication=2, config=KEPT)
        headers = [("a", b"1"), ("a", None), ("b", b"")]
        zkafka_cluster.produce(
            topic,
            [
                {"key": b"k", "value": b"v", "partition": 1, "headers": headers, "timestamp": 1_700_000_000_123},
                {"key": b"", "value": None, "partition": 1, "timestamp": 1_700_000_000_124},
            ],
        )
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
        found = stream(options, connection)
        found.run()
        first, second = found.rows
        names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
        assert list(first.asDict()) == names
        assert (first.key, first.value, first.topic, first.partition, first.offset, first.timestampType) == (
            (b"k", b"v", topic, 1, 0, 0)
        )
        assert first.timestamp.astimezone(timezone.utc) == datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
        assert [tuple(h) for h in first.headers] == headers
        assert (second.key, second.value, second.offset, second.headers) == (b"", None, 1, None)

    def test_projection(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A schema given by the user is the projection: subset, order, key and value as strings."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"key": "clé".encode(), "value": b"v"}])
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run(schema="offset bigint, value string, key string")
        assert [tuple(row) for row in found.rows] == [(0, "v", "clé")]


class TestDiscovery:
    """Topics and partitions that come while a query runs."""

    def test_topics_and_partitions(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """New topics that match and new partitions are found and read from their beginning, though the start is latest."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        found = stream({"subscribePattern": f"{topic}(-.*)?"}, connection)
        query = found.start()
        query.processAllAvailable()
        fill(zkafka_cluster, topic, 1)
        found.wait_for(1)
        zkafka_cluster.create_topic(f"{topic}-more", partitions=2)
        zkafka_cluster.add_partitions(topic, 3)
        for name, partition in ((f"{topic}-more", 0), (f"{topic}-more", 1), (topic, 2)):
            fill(zkafka_cluster, name, 3, partition)
        found.wait_for(10)
        query.processAllAvailable()
        assert found.offsets(0, topic) == [5]
        assert found.offsets(2, topic) == [0, 1, 2]
        assert [found.offsets(p, f"{topic}-more") for p in (0, 1)] == [[0, 1, 2]] * 2
        assert len(found.rows) == 10

    def test_while_stopped(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """What comes while no query runs is read from its beginning by the next one."""
        topic = new_topic()
        found = stream({"subscribePattern": f"{topic}(-.*)?"})
        found.run()
        zkafka_cluster.create_topic(f"{topic}-more")
        zkafka_cluster.add_partitions(topic, 2)
        fill(zkafka_cluster, f"{topic}-more", 3)
        fill(zkafka_cluster, topic, 3, 1)
        found.run()
        assert (found.offsets(0, f"{topic}-more"), found.offsets(1, topic)) == ([0, 1, 2], [0, 1, 2])

    def test_except(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With subscribeExceptPattern, all topics but those that match are read."""
        mine, other = new_topic(), new_topic()
        for topic in (mine, other):
            fill(zkafka_cluster, topic, 2)
        found = stream({"subscribeExceptPattern": f"(?!{mine}$).*", "startingOffsets": "earliest"})
        found.run()
        assert {(r.topic, r.offset) for r in found.rows} == {(mine, 0), (mine, 1)}

    def test_assign(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With assign, the named partitions are read and no others."""
        topic = new_topic(partitions=3)
        for partition in range(3):
            fill(zkafka_cluster, topic, 2, partition)
        found = stream({"assign": f'{{"{topic}": [0, 2]}}', "startingOffsets": "earliest"})
        found.run()
        assert sorted((r.partition, r.offset) for r in found.rows) == [(0, 0), (0, 1), (2, 0), (2, 1)]

    def test_unknown_topic(self, stream: NewStream) -> None:
        """A new query of a topic that does not exist ends, and names it."""
        with pytest.raises(StreamingQueryException, match=r"\[UNKNOWN_TOPIC\] There is no topic .*no-such-topic"):
            stream({"subscribe": "no-such-topic"}).run()

    def test_unknown_partition(self, planner: Callable[..., StreamDriver], new_topic: NewTopic) -> None:
        """So does one of a partition that does not exist, or of a topic of which partitions are named."""
        topic = new_topic()
        with pytest.raises(ClusterStateError, match=rf"\[UNKNOWN_TOPIC\] .*no-such-topic, {topic}-7;"):
            initial(planner({"assign": f'{{"{topic}": [0, 7], "no-such-topic": [0]}}'}))


class TestLimits:
    """How much a micro-batch reads."""

    def sizes(self, found: Any, partition: int) -> list[int]:
        return [sum(r.partition == partition for r in batch) for batch in found.batches]

    def test_records(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """maxOffsetsPerTrigger is shared out in proportion to the backlogs, and a small one is not starved.

        The query's progress tells the range of a micro-batch, and the ends of the logs beside it.
        """
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 60, 0)
        fill(zkafka_cluster, topic, 2, 1)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"})
        query = found.run()
        assert self.sizes(found, 0) == [19, 19, 20, 2]  # 20 * 60 // 62, 20 * 41 // 42, 20, the rest
        assert self.sizes(found, 1) == [1, 1, 0, 0]
        assert (found.offsets(0), found.offsets(1)) == (list(range(60)), [0, 1])
        progress = query.recentProgress[0]["sources"][0]
        assert json.loads(progress["latestOffset"]) == {topic: {"0": 60, "1": 2}}
        assert positions(json.loads(progress["endOffset"]), topic) == {"0": 19, "1": 1}
        assert progress["numInputRows"] == 20

    def test_bytes(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """maxBytesPerTrigger is turned into records by the measured size of each partition's records."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 100, 0, size_bytes=1000)
        fill(zkafka_cluster, topic, 10, 1, size_bytes=10_000)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "120000"})
        found.run()
        assert self.sizes(found, 0) == [60, 40]
        assert self.sizes(found, 1) == [6, 4]

    def test_minimum(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With minOffsetsPerTrigger the first micro-batch comes at once, the next when there is enough, or it is time."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 1)
        limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "4s"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        came: list[float] = []
        found.in_batch = lambda frame, number: came.append(time.monotonic())
        query = found.start()
        found.wait_for(1)
        fill(zkafka_cluster, topic, 10)
        found.wait_for(11)
        fill(zkafka_cluster, topic, 2)
        query.processAllAvailable()
        assert [len(batch) for batch in found.batches] == [1, 10]
        found.wait_for(13)
        assert 3 < came[2] - came[1] < 30

    def test_minimum_of_more_partitions(
        self, planner: Callable[..., StreamDriver], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """All partitions together make up the minimum; the delay counts from the last micro-batch."""
        topic, now = new_topic(partitions=2), [100.0]
        limits = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "12", "maxTriggerDelay": "60s"}
        one = planner({"subscribe": topic, **limits}, clock=lambda: now[0])
        start = one.initial()
        assert one.latest(start, limited=True) == start
        fill(zkafka_cluster, topic, 1, 1)
        first = one.latest(start, limited=True)
        assert positions(first, topic) == {"0": 0, "1": 1}
        fill(zkafka_cluster, topic, 9, 0)
        now[0] += 59.9
        assert one.latest(first, limited=True) == first
        assert positions(one.latest(first, limited=False), topic) == {"0": 9, "1": 1}
        fill(zkafka_cluster, topic, 1, 1)
        second = one.latest(first, limited=True)
        assert positions(second, topic) == {"0": 9, "1": 2}
        fill(zkafka_cluster, topic, 1, 1)
        now[0] += 60
        assert positions(one.latest(second, limited=True), topic) == {"0": 9, "1": 3}

    def test_once(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Trigger.Once reads all that there is in one micro-batch, whatever the limits."""
        topic = new_topic()
        limits = {"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "5"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        fill(zkafka_cluster, topic, 20)
        assert found.start(once=True).awaitTermination(60)
        assert [len(batch) for batch in found.batches] == [20]

    def test_splits(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """minPartitions makes more Spark partitions of a micro-batch, and no record more or less."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "minPartitions": "4"})
        parts: list[int] = []
        found.in_batch = lambda frame, number: parts.append(frame.rdd.getNumPartitions())
        found.run()
        assert parts == [4]
        assert found.offsets() == list(range(100))

    def test_joined_splits(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """minRecordsPerPartition makes fewer Spark partitions of a micro-batch, and no record more or less."""
        topic = new_topic(partitions=4)
        for partition in range(4):
            fill(zkafka_cluster, topic, 30, partition)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "minRecordsPerPartition": "60"})
        parts: list[int] = []
        found.in_batch = lambda frame, number: parts.append(frame.rdd.getNumPartitions())
        found.run()
        assert parts == [2]
        assert [found.offsets(partition) for partition in range(4)] == [list(range(30))] * 4


class TestAvailableNow:
    """Trigger.AvailableNow."""

    def test_bounds(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """It reads up to where the logs ended when it began, in several micro-batches; what comes later is for the next."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 8, 0)
        fill(zkafka_cluster, topic, 4, 1)
        options = {"subscribePattern": f"{topic}(-.*)?", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
        found = stream(options, connection)

        def more(frame: object, number: int) -> None:
            if number == 0:
                fill(zkafka_cluster, topic, 5, 0)
                zkafka_cluster.add_partitions(topic, 3)
                zkafka_cluster.create_topic(f"{topic}-more")
                fill(zkafka_cluster, topic, 1, 2)
                fill(zkafka_cluster, f"{topic}-more", 1)

        found.in_batch = more
        found.run()
        assert [len(batch) for batch in found.batches] == [6, 6]
        found.run()
        assert found.offsets(0, topic) == list(range(13))
        assert (found.offsets(1), found.offsets(2), found.offsets(0, f"{topic}-more")) == ([0, 1, 2, 3], [0], [0])

    def test_nothing_new(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With nothing new it ends at once: a new query after the empty micro-batch that Spark begins with."""
        topic = new_topic()
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run()
        assert found.batches == [[]]
        fill(zkafka_cluster, topic, 1)
        found.run()
        found.run()
        assert [len(batch) for batch in found.batches] == [0, 1]

    def test_minimum(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """It waits for no minimum."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "4"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        found.run()
        assert [len(batch) for batch in found.batches] == [4, 1]


class TestRestart:
    """What a query does that goes on from a checkpoint."""

    def test_every_record_once(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Stopped and started again, a stream reads every record once, whatever startingOffsets says then."""
        topic = new_topic(partitions=2)
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        for start in ("latest", "earliest", f'{{"{topic}": {{"0": 0, "1": 0}}}}'):
            fill(zkafka_cluster, topic, 5, 0)
            fill(zkafka_cluster, topic, 3, 1)
            query = found.start()
            query.processAllAvailable()
            fill(zkafka_cluster, topic, 5, 0)
            query.processAllAvailable()
            query.stop()
            found.options["startingOffsets"] = start
        assert (found.offsets(0), found.offsets(1)) == (list(range(30)), list(range(9)))

    @pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}], ids=str)
    def test_failed_batch(
        self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic, trigger: dict[str, Any]
    ) -> None:
        """A micro-batch that failed is read again with the same ranges, though there is more to read by then.

        And though startingOffsets, for which Spark asks again as it was the first micro-batch, does not name all of them.
        """
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 5, 0)
        fill(zkafka_cluster, topic, 3, 1)
        starts = f'{{"{topic}": {{"0": 0, "1": -2}}}}'
        found = stream({"subscribe": topic, "startingOffsets": starts, "maxOffsetsPerTrigger": "100"})

        def fail(frame: object, number: int) -> None:
            if number == 0:
                raise ValueError("the first micro-batch fails")

        found.in_batch = fail
        with pytest.raises(StreamingQueryException, match="the first micro-batch fails"):
            found.run()
        found.in_batch = lambda frame, number: None
        fill(zkafka_cluster, topic, 5, 0)
        zkafka_cluster.add_partitions(topic, 3)
        fill(zkafka_cluster, topic, 2, 2)
        found.options["maxOffsetsPerTrigger"] = "3"
        found.start(**trigger)
        found.wait_for(8 + 8 + 7)
        failed, again, *rest = ([(r.partition, r.offset) for r in batch] for batch in found.batches)
        assert sorted(failed) == sorted(again) == [*((0, n) for n in range(5)), *((1, n) for n in range(3))]
        assert sorted(r for batch in rest for r in batch) == [*((0, n) for n in range(5, 10)), (2, 0), (2, 1)]
        assert len(rest) > 1

    def test_offsets_of_the_checkpoint(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """The checkpoint holds offsets of our version, in one canonical form, with partitions in numeric order."""
        topic = new_topic(partitions=11)
        fill(zkafka_cluster, topic, 4, 10)
        fill(zkafka_cluster, topic, 2, 2)
        found = stream({"subscribe": topic, "startingOffsets": "earliest"}, connection)
        found.run()
        text = offset_file(found.checkpoint, 0)
        offset = json.loads(text)
        partitions = offset["topics"][topic]["partitions"]
        assert offset["version"] == 1
        assert partitions == {**{str(n): [0, 0] for n in range(11)}, "2": [0, 2], "10": [0, 4]}
        assert list(partitions) == [str(n) for n in range(11)]
        assert offset["topics"][topic]["known"] == 11
        assert offset["topics"][topic]["id"]
        assert ("czxid" in offset["topics"][topic]) is ("zookeeper.connect" in connection)
        assert json.dumps(StreamOffset.from_json(offset).to_json()) == text

    def test_either_connection(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A checkpoint that was written through ZooKeeper goes on through the brokers alone, and the other way round."""
        topic = new_topic()
        through_zookeeper = {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
        through_brokers = {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}
        read = []
        for connection in (through_zookeeper, through_brokers, through_zookeeper):
            fill(zkafka_cluster, topic, 2)
            found = stream({"subscribe": topic, "startingOffsets": "earliest"}, connection)
            found.run()
            read += found.offsets()
        assert read == list(range(6))

    def test_another_version(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """An offset of a version that is not known ends the query, with what to do."""
        topic = new_topic()
        fill(zkafka_cluster, topic)
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run()
        file = found.checkpoint / "offsets" / "0"
        file.write_text(file.read_text().replace('{"version": 1,', '{"version": 2,'))
        (file.parent / ".0.crc").unlink()
        expected = r"\[UNKNOWN_CHECKPOINT\] .*\(version 2, expected 1\).* use the version that wrote it, or a new"
        with pytest.raises(StreamingQueryException, match=expected):
            found.run()
