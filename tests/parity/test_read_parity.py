"""The same topics and options through Spark's JVM connector and through ours: the same rows, the same refusals."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812

from pyspark_zkafka.batch.planner import plan_batch
from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST, canonical_json
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.waiting import Deadline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NewTopic = Callable[..., str]
Peers = Any  # of conftest.py, which tests cannot import
T0 = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}  # records as old as T0 are not to be deleted under a test


def by_partition(topic: str, *values: int) -> str:
    """``{"topic":{"0":values[0],"1":values[1],...}}``"""
    return canonical_json({TopicPartition(topic, p): value for p, value in enumerate(values)})


def filled(options: dict[str, Any], topic: str) -> dict[str, str]:
    """Options with a topic's name filled in: tuples are values by partition."""
    return {n: by_partition(topic, *v) if isinstance(v, tuple) else v.replace("TOPIC", topic) for n, v in options.items()}


def offsets(records: list[Any]) -> dict[int, list[int]]:
    """The offsets of records by partition, in order."""
    found = defaultdict(list)
    for _, partition, offset, *_ in records:
        found[partition].append(offset)
    return dict(found)


@contextmanager
def transaction(cluster: LocalCluster, topic: str, *values: bytes) -> Iterator[Producer]:
    """A transaction that holds some records of partition 0; still open if the block does not end it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic}-{time.time_ns()}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    yield producer


def commit(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    with transaction(cluster, topic, *values) as producer:
        producer.commit_transaction(30)
    wait_for_marker(cluster, topic)


def abort(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    with transaction(cluster, topic, *values) as producer:
        producer.abort_transaction(30)
    wait_for_marker(cluster, topic)


def wait_for_marker(cluster: LocalCluster, topic: str) -> None:
    """Return when the log's last stable offset is its end: brokers write the markers after they have answered."""
    tp = TopicPartition(topic, 0)
    committed, every = (KafkaAdmin(cluster.bootstrap_servers, {}, read_committed=flag) for flag in (True, False))
    with committed, every:
        found = Deadline(30).until(lambda: committed.list_offsets({tp: LATEST}) == every.list_offsets({tp: LATEST}) or None)
    assert found


@pytest.fixture(scope="module")
def timed(zkafka_cluster: LocalCluster) -> str:
    """Partition 0 holds 20 records, 10 ms apart from T0 on; partition 1 holds 10, of which two are out of order."""
    zkafka_cluster.create_topic("parity-timed", partitions=2, config=KEPT)
    times = [(0, 10 * n) for n in range(20)] + [(1, ms) for ms in (0, 10, 50, 30, 40, 20, 60, 70, 80, 90)]
    zkafka_cluster.produce("parity-timed", [{"value": b"v", "partition": p, "timestamp": T0 + ms} for p, ms in times])
    return "parity-timed"


@pytest.fixture(scope="module")
def topics(zkafka_cluster: LocalCluster) -> list[str]:
    """Three topics with 2, 1 and 2 partitions of 3, 2 and 0 records each."""
    names = ["parity-one", "parity-two", "parity-empty"]
    for name, partitions, records in zip(names, (2, 1, 2), (3, 2, 0), strict=True):
        zkafka_cluster.create_topic(name, partitions=partitions)
        values = [{"value": b"v", "partition": p} for p in range(partitions) for _ in range(records)]
        zkafka_cluster.produce(name, values)
    return names


@pytest.fixture(scope="module")
def begins_at_40(zkafka_cluster: LocalCluster) -> str:
    """A topic of 100 records in partition 0 of which the first 40 are deleted, and 10 in partition 1."""
    zkafka_cluster.create_topic("parity-cut", partitions=2)
    zkafka_cluster.produce("parity-cut", [{"value": b"%d" % n, "partition": 0} for n in range(100)])
    zkafka_cluster.produce("parity-cut", [{"value": b"v", "partition": 1} for _ in range(10)])
    zkafka_cluster.delete_records("parity-cut", {0: 40})
    return "parity-cut"


@pytest.fixture(scope="module")
def transactions(zkafka_cluster: LocalCluster) -> str:
    """Offsets 0-1 committed, 3-5 aborted, 7 plain, 8 committed, 10-11 aborted, with a marker after each transaction."""
    topic = "parity-transactions"
    zkafka_cluster.create_topic(topic)
    commit(zkafka_cluster, topic, b"a", b"b")
    abort(zkafka_cluster, topic, b"c", b"d", b"e")
    zkafka_cluster.produce(topic, [{"value": b"f"}])
    commit(zkafka_cluster, topic, b"g")
    abort(zkafka_cluster, topic, b"h", b"i")
    return topic


