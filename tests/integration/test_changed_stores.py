"""A query whose runs, on one checkpoint, commit to different stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.model.nouns import OffsetStore, TopicPartition
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.testing import LocalCluster
from tests.support.tiers import seldom

STORES = {
    "zookeeper": {"offsets.storage": "zookeeper"},
    "kafka": {"offsets.storage": "kafka", "dual.commit.enabled": "false"},
    "both": {"offsets.storage": "kafka", "dual.commit.enabled": "true"},
    "none": {"group.id": "", "groupMembership": ""},
    "member-in-kafka": {"groupMembership": "kafka"},
}
PATHS = [
    "both zookeeper zookeeper kafka",
    "zookeeper kafka kafka zookeeper kafka",
    "zookeeper both-idle zookeeper kafka",
    *seldom(
        "both zookeeper zookeeper member-in-kafka zookeeper",
        "both kafka kafka zookeeper",
        "kafka zookeeper zookeeper kafka zookeeper",
        "both none zookeeper none zookeeper kafka both",
        "kafka both zookeeper both kafka",
        "zookeeper kafka-idle zookeeper kafka",
        "none zookeeper-idle none zookeeper",
    ),
]


class Query:
    """A query on one checkpoint. `read` has the offsets that each of its runs has read."""

    def __init__(self, cluster: LocalCluster, new_driver: Callable[..., StreamDriver], topic: str, partitions: int) -> None:
        self._cluster, self._new_driver, self._topic, self._partitions = cluster, new_driver, topic, partitions
        self._checkpoint: dict[str, Any] | None = None
        self.read: list[list[tuple[int, int]]] = []

    def run(self, stores: str, batches: int = 2, partitions: Collection[int] = (), limit: int | None = None) -> None:
        """Read ten more records of each partition in every micro-batch, and stop without committing the last one.

        Without micro-batches, plan once. With `partitions`, read only these, and with a `limit`, only so many records.
        """
        assign = {"assign": json.dumps({self._topic: partitions})} if partitions else {"subscribe": self._topic}
        shared = {**assign, "startingOffsets": "earliest", "groupMembership": "none"}
        limits = {"maxOffsetsPerTrigger": str(limit)} if limit else {}
        options = {**shared, **limits, "group.id": f"of-{self._topic}", **STORES[stores]}
        driver = self._new_driver({name: text for name, text in options.items() if text})
        at = driver.initial() if self._checkpoint is None else self._checkpoint
        read: list[tuple[int, int]] = []
        for _ in range(batches):
            records = [{"value": b"v", "partition": number} for number in range(self._partitions)] * 10
            self._cluster.produce(self._topic, records)
            at = driver.latest(at, limited=limit is not None)
            read += [(s.partition.partition, n) for s in driver.splits(at)[0] for n in range(s.start, s.until)]
        if not batches:
            at = driver.latest(at, limited=False)
            assert driver.splits(at)[0] == ()
        driver.close()
        self.read.append(sorted(read))
        self._checkpoint = at

    def reset(self, store: OffsetStore, offset: int) -> None:
        """Set the group's offset of the first partition, as an operator does."""
        if store == "kafka":
            with GroupAdmin(self._cluster.bootstrap_servers, {}) as admin:
                assert admin.alter_offsets(f"of-{self._topic}", {TopicPartition(self._topic, 0): offset}) == {}
            return
        client, path = KazooClient(self._cluster.zookeeper_connect), f"/consumers/of-{self._topic}/offsets/{self._topic}/0"
        client.start()
        try:
            client.ensure_path(path)
            client.set(path, str(offset).encode())
        finally:
            client.stop()
            client.close()


