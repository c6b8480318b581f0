"""Reads by the direct transport over faulty connections."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Listener, Split
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records.consumer import PartitionConsumer
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.select import open_consumer, open_fallback
from pyspark_zkafka.wire.protocol import Unsupported
from tests.support.faulty_wire import FaultyWire, cut_after, flip, in_pieces
from tests.support.tiers import seldom
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
COLUMNS = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
COUNT = 3000


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with 3 MB of poorly compressible records in one partition, led by broker 0."""
    name = new_topic(assignment={0: [0]})
    noise = random.Random(7)
    records = [{"value": b"%d " % n + noise.randbytes(1000)} for n in range(COUNT)]
    zkafka_cluster.produce(name, records, {"compression.type": "lz4", "batch.size": 50_000})
    return name


@contextmanager
def direct_reader(
    topic: str, servers: str, until: int = COUNT, timeout_ms: int = 30_000, **kafka: Any
) -> Iterator[tuple[list[Unsupported], SplitReader]]:
    """Yield the list of reasons for leaving the direct transport, and the reader of a range through a server's address."""
    split = Split(TopicPartition(topic, 0), 0, until, 0, -1, (0,), (servers,))
    given = {"max.partition.fetch.bytes": 200_000, **{name.replace("_", "."): value for name, value in kafka.items()}}
    connection = ConnectionOptions(None, servers, Listener(), given, "direct")
    properties, left = consumer_properties(connection, servers, "g"), []
    with open_consumer(connection, properties, split, COLUMNS) as consumer, ExitStack() as opened:
        assert isinstance(consumer, DirectConsumer)

        def fall_back(why: Unsupported, offset: int) -> PartitionConsumer:
            left.append(why)
            return opened.enter_context(open_fallback(connection, properties, split, COLUMNS, why, offset))

        policy = ReadPolicy(poll_timeout_ms=timeout_ms, max_bytes=500_000)
        yield left, SplitReader(split, consumer, policy, lambda: "same", fallback=fall_back)


def check(batches: list[pa.RecordBatch]) -> None:
    """Check that each record was read once and in order."""
    table = pa.Table.from_batches(batches, COLUMNS)
    assert table["offset"].to_pylist() == list(range(COUNT))
    assert [int(value.partition(b" ")[0]) for value in table["value"].to_pylist()] == list(range(COUNT))


@pytest.mark.parametrize("size", [1, 150_000, *seldom(0, 100, 700, 1_000_000)])
def test_cut(zkafka_cluster: LocalCluster, topic: str, size: int) -> None:
    """A read reconnects and continues after a connection is cut at any byte."""
    with (
        FaultyWire(zkafka_cluster.port(0), cut_after(size), faulty=2) as wire,
        direct_reader(topic, wire.address) as (left, reader),
    ):
        check(list(reader.batches()))
    assert not left


@pytest.mark.long
def test_slow(zkafka_cluster: LocalCluster, topic: str) -> None:
    """The read waits for responses that take longer than a poll."""
    with (
        FaultyWire(zkafka_cluster.port(0), in_pieces(200_000, 0.2)) as wire,
        direct_reader(topic, wire.address) as (left, reader),
    ):
        check(list(reader.batches()))
    assert not left


def test_silence(zkafka_cluster: LocalCluster, topic: str) -> None:
    """A broker that is silent for the poll time-out fails the read, and a shorter silence does not."""
    with Wire(zkafka_cluster.port(0)) as wire:
        with direct_reader(topic, wire.address) as (left, reader):
            batches = reader.batches()
            first = [next(batches)]
            wire.silence()
            threading.Timer(1, wire.mend).start()
            check(first + list(batches))
        assert not left
        with direct_reader(topic, wire.address, timeout_ms=3000, client_id="other") as (left, reader):
            batches = reader.batches()
            next(batches)
            wire.silence()
            with pytest.raises(BrokersUnavailable, match="no records from the brokers for 3000 ms"):
                list(batches)


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [(1000, "none"), *seldom((5000, ".*no response in time"))],
)
def test_silence_from_the_begin(zkafka_cluster: LocalCluster, topic: str, timeout_ms: int, error: str) -> None:
    """A server that accepts connections but never answers fails the read at the time-out, not later."""
    with Wire(zkafka_cluster.port(0)) as wire:
        wire.silence()
        begin = time.monotonic()
        with (
            direct_reader(topic, wire.address, timeout_ms=timeout_ms) as (_, reader),
            pytest.raises(BrokersUnavailable, match=f"last error: {error}"),
        ):
            list(reader.batches())
        assert time.monotonic() - begin < timeout_ms / 1000 + 1.9  # opening a connection may take three seconds


