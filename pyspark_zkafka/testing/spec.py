"""The specification of a local cluster: versions, nodes and roles, and the configurations of its servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark_zkafka.testing import secure_listener
from pyspark_zkafka.testing.conditions import BAD_CLUSTER, BAD_KAFKA_VERSION, NO_SUCH_SERVER, NO_ZOOKEEPER
from pyspark_zkafka.testing.processes import LOOPBACK

TESTED_VERSIONS = ("4.3.1", "3.9.1", "1.1.1", "0.11.0.3", "0.10.2.2", "0.10.0.1", "0.9.0.1", "0.8.2.2")
CONTROLLER_LISTENER = "CONTROLLER"
ZOOKEEPER = "zookeeper"
# This ZooKeeper serves all versions of Kafka. Older ZooKeepers lack 4-letter-word lists and Netty TLS.
ZOOKEEPER_VERSION = "3.9.1"

Server: TypeAlias = int | str

_FIRST_CONTROLLER = 3000
_FIRST_KRAFT = (3, 3)
"""The first version with KRaft mode for production."""
_FIRST_SECURE, _FIRST_SECURE_KRAFT = (2, 7), (3, 5)
"""The first versions whose brokers create SCRAM users on request."""
_LOG4J = Path(__file__).with_name("log4j.properties")
_PLACEHOLDER = re.compile(r"\{(id|host|data|zookeeper|port)(?::(\w+))?\}")


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
    secure: bool = False
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
        first_secure = _FIRST_SECURE_KRAFT if self.is_kraft else _FIRST_SECURE
        if self.secure and version_tuple(self.kafka_version) < first_secure:
            mode = "in KRaft mode" if self.is_kraft else "with ZooKeeper"
            needed = ".".join(map(str, first_secure))
            problems.append(f"Kafka {self.kafka_version} cannot be secure: {mode}, secure needs Kafka {needed}")
        names = {name.upper() for name in self.listeners or {}}  # Kafka ignores the case
        if self.secure and secure_listener.NAME in names:
            problems.append(f"listeners has {secure_listener.NAME}, which is the name of the listener that secure adds")
        if self.is_kraft:
            if version_tuple(self.kafka_version) < _FIRST_KRAFT:
                problems.append(
                    f"Kafka {self.kafka_version} has no KRaft mode, which kraft or controllers requests; it needs 3.3"
                )
            if self.controllers is not None and self.controllers < 1:
                problems.append(f"controllers is {self.controllers}, and must be 1 or more, or None for combined nodes")
            if self.zookeeper_config:
                problems.append("zookeeper_config is set, and a cluster in KRaft mode has no ZooKeeper")
            if CONTROLLER_LISTENER in names:
                problems.append(f"listeners has {CONTROLLER_LISTENER}, which is the name of the controllers' listener")
        if problems:
            raise BAD_CLUSTER("; ".join(problems))

    @property
    def is_kraft(self) -> bool:
        """True if the cluster runs in KRaft mode, as Kafka 4 always does."""
        return self.kraft or self.controllers is not None or version_tuple(self.kafka_version) >= (4,)

    @property
    def client_protocols(self) -> dict[str, str]:
        """The listeners for clients in addition to ``PLAINTEXT``: name to security protocol."""
        return {**(self.listeners or {}), **({secure_listener.NAME: secure_listener.PROTOCOL} if self.secure else {})}

    @property
    def jar_versions(self) -> list[str]:
        """The versions of Kafka whose jars the servers run with."""
        return [self.kafka_version] if self.is_kraft else [self.kafka_version, ZOOKEEPER_VERSION]

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, running or not, in order."""
        return list(range(self.brokers))

    @property
    def controller_ids(self) -> list[int]:
        """The ids of KRaft's controllers, in order: up to three brokers, or separate nodes. Empty with ZooKeeper."""
        if not self.is_kraft:
            return []
        if self.controllers is None:
            return self.broker_ids[:3]
        return list(range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + self.controllers))

    def server_name(self, server: Server) -> str:
        """Return the name of a server's process. Raises `NO_SUCH_SERVER`, and `NO_ZOOKEEPER` in KRaft mode."""
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

    >>> tested_version("4"), tested_version("0.10"), tested_version("2.8.0")
    ('4.3.1', '0.10.2.2', '2.8.0')
    """
    return next((version for version in TESTED_VERSIONS if f"{version}.".startswith(f"{text}.")), text)


def kafka_jars(kafka_version: str) -> tuple[str, ...]:
    """Return the Maven coordinates of Kafka's core, and of a library that this version lacks on Java 17.

    Versions from 1.0 on lack a logging back end. Versions from 0.10.1 to 0.11 lack the JAXB of Java 8.

    >>> kafka_jars("1.1.1")
    ('org.apache.kafka:kafka_2.12:1.1.1', 'org.slf4j:slf4j-reload4j:1.7.36')
    """
    version = version_tuple(kafka_version)
    scala = "2.13" if version >= (2, 4) else "2.12" if version >= (0, 11) else "2.11"
    kafka = f"org.apache.kafka:kafka_{scala}:{kafka_version}"
    if version >= (1,):
        return kafka, "org.slf4j:slf4j-reload4j:1.7.36"
    return (kafka, "javax.xml.bind:jaxb-api:2.3.1") if version >= (0, 10, 1) else (kafka,)


def voters(spec: ClusterSpec, port: Callable[[int], int]) -> str:
    """Return the value of ``controller.quorum.voters``. `port` returns a controller's port by its id."""
    return ",".join(f"{node}@{LOOPBACK}:{port(node)}" for node in spec.controller_ids)


