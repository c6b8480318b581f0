"""Produces small records at a steady rate: ``python -m benchmarks.steady_producer SERVERS TOPIC RATE SECONDS``.

At the end it writes the number of produced records.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

from benchmarks.shapes import POOL, SHAPES

_SLOT_S = 0.005


def main(servers: str, topic: str, rate: str, seconds: str) -> None:
    """Produce the due records every 5 ms."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "partitioner": "murmur2_random", "acks": "all"})
    producer.list_topics(topic, timeout=30)
    pool = [{"key": record.key, "value": record.value} for record in SHAPES["small"].pool()]
    total, sent, begin = int(int(rate) * float(seconds)), 0, time.monotonic()
    while sent < total:
        due = min(int((time.monotonic() - begin) * int(rate)), total)
        producer.produce_batch(topic, [pool[number % POOL] for number in range(sent, due)])
        sent = due
        producer.poll(_SLOT_S)
    if producer.flush(30):
        raise TimeoutError("not all records were acknowledged")
    sys.stdout.write(f"{sent}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
