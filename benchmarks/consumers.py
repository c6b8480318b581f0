"""Processes outside Spark that consume and discard: the upper limit of librdkafka and confluent-kafka.

Run as a module: ``python -m benchmarks.consumers SERVERS`` reads one JSON request per line, and answers each.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys

from confluent_kafka import Consumer, Message, TopicPartition

_BATCH = 10_000
_PROPERTIES = {
    "group.id": "bench-limit",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "fetch.message.max.bytes": 8 * 1024**2,
    "fetch.max.bytes": 64 * 1024**2,
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 64 * 1024,
}


class Consumers:
    """One consuming process per core."""

    def __init__(self, cores: int, servers: str) -> None:
        command = [sys.executable, "-m", "benchmarks.consumers", servers]
        pipe = subprocess.PIPE
        self._processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(cores)]

    def consume(self, topic: str, ends: list[int]) -> tuple[int, int]:
        """Return records and bytes of values; each process consumes its share of the partitions up to their ends."""
        shares = [dict(list(enumerate(ends))[n :: len(self._processes)]) for n in range(len(self._processes))]
        for process, share in zip(self._processes, shares, strict=True):
            process.stdin.write(json.dumps({"topic": topic, "ends": share}) + "\n")
            process.stdin.flush()
        found = [json.loads(process.stdout.readline()) for process in self._processes]
        return sum(records for records, _ in found), sum(size for _, size in found)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate()


def consumed(servers: str, topic: str, ends: dict[int, int]) -> tuple[int, int]:
    """Return records and bytes of values up to the ends, without accessing the messages."""
    consumer = Consumer({**_PROPERTIES, "bootstrap.servers": servers})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    wanted, records, size = sum(ends.values()), 0, 0
    while records < wanted:
        messages = consumer.consume(min(_BATCH, wanted - records), 0.1)
        records += len(messages)
        size += sum(map(len, messages))
        if any(map(Message.error, messages)):
            raise RuntimeError(next(m.error() for m in messages if m.error()))
    consumer.close()
    return records, size


def main(servers: str) -> None:
    """Answer requests until the input ends."""
    gc.disable()
    for line in sys.stdin:
        request = json.loads(line)
        ends = {int(partition): end for partition, end in request["ends"].items()}
        sys.stdout.write(json.dumps(consumed(servers, request["topic"], ends)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
