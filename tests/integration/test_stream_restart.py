"""Streaming reads that resume from a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.model.checkpoint import StreamOffset
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
NewStream = Callable[..., Any]
"""Makes a `Stream`, see conftest.py."""


def offset_file(checkpoint: Path, number: int) -> str:
    """Return the end of a micro-batch as text from the checkpoint."""
    return (checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]


class TestRestart:
    """Queries that resume from a checkpoint."""

    def test_every_record_once(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A stream that is stopped and restarted reads every record once, whatever startingOffsets is then."""
        topic = new_topic(partitions=2)
        found = stream({"subscribe": topic})
        for start in ("earliest", "latest", f'{{"{topic}": {{"0": 0, "1": 0}}}}'):
            found.options["startingOffsets"] = start
            fill(zkafka_cluster, topic, 5, 0)
            fill(zkafka_cluster, topic, 3, 1)
            query = found.begin()
            query.processAllAvailable()
            fill(zkafka_cluster, topic, 5, 0)
            query.processAllAvailable()
            query.stop()
        assert found.offsets(0) == list(range(30))
        assert found.offsets(1) == list(range(9))

    @pytest.mark.spark(4, 2)
    @pytest.mark.parametrize("trigger", [{"availableNow": True}, *seldom({"processingTime": "0 seconds"})], ids=str)
    def test_failed_batch(
        self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic, trigger: dict[str, Any]
    ) -> None:
        """A failed micro-batch is read again with the same ranges, although there is more to read by then.

        Spark asks again for the start of a first micro-batch, where startingOffsets no longer names all partitions.
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

    @pytest.mark.long
    @pytest.mark.parametrize("connection", ["zookeeper", "bootstrap"], indirect=True)
    def test_topic_removed_from_the_subscription(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """A topic left out after a restart loses nothing: its planned records are read, and it continues on its return."""
        kept, removed = new_topic(), new_topic()
        fill(zkafka_cluster, kept, 3)
        fill(zkafka_cluster, removed, 2)
        found = stream({"subscribe": f"{kept},{removed}", "startingOffsets": "earliest"}, connection)

        def fail(frame: object, number: int) -> None:
            raise ValueError("the first micro-batch fails")

        found.in_batch = fail
        with pytest.raises(StreamingQueryException, match="the first micro-batch fails"):
            found.run()
        found.in_batch = lambda frame, number: None
        fill(zkafka_cluster, kept, 1)
        fill(zkafka_cluster, removed, 4)
        for subscribed in (kept, f"{kept},{removed}"):
            found.options["subscribe"] = subscribed
            found.run()
        read = [sorted((r.topic == kept, r.offset) for r in batch) for batch in found.batches]
        both = [(False, 0), (False, 1), (True, 0), (True, 1), (True, 2)]
        assert read == [both, both, [(True, 3)], [(False, n) for n in range(2, 6)]]

    @pytest.mark.parametrize("connection", ["zookeeper", *seldom("bootstrap")], indirect=True)
    def test_offsets_of_the_checkpoint(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """The checkpoint has offsets of the current version in canonical form, with partitions in numeric order."""
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

    @pytest.mark.long
    def test_either_connection(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A checkpoint written through ZooKeeper can be continued through brokers only, and vice versa."""
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
        """An offset of an unknown version fails the query, and the error says what to do."""
        topic = new_topic()
        fill(zkafka_cluster, topic)
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run()
        file = found.checkpoint / "offsets" / "0"
        file.write_text(file.read_text().replace('{"version": 1,', '{"version": 2,'))
        (file.parent / ".0.crc").unlink()
        expected = r"\[UNKNOWN_CHECKPOINT\] .*has version 2 instead of 1.* use the version that wrote it, or a new"
        with pytest.raises(StreamingQueryException, match=expected):
            found.run()
