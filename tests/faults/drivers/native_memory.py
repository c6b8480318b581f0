"""Reads and writes by a given build of the compiled path until standard input ends; prints what became of it as JSON.

Arguments: the library, the brokers, a topic to read, one to write to, one to read while it is deleted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from pyspark_zkafka.batch.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Listener, Split
from pyspark_zkafka.protocol.records import COLUMNS
from pyspark_zkafka.protocol.rows import outgoing
from pyspark_zkafka.transport.native import library
from pyspark_zkafka.transport.native.hashes import hash_keys
from pyspark_zkafka.transport.producer import producer_properties
from pyspark_zkafka.transport.select import open_consumer, open_producer

ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])
# The broker's limit is on what librdkafka sends at a time.
SMALL = {"delivery.timeout.ms": 3000, "batch.size": 5000}
HEADERS = ALL.field("headers").type


def frame(rows: int, size_bytes: int) -> pa.RecordBatch:
    """A slice with all columns, so that nothing begins at the beginning of its buffers."""
    columns = {
        "key": pa.array([b"%d" % n if n % 3 else None for n in range(rows + 3)], pa.binary()),
        "value": pa.array([b"v" * size_bytes if n % 5 else None for n in range(rows + 3)], pa.binary()),
        "headers": pa.array([[("h", b"%d" % n)] * (n % 3) or None for n in range(rows + 3)], HEADERS),
    }
    return pa.record_batch(list(columns.values()), list(columns)).slice(3)


class Work:
    """What the threads do, and count."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._connection = Connection(None, servers, Listener(), SMALL, True)
        self.counts: Counter[str] = Counter()

    def read(self, topic: str, until: int) -> None:
        split = Split(TopicPartition(topic, 0), 0, until, 0, 0, (0,), (self._servers,))
        policy = ReadPolicy(poll_timeout_ms=2000, max_records=500)
        reading = Connection(None, self._servers, Listener(), {}, True)
        properties = consumer_properties(reading, self._servers, "g")
        with open_consumer(reading, properties, split, ALL) as consumer:
            for batch in SplitReader(split, consumer, policy, lambda: "same").batches():
                batch.validate(full=True)
                self.counts[f"read {topic}"] += batch.num_rows

    def write(self, topic: str, size_bytes: int) -> None:
        batch = frame(500, size_bytes)
        partitions = (hash_keys("murmur2", batch.column("key")) & 1).astype(np.int32)
        with open_producer(self._connection, producer_properties(self._connection, self._servers)) as producer:
            for rows in outgoing(batch, topic):
                for _ in range(4):
                    producer.send(rows, partitions, 2)
            producer.flush()
            self.counts[f"written {size_bytes}"] += sum(producer.delivered(topic).values())


def repeat(work: Work, stopped: threading.Event, act: Callable[[], None]) -> None:
    while not stopped.is_set():
        try:
            act()
        except ZKafkaError as error:
            work.counts[error.condition] += 1


def main(built: str, servers: str, read: str, written: str, doomed: str) -> None:
    library._built = lambda: Path(built)
    work, stopped = Work(servers), threading.Event()
    acts: list[Callable[[], None]] = [
        lambda: work.read(read, 20_000),
        lambda: work.read(doomed, 1_000_000),
        lambda: work.write(written, 100),
        lambda: work.write(written, 20_000),  # more than a record may have there
    ]
    threads = [threading.Thread(target=repeat, args=(work, stopped, act)) for act in acts]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"described": library.describe(), **work.counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
