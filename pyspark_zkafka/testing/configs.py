"""The specification of a local cluster, and its servers' configurations and command lines, as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.ports import LOOPBACK

__all__ = [
    "ZOOKEEPER",
    "ZOOKEEPER_VERSION",
    "ClusterSpec",
    "Server",
    "broker_properties",
    "check",
    "extra_listeners",
    "fill",
    "jvm_command",
    "kafka_jars",
    "properties_text",
    "server_command",
    "server_name",
    "server_properties",
    "version_tuple",
    "zookeeper_properties",
]

ZOOKEEPER = "zookeeper"
# An old broker's own ZooKeeper is a server from before 4-letter-word lists and Netty TLS: this one serves all versions.
ZOOKEEPER_VERSION = "3.9.1"

Server: TypeAlias = int | str

_ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_BROKER_MAIN = "kafka.Kafka"
_LOG4J = Path(__file__).with_name("log4j.properties")
_PLACEHOLDER = re.compile(r"\{(id|host|data|zookeeper|port)(?::(\w+))?\}")


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterSpec:
    """The arguments of `LocalCluster`, which documents each."""

    brokers: int = 3
    kafka_version: str = "3.9.1"
    broker_config: Mapping[str, str] | None = None
    zookeeper_config: Mapping[str, str] | None = None
    racks: Sequence[str] | None = None
    listeners: Mapping[str, str] | None = None
    client_config: Mapping[str, str] | None = None
    broker_heap_mb: int = 320
    zookeeper_heap_mb: int = 128
    broker_jvm_options: Sequence[str] = ()
    zookeeper_jvm_options: Sequence[str] = ()
    startup_timeout_s: float = 90


def check(spec: ClusterSpec) -> None:
    """Refuse a cluster that cannot be started."""
    kafka_jars(spec.kafka_version)
    problems = []
    if spec.brokers < 1:
        problems.append(f"brokers is {spec.brokers}, and must be 1 or more")
    if spec.racks is not None and len(spec.racks) != spec.brokers:
        problems.append(f"racks has {len(spec.racks)} entries for {spec.brokers} brokers, and must have one for each")
    if spec.listeners and version_tuple(spec.kafka_version) < (0, 10, 2):
        problems.append(f"Kafka {spec.kafka_version} has no named listeners, and listeners asks for some")
    if problems:
        raise LocalClusterError("BAD_CLUSTER", "; ".join(problems))


def server_name(spec: ClusterSpec, server: Server) -> str:
    """The name of a server's process; raises `NO_SUCH_SERVER`."""
    if server == ZOOKEEPER:
        return ZOOKEEPER
    if server in range(spec.brokers):
        return f"broker-{server}"
    known = f"it has the brokers {list(range(spec.brokers))} and {ZOOKEEPER!r}"
    raise LocalClusterError("NO_SUCH_SERVER", f"This cluster has no server {server!r}; {known}")


def server_properties(
    spec: ClusterSpec, server: Server, data: Path, port: Callable[[str], int], connect: str
) -> dict[str, str]:
    """The configuration of a server, with its placeholders filled.

    `port` is the server's port by the name of a listener or placeholder (empty for the plain-text port), `connect` the
    brokers' ``zookeeper.connect``.
    """
    values = {"host": LOOPBACK, "data": str(data), "port": str(port(""))}
    if server == ZOOKEEPER:
        return fill({**zookeeper_properties(data, port("")), **(spec.zookeeper_config or {})}, values, port)
    config = broker_properties(int(server), spec.brokers, spec.kafka_version, data, port(""), connect)
    if spec.racks is not None:
        config["broker.rack"] = spec.racks[int(server)]
    if spec.listeners:
        config |= extra_listeners(spec.listeners, port)
    return fill({**config, **(spec.broker_config or {})}, {**values, "id": str(server), "zookeeper": connect}, port)


def server_command(spec: ClusterSpec, server: Server, java: Path, file: Path) -> list[str]:
    """The command line of a server whose configuration is in a file."""
    if server == ZOOKEEPER:
        return jvm_command(java, spec.zookeeper_heap_mb, spec.zookeeper_jvm_options, _ZOOKEEPER_MAIN, [str(file)])
    return jvm_command(java, spec.broker_heap_mb, spec.broker_jvm_options, _BROKER_MAIN, [str(file)])


