"""A query whose runs, on one checkpoint, commit to different stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.model.nouns import TopicPartition
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

    def run(self, stores: str, batches: int = 2) -> None:
        """Read ten more records of each partition in every micro-batch, and stop without committing the last one.

        Without micro-batches, plan once.
        """
        shared = {"subscribe": self._topic, "startingOffsets": "earliest", "groupMembership": "none"}
        options = {**shared, "group.id": f"of-{self._topic}", **STORES[stores]}
        driver = self._new_driver({name: text for name, text in options.items() if text})
        at = driver.initial() if self._checkpoint is None else self._checkpoint
        read: list[tuple[int, int]] = []
        for _ in range(batches):
            records = [{"value": b"v", "partition": number} for number in range(self._partitions)] * 10
            self._cluster.produce(self._topic, records)
            at = driver.latest(at, limited=False)
            read += [(s.partition.partition, n) for s in driver.splits(at)[0] for n in range(s.start, s.until)]
        if not batches:
            at = driver.latest(at, limited=False)
            assert driver.splits(at)[0] == ()
        driver.close()
        self.read.append(sorted(read))
        self._checkpoint = at


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
    topic = new_topic()
    query = Query(zkafka_cluster, new_driver, topic, 1)
    for stores in ("both", "zookeeper", "zookeeper"):
        query.run(stores)
    with GroupAdmin(zkafka_cluster.bootstrap_servers, {}) as admin:
        assert admin.alter_offsets(f"of-{topic}", {TopicPartition(topic, 0): 5}) == {}
    query.run("kafka")
    assert query.read[-1] == [(0, n) for n in range(5, 80)]
