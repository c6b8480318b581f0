"""Ranges of records read by both transports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import ResourceType

from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.read.split_reader import ReadPolicy
from tests.support.both_paths import each_path
from tests.support.both_paths_reads import VALUE, Range, Read, as_table
from tests.support.eventually import eventually
from tests.support.topics import KEPT, arrived, configure
from tests.support.transactions import abort, commit

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
TopicOf = Callable[..., str]


class TestRanges:
    """Ranges in logs of all kinds."""

    @pytest.mark.parametrize(("start", "until"), [(0, 5000), (0, 1), (4999, 5000), (300, 4000), (1234, 1234)])
    def test_parts_of_a_log(self, read: Read, numbered: str, start: int, until: int) -> None:
        """A range returns exactly its records, anywhere in the log."""
        found = read(numbered, until, start=start, columns=VALUE)
        assert found.column("offset").to_pylist() == list(range(start, until))
        assert found.column("value").to_pylist() == [b"%d" % n for n in range(start, until)]

    @pytest.fixture
    def numbered(self, topic_of: TopicOf) -> str:
        return topic_of([{"value": b"%d" % n} for n in range(5000)])

    @each_path
    def test_batches_are_bounded_in_rows(self, read: Read, numbered: str, transport: Transport) -> None:
        """No batch exceeds the limit of rows, and all batches together are the range."""
        wanted = Range(numbered, 4500, 20, VALUE, ReadPolicy(max_records=700, poll_timeout_ms=20_000))
        batches = read.batches(wanted, transport)
        assert max(batch.num_rows for batch in batches) <= 700
        assert as_table(VALUE, batches).column("offset").to_pylist() == list(range(20, 4500))

    @each_path
    def test_batches_are_bounded_in_bytes(self, read: Read, topic_of: TopicOf, transport: Transport) -> None:
        """Batches stay near the limit of bytes, and all batches together are the range."""
        topic = topic_of([{"value": b"%4d" % n * 250} for n in range(2000)])
        batches = read.batches(Range(topic, 2000, columns=VALUE, policy=ReadPolicy(max_bytes=50_000)), transport)
        assert [int(v[:4]) for batch in batches for v in batch.column("value").to_pylist()] == list(range(2000))
        # The first poll in Python does not know the size of records yet.
        assert max(batch.num_rows for batch in batches[:-1]) <= (256 if transport == "librdkafka" else 51)
        assert len(batches) > 10

    @pytest.mark.parametrize(("level", "values"), [("read_committed", "abef"), ("read_uncommitted", "abcdef")])
    def test_transactions(
        self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, level: str, values: str
    ) -> None:
        """The isolation level decides whether aborted records are returned, but markers are never returned."""
        topic = new_topic()
        commit(zkafka_cluster, topic, b"a", b"b")
        abort(zkafka_cluster, topic, b"c", b"d")
        commit(zkafka_cluster, topic, b"e")
        commit(zkafka_cluster, topic, b"f")
        found = read(topic, 10, columns=VALUE, kafka={"isolation.level": level})
        assert b"".join(found.column("value").to_pylist()).decode() == values
        places = dict(zip("abcdef", (0, 1, 3, 4, 6, 8), strict=True))  # markers take the offsets in between
        assert found.column("offset").to_pylist() == [places[v] for v in values]
        assert read(topic, 5, start=3, columns=VALUE, kafka={"isolation.level": "read_committed"}).num_rows == 0

    def test_compacted(self, read: Read, zkafka_cluster: LocalCluster, compacted: str) -> None:
        """Gaps in a compacted log are skipped, even if a range starts or ends in one."""
        end = zkafka_cluster.produce(compacted, [{"key": b"end", "value": b""}])[0][0]
        offsets = read(compacted, end, columns=VALUE).column("offset").to_pylist()
        assert 0 < len(offsets) < end
        gap = next(o for o in range(end) if o not in offsets)
        for start, until in ((gap, end), (0, gap + 1), (gap, gap + 1), (gap + 1, end - 1)):
            found = read(compacted, until, start=start, columns=VALUE).column("offset").to_pylist()
            assert found == [o for o in offsets if start <= o < until]

    @pytest.fixture
    def compacted(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        """A topic that its broker has compacted, so that its offsets have gaps."""
        servers = zkafka_cluster.bootstrap_servers
        for broker in zkafka_cluster.broker_ids:
            configure(servers, ResourceType.BROKER, str(broker), "log.cleaner.backoff.ms", "200")
        config = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "100"}
        topic = new_topic(config={**KEPT, **config, "cleanup.policy": "compact"})

        def is_compacted() -> bool:
            records = [{"key": b"%d" % (n % 7), "value": b"v"} for n in range(20)]
            end = max(zkafka_cluster.produce(topic, records, {"batch.num.messages": 1})[0]) + 1
            return len(arrived(servers, topic)[0]) < end

        eventually(is_compacted, timeout_s=60, poll_s=0.3)
        configure(servers, ResourceType.TOPIC, topic, "cleanup.policy", "delete")  # no further compaction
        return topic
