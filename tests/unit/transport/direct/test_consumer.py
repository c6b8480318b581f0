"""The direct transport's consumer of a partition on a broker that answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.direct.client import DirectClient
from pyspark_zkafka.transport.direct.consumer import DirectConsumer
from tests.support.fake_partition import TP, FakePartition, records
from tests.support.scripted_broker import ScriptedBroker

SCHEMA = pa.schema([("offset", pa.int64())])


@contextmanager
def consumer(partition: FakePartition) -> Iterator[DirectConsumer]:
    """A consumer at offset 0."""
    with ScriptedBroker(partition) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        split = Split(TP, 0, 20, 0, 1, (0,), (server,))
        with DirectClient({"bootstrap.servers": server}) as client, DirectConsumer(client, split, SCHEMA) as opened:
            opened.seek(0)
            yield opened


def test_end_of_a_range_in_a_batch() -> None:
    """Records behind the end of a range stay for a later poll with another end."""
    with consumer(FakePartition(records(0, 10), records(10, 20))) as opened:
        assert opened.poll(100, 1000, 5, 5).last == 4
        assert opened.poll(100, 1000, 5, 5).first is None
        assert opened.poll(100, 1000, 20, 5).last == 9
        assert opened.poll(100, 1000, 20, 5).last == 19
        assert opened.take()["offset"].to_pylist() == list(range(20))
