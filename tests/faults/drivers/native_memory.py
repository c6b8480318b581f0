"""Driver that reads and writes with the compiled code until standard input ends, then prints counts as JSON.

For each line of standard input, it prints a line once all threads have finished one more round of work. Arguments: the
brokers, a topic to read, one to write to, and one to read while it is deleted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Listener, Split
from pyspark_zkafka.model.records import COLUMNS
from pyspark_zkafka.model.rows import outgoing
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records.native import library
from pyspark_zkafka.records.native.record_encoder import hash_keys
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.records.select import open_consumer, open_producer

ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])
# The broker limits the size of one request of librdkafka.
SMALL = {"delivery.timeout.ms": 3000, "batch.size": 5000}
HEADERS = ALL.field("headers").type


def frame(rows: int, size_bytes: int) -> pa.RecordBatch:
    """Return a slice with all columns, so that no column starts at the beginning of its buffers."""
    columns = {
        "key": pa.array([b"%d" % n if n % 3 else None for n in range(rows + 3)], pa.binary()),
        "value": pa.array([b"v" * size_bytes if n % 5 else None for n in range(rows + 3)], pa.binary()),
        "headers": pa.array([[("h", b"%d" % n)] * (n % 3) or None for n in range(rows + 3)], HEADERS),
    }
    return pa.record_batch(list(columns.values()), list(columns)).slice(3)


class Work:
    """Reads and writes, and counts of their outcomes."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._connection = ConnectionOptions(None, servers, Listener(), SMALL, "direct")
        self.counts: Counter[str] = Counter()

    def read(self, topic: str, until: int) -> None:
        split = Split(TopicPartition(topic, 0), 0, until, 0, 0, (0,), (self._servers,))
        policy = ReadPolicy(poll_timeout_ms=2000, max_records=500)
        reading = ConnectionOptions(None, self._servers, Listener(), {}, "direct")
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
                    producer.send(rows, partitions)
            producer.flush()
            self.counts[f"written {size_bytes}"] += producer.acknowledged


class Rounds(threading.Thread):
    """A thread that repeats one kind of work; `finished` is set after each round."""

    def __init__(self, work: Work, stopped: threading.Event, act: Callable[[], None]) -> None:
        super().__init__()
        self._work, self._stopped, self._act = work, stopped, act
        self.finished = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._act()
            except ZKafkaError as error:
                self._work.counts[error.condition] += 1
            self.finished.set()


def main(servers: str, read: str, written: str, doomed: str) -> None:
    work, stopped = Work(servers), threading.Event()
    acts: list[Callable[[], None]] = [
        lambda: work.read(read, 20_000),
        lambda: work.read(doomed, 1_000_000),
        lambda: work.write(written, 100),
        lambda: work.write(written, 20_000),  # larger than the topic allows
    ]
    threads = [Rounds(work, stopped, act) for act in acts]
    for thread in threads:
        thread.start()
    try:
        for line in sys.stdin:
            for thread in threads:
                thread.finished.clear()
            for thread in threads:
                assert thread.finished.wait(60), "a thread has died, or takes more than a minute"
            sys.stdout.write(line)
            sys.stdout.flush()
    finally:
        stopped.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"described": library.describe(), **work.counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
