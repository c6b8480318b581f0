"""Records and subscriptions, read by Spark's JVM connector and by ours: the same rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.fill import fill
from tests.support.parity import KEPT, T0
from tests.support.tiers import seldom
from tests.support.topics import create_afresh
from tests.support.transactions import commit

NewTopic = Callable[..., str]
Peers = Any
"""`Peers` of conftest.py, which tests cannot import."""


@pytest.fixture(scope="module")
def topics(zkafka_cluster: LocalCluster) -> list[str]:
    """Three topics with 2, 1 and 2 partitions of 3, 2 and 0 records each."""
    names = ["parity-one", "parity-two", "parity-empty"]
    for name, partitions, records in zip(names, (2, 1, 2), (3, 2, 0), strict=True):
        create_afresh(zkafka_cluster, name, partitions=partitions)
        fill(zkafka_cluster, name, records, range(partitions))
    return names


class TestColumns:
    """The columns of records."""

    def test_all(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Both read the same keys, values, tombstones, empty bytes, timestamps, and repeated, null or missing headers."""
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
        """Both read timestamps set by the broker, with type 1."""
        topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
        zkafka_cluster.produce(topic, [{"value": b"v", "timestamp": 5}, {"value": b"w"}])
        assert [r[6] for r in peers.same({"subscribe": topic})] == [1, 1]

    @pytest.mark.parametrize("compression", ["lz4", *seldom("none", "gzip", "snappy", "zstd")])
    def test_sizes(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic, compression: str) -> None:
        """Both read records from empty to nearly the brokers' limit, mixed, with every compression."""
        topic = new_topic(partitions=2)
        sizes = [0, 1, 900_000, 100, 10_000, 0, 300_000, 17]
        records = [{"key": b"%d" % n, "value": bytes([n]) * s, "partition": n % 2} for n, s in enumerate(sizes)]
        zkafka_cluster.produce(topic, records, {"compression.type": compression})
        assert sorted(len(r[4]) for r in peers.same({"subscribe": topic})) == sorted(sizes)


class TestSubscription:
    """Subscriptions."""

    @pytest.mark.parametrize(
        ("options", "count"),
        [
            ({"subscribe": "parity-one"}, 6),
            ({"subscribe": " parity-one , parity-two,parity-empty"}, 8),
            *seldom(
                ({"subscribe": "parity-one,parity-one"}, 6),
                ({"subscribe": "parity-empty"}, 0),
            ),
            ({"subscribePattern": "^parity-(one|t.o)$"}, 8),
            *seldom(({"subscribePattern": "^no-such-topic.*", "missingTopics": "wait"}, 0)),
            ({"assign": '{"parity-one":[1],"parity-two":[0]}'}, 5),
            *seldom(
                ({"assign": '{"parity-empty":[0,1]}'}, 0),
                ({"SUBSCRIBE": "parity-two", "StartingOffsets": "EARLIEST"}, 2),
            ),
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
        """Both read the same records by name, by pattern and by partition, including topics without records."""
        assert len(peers.same(options)) == count

    def test_internal_topics(self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A pattern does not match Kafka's internal topics, even if it fits their names."""
        commit(zkafka_cluster, new_topic(), b"makes __transaction_state")
        with zkafka_cluster.zookeeper() as client:
            assert "__transaction_state" in client.get_children("/brokers/topics")
        assert peers.same({"subscribePattern": "^__.*", "missingTopics": "wait"}) == []

    def test_pattern_is_whole(self, peers: Peers, topics: list[str]) -> None:
        """Spark's connector matches a pattern anywhere in a name; ours requires the whole name, as Kafka's consumers do."""
        assert {r.topic for r in peers.theirs({"subscribePattern": "arity-tw"}).collect()} == {"parity-two"}
        with pytest.raises(Exception, match=r"NO_TOPIC_MATCHES.*'arity-tw' matches no topic \(it must match"):
            peers.ours({"subscribePattern": "arity-tw"}).collect()
        assert peers.ours({"subscribePattern": ".*arity-tw.*"}).count() == 2

    def test_unknown_partition(self, peers: Peers, topics: list[str]) -> None:
        """Spark's connector ignores an assigned partition that does not exist; ours fails and names it."""
        options = {"assign": '{"parity-two":[0,7]}'}
        assert peers.theirs(options).count() == 2
        with pytest.raises(Exception, match=r"UNKNOWN_TOPIC.*parity-two-7"):
            peers.ours(options).collect()
