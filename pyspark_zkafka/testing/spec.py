"""The specification of a local cluster: versions, nodes and roles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.testing.conditions import BAD_CLUSTER, BAD_KAFKA_VERSION, NO_SUCH_SERVER, NO_ZOOKEEPER

TESTED_VERSIONS = ("4.3.1", "3.9.1", "1.1.1", "0.8.2.2")
CONTROLLER_LISTENER = "CONTROLLER"
ZOOKEEPER = "zookeeper"
# This ZooKeeper serves all versions of Kafka; older ones lack 4-letter-word lists and Netty TLS.
ZOOKEEPER_VERSION = "3.9.1"

Server: TypeAlias = int | str

_FIRST_CONTROLLER = 3000
_FIRST_KRAFT = (3, 3)
"""The first version with KRaft mode for production."""


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterSpec:
    """The arguments of `LocalCluster`, which documents them."""

    brokers: int = 3
    kafka_version: str = "3.9.1"
    kraft: bool = False
    controllers: int | None = None
    broker_config: Mapping[str, str] | None = None
    controller_config: Mapping[str, str] | None = None
    zookeeper_config: Mapping[str, str] | None = None
    racks: Sequence[str] | None = None
    listeners: Mapping[str, str] | None = None
    client_config: Mapping[str, str] | None = None
    broker_heap_mb: int = 320
    zookeeper_heap_mb: int = 128
    broker_jvm_options: Sequence[str] = ()
    zookeeper_jvm_options: Sequence[str] = ()
    startup_timeout_s: float = 90

    def check(self) -> None:
        """Raise BAD_CLUSTER or BAD_KAFKA_VERSION if the cluster cannot be started."""
        kafka_jars(self.kafka_version)
        problems = []
        if self.brokers < 1:
            problems.append(f"brokers is {self.brokers}, and must be 1 or more")
        if self.racks is not None and len(self.racks) != self.brokers:
            problems.append(f"racks has {len(self.racks)} entries for {self.brokers} brokers, and must have one for each")
        if self.listeners and version_tuple(self.kafka_version) < (0, 10, 2):
            problems.append(f"Kafka {self.kafka_version} has no named listeners, which listeners requests")
        if self.is_kraft:
            if version_tuple(self.kafka_version) < _FIRST_KRAFT:
                problems.append(
                    f"Kafka {self.kafka_version} has no KRaft mode, which kraft or controllers requests; it needs 3.3"
                )
            if self.controllers is not None and self.controllers < 1:
                problems.append(f"controllers is {self.controllers}, and must be 1 or more, or None for combined nodes")
            if self.zookeeper_config:
                problems.append("zookeeper_config is set, and a cluster in KRaft mode has no ZooKeeper")
            if CONTROLLER_LISTENER in (self.listeners or {}):
                problems.append(f"listeners has {CONTROLLER_LISTENER}, which is the name of the controllers' listener")
        if problems:
            raise BAD_CLUSTER("; ".join(problems))

    @property
    def is_kraft(self) -> bool:
        """True if the cluster runs in KRaft mode, as Kafka 4 always does."""
        return self.kraft or self.controllers is not None or version_tuple(self.kafka_version) >= (4,)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, running or not, in order."""
        return list(range(self.brokers))

    @property
    def controller_ids(self) -> list[int]:
        """The ids of KRaft's controllers, in order: up to three brokers, or separate nodes. None with ZooKeeper."""
        if not self.is_kraft:
            return []
        if self.controllers is None:
            return self.broker_ids[:3]
        return list(range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + self.controllers))

    def server_name(self, server: Server) -> str:
        """Return the name of a server's process; raises `NO_SUCH_SERVER`, and `NO_ZOOKEEPER` in KRaft mode."""
        if server == ZOOKEEPER:
            if self.is_kraft:
                raise NO_ZOOKEEPER(
                    f"This cluster of Kafka {self.kafka_version} runs in KRaft mode, without ZooKeeper; use "
                    'bootstrap_servers, or start a cluster with LocalCluster(kafka_version="3.9.1")',
                )
            return ZOOKEEPER
        if server in self.broker_ids:
            return f"broker-{server}"
        if server in self.controller_ids:
            return f"controller-{server}"
        others = f"the controllers {self.controller_ids}" if self.is_kraft else repr(ZOOKEEPER)
        known = f"it has the brokers {self.broker_ids} and {others}"
        raise NO_SUCH_SERVER(f"This cluster has no server {server!r}; {known}")


def version_tuple(kafka_version: str) -> tuple[int, ...]:
    """Return a version's numbers, for comparisons.

    >>> version_tuple("0.8.2.2") < version_tuple("1.1.1")
    True
    """
    if not re.fullmatch(r"\d+(\.\d+){2,3}", kafka_version):
        raise BAD_KAFKA_VERSION(f"{kafka_version!r} is not a version of Kafka; write it like '3.9.1'")
    return tuple(int(part) for part in kafka_version.split("."))


def tested_version(text: str) -> str:
    """Return the tested version with this prefix, or the text unchanged.

    >>> tested_version("4"), tested_version("0.8"), tested_version("2.8.0")
    ('4.3.1', '0.8.2.2', '2.8.0')
    """
    return next((version for version in TESTED_VERSIONS if f"{version}.".startswith(f"{text}.")), text)


def kafka_jars(kafka_version: str) -> tuple[str, ...]:
    """Return the Maven coordinates of Kafka's core, and of a logging back end for versions without one.

    >>> kafka_jars("1.1.1")
    ('org.apache.kafka:kafka_2.12:1.1.1', 'org.slf4j:slf4j-reload4j:1.7.36')
    """
    version = version_tuple(kafka_version)
    scala = "2.13" if version >= (2, 4) else "2.12" if version >= (0, 11) else "2.11"
    kafka = f"org.apache.kafka:kafka_{scala}:{kafka_version}"
    return (kafka,) if version < (1,) else (kafka, "org.slf4j:slf4j-reload4j:1.7.36")
