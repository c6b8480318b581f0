"""Logs with gaps, read by Spark's JVM connector and by ours: deleted, compacted and invisible records."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.parity import THEIR_STREAM, by_partition, filled, offsets, their_words
from tests.support.stream import is_late
from tests.support.tiers import seldom
from tests.support.topics import create_afresh
from tests.support.transactions import abort, commit, transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]
Peers = Any
"""`Peers` of conftest.py, which tests cannot import."""


@pytest.fixture(scope="module")
def begins_at_40(zkafka_cluster: LocalCluster) -> str:
    """A topic with 100 records in partition 0, of which the first 40 are deleted, and 10 in partition 1."""
    create_afresh(zkafka_cluster, "parity-cut", partitions=2)
    fill(zkafka_cluster, "parity-cut", 100, 0)
    fill(zkafka_cluster, "parity-cut", 10, 1)
    zkafka_cluster.delete_records("parity-cut", {0: 40})
    return "parity-cut"


@pytest.fixture(scope="module")
def transactions(zkafka_cluster: LocalCluster) -> str:
    """Offsets 0-1 committed, 3-5 aborted, 7 plain, 8 committed, 10-11 aborted, with a marker after each transaction."""
    topic = "parity-transactions"
    create_afresh(zkafka_cluster, topic)
    commit(zkafka_cluster, topic, b"a", b"b")
    abort(zkafka_cluster, topic, b"c", b"d", b"e")
    zkafka_cluster.produce(topic, [{"value": b"f"}])
    commit(zkafka_cluster, topic, b"g")
    abort(zkafka_cluster, topic, b"h", b"i")
    return topic


class TestGaps:
    """Offsets that the log lacks."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, range(40, 100)),
            *seldom(({"startingOffsets": (40, -2)}, range(40, 100))),
            ({"startingOffsets": (10, -2), "failOnDataLoss": "false"}, range(40, 100)),
            ({"startingOffsets": (10, -2), "endingOffsets": (50, -1), "failOnDataLoss": "false"}, range(40, 50)),
            *seldom(
                ({"startingOffsets": (10, -2), "endingOffsets": (40, -1), "failOnDataLoss": "false"}, ()),
                ({"startingOffsets": (10, -2), "endingOffsets": (20, -1), "failOnDataLoss": "false"}, ()),
            ),
        ],
    )
    def test_deleted(self, peers: Peers, begins_at_40: str, options: dict[str, Any], expected: Any) -> None:
        """Without failOnDataLoss, both skip the deleted part of the range and read the rest."""
        found = offsets(peers.same({"subscribe": begins_at_40, **filled(options, begins_at_40)}))
        assert found.pop(0, []) == list(expected)
        assert found == {1: list(range(10))}

    def test_deleted_in_pieces(self, peers: Peers, begins_at_40: str) -> None:
        """Both also read the rest if our range is split; Spark's stays whole, because its split tasks collide here."""
        options = {
            "subscribe": begins_at_40,
            **filled({"startingOffsets": (0, 0)}, begins_at_40),
            "failOnDataLoss": "false",
        }
        assert len(peers.same(options, maxRecordsPerPartition="19", minPartitions="4")) == 70

    @pytest.mark.parametrize("options", [{"startingOffsets": (10, 0)}, *seldom({"endingOffsets": (101, 10)})])
    def test_fail(self, peers: Peers, begins_at_40: str, options: dict[str, Any]) -> None:
        """With failOnDataLoss both fail: Spark's in its tasks, ours while planning, with the log's bounds."""
        given = {"subscribe": begins_at_40, **filled(options, begins_at_40), "kafkaConsumer.pollTimeoutMs": "2000"}
        reason = rf"{begins_at_40}-0: (starting|ending) offset 10.? is outside the log, which spans \[40, 100\)"
        peers.both_refuse(
            given, reason, rf"Could not read records in offset \[\d+, \d+\) for topic partition {begins_at_40}-0"
        )
        with pytest.raises(DataLoss, match=reason):
            plan_batch(parse_read({**given, "zookeeper.connect": peers.cluster.zookeeper_connect}))

    @pytest.mark.long
    def test_start_behind_the_log(self, peers: Peers, begins_at_40: str) -> None:
        """Without failOnDataLoss, Spark's connector refuses a start beyond the log; ours reads the other partitions."""
        options = {"subscribe": begins_at_40, **filled({"startingOffsets": (101, 8)}, begins_at_40)}
        their_reason = their_words(
            "start offset 101 is greater than the resolved end offset 100", "101 is after the ending offset 100"
        )
        peers.both_refuse(options, r"starting offset 101 is outside the log, which spans \[40, 100\)", their_reason)
        lenient = {**options, "failOnDataLoss": "false"}
        with pytest.raises(Exception, match=their_reason):
            peers.theirs(lenient).collect()
        assert [(r.partition, r.offset) for r in peers.ours(lenient).orderBy("offset").collect()] == [(1, 8), (1, 9)]

    @pytest.mark.long
    def test_compacted(self, peers_of: Callable[[LocalCluster], Peers]) -> None:
        """Gaps of compaction are no data loss, even if a range starts, ends or lies completely in one."""
        eager = {"segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01", "cleanup.policy": "compact"}
        with LocalCluster(brokers=1, broker_config={"log.cleaner.backoff.ms": "100"}) as cluster:
            cluster.create_topic("compacted", config=eager)
            records = [{"key": b"%d" % (n % 7 if n % 50 else n), "value": b"." * 500} for n in range(300)]
            # One batch per record, so that compaction leaves no trace of removed records.
            cluster.produce("compacted", records, {"batch.num.messages": 1, "linger.ms": 0})
            peers = peers_of(cluster)
            eventually(lambda: peers.ours({"subscribe": "compacted"}).count() < 150, timeout_s=60)
            left = offsets(peers.same({"subscribe": "compacted"}))[0]
            for start, until in ((0, 40), (0, 300), (7, 93), (120, 130), (151, 199), (200, 201)):
                ends = {"startingOffsets": (start,), "endingOffsets": (until,)}
                given = filled(ends, "compacted")
                seen = offsets(peers.same({"subscribe": "compacted", **given}, maxRecordsPerPartition="33")).get(0, [])
                assert set(seen) <= set(range(start, until))
                assert len(seen) <= len(left)