def version_tuple(kafka_version: str) -> tuple[int, ...]:
    """A version's numbers, to compare by.

    >>> version_tuple("0.8.2.2") < version_tuple("1.1.1")
    True
    """
    if not re.fullmatch(r"\d+(\.\d+){2,3}", kafka_version):
        raise LocalClusterError("BAD_KAFKA_VERSION", f"Not a version of Kafka: {kafka_version!r}; write it like '3.9.1'")
    return tuple(int(part) for part in kafka_version.split("."))


def kafka_jars(kafka_version: str) -> tuple[str, ...]:
    """The Maven coordinates of a broker of that version: Kafka's core, and a logger's back end where it brings none.

    >>> kafka_jars("1.1.1")
    ('org.apache.kafka:kafka_2.12:1.1.1', 'org.slf4j:slf4j-reload4j:1.7.36')
    """
    version = version_tuple(kafka_version)
    if version >= (4,):
        raise LocalClusterError(
            "BAD_KAFKA_VERSION", f"Kafka {kafka_version} does not run with ZooKeeper; a local cluster runs 0.8.2.2 to 3.9.x"
        )
    scala = "2.13" if version >= (2, 4) else "2.12" if version >= (0, 11) else "2.11"
    kafka = f"org.apache.kafka:kafka_{scala}:{kafka_version}"
    return (kafka,) if version < (1,) else (kafka, "org.slf4j:slf4j-reload4j:1.7.36")


def zookeeper_properties(data: Path, port: int) -> dict[str, str]:
    """ZooKeeper's configuration for a small, fast, loopback-only server."""
    return {
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": LOOPBACK,
        "tickTime": "500",  # sessions from 1 s on
        "maxSessionTimeout": "60000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "preAllocSize": "1024",  # kilobytes of each transaction log, instead of 64 MB
        "forceSync": "no",  # a machine's crash need not be survived
    }


def broker_properties(
    broker_id: int, brokers: int, kafka_version: str, data: Path, port: int, zookeeper_connect: str
) -> dict[str, str]:
    """A broker's configuration: Kafka's defaults, but for size, speed and what a test must be able to rely on."""
    copies = str(min(3, brokers))
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": zookeeper_connect,
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",
        "log.dirs": str(data),
        **_addresses(version_tuple(kafka_version), port),
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",  # leaders move when a test moves them
        "delete.topic.enable": "true",
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.retry.backoff.ms": "200",
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


def _addresses(version: tuple[int, ...], port: int) -> dict[str, str]:
    if version < (0, 9):
        return {"host.name": LOOPBACK, "advertised.host.name": LOOPBACK, "port": str(port)}
    here = f"PLAINTEXT://{LOOPBACK}:{port}"
    return {"listeners": here, "advertised.listeners": here}


def extra_listeners(protocols: Mapping[str, str], port: Callable[[str], int]) -> dict[str, str]:
    """The listeners of a broker beside the plain-text one; `protocols` maps names to security protocols."""
    addresses = [f"PLAINTEXT://{LOOPBACK}:{port('')}", *(f"{name}://{LOOPBACK}:{port(name)}" for name in protocols)]
    return {
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in {"PLAINTEXT": "PLAINTEXT", **protocols}.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def fill(config: Mapping[str, str], values: Mapping[str, str], port: Callable[[str], int]) -> dict[str, str]:
    """A configuration with its placeholders filled, ``{port:NAME}`` by `port`; any other text in braces is left alone.

    >>> fill({"listeners": "A://{host}:{port},B://{host}:{port:B}"}, {"host": "h", "port": "1"}, lambda name: 2)
    {'listeners': 'A://h:1,B://h:2'}
    """

    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if name is not None:
            return str(port(name)) if kind == "port" else match.group()
        return values.get(kind, match.group())

    return {key: _PLACEHOLDER.sub(value, text) for key, text in config.items()}


def properties_text(config: Mapping[str, str]) -> str:
    r"""A Java properties file.

    >>> properties_text({"a": "b\\c", "d": "two\nlines"})
    'a=b\\\\c\nd=two\\nlines\n'
    """
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in config.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items())


def jvm_command(java: Path, heap_mb: int, options: Sequence[str], main: str, arguments: Sequence[str]) -> list[str]:
    """The command line of a server; the classpath goes into the environment, which keeps ``ps`` readable."""
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
