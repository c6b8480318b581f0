"""Writes to topics with both transports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_zkafka.model.rows import outgoing
from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.records.select import open_producer
from tests.support.both_paths import connection, outcome, same, unnumbered
from tests.support.topics import KEPT, arrived

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def send(
    servers: str,
    kafka: Mapping[str, Any],
    transport: Transport,
    topic: str,
    batches: Sequence[tuple[pa.RecordBatch, Sequence[int]]],
) -> int:
    """Return the acknowledged rows of a producer that sends batches, given the partition of each row."""
    how = connection(servers, transport, kafka)
    with open_producer(how, producer_properties(how, servers)) as producer:
        is_direct = transport == "direct" and kafka.get("enable.idempotence", True)
        assert isinstance(producer._sender, DirectSender) == is_direct
        for batch, partitions in batches:
            for rows in outgoing(batch, topic):
                producer.send(rows, np.array(partitions, dtype=np.int32))
        producer.flush()
        return producer.acknowledged


class Write:
    """Writes with both transports, each to a new topic, and reads the records that arrived."""

    def __init__(self, cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
        self.servers = cluster.bootstrap_servers
        self._new_topic = new_topic

    def __call__(
        self,
        batches: Sequence[tuple[pa.RecordBatch, Sequence[int]]],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        **kafka: Any,
    ) -> tuple[Any, dict[int, list[Any]]]:
        """Return the number of acknowledged rows or the error, and the arrived records."""

        def act(transport: Transport) -> Any:
            topic = self._new_topic(partitions=partitions, config={**KEPT, **(config or {})})
            sent = outcome(lambda _: send(self.servers, kafka, transport, topic, batches), transport)
            return sent, {p: [row[1:] for row in rows] for p, rows in arrived(self.servers, topic, partitions).items()}

        return same(act, lambda found: (unnumbered(found[0]), timeless(found[1])))


def timeless(arrived: Mapping[int, Sequence[Any]]) -> dict[int, list[Any]]:
    """Return records of `arrived`, with 'now' for timestamps in the last hour."""
    now = time.time() * 1000
    return {
        p: [(*row[:-1], "now" if now - row[-1] < 3_600_000 else row[-1]) for row in rows] for p, rows in arrived.items()
    }


def frame(**columns: Any) -> pa.RecordBatch:
    """Return a batch. Values that are not Arrow arrays become binary."""
    arrays = [c if isinstance(c, pa.Array) else pa.array(c, pa.binary()) for c in columns.values()]
    return pa.record_batch(arrays, list(columns))


def moments(*milliseconds: int | None) -> pa.Array:
    return pa.array([None if ms is None else ms * 1000 for ms in milliseconds], pa.timestamp("us", tz="UTC"))