def test_request_time_out(zkafka_cluster: LocalCluster, topic: str) -> None:
    """A connection that stays silent for the request time-out is replaced by a new one."""
    with (
        Wire(zkafka_cluster.port(0)) as wire,
        direct_reader(topic, wire.address, socket_timeout_ms=500) as (left, reader),
    ):
        batches = reader.batches()
        first = [next(batches)]
        wire.silence()
        # New connections work again, while the old one stays silent.
        threading.Timer(2, wire.mend).start()
        check(first + list(batches))
        assert not left


@pytest.mark.parametrize("place", [4, *seldom(0, 7)])
def test_damaged_responses(zkafka_cluster: LocalCluster, topic: str, place: int) -> None:
    """After a response that violates its schema, the read asks again and reads each record once."""
    with (
        FaultyWire(zkafka_cluster.port(0), flip(place)) as wire,
        direct_reader(topic, wire.address) as (left, reader),
    ):
        check(list(reader.batches()))
    assert not left


def test_only_damaged_responses(zkafka_cluster: LocalCluster, topic: str) -> None:
    """If no response follows its schema, the read ends at its time-out, and the error names the other transport."""
    with (
        FaultyWire(zkafka_cluster.port(0), flip(4), faulty=1000) as wire,
        direct_reader(topic, wire.address, timeout_ms=3000) as (left, reader),
        pytest.raises(BrokersUnavailable, match=r"no records from the brokers for 3000 ms.* set transport to librdkafka"),
    ):
        list(reader.batches())
    assert not left


def test_damaged_records(zkafka_cluster: LocalCluster, topic: str) -> None:
    """Records with a wrong CRC fail the read; no record of their batch is returned."""
    with FaultyWire(zkafka_cluster.port(0), flip(1_120_000)) as wire, direct_reader(topic, wire.address) as (_, reader):
        found: list[int] = []
        with pytest.raises(
            ClusterStateError, match=r"\[KAFKA_ERROR\] .*CORRUPT_MESSAGE \(record batch at offset \d+"
        ) as caught:
            found.extend(offset for batch in reader.batches() for offset in batch.column(0).to_pylist())
    damaged = re.search(r"record batch at offset (\d+)", caught.value.message)
    assert damaged is not None
    assert 0 < len(found) <= int(damaged[1])
    assert found == list(range(len(found)))


def test_connections_are_used_again(zkafka_cluster: LocalCluster, topic: str) -> None:
    """Consecutive reads share one connection to a broker."""
    with Wire(zkafka_cluster.port(0)) as wire:
        for _ in range(3):
            with direct_reader(topic, wire.address) as (left, reader):
                check(list(reader.batches()))
                assert not left
        assert len(wire.greetings) == 1


def test_a_kept_connection_that_was_cut(zkafka_cluster: LocalCluster, topic: str) -> None:
    """A kept connection that was cut while idle is replaced."""
    with Wire(zkafka_cluster.port(0)) as wire:
        for _ in range(2):
            with direct_reader(topic, wire.address) as (left, reader):
                check(list(reader.batches()))
                assert not left
            wire.cut()
            wire.mend()


def test_left_early(zkafka_cluster: LocalCluster, topic: str) -> None:
    """An unfinished read does not affect the next one."""
    servers = zkafka_cluster.bootstrap_servers.split(",")[0]
    for _ in range(3):
        with direct_reader(topic, servers) as (_, reader):
            assert next(reader.batches()).column(0)[0].as_py() == 0
    with direct_reader(topic, servers) as (left, reader):
        check(list(reader.batches()))
        assert not left
