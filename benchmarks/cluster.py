"""The cluster shared by all engines, which keeps running between runs, with its topics filled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.shapes import PARTITIONS, SHAPES, Facts
from pyspark_zkafka.testing.detached import DetachedCluster, bring_down, bring_up, running_clusters

NAME = "bench"
KAFKA = "3.9.1"
_OPTIONS = {
    "brokers": 3,
    "kafka_version": KAFKA,
    "broker_heap_mb": 512,
    # Users' brokers compile with C2, too.
    "broker_jvm_options": ["-XX:TieredStopAtLevel=4"],
    # Written records are measured and read once; afterwards they only fill the disk.
    "broker_config": {"log.retention.check.interval.ms": "5000", "log.segment.delete.delay.ms": "1000"},
}
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Topic:
    """A filled topic: its shape's name, facts about its records, and the end of each partition."""

    name: str
    shape: str
    facts: Facts
    ends: list[int]

    @property
    def has_headers(self) -> bool:
        """Whether the records have headers."""
        return SHAPES[self.shape].has_headers


class BenchCluster:
    """A running cluster: what clients need, and the filled topics."""

    def __init__(self, state: DetachedCluster) -> None:
        self.zookeeper_connect = state.zookeeper_connect
        self.bootstrap_servers = state.bootstrap_servers
        self.pid = state.pid
        self._filled = Path(state.folder) / "filled.json"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def filled(self, name: str) -> Topic | None:
        """Return a topic filled earlier, or None."""
        found = self._all_filled().get(name)
        return None if found is None else Topic(**{**found, "facts": Facts(**found["facts"])})

    def note_filled(self, topic: Topic) -> None:
        """Record a filled topic."""
        self._filled.write_text(json.dumps({**self._all_filled(), topic.name: asdict(topic)}), encoding="utf-8")

    def _all_filled(self) -> dict[str, dict]:
        return json.loads(self._filled.read_text(encoding="utf-8")) if self._filled.exists() else {}

    def create_topic(self, name: str, partitions: int = PARTITIONS, **config: str) -> None:
        """Create a topic, replacing an existing one. Returns once each partition has a leader."""
        self.delete_topic(name)
        wanted = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        _until(lambda: self._created(wanted))
        _until(lambda: self._led(name, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic if it exists."""
        with suppress(KafkaException):
            self.admin.delete_topics([name])[name].result(_TIMEOUT_S)

    def has_topic(self, name: str) -> bool:
        """Return whether a topic exists."""
        return name in self.admin.list_topics(timeout=_TIMEOUT_S).topics

    def _created(self, topic: NewTopic) -> bool:
        try:
            self.admin.create_topics([topic])[topic.topic].result(_TIMEOUT_S)
        except KafkaException:
            return False  # its predecessor is being deleted
        return True

    def _led(self, name: str, partitions: int) -> bool:
        """Return whether each broker reports a leader for every partition: a new client asks its first broker."""
        servers = self.bootstrap_servers.split(",")
        return all(_leaders(AdminClient({"bootstrap.servers": server}), name) == partitions for server in servers)


def _leaders(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
    return 0 if found is None else sum(p.leader >= 0 for p in found.partitions.values())


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the cluster does not settle")
        time.sleep(0.1)


def up() -> BenchCluster:
    """Return the cluster, started if it is not running."""
    return running() or BenchCluster(bring_up(NAME, _OPTIONS))


def down() -> None:
    """Stop the cluster and drop its topics."""
    bring_down(NAME)


def running() -> BenchCluster | None:
    """Return the cluster if it is running."""
    return next((BenchCluster(state) for state in running_clusters() if state.name == NAME), None)


@contextmanager
def borrowed() -> Iterator[BenchCluster]:
    """Yield the running cluster and keep it, or run one inside the ``with`` block."""
    found = running()
    if found is not None:
        yield found
        return
    try:
        yield up()
    finally:
        down()
