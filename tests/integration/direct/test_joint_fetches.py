"""Joint fetches from real brokers for several splits of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.protocol import Request
from tests.support.faulty_wire import FaultyWire, cut_after
from tests.support.tiers import seldom
from tests.support.transactions import abort, commit

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
RECORDS = 30


@pytest.fixture
def topics(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> list[str]:
    """Topics led by brokers 0 and 1: one for each codec, one with transactions, and one with large records."""
    found = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = new_topic(assignment={0: [0], 1: [1], 2: [0]})
        records = [{"key": b"%d" % n, "value": b"%d" % n * 50, "partition": n % 3} for n in range(3 * RECORDS)]
        zkafka_cluster.produce(topic, records, {"compression.type": codec})
        found.append(topic)
    topic = new_topic(assignment={0: [0]})
    commit(zkafka_cluster, topic, b"a", b"b")
    abort(zkafka_cluster, topic, b"c", b"d")
    commit(zkafka_cluster, topic, b"e")
    found.append(topic)
    topic = new_topic(assignment={0: [1], 1: [0]})
    zkafka_cluster.produce(topic, [{"value": b"%d" % n * 60_000, "partition": n % 2} for n in range(10)])
    return [*found, topic]


def rows(cluster: LocalCluster, topics: list[str], transport: str, servers: str | None = None, **kafka: str) -> pa.Table:
    """Return all records, read by one task."""
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    how = {"transport": transport, "subscribe": ",".join(topics), "minRecordsPerPartition": "1000000", **given}
    reader = ZKafkaReader(parse_read({"zookeeper.connect": cluster.zookeeper_connect, **how}), COLUMNS)
    (task,) = reader.partitions()
    assert isinstance(task, SplitPartition)
    if servers is not None:
        splits = tuple(split._replace(endpoints=(servers,)) for split in task.splits)
        task = SplitPartition(splits, cluster.bootstrap_servers)
    table = pa.Table.from_batches(reader.read(task), COLUMNS)
    return table.sort_by([(name, "ascending") for name in COLUMNS.names[:3]]).combine_chunks()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that the direct transport sends."""
    found: list[Request] = []
    send = Connection.send

    def noting(connection: Connection, request: Request) -> None:
        found.append(request)
        send(connection, request)

    monkeypatch.setattr(Connection, "send", noting)
    return found


@pytest.mark.parametrize("isolation", ["read_committed", *seldom("read_uncommitted")])
def test_same_records(zkafka_cluster: LocalCluster, topics: list[str], isolation: str, sent: list[Request]) -> None:
    """One request to each leader returns the records that librdkafka reads."""
    *small, _ = topics
    found = rows(zkafka_cluster, small, "direct", isolation_level=isolation)
    assert [request.api for request in sent].count(FETCH) == 2
    assert found.num_rows == 5 * 3 * RECORDS + (3 if isolation == "read_committed" else 5)
    assert found.equals(rows(zkafka_cluster, small, "librdkafka", isolation_level=isolation))


@pytest.mark.parametrize("size", [1000, *seldom(20_000, 100_000)])
def test_small_fetches(zkafka_cluster: LocalCluster, topics: list[str], size: int, sent: list[Request]) -> None:
    """Records that do not fit into a response are fetched by further requests."""
    found = rows(zkafka_cluster, topics, "direct", max_partition_fetch_bytes=str(size))
    assert [request.api for request in sent].count(FETCH) > 2
    assert found.equals(rows(zkafka_cluster, topics, "librdkafka"))


@pytest.mark.parametrize("size", [1000, *seldom(0, 100, 5000, 100_000)])
def test_cut(zkafka_cluster: LocalCluster, topics: list[str], size: int) -> None:
    """All splits are read when the connection is cut before or within the response."""
    expected = rows(zkafka_cluster, topics, "librdkafka")
    with FaultyWire(zkafka_cluster.port(0), cut_after(size), faulty=2) as wire:
        assert rows(zkafka_cluster, topics, "direct", wire.address, client_id=f"cut-{size}").equals(expected)


def test_moved_leaders(zkafka_cluster: LocalCluster, topics: list[str]) -> None:
    """If the planned leader leads only some partitions, it serves those, and the other leaders are looked up."""
    expected = rows(zkafka_cluster, topics, "librdkafka")
    assert rows(zkafka_cluster, topics, "direct", f"localhost:{zkafka_cluster.port(1)}").equals(expected)


def test_topic_is_compared_by_the_brokers(
    zkafka_cluster: LocalCluster, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Direct reads look up no topic id: brokers compare it in each fetch. librdkafka's reads look up each topic once."""
    asked: Counter[str] = Counter()

    def same(split: object, *more: object) -> str:
        asked[split.partition.topic] += 1  # type: ignore[attr-defined]
        return "same"

    monkeypatch.setattr("pyspark_zkafka.read.readers.topic_identity", same)
    rows(zkafka_cluster, topics, "direct")
    assert asked == {}
    rows(zkafka_cluster, topics, "librdkafka")
    assert asked == dict.fromkeys(topics, 1)
