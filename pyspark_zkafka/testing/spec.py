"""The specification of a local cluster, and each server's configuration and command line by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import (
    BROKER_MAIN,
    ZOOKEEPER_MAIN,
    broker_properties,
    extra_listeners,
    fill,
    jvm_command,
    kafka_jars,
    version_tuple,
    zookeeper_properties,
)
from pyspark_zkafka.testing.ports import LOOPBACK

__all__ = ["ZOOKEEPER", "ZOOKEEPER_VERSION", "ClusterSpec", "Server"]

ZOOKEEPER = "zookeeper"
# An old broker's own ZooKeeper is a server from before 4-letter-word lists and Netty TLS: this one serves all versions.
ZOOKEEPER_VERSION = "3.9.1"

Server: TypeAlias = int | str


@dataclass(frozen=True)
class ClusterSpec:
    """The arguments of `LocalCluster`, which documents each."""

    brokers: int
    kafka_version: str
    broker_config: Mapping[str, str]
    zookeeper_config: Mapping[str, str]
    racks: Sequence[str] | None
    listeners: Mapping[str, str]
    client_config: Mapping[str, str]
    broker_heap_mb: int
    zookeeper_heap_mb: int
    broker_jvm_options: Sequence[str]
    zookeeper_jvm_options: Sequence[str]
    startup_timeout_s: float

    def check(self) -> None:
        """Refuse a specification that cannot be started."""
        kafka_jars(self.kafka_version)
        problems = []
        if self.brokers < 1:
            problems.append(f"brokers is {self.brokers}, and must be 1 or more")
        if self.racks is not None and len(self.racks) != self.brokers:
            problems.append(f"racks has {len(self.racks)} entries for {self.brokers} brokers, and must have one for each")
        if self.listeners and self.version < (0, 10, 2):
            problems.append(f"Kafka {self.kafka_version} has no named listeners, and listeners asks for some")
        if problems:
            raise LocalClusterError("BAD_CLUSTER", "; ".join(problems))

    @property
    def version(self) -> tuple[int, ...]:
        """The brokers' version, to compare by."""
        return version_tuple(self.kafka_version)

    def name(self, server: Server) -> str:
        """The name of a server's process; `NO_SUCH_SERVER` is raised for an unknown server."""
        if server == ZOOKEEPER:
            return ZOOKEEPER
        if server in range(self.brokers):
            return f"broker-{server}"
        known = f"it has the brokers {list(range(self.brokers))} and {ZOOKEEPER!r}"
        raise LocalClusterError("NO_SUCH_SERVER", f"This cluster has no server {server!r}; {known}")

    def properties(self, server: Server, data: Path, port: Callable[[str], int], connect: str) -> dict[str, str]:
        """The configuration of a server, with its placeholders filled.

        `port` is the server's port by the name of a listener or placeholder (empty for the plain-text port), `connect` the
        brokers' ``zookeeper.connect``.
        """
        values = {"host": LOOPBACK, "data": str(data), "port": str(port(""))}
        if server == ZOOKEEPER:
            return fill({**zookeeper_properties(data, port("")), **self.zookeeper_config}, values, port)
        config = broker_properties(int(server), self.brokers, self.kafka_version, data, port(""), connect)
        if self.racks is not None:
            config["broker.rack"] = self.racks[int(server)]
        if self.listeners:
            config |= extra_listeners(self.listeners, {name: port(name) for name in self.listeners}, port(""))
        return fill({**config, **self.broker_config}, {**values, "id": str(server), "zookeeper": connect}, port)

    def command(self, server: Server, java: Path, file: Path) -> list[str]:
        """The command line of a server whose configuration is in a file."""
        if server == ZOOKEEPER:
            return jvm_command(java, self.zookeeper_heap_mb, self.zookeeper_jvm_options, ZOOKEEPER_MAIN, [str(file)])
        return jvm_command(java, self.broker_heap_mb, self.broker_jvm_options, BROKER_MAIN, [str(file)])
