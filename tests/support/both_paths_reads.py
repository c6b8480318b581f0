"""Reads of a range of a topic with both transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.records import COLUMNS
from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.read.split_reader import Identity, ReadPolicy, SplitReader
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.select import open_consumer
from tests.support.both_paths import connection, same, unnumbered

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


TYPES = {name: types[0] for name, types in COLUMNS.items()}


def schema(*names: str, **kinds: pa.DataType) -> pa.Schema:
    """Return columns by name with default types, followed by columns with other types."""
    return pa.schema([*((name, TYPES[name]) for name in names), *kinds.items()])


ALL = schema(*TYPES)
VALUE = schema("offset", "value")
PATIENT = ReadPolicy(poll_timeout_ms=20_000)


@dataclass(frozen=True)
class Range:
    """A range of a topic, and how to read it."""

    topic: str
    until: int
    start: int = 0
    columns: pa.Schema = ALL
    policy: ReadPolicy = PATIENT
    identity: Identity = "same"
    servers: str | None = None


def read_batches(
    cluster: LocalCluster, wanted: Range, kafka: Mapping[str, Any], transport: Transport
) -> list[pa.RecordBatch]:
    """Return all batches of a range, read with one transport."""
    servers = wanted.servers or cluster.bootstrap_servers
    split = Split(TopicPartition(wanted.topic, 0), wanted.start, wanted.until, 0, 0, (0,), (servers,))
    how = connection(servers, transport, kafka)
    with open_consumer(how, consumer_properties(how, servers, "g"), split, wanted.columns) as consumer:
        reader = SplitReader(split, consumer, wanted.policy, lambda: wanted.identity)
        found = list(reader.batches())
        if not reader.is_compared:
            reader.compare()
        assert isinstance(consumer, DirectConsumer) == (transport == "direct")
        return found


def as_table(columns: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == columns
    return pa.Table.from_batches(batches, columns).combine_chunks()


class Read:
    """Reads a range of a cluster's topic with both transports."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def __call__(self, topic: str, until: int, shown: Callable[[Any], Any] = unnumbered, **how: Any) -> Any:
        """Return the table or the error. `how` has fields of `Range`, and `kafka` with properties of librdkafka."""
        kafka = how.pop("kafka", {})
        wanted = Range(topic, until, **how)
        return same(lambda transport: as_table(wanted.columns, self.batches(wanted, transport, kafka)), shown)

    def batches(self, wanted: Range, transport: Transport, kafka: Mapping[str, Any] | None = None) -> list[pa.RecordBatch]:
        return read_batches(self._cluster, wanted, kafka or {}, transport)
