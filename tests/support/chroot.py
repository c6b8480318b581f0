"""The bare znodes of a Kafka cluster, for members and foreign clients without brokers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.options.values import ZooKeeperConfig

__all__ = ["IDLE_JVM", "JVM", "Chroot"]

JVM = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
"""The registration of a JVM consumer of the topic ``t``."""
IDLE_JVM = JVM.replace(b'"t"', b'"nothing"')


@dataclass
class Chroot:
    """The bare znodes of a Kafka cluster without brokers, with a session for the actions of other clients."""

    config: ZooKeeperConfig
    other: KazooClient

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic, or change its number of partitions."""
        path = f"/brokers/topics/{name}"
        data = json.dumps({"version": 1, "partitions": {str(p): [0] for p in range(partitions)}}, separators=(",", ":"))
        if self.other.exists(path):
            self.other.set(path, data.encode())
        else:
            self.other.create(path, data.encode())

    def register(self, group: str, consumer: str, data: bytes | None, by: KazooClient | None = None) -> str:
        """Register a consumer as a JVM does, with any data; return the path."""
        return self._create(f"/consumers/{group}/ids/{consumer}", data, by)

    def claim(self, group: str, partition: TopicPartition, thread: bytes | None, by: KazooClient | None = None) -> str:
        """Claim a partition as a JVM does; return the path."""
        return self._create(f"/consumers/{group}/owners/{partition.topic}/{partition.partition}", thread, by)

    def ids(self, group: str) -> dict[str, bytes | None]:
        """Return the registrations of a group."""
        return self._values(f"/consumers/{group}/ids")

    def owners(self, group: str, topic: str = "t") -> dict[int, str]:
        """Return the threads that own a topic's partitions."""
        found = self._values(f"/consumers/{group}/owners/{topic}")
        return {int(name): (data or b"").decode() for name, data in found.items()}

    def _create(self, path: str, data: bytes | None, by: KazooClient | None) -> str:
        session = by or self.other
        session.ensure_path(path.rpartition("/")[0])
        session.create(path, data, ephemeral=True)
        return path

    def _values(self, path: str) -> dict[str, bytes | None]:
        found = {}
        try:
            names = self.other.get_children(path)
        except NoNodeError:
            return {}
        for name in names:
            try:
                found[name] = self.other.get(f"{path}/{name}")[0]
            except NoNodeError:
                continue  # gone since the names were listed
        return found