@pytest.mark.parametrize("path", PATHS)
def test_changed_stores(
    zkafka_cluster: LocalCluster,
    new_driver: Callable[..., StreamDriver],
    new_topic: Callable[..., str],
    path: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A query that changes its store, also back to an earlier one, repeats nothing, and blames no other client."""
    query = Query(zkafka_cluster, new_driver, new_topic(partitions=2), 2)
    for stores in path.split():
        query.run(stores.removesuffix("-idle"), 0 if stores.endswith("-idle") else 2)
    read = [records for records in query.read if records]
    assert read == [[(p, n) for p in (0, 1) for n in range(20 * run, 20 * run + 20)] for run in range(len(read))]
    assert "another client" not in caplog.text


def test_a_reset_in_the_store_that_a_query_returns_to(
    zkafka_cluster: LocalCluster, new_driver: Callable[..., StreamDriver], new_topic: Callable[..., str]
) -> None:
    """A reset by an operator, in the store that a query had left, takes precedence when the query returns."""
    query = Query(zkafka_cluster, new_driver, new_topic(), 1)
    for stores in ("both", "zookeeper", "zookeeper"):
        query.run(stores)
    query.reset("kafka", 5)
    query.run("kafka")
    assert query.read[-1] == [(0, n) for n in range(5, 80)]


@pytest.mark.parametrize(
    ("left", "other", "then"),
    [
        ("zookeeper", "kafka", "both"),
        ("kafka", "zookeeper", "kafka"),
        *seldom(("kafka", "zookeeper", "both"), ("zookeeper", "kafka", "zookeeper")),
    ],
)
def test_a_higher_offset_in_the_store_that_a_query_returns_to(
    zkafka_cluster: LocalCluster,
    new_driver: Callable[..., StreamDriver],
    new_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
    left: OffsetStore,
    other: OffsetStore,
    then: str,
) -> None:
    """After a reset in another store, a query does not jump to the higher offset that it has left, and lowers it."""
    query = Query(zkafka_cluster, new_driver, new_topic(), 1)
    query.run(left, 6)
    query.reset(other, 10)
    query.run(other, 2, limit=10)
    assert query.read[-1] == [(0, n) for n in range(10, 30)]
    caplog.clear()
    for stores, start in ((then, 30), (then, 40), (left, 50), (other, 60)):
        query.run(stores, 1, limit=10)
        assert query.read[-1] == [(0, n) for n in range(start, start + 10)]
    assert "another client" not in caplog.text.lower()


def test_a_reset_below_what_a_query_left_in_the_store_that_it_adds(
    zkafka_cluster: LocalCluster, new_driver: Callable[..., StreamDriver], new_topic: Callable[..., str]
) -> None:
    """Of two stores, the one with a reset decides, although the query has left a higher offset in the other."""
    query = Query(zkafka_cluster, new_driver, new_topic(), 1)
    query.run("kafka")
    query.run("zookeeper")
    query.reset("zookeeper", 5)
    for stores, start in (("both", 5), ("both", 15), ("kafka", 25)):
        query.run(stores, 1, limit=10)
        assert query.read[-1] == [(0, n) for n in range(start, start + 10)]


@pytest.mark.parametrize(
    ("stores", "store", "last"),
    [("zookeeper", "kafka", "kafka"), ("", "zookeeper", "zookeeper"), *seldom(("", "kafka", "kafka"))],
)
def test_a_store_that_a_query_has_never_used(
    zkafka_cluster: LocalCluster,
    new_driver: Callable[..., StreamDriver],
    new_topic: Callable[..., str],
    stores: str,
    store: OffsetStore,
    last: str,
) -> None:
    """A query that started without a group takes no offset of the group for its own, also not 0."""
    query = Query(zkafka_cluster, new_driver, new_topic(), 1)
    for run in ("none", *stores.split()):
        query.run(run, 1)
    query.reset(store, 0)
    query.run(last, 1, limit=10)
    assert query.read[-1] == [(0, n) for n in range(10)]


def test_a_partition_that_some_runs_do_not_read(
    zkafka_cluster: LocalCluster,
    new_driver: Callable[..., StreamDriver],
    new_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a query has left in a store stays known, although a later run in that store does not read the partition."""
    query = Query(zkafka_cluster, new_driver, new_topic(partitions=2), 2)
    for stores, partitions in (("kafka", [0, 1]), ("zookeeper", [0, 1]), ("kafka", [0]), ("zookeeper", [0, 1])):
        query.run(stores, 2, partitions)
    query.run("kafka", 2, [0, 1])
    assert query.read[-1] == [(p, n) for p in (0, 1) for n in range(80, 100)]
    assert "another client" not in caplog.text
