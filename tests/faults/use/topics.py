"""Topics of a schedule of use: their records, and the changes made to them."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from tests.support.topics import arrived, configure

if TYPE_CHECKING:
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["BROKER_CONFIG", "Log", "Topics"]

BROKER_CONFIG = {"log.cleaner.backoff.ms": "200"}
"""Broker settings that make compaction fast enough for a schedule."""

_BROKER = 0
_PAUSE_S = 1.2
_MOST_PARTITIONS = 4
_KEYS = 3
_COMPACTING = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "200"}
_COMPACTION_S = 30.0


class Log(NamedTuple):
    """A partition in one life of its topic, between two deletions."""

    topic: str
    life: int
    partition: int


class Topics:
    """The topics ``a`` and ``b``, under names that no other schedule has.

    `on_loss` is called with each topic that loses records, and with its life if the topic itself is deleted.

    Attributes
    ----------
    lives : dict
        How often each topic was deleted.
    records : dict
        The values of all records by log and offset; `ends` has the ends of the logs, `low` their starts.
    """

    def __init__(self, cluster: LocalCluster, on_loss: Callable[[str, int | None], None]) -> None:
        self.cluster = cluster
        self.prefix = f"use-{secrets.token_hex(4)}"
        self.lives = {"a": 0, "b": 0}
        self.partitions: dict[str, int] = {}
        self.records: dict[Log, dict[int, bytes]] = defaultdict(dict)
        self.ends: dict[Log, int] = defaultdict(int)
        self.low: dict[Log, int] = defaultdict(int)
        self.has_paused = False
        self._on_loss = on_loss
        self._serial = 0
        self._pauses: list[threading.Thread] = []

    def name(self, topic: str) -> str:
        """Return the topic's name in Kafka."""
        return f"{self.prefix}-{topic}"

    def subscription(self, topics: str) -> dict[str, str]:
        """Return the option that subscribes to the topics of a `Use`."""
        a, b = self.name("a"), self.name("b")
        return {
            "a": {"subscribe": a},
            "ab": {"subscribe": f"{a},{b}"},
            "pattern": {"subscribePattern": f"{self.prefix}-[ab]"},
            "assign": {"assign": json.dumps({a: [0]})},
        }[topics]

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition in the present life of its topic."""
        return Log(topic, self.lives[topic], partition)

    def log_of(self, partition: TopicPartition) -> Log:
        """Return the same log by its partition in Kafka."""
        return self.log(partition.topic.removeprefix(f"{self.prefix}-"), partition.partition)

    def exists(self, log: Log) -> bool:
        """Return True for a partition of a topic that has not been deleted since."""
        return log.life == self.lives[log.topic] and log.partition < self.partitions.get(log.topic, 0)

    def close(self) -> None:
        """Delete the topics."""
        self.end_pauses()
        for topic in self.partitions:
            self.cluster.delete_topic(self.name(topic))

    def produce(self, topic: str, count: int, in_transaction: bool) -> None:
        """Write records to the partitions in turn; a transaction leaves a gap after them."""
        if topic not in self.partitions:
            return
        numbers = [self._serial + n for n in range(count)]
        self._serial += count
        parts = [n % self.partitions[topic] for n in numbers]
        values = [f"{topic}/{self.lives[topic]}/{p}/{n}".encode() for n, p in zip(numbers, parts, strict=True)]
        if in_transaction:
            found = self._transact(self.name(topic), parts, values)
        else:
            columns = zip(numbers, parts, values, strict=True)
            given = [{"key": b"%d" % (n % _KEYS), "partition": p, "value": value} for n, p, value in columns]
            found = self.cluster.produce(self.name(topic), given)
        for p in set(parts):
            log = self.log(topic, p)
            mine = [value for value, part in zip(values, parts, strict=True) if part == p]
            self.records[log] |= dict(zip(found[p], mine, strict=True))
            self.ends[log] = max(found[p]) + 1

    def grow(self, topic: str) -> None:
        """Add a partition."""
        if topic in self.partitions and self.partitions[topic] < _MOST_PARTITIONS:
            self.partitions[topic] += 1
            self.cluster.add_partitions(self.name(topic), self.partitions[topic])

    def recreate(self, topic: str, partitions: int, is_reloaded: bool) -> None:
        """Delete and recreate a topic, and perhaps fill each log at least as far as the longest was before."""
        before = {n: self.ends[self.log(topic, n)] for n in range(self.partitions.get(topic, 0))}
        self.delete(topic)
        self.create(topic, partitions)
        if is_reloaded:
            self.produce(topic, max(before.values(), default=0) * partitions + 1, False)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        if self.partitions.pop(topic, None) is None:
            return
        self.cluster.delete_topic(self.name(topic))
        self._on_loss(topic, self.lives[topic])
        self.lives[topic] += 1

    def truncate(self, topic: str) -> None:
        """Delete half of the records, as retention does."""
        logs = {n: self.log(topic, n) for n in range(self.partitions.get(topic, 0))}
        before = {n: (self.low[log] + self.ends[log] + 1) // 2 for n, log in logs.items() if self.ends[log] > self.low[log]}
        if before:
            self.cluster.delete_records(self.name(topic), before)
            self.low |= {logs[n]: offset for n, offset in before.items()}
            self._on_loss(topic, None)

    def compact(self, topic: str) -> None:
        """Write until compaction has removed records, and forget the removed ones."""
        if topic not in self.partitions:
            return
        for setting, value in {**_COMPACTING, "cleanup.policy": "compact"}.items():
            self._configure(topic, setting, value)
        deadline = time.monotonic() + _COMPACTION_S
        while not self._forget_removed(topic):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name(topic)} was not compacted")
            self.produce(topic, 2 * _KEYS * self.partitions[topic], False)
            time.sleep(0.5)
        self._configure(topic, "cleanup.policy", "delete")
        self._configure(topic, "segment.ms", "600000")
        time.sleep(0.5)  # the cleaner may still be running
        self._forget_removed(topic)

    def _configure(self, topic: str, setting: str, value: str) -> None:
        configure(self.cluster.bootstrap_servers, ResourceType.TOPIC, self.name(topic), setting, value)

    def _forget_removed(self, topic: str) -> bool:
        """Forget records that are no longer in the log. Returns False if it has all of them."""
        left = arrived(self.cluster.bootstrap_servers, self.name(topic), self.partitions[topic])
        removed = 0
        for p, rows in left.items():
            offsets, log = {row[0] for row in rows}, self.log(topic, p)
            kept = {n: value for n, value in self.records[log].items() if n in offsets or n < self.low[log]}
            removed += len(self.records[log]) - len(kept)
            self.records[log] = kept
        return removed > 0

    def pause(self, server: str) -> None:
        """Silence a server for a moment while the schedule continues."""
        which = _BROKER if server == "broker" else "zookeeper"
        self.has_paused = True
        self.cluster.pause(which)

        def resume() -> None:
            time.sleep(_PAUSE_S)
            self.cluster.resume(which)

        self._pauses.append(threading.Thread(target=resume))
        self._pauses[-1].start()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self.cluster.create_topic(self.name(topic), partitions)
        self.partitions[topic] = partitions

    def _transact(self, topic: str, parts: Sequence[int], values: Sequence[bytes]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        servers = self.cluster.bootstrap_servers
        with Producer({"bootstrap.servers": servers, "transactional.id": f"{self.prefix}-{self._serial}"}) as producer:
            producer.init_transactions(30)
            producer.begin_transaction()
            for p, value in zip(parts, values, strict=True):
                producer.produce(topic, value, b"key", p, on_delivery=lambda _, m: found[m.partition()].append(m.offset()))
            producer.flush(30)
            producer.commit_transaction(30)
        return found

    def end_pauses(self) -> None:
        """Wait until all servers are ready."""
        for pause in self._pauses:
            pause.join()
        if self._pauses:
            self.cluster.wait_ready()
        self._pauses = []