@pytest.fixture(scope="module")
def uneven(zkafka_cluster: LocalCluster) -> str:
    """A topic with 40, 12, 3 and 1 records."""
    zkafka_cluster.create_topic("parity-uneven", partitions=4)
    counts = enumerate((40, 12, 3, 1))
    zkafka_cluster.produce("parity-uneven", [{"value": b"v", "partition": p} for p, n in counts for _ in range(n)])
    return "parity-uneven"


class TestColumns:
    """What a record is made of."""

    def test_all(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Keys, values, tombstones, empty bytes, repeated, null and no headers, timestamps to the millisecond."""
        topic = new_topic(config=KEPT)
        zkafka_cluster.produce(
            topic,
            [
                {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", None), ("b", b""), ("a", b"2")]},
                {"key": b"k", "value": None, "headers": [("clé", "é".encode())]},
                {"key": None, "value": b"\x00\xff", "timestamp": T0 + 123},
                {"key": b"", "value": b"", "timestamp": 1},
                {"key": None, "value": None},
            ],
        )
        records = peers.same({"subscribe": topic, "includeHeaders": "true"})
        assert [r[3:5] for r in records] == [(b"k", b"v"), (b"k", None), (None, b"\x00\xff"), (b"", b""), (None, None)]
        assert [r[7] for r in records] == [
            [("a", b"1"), ("a", None), ("b", b""), ("a", b"2")],
            [("clé", "é".encode())],
            None,
            None,
            None,
        ]
        assert records[2][5].astimezone(timezone.utc) == datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
        assert peers.same({"subscribe": topic}) == [(*r[:7], None) for r in records]

    def test_log_append_time(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Timestamps that the broker sets are shown with type 1."""
        topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
        zkafka_cluster.produce(topic, [{"value": b"v", "timestamp": 5}, {"value": b"w"}])
        assert [r[6] for r in peers.same({"subscribe": topic})] == [1, 1]

    @pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_sizes(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic, compression: str) -> None:
        """Records from empty to nearly the brokers' limit, mixed, with every compression."""
        topic = new_topic(partitions=2)
        sizes = [0, 1, 900_000, 100, 10_000, 0, 300_000, 17]
        records = [{"key": b"%d" % n, "value": bytes([n]) * s, "partition": n % 2} for n, s in enumerate(sizes)]
        zkafka_cluster.produce(topic, records, {"compression.type": compression})
        assert sorted(len(r[4]) for r in peers.same({"subscribe": topic})) == sorted(sizes)


class TestSubscription:
    """What is read."""

    @pytest.mark.parametrize(
        ("options", "count"),
        [
            ({"subscribe": "parity-one"}, 6),
            ({"subscribe": " parity-one , parity-two,parity-empty"}, 8),
            ({"subscribe": "parity-one,parity-one"}, 6),
            ({"subscribe": "parity-empty"}, 0),
            ({"subscribePattern": "^parity-(one|t.o)$"}, 8),
            ({"subscribePattern": "^no-such-topic.*"}, 0),
            ({"assign": '{"parity-one":[1],"parity-two":[0]}'}, 5),
            ({"assign": '{"parity-empty":[0,1]}'}, 0),
            ({"SUBSCRIBE": "parity-two", "StartingOffsets": "EARLIEST"}, 2),
            (
                {
                    "subscribe": "parity-one,parity-two",
                    "startingOffsets": '{"parity-one":{"0":1,"1":-2},"parity-two":{"0":1}}',
                    "endingOffsets": '{"parity-two":{"0":2},"parity-one":{"1":2,"0":-1}}',
                },
                5,
            ),
        ],
    )
    def test_same(self, peers: Peers, topics: list[str], options: dict[str, str], count: int) -> None:
        """One topic, several, none with records, by name, by pattern, by partition."""
        assert len(peers.same(options)) == count

    def test_internal_topics(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A pattern does not match Kafka's own topics, though it fits their names."""
        commit(zkafka_cluster, new_topic(), b"makes __transaction_state")
        with zkafka_cluster.zookeeper() as client:
            assert "__transaction_state" in client.get_children("/brokers/topics")
        assert peers.same({"subscribePattern": "^__.*"}) == []

    def test_pattern_is_whole(self, peers: Peers, topics: list[str]) -> None:
        """Where Spark's connector finds a pattern anywhere in a name, ours wants the whole name, as Kafka's consumers."""
        assert {r.topic for r in peers.theirs({"subscribePattern": "arity-tw"}).collect()} == {"parity-two"}
        assert peers.ours({"subscribePattern": "arity-tw"}).collect() == []
        assert peers.ours({"subscribePattern": ".*arity-tw.*"}).count() == 2

    def test_unknown_partition(self, peers: Peers, topics: list[str]) -> None:
        """Where Spark's connector reads on without an assigned partition that does not exist, ours names it."""
        options = {"assign": '{"parity-two":[0,7]}'}
        assert peers.theirs(options).count() == 2
        with pytest.raises(Exception, match=r"UNKNOWN_TOPIC.*parity-two-7"):
            peers.ours(options).collect()


class TestOffsets:
    """Where from and to."""

    @pytest.mark.parametrize(
        ("options", "counts"),
        [
            ({}, (20, 10)),
            ({"startingOffsets": "earliest", "endingOffsets": "latest"}, (20, 10)),
            ({"startingOffsets": (5, -2)}, (15, 10)),
            ({"endingOffsets": (12, -1)}, (12, 10)),
            ({"startingOffsets": (5, 0), "endingOffsets": (6, 10)}, (1, 10)),
            ({"startingOffsets": (7, 10), "endingOffsets": (7, -1)}, (0, 0)),
            ({"startingOffsets": (20, 9)}, (0, 1)),
            # by time
            ({"startingTimestamp": str(T0 + 35)}, (16, 8)),
            ({"startingTimestamp": str(T0 + 40)}, (16, 8)),
            ({"startingTimestamp": "0"}, (20, 10)),
            ({"endingTimestamp": str(T0 + 35)}, (4, 2)),
            ({"endingTimestamp": str(T0 + 95)}, (10, 10)),
            ({"endingTimestamp": str(T0 + 9999)}, (20, 10)),
            ({"endingTimestamp": "0"}, (0, 0)),
            ({"startingTimestamp": str(T0 + 20), "endingTimestamp": str(T0 + 60)}, (4, 4)),
            ({"startingTimestamp": str(T0 + 20), "endingTimestamp": str(T0 + 20)}, (0, 0)),
            ({"startingOffsetsByTimestamp": (T0 + 35, T0 + 80)}, (16, 2)),
            ({"endingOffsetsByTimestamp": (T0 + 9999, T0 + 80)}, (20, 8)),
            ({"startingOffsetsByTimestamp": (T0 + 35, T0), "endingOffsetsByTimestamp": (T0 + 36, T0 + 9999)}, (0, 10)),
            # no record so late
            ({"startingTimestamp": str(T0 + 95), "startingOffsetsByTimestampStrategy": "latest"}, (10, 0)),
            ({"startingTimestamp": str(T0 + 9999), "startingOffsetsByTimestampStrategy": "LATEST"}, (0, 0)),
            ({"startingTimestamp": str(T0 + 90), "startingOffsetsByTimestampStrategy": "error"}, (11, 1)),
            ({"startingOffsetsByTimestamp": (T0, T0 + 99), "startingOffsetsByTimestampStrategy": "latest"}, (20, 0)),
            # mixed, and which one wins
            ({"startingTimestamp": str(T0 + 40), "endingOffsets": (12, -1)}, (8, 8)),
            ({"startingOffsets": (2, 1), "endingTimestamp": str(T0 + 60)}, (4, 5)),
            ({"startingTimestamp": str(T0 + 40), "startingOffsetsByTimestamp": (T0, T0)}, (16, 8)),
            ({"startingTimestamp": str(T0 + 40), "startingOffsets": (9, 9)}, (16, 8)),
            ({"startingTimestamp": str(T0 + 40), "startingOffsets": "latest"}, (16, 8)),
            ({"startingOffsetsByTimestamp": (T0 + 40, T0 + 70), "startingOffsets": (9, 9)}, (16, 3)),
            ({"endingTimestamp": str(T0 + 40), "endingOffsetsByTimestamp": (T0, T0), "endingOffsets": (9, 9)}, (4, 2)),
            ({"endingOffsetsByTimestamp": (T0 + 40, T0 + 70), "endingOffsets": "earliest"}, (4, 7)),
            # of streaming: a batch ignores it
            ({"maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1m"}, (20, 10)),
        ],
    )
    def test_same(self, peers: Peers, timed: str, options: dict[str, Any], counts: tuple[int, int]) -> None:
        """Offsets, timestamps, those of each partition, what happens where no record is so late, and which option wins."""
        found = offsets(peers.same({"subscribe": timed, **filled(options, timed)}))
        assert tuple(len(found.get(p, [])) for p in (0, 1)) == counts

    def test_of_an_assignment(self, peers: Peers, timed: str) -> None:
        """With assign, the assigned partitions are those to name."""
        options = {"assign": f'{{"{timed}":[1]}}', "startingOffsets": f'{{"{timed}":{{"1":4}}}}'}
        assert offsets(peers.same(options)) == {1: list(range(4, 10))}


class TestRefused:
    """What both refuse, and what ours alone refuses or allows."""

    @pytest.mark.parametrize(
        ("options", "our_reason"),
        [
            ({"startingOffsets": "latest"}, "starts at latest"),
            ({"startingOffsets": (-1, 0)}, "starts at latest"),
            ({"endingOffsets": "earliest"}, "ends at earliest"),
            ({"endingOffsets": (5, -2)}, "ends at earliest"),
            ({"startingOffsets": (-3, 0)}, "offset -3"),
            ({"startingOffsets": (5, 0), "endingOffsets": (4, 10)}, r"START_AFTER_END.*TOPIC-0 starts at 5 and ends at 4"),
            ({"startingTimestamp": str(T0 + 80), "endingTimestamp": str(T0 + 50)}, "startingTimestamp is after"),
            (
                {"startingOffsetsByTimestamp": (T0 + 80, T0), "endingOffsetsByTimestamp": (T0 + 50, T0 + 50)},
                rf"START_AFTER_END.*TOPIC-0 starts at timestamp {T0 + 80} and ends at timestamp {T0 + 50}",
            ),
            ({"startingOffsets": "first"}, r"startingOffsets is 'first'; expected"),
            ({"startingOffsets": '{"TOPIC":{"0":"x","1":0}}'}, "startingOffsets is"),
            ({"startingOffsets": (5, 0, 0)}, "OFFSETS_DO_NOT_MATCH.*TOPIC-2"),
            ({"startingOffsets": '{"other":{"0":0}}'}, "OFFSETS_DO_NOT_MATCH.*other-0"),
            ({"startingOffsets": (5,)}, "OFFSETS_DO_NOT_MATCH.*startingOffsets does not name TOPIC-1"),
            ({"endingOffsets": (5,)}, "OFFSETS_DO_NOT_MATCH.*endingOffsets does not name TOPIC-1"),
            ({"startingOffsetsByTimestamp": (T0,)}, "OFFSETS_DO_NOT_MATCH.*does not name TOPIC-1"),
            ({"endingOffsetsByTimestamp": (T0,)}, "OFFSETS_DO_NOT_MATCH.*does not name TOPIC-1"),
            ({"startingTimestamp": "yesterday"}, "startingTimestamp is 'yesterday'"),
            ({"endingTimestamp": "1.5"}, "endingTimestamp is '1.5'"),
            ({"startingTimestamp": ""}, "startingTimestamp is ''"),
            ({"startingOffsetsByTimestamp": "123"}, "startingOffsetsByTimestamp is '123'"),
            ({"startingTimestamp": str(T0 + 95)}, "NO_OFFSET_FOR_TIMESTAMP.*TOPIC-1"),
            ({"startingOffsetsByTimestamp": (T0, T0 + 95)}, "NO_OFFSET_FOR_TIMESTAMP.*TOPIC-1"),
            ({"startingTimestamp": str(T0), "startingOffsetsByTimestampStrategy": "never"}, "expected error or latest"),
            ({"assign": '{"TOPIC":[0]}'}, "subscribe and assign contradict"),
            ({"subscribePattern": "x"}, "subscribe and subscribePattern contradict"),
            ({"subscribe": ""}, "subscribe names no topic"),
            ({"subscribe": "no-such-topic"}, "UNKNOWN_TOPIC.*no-such-topic"),
            ({"minPartitions": "0"}, "minPartitions is '0'"),
            ({"minPartitions": "many"}, "minPartitions is 'many'"),
            ({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is '-5'"),
            ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'"),
            ({"kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
            ({"kafka.key.deserializer": "x"}, "key.deserializer"),
            ({"kafka.value.deserializer": "x"}, "value.deserializer"),
            ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
            ({"kafka.interceptor.classes": "x"}, "interceptor.classes"),
        ],
    )
    def test_by_both(self, peers: Peers, timed: str, options: dict[str, Any], our_reason: str) -> None:
        """What the one refuses the other refuses; ours says why."""
        quick = {"fetchOffset.retryIntervalMs": "10"}
        peers.both_refuse(
            {"subscribe": timed, **quick, **filled(options, timed)}, our_reason.replace("TOPIC-", f"{timed}-")
        )

    @pytest.mark.parametrize(
        "options",
        [
            {"startingOffsets": (15, 10), "endingTimestamp": str(T0 + 50)},
            {"startingTimestamp": str(T0 + 90), "endingOffsets": (3, 5)},
        ],
    )
    def test_before_the_start(self, peers: Peers, timed: str, options: dict[str, Any]) -> None:
        """Where Spark's connector refuses an end that turns out to lie before the start, ours finds nothing to read."""
        given = {"subscribe": timed, **filled(options, timed)}
        assert peers.ours(given).collect() == []
        with pytest.raises(Exception, match=r"resolved start offset .* is greater than the resolved end offset"):
            peers.theirs(given).collect()

    @pytest.mark.parametrize(
        ("options", "our_reason"),
        [
            ({}, "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
            ({"subscribePattern": "("}, r"subscribePattern is '\('"),
            ({"subscribePattern": ""}, "subscribePattern is ''"),
            ({"assign": "t"}, "assign is 't'"),
            ({"assign": '["t"]'}, "assign is"),
        ],
    )
    def test_subscription(self, peers: Peers, options: dict[str, str], our_reason: str) -> None:
        """What is no subscription to the one is none to the other."""
        peers.both_refuse(options, our_reason)

    def test_unknown_option(self, peers: Peers, timed: str) -> None:
        """Where Spark's connector takes an unknown option in silence, ours offers the right one."""
        options = {"subscribe": timed, "startingOffset": "earliest"}
        assert peers.theirs(options).count() == 30
        with pytest.raises(Exception, match="did you mean startingOffsets"):
            peers.ours(options).collect()

    def test_by_topic(self, peers: Peers, timed: str) -> None:
        """Where Spark's connector wants each partition, ours takes a topic's name alone, too."""
        options = {"subscribe": timed, "startingOffsets": f'{{"{timed}":"earliest"}}'}
        assert peers.ours(options).count() == 30
        with pytest.raises(Exception, match=r"Expected e\.g\."):
            peers.theirs(options).collect()

    def test_unnamed_partitions(self, peers: Peers, timed: str) -> None:
        """Where Spark's connector wants every partition named, ours takes auto.offset.reset for the rest."""
        options = {"subscribe": timed, "startingOffsets": by_partition(timed, 15), "auto.offset.reset": "earliest"}
        assert {r.partition for r in peers.ours(options).where("offset < 15").collect()} == {1}
        with pytest.raises(Exception, match="don't match what are assigned"):
            peers.theirs(options).collect()


class TestGaps:
    """Offsets that the log does not have, or no longer."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, range(40, 100)),
            ({"startingOffsets": (40, -2)}, range(40, 100)),
            ({"startingOffsets": (10, -2), "failOnDataLoss": "false"}, range(40, 100)),
            ({"startingOffsets": (10, -2), "endingOffsets": (50, -1), "failOnDataLoss": "false"}, range(40, 50)),
            ({"startingOffsets": (10, -2), "endingOffsets": (40, -1), "failOnDataLoss": "false"}, ()),
            ({"startingOffsets": (10, -2), "endingOffsets": (20, -1), "failOnDataLoss": "false"}, ()),
        ],
    )
    def test_deleted(self, peers: Peers, begins_at_40: str, options: dict[str, Any], expected: Any) -> None:
        """Without failOnDataLoss, what is gone from the range is left out, and the rest is read."""
        found = offsets(peers.same({"subscribe": begins_at_40, **filled(options, begins_at_40)}))
        assert found.pop(0, []) == list(expected)
        assert found == {1: list(range(10))}

    def test_deleted_in_pieces(self, peers: Peers, begins_at_40: str) -> None:
        """So it is where the range is cut; Spark's connector is asked for it whole, since such tasks of its collide."""
        options = {
            "subscribe": begins_at_40,
            **filled({"startingOffsets": (0, 0)}, begins_at_40),
            "failOnDataLoss": "false",
        }
        assert len(peers.same(options, maxRecordsPerPartition="19", minPartitions="4")) == 70

    @pytest.mark.parametrize("options", [{"startingOffsets": (10, 0)}, {"endingOffsets": (101, 10)}])
    def test_fail(self, peers: Peers, begins_at_40: str, options: dict[str, Any]) -> None:
        """With failOnDataLoss both fail: Spark's in its tasks, ours while planning, with the log's bounds."""
        given = {"subscribe": begins_at_40, **filled(options, begins_at_40), "kafkaConsumer.pollTimeoutMs": "2000"}
        reason = rf"{begins_at_40}-0: (starting|ending) offset 10.? is outside the log, which spans \[40, 100\)"
        peers.both_refuse(given, reason)
        with pytest.raises(DataLoss, match=reason):
            plan_batch(parse_read({**given, "zookeeper.connect": peers.cluster.zookeeper_connect}))

    def test_start_behind_the_log(self, peers: Peers, begins_at_40: str) -> None:
        """Where Spark's connector refuses a start beyond the log even without failOnDataLoss, ours warns and reads on."""
        options = {"subscribe": begins_at_40, **filled({"startingOffsets": (101, 8)}, begins_at_40)}
        peers.both_refuse(options, r"starting offset 101 is outside the log, which spans \[40, 100\)")
        lenient = {**options, "failOnDataLoss": "false"}
        with pytest.raises(Exception, match="start offset 101 is greater than the resolved end offset 100"):
            peers.theirs(lenient).collect()
        assert [(r.partition, r.offset) for r in peers.ours(lenient).orderBy("offset").collect()] == [(1, 8), (1, 9)]

    def test_compacted(self, peers_of: Callable[[LocalCluster], Peers]) -> None:
        """A compacted log's gaps are no loss, also where a range begins, ends or lies wholly in one."""
        eager = {"segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01", "cleanup.policy": "compact"}
        with LocalCluster(brokers=1, broker_config={"log.cleaner.backoff.ms": "100"}) as cluster:
            cluster.create_topic("compacted", config=eager)
            records = [{"key": b"%d" % (n % 7 if n % 50 else n), "value": b"." * 500} for n in range(300)]
            # A batch for each record, so that compaction leaves no trace of those that go.
            cluster.produce("compacted", records, {"batch.num.messages": 1, "linger.ms": 0})
            peers = peers_of(cluster)
            assert Deadline(60).until(lambda: peers.ours({"subscribe": "compacted"}).count() < 150 or None)
            left = offsets(peers.same({"subscribe": "compacted"}))[0]
            for start, until in ((0, 40), (0, 300), (7, 93), (120, 130), (151, 199), (200, 201)):
                ends = {"startingOffsets": (start,), "endingOffsets": (until,)}
                given = filled(ends, "compacted")
                seen = offsets(peers.same({"subscribe": "compacted", **given}, maxRecordsPerPartition="33")).get(0, [])
                assert set(seen) <= set(range(start, until))
                assert len(seen) <= len(left)


class TestTransactions:
    """Committed, aborted and open transactions."""

    @pytest.mark.parametrize("split", [{}, {"maxRecordsPerPartition": "2"}, {"minPartitions": "4"}])
    @pytest.mark.parametrize(
        ("isolation", "visible"),
        [("read_committed", [0, 1, 7, 8]), ("read_uncommitted", [0, 1, 3, 4, 5, 7, 8, 10, 11]), (None, None)],
    )
    def test_ended(
        self, peers: Peers, transactions: str, isolation: str | None, visible: list[int] | None, split: dict[str, str]
    ) -> None:
        """Aborted records are left out by read_committed alone, markers always, also at the end of the log."""
        options = {"subscribe": transactions, **({"kafka.isolation.level": isolation} if isolation else {}), **split}
        everything = [0, 1, 3, 4, 5, 7, 8, 10, 11]
        assert offsets(peers.same(options))[0] == (everything if visible is None else visible)

    @pytest.mark.parametrize(("start", "until"), [(2, 7), (3, 6), (2, 3), (9, -1), (12, 13)])
    def test_invisible_range(self, peers: Peers, transactions: str, start: int, until: int) -> None:
        """A range in which nothing is visible ends, empty."""
        options = {"startingOffsets": by_partition(transactions, start), "endingOffsets": by_partition(transactions, until)}
        assert peers.same({"subscribe": transactions, "kafka.isolation.level": "read_committed", **options}) == []

    def test_open(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With read_committed the log ends before an open transaction."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": b"before"}])
        with transaction(zkafka_cluster, topic, b"open") as producer:
            assert len(peers.same({"subscribe": topic, "kafka.isolation.level": "read_committed"})) == 1
            assert len(peers.same({"subscribe": topic})) == 2
            producer.abort_transaction(30)


class TestSplits:
    """How Kafka partitions become Spark partitions."""

    @staticmethod
    def ranges(frame: DataFrame) -> list[tuple[str, int, int, int]]:
        """The (topic, partition, first offset, last offset) of each Spark partition that holds rows, sorted."""
        found = defaultdict(list)
        for task, topic, partition, offset in frame.select(
            F.spark_partition_id(), "topic", "partition", "offset"
        ).collect():
            found[task, topic, partition].append(offset)
        assert len({task for task, *_ in found}) == len(found)  # one Kafka partition in each Spark partition
        return sorted((topic, partition, min(o), max(o)) for (_, topic, partition), o in found.items())

    @pytest.mark.parametrize(
        "options",
        [
            {},
            *({"minPartitions": n} for n in ("1", "4", "5", "6", "9", "23")),
            *({"maxRecordsPerPartition": n} for n in ("3", "7", "12", "39", "1000")),
            {"minPartitions": "9", "maxRecordsPerPartition": "8"},
            {"minPartitions": "12", "maxRecordsPerPartition": "12"},
            {"minPartitions": "5", "maxRecordsPerPartition": "1000"},
            {"minPartitions": "7", "startingOffsets": (20, 1, 2, 0)},
        ],
    )
    def test_same(self, peers: Peers, uneven: str, options: dict[str, Any]) -> None:
        """minPartitions, maxRecordsPerPartition and both cut the same ranges."""
        bounds = {"startingOffsets": (0, 0, 0, 0), "endingOffsets": (40, 12, 3, 1)}
        given = {"subscribe": uneven, **filled({**bounds, **options}, uneven)}
        ours, theirs = peers.ours(given), peers.theirs(given)
        assert self.ranges(ours) == self.ranges(theirs)
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()

    @pytest.mark.parametrize("options", [{}, {"minPartitions": "6"}, {"minPartitions": "9", "maxRecordsPerPartition": "8"}])
    def test_earliest_to_latest(self, peers: Peers, uneven: str, options: dict[str, str]) -> None:
        """The same for ends that are to be found out."""
        given = {"subscribe": uneven, **options}
        assert self.ranges(peers.ours(given)) == self.ranges(peers.theirs(given))

    def test_limit_of_an_open_end(self, peers: Peers, uneven: str) -> None:
        """Where Spark's connector forgets maxRecordsPerPartition as the end is latest, ours keeps to it."""
        given = {"subscribe": uneven, "maxRecordsPerPartition": "12"}
        assert len(self.ranges(peers.theirs(given))) == 4
        assert len(self.ranges(peers.ours(given))) == 7
        assert all(last - first < 12 for *_, first, last in self.ranges(peers.ours(given)))

    @pytest.mark.parametrize("options", [{}, {"minPartitions": "9"}, {"maxRecordsPerPartition": "4"}])
    def test_empty_partitions(
        self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: dict[str, str]
    ) -> None:
        """Empty partitions change nothing of how the others are cut; ours starts no tasks for them."""
        topic = new_topic(partitions=5)
        zkafka_cluster.produce(topic, [{"value": b"v", "partition": p} for p in (1, 1, 1, 1, 1, 1, 4, 4)])
        given = {"subscribe": topic, **options, "endingOffsets": by_partition(topic, 0, 6, 0, 0, 2)}
        given["startingOffsets"] = by_partition(topic, 0, 0, 0, 0, 0)
        ours, theirs = peers.ours(given), peers.theirs(given)
        assert self.ranges(ours) == self.ranges(theirs)
        assert ours.rdd.getNumPartitions() == len(self.ranges(ours)) <= theirs.rdd.getNumPartitions()
