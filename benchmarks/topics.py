"""Filled topics, and their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cluster import BenchCluster, Topic
from benchmarks.shapes import EVEN, PARTITIONS, SHAPES, Layout, Record, Shape, facts

PRODUCER = {
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "acks": "all",
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 512 * 1024,
}
_QUEUED_RECORDS = 100_000
_QUEUED_BYTES = 256 * 1024**2
_KEPT_BYTES = 256 * 1024**2


def filled(cluster: BenchCluster, shape: str, scale: float, layout: Layout = EVEN) -> Topic:
    """Return the topic of a shape at a scale, filled if it does not exist yet."""
    kind = SHAPES[shape]
    records = kind.records(scale)
    name = f"bench-{shape}-{records}" + ("" if layout == EVEN else f"-{layout.name}")
    return cluster.filled(name) or _fill(cluster, name, kind, records, layout)


def target(cluster: BenchCluster, shape: str, written_bytes: int = 0) -> str:
    """Return the topic for written records of a shape, which keeps about 2 GiB, or `written_bytes` of records if more."""
    kept = max(_KEPT_BYTES, -(-2 * written_bytes // PARTITIONS))  # twice the bytes: batches and records have headers
    name = f"bench-target-{shape}" + (f"-{kept}" if kept > _KEPT_BYTES else "")
    if not cluster.has_topic(name):
        cluster.create_topic(name, retention_bytes=str(kept), segment_bytes=str(64 * 1024**2))
    return name


def ends(cluster: BenchCluster, topic: str, partitions: int = PARTITIONS) -> list[int]:
    """Return the end of each partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "bench"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in range(partitions)]
    finally:
        consumer.close()


def _fill(cluster: BenchCluster, name: str, shape: Shape, records: int, layout: Layout) -> Topic:
    cluster.create_topic(name, layout.partitions, retention_ms="-1")
    pool, times = shape.pool(), records // shape.pool_records
    producer = Producer({**PRODUCER, "bootstrap.servers": cluster.bootstrap_servers, "compression.type": shape.codec})
    # produce_batch sends no headers, and lets the partitioner choose.
    send = _send_one_by_one if shape.has_headers or layout.turns else _send_together
    messages = [_message(record) for record in pool]
    for message, partition in zip(messages, cycle(layout.turns), strict=False):
        message["partition"] = partition
    queued = min(_QUEUED_RECORDS, _QUEUED_BYTES * len(pool) // sum(len(record.value) for record in pool))
    for _ in range(times):
        send(producer, name, messages)
        while len(producer) > queued:
            producer.poll(0.01)
    if producer.flush(120):
        raise TimeoutError(f"{name} is not filled after 120 s")
    topic = Topic(name, shape.name, facts(pool, times), ends(cluster, name, layout.partitions))
    if sum(topic.ends) != records:
        raise ValueError(f"{name} holds {sum(topic.ends)} records, not {records}")
    wanted = Counter(message.get("partition") for message in messages)
    if layout.turns and topic.ends != [wanted[partition] * times for partition in range(layout.partitions)]:
        raise ValueError(f"the records of {name} are not laid out as {layout.name}: {topic.ends[:10]}")
    cluster.note_filled(topic)
    return topic


def _message(record: Record) -> dict[str, Any]:
    message = {"key": record.key, "value": record.value}
    return message if record.headers is None else {**message, "headers": record.headers}


def _send_together(producer: Producer, topic: str, messages: Sequence[dict[str, Any]]) -> None:
    producer.produce_batch(topic, messages)


def _send_one_by_one(producer: Producer, topic: str, messages: Sequence[dict[str, Any]]) -> None:
    for message in messages:
        producer.produce(topic, **message)