def server_properties(
    spec: ClusterSpec, server: Server, data: Path, port: Callable[[str], int], connect: str
) -> dict[str, str]:
    """Return the configuration of a server, with its placeholders filled.

    `port` returns the server's port by the name of a listener or placeholder, empty for the plain-text port. `connect` is
    the brokers' ``zookeeper.connect``, or ``controller.quorum.voters`` in KRaft mode.
    """
    values = {"host": LOOPBACK, "data": str(data)}
    if server == ZOOKEEPER:
        config = {**zookeeper_properties(data, port("")), **(spec.zookeeper_config or {})}
        return fill(config, {**values, "port": str(port(""))}, port)
    values["id"] = str(server)
    properties = node_properties if spec.is_kraft else broker_properties
    config = properties(spec, int(server), data, port, connect)
    if server not in spec.broker_ids:
        values["port"] = str(port(CONTROLLER_LISTENER))
        return fill({**config, **(spec.controller_config or {})}, values, port)
    if not spec.is_kraft:
        values["zookeeper"] = connect
    if spec.racks is not None:
        config["broker.rack"] = spec.racks[int(server)]
    return fill({**config, **(spec.broker_config or {})}, {**values, "port": str(port(""))}, port)


def main_class(server: Server) -> str:
    """Return the main class of a server."""
    return "org.apache.zookeeper.server.quorum.QuorumPeerMain" if server == ZOOKEEPER else "kafka.Kafka"