class TestTransactions:
    """Committed, aborted and open transactions."""

    @pytest.mark.parametrize("split", [{"maxRecordsPerPartition": "2"}, *seldom({}, {"minPartitions": "4"})])
    @pytest.mark.parametrize(
        ("isolation", "visible"),
        [("read_committed", [0, 1, 7, 8]), ("read_uncommitted", [0, 1, 3, 4, 5, 7, 8, 10, 11]), *seldom((None, None))],
    )
    def test_ended(
        self, peers: Peers, transactions: str, isolation: str | None, visible: list[int] | None, split: dict[str, str]
    ) -> None:
        """Only read_committed skips aborted records; both levels skip markers, also at the end of the log."""
        options = {"subscribe": transactions, **({"kafka.isolation.level": isolation} if isolation else {}), **split}
        everything = [0, 1, 3, 4, 5, 7, 8, 10, 11]
        assert offsets(peers.same(options))[0] == (everything if visible is None else visible)

    @pytest.mark.parametrize(("start", "until"), [(2, 7), (9, -1), *seldom((3, 6), (2, 3), (12, 13))])
    def test_invisible_range(self, peers: Peers, transactions: str, start: int, until: int) -> None:
        """A range without visible records is empty."""
        options = {"startingOffsets": by_partition(transactions, start), "endingOffsets": by_partition(transactions, until)}
        assert peers.same({"subscribe": transactions, "kafka.isolation.level": "read_committed", **options}) == []

    def test_open(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With read_committed, the log ends before an open transaction."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": b"before"}])
        with transaction(zkafka_cluster, topic, b"open") as producer:
            assert len(peers.same({"subscribe": topic, "kafka.isolation.level": "read_committed"})) == 1
            assert len(peers.same({"subscribe": topic})) == 2
            producer.abort_transaction(30)


@pytest.mark.parametrize("source", ["zkafka", *seldom(*THEIR_STREAM)])
def test_deleted_from_an_added_partition(
    source: str, spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A stream of either source fails if an added partition lost records before it was read, or reads the rest."""
    topic, rows = new_topic(), list[tuple[int, int]]()

    def run(fail: str = "true") -> Exception | None:
        options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": fail}
        options["kafka.bootstrap.servers"] = zkafka_cluster.bootstrap_servers
        for _ in range(3):
            frame = spark.readStream.format(source).options(**options).load()
            writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
            query = writer.foreachBatch(
                lambda batch, _: rows.extend((row.partition, row.offset) for row in batch.collect())
            ).start()
            eventually(lambda query=query: not query.isActive, 90, "the query has not ended")
            if not is_late(error := query.exception()):
                break
        return error

    fill(zkafka_cluster, topic, 3, 0)
    assert run() is None
    zkafka_cluster.add_partitions(topic, 2)
    fill(zkafka_cluster, topic, 5, 1)
    zkafka_cluster.delete_records(topic, {1: 2})
    expected = {
        "zkafka": "OFFSET_OUT_OF_RANGE.*-1: starting offset 0 is outside the log",
        "kafka": "starts from 2 instead of 0",
    }
    assert re.search(expected[source], str(run()))
    assert len(rows) == 3
    assert run("false") is None
    assert sorted(rows) == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (1, 4)]
