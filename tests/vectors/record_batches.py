"""Recorder of record_batches.json: fetch responses of Kafka 3.9.1, and librdkafka's records of the same logs.

Recipe, with the package's environment and Java 17, from the root of this repository::

    python -m tests.vectors.record_batches > tests/vectors/record_batches.json

The logs are written by Kafka's Java producer (``RecordBatchProducer.java``) and by librdkafka's: with every codec, with
headers, in transactions of which some are aborted, and with the broker's timestamps. One log is compacted.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jars import compiled_program, find_java
from pyspark_zkafka.testing.spec import jvm_command

VERSION = "3.9.1"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
}
FAST = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "500", "log.retention.ms": "-1"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
TIME_MS = 1_700_000_000_000
_FETCH, _FETCH_VERSION = 1, 4
_PATIENCE_S = 60


def record(cluster: LocalCluster) -> list[dict[str, Any]]:
    """Return the log of each topic, as fetched and as read."""
    servers = cluster.bootstrap_servers
    for codec in CODECS:
        cluster.create_topic(f"java-{codec}")
        cluster.create_topic(f"librdkafka-{codec}")
    cluster.create_topic("transactions")
    cluster.create_topic("append-time", config=APPEND_TIME)
    cluster.create_topic("compacted", config=COMPACTING)
    produce_by_java(servers)
    for codec in CODECS:
        produce(servers, f"librdkafka-{codec}", 20, {"compression.type": codec})
    produce(servers, "append-time", 10)
    fill_compacted(servers)
    topics = [*(f"{client}-{codec}" for client in ("java", "librdkafka") for codec in CODECS)]
    return [logged(servers, topic) for topic in [*topics, "transactions", "append-time", "compacted"]]


def produce_by_java(servers: str) -> None:
    java = find_java()
    classpath, main = compiled_program(java, VERSION, Path(__file__).with_name("RecordBatchProducer.java"))
    command = jvm_command(java, 128, [], main, [servers])
    subprocess.run(command, env={**os.environ, "CLASSPATH": classpath}, check=True, stdout=sys.stderr)


def produce(servers: str, topic: str, count: int, more: Mapping[str, Any] | None = None) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 100, **(more or {})})
    for n in range(count):
        producer.produce(
            topic,
            value=b"" if n % 7 == 6 else b"a value that repeats; " * (n % 5),
            key=b"%d" % n if n % 3 else None,
            headers=[("h", b"%d" % n), ("none", None)] if n % 4 == 0 else None,
            timestamp=TIME_MS + 700 * (n % 5),
        )
        if n % 8 == 7:
            producer.flush(_PATIENCE_S)
    producer.flush(_PATIENCE_S)


def fill_compacted(servers: str) -> None:
    """Write the same keys until the cleaner has left gaps."""
    deadline = time.monotonic() + _PATIENCE_S
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 100})
    while time.monotonic() < deadline:
        for n in range(24):
            producer.produce("compacted", b"v%d" % n, b"%d" % (n if n % 5 == 0 else n % 3))
        producer.flush(_PATIENCE_S)
        time.sleep(1)
        offsets = [message.offset() for message in read(servers, "compacted", "read_uncommitted")]
        if len(offsets) < offsets[-1] - offsets[0]:
            return
    raise TimeoutError("the log was not compacted")


def logged(servers: str, topic: str) -> dict[str, Any]:
    records, aborted = fetch_all(servers, topic)
    every, committed = (read(servers, topic, level) for level in ("read_uncommitted", "read_committed"))
    return {
        "topic": topic,
        "records": base64.b64encode(zlib.compress(records, 9)).decode(),
        "aborted": aborted,
        "rows": [row(message) for message in every],
        "committed_offsets": [message.offset() for message in committed],
    }


def row(message: Message) -> list[Any]:
    headers = [[name, text(value)] for name, value in message.headers() or ()]
    return [message.offset(), text(message.key()), text(message.value()), *message.timestamp(), headers]


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def read(servers: str, topic: str, isolation_level: str) -> list[Message]:
    """Return all messages of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(_PATIENCE_S)
        assert message is not None
        if message.error() is None:
            found.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found


def fetch_all(servers: str, topic: str) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the log of partition 0 and its aborted transactions, joined from one response per segment."""
    records, aborted, offset = b"", set(), 0
    while more := fetch(servers, topic, offset):
        records += more[0]
        aborted |= set(more[1])
        offset = end_of(more[0])
    return records, sorted(aborted, key=lambda transaction: transaction[1])


def end_of(records: bytes) -> int:
    """Return the offset after the last batch."""
    at = offset = 0
    while at < len(records):
        base, size = struct.unpack_from(">qi", records, at)
        (delta,) = struct.unpack_from(">i", records, at + 23)
        at, offset = at + 12 + size, base + delta + 1
    return offset


def fetch(servers: str, topic: str, offset: int) -> tuple[bytes, list[tuple[int, int]]] | None:
    """Return the response to a Fetch request for partition 0 from an offset; None at the end of the log."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    head = struct.pack(">hhih", _FETCH, _FETCH_VERSION, 1, -1)
    body = struct.pack(">iiiibi", -1, 500, 1, 1 << 24, 1, 1) + name + struct.pack(">iiqi", 1, 0, offset, 1 << 24)
    host, port = servers.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), _PATIENCE_S) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(head + body)) + head + body)
        (size,) = struct.unpack(">i", answers.read(4))
        answer = answers.read(size)
    at = 4 + 4 + 4 + len(name) + 4  # correlation id, throttle time, topics, partitions
    _, error, _, _, count = struct.unpack_from(">ihqqi", answer, at)
    assert error == 0, error
    at += struct.calcsize(">ihqqi")
    aborted = [struct.unpack_from(">qq", answer, at + 16 * n) for n in range(max(count, 0))]
    at += 16 * len(aborted)
    (size,) = struct.unpack_from(">i", answer, at)
    return (answer[at + 4 : at + 4 + size], [(producer, first) for producer, first in aborted]) if size > 0 else None


def main() -> None:
    with LocalCluster(brokers=1, broker_config=FAST) as cluster:
        logs = record(cluster)
    head = {
        "tool": f"Kafka {VERSION}, its Java producer, and librdkafka {confluent_kafka.libversion()[0]}",
        "recipe": "python -m tests.vectors.record_batches",
        "columns": {
            "records": "a fetch response's record batches (base64 of zlib)",
            "aborted": "producer and first offset",
            "rows": "offset, key, value, type of timestamp (1 create, 2 append), timestamp, headers; bytes as latin-1",
        },
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    rows = ",\n".join(f"    {json.dumps(log)}" for log in logs)
    sys.stdout.write("\n".join(["{", *lines, '  "logs": [', rows, "  ]", "}"]) + "\n")


if __name__ == "__main__":
    main()
