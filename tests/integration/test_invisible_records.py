"""Batch reads of logs with invisible records and with records larger than a fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.transactions import abort, commit, transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


class TestInvisibleRecords:
    """Transactions, and records larger than a fetch."""

    @pytest.mark.long
    def test_transactions(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Aborted records are skipped with read_committed only, and markers always, even at the end of the log."""
        topic = new_topic()
        commit(zkafka_cluster, topic, b"a", b"b")
        abort(zkafka_cluster, topic, b"c", b"d")
        zkafka_cluster.produce(topic, [{"value": b"e"}])
        commit(zkafka_cluster, topic, b"f")
        committed = read({"subscribe": topic, "kafka.isolation.level": "read_committed"})
        assert [r.value for r in committed.orderBy("offset").collect()] == [b"a", b"b", b"e", b"f"]
        every = read({"subscribe": topic})
        assert [r.value for r in every.orderBy("offset").collect()] == [b"a", b"b", b"c", b"d", b"e", b"f"]

    def test_nothing_visible(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A range with only aborted records and markers returns no rows."""
        topic = new_topic()
        abort(zkafka_cluster, topic, *[b"x"] * 10)
        frame = read({"subscribe": topic, "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": "4"})
        assert frame.collect() == []

    def test_open_transaction(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With read_committed, a batch ends before an open transaction."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": b"before"}])
        with transaction(zkafka_cluster, topic, b"open") as producer:
            frame = read({"subscribe": topic, "kafka.isolation.level": "read_committed"})
            assert [r.value for r in frame.collect()] == [b"before"]
            assert read({"subscribe": topic}).count() == 2
            producer.abort_transaction(30)

    def test_large_records(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Records larger than the fetch size are read, in several batches."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": bytes([n]) * 900_000} for n in range(60)])
        small_fetches = {"kafka.max.partition.fetch.bytes": "10000"}
        frame = read({"subscribe": topic, **small_fetches})
        assert sorted((r.value[0], len(r.value)) for r in frame.collect()) == [(n, 900_000) for n in range(60)]