def server_command(spec: ClusterSpec, server: Server, java: Path, file: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the command line of a server. `file` has its configuration. `options` precede its own JVM options."""
    is_broker = server != ZOOKEEPER
    heap_mb = spec.broker_heap_mb if is_broker else spec.zookeeper_heap_mb
    own = spec.broker_jvm_options if is_broker else spec.zookeeper_jvm_options
    return jvm_command(java, heap_mb, [*options, *own], main_class(server), [str(file)])


def zookeeper_properties(data: Path, port: int) -> dict[str, str]:
    """Return ZooKeeper's configuration for a small, fast server on the loopback interface."""
    return {
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": LOOPBACK,
        "tickTime": "500",  # permits sessions of 1 s
        "maxSessionTimeout": "60000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "preAllocSize": "1024",  # kilobytes of each transaction log, instead of 64 MB
        "forceSync": "no",  # the data need not survive a crash of the machine
    }


def broker_properties(
    spec: ClusterSpec, broker: int, data: Path, port: Callable[[str], int], connect: str
) -> dict[str, str]:
    """Return the configuration of a broker that registers in ZooKeeper."""
    here = f"PLAINTEXT://{LOOPBACK}:{port('')}"
    if version_tuple(spec.kafka_version) < (0, 9):
        addresses = {"host.name": LOOPBACK, "advertised.host.name": LOOPBACK, "port": str(port(""))}
    elif spec.client_protocols:
        addresses = client_listeners(spec.client_protocols, port)
    else:
        addresses = {"listeners": here, "advertised.listeners": here}
    return {
        "broker.id": str(broker),
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",
        **addresses,
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.retry.backoff.ms": "200",
        **_shared_properties(spec.brokers, data),
    }


def node_properties(
    spec: ClusterSpec, node: int, data: Path, port: Callable[[str], int], quorum_voters: str
) -> dict[str, str]:
    """Return the configuration of a node in KRaft mode: a broker, a controller, or both."""
    is_broker, is_controller = node in spec.broker_ids, node in spec.controller_ids
    clients = client_listeners(spec.client_protocols, port) if is_broker else {}
    quorum = f"{CONTROLLER_LISTENER}://{LOOPBACK}:{port(CONTROLLER_LISTENER)}" if is_controller else ""
    security = (clients.get("listener.security.protocol.map"), f"{CONTROLLER_LISTENER}:PLAINTEXT")
    return {
        "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
        "node.id": str(node),
        "controller.quorum.voters": quorum_voters,
        "controller.listener.names": CONTROLLER_LISTENER,
        **clients,
        "listeners": ",".join(filter(None, (clients.get("listeners"), quorum))),
        "listener.security.protocol.map": ",".join(filter(None, security)),
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        **_shared_properties(spec.brokers, data),
    }


def _shared_properties(brokers: int, data: Path) -> dict[str, str]:
    """Return the settings that differ from Kafka's defaults, for size, speed and predictable tests."""
    copies = str(min(3, brokers))
    return {
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",  # leaders move only when a test moves them
        "delete.topic.enable": "true",
        "unclean.leader.election.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": "16777216",  # instead of 128 MB of the heap
    }


def client_listeners(protocols: Mapping[str, str], port: Callable[[str], int]) -> dict[str, str]:
    """Return a broker's settings of its plain-text and other listeners. `protocols` maps names to security protocols."""
    addresses = [f"PLAINTEXT://{LOOPBACK}:{port('')}", *(f"{name}://{LOOPBACK}:{port(name)}" for name in protocols)]
    return {
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in {"PLAINTEXT": "PLAINTEXT", **protocols}.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def fill(config: Mapping[str, str], values: Mapping[str, str], port: Callable[[str], int]) -> dict[str, str]:
    """Fill the placeholders of a configuration, ``{port:NAME}`` by `port`. Other text in braces is left unchanged.

    >>> fill({"listeners": "A://{host}:{port},B://{host}:{port:B}"}, {"host": "h", "port": "1"}, lambda name: 2)
    {'listeners': 'A://h:1,B://h:2'}
    """

    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if name is not None:
            return str(port(name)) if kind == "port" else match.group()
        return values.get(kind, match.group())

    return {key: _PLACEHOLDER.sub(value, text) for key, text in config.items()}


def jvm_command(java: Path, heap_mb: int, options: Sequence[str], main: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a JVM. The classpath belongs in the environment, to keep ``ps`` readable."""
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        "-Dzookeeper.jmx.log4j.disable=true",
        f"-Dlog4j.configuration={_LOG4J.as_uri()}",
        *options,
        main,
        *arguments,
    ]
