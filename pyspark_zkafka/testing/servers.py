"""Servers of a local cluster: their starts and ends, addresses and reports. Also a schema registry."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import javaproperties
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import secure_listener, spec
from pyspark_zkafka.testing.conditions import (
    BAD_CLUSTER,
    NOT_READY,
    SERVER_DID_NOT_END,
    SERVER_NOT_RUNNING,
    STORAGE_NOT_FORMATTED,
    ZOOKEEPER_SILENT,
)
from pyspark_zkafka.testing.jars import (
    archiving_classes,
    class_archive,
    fetch_archive,
    find_java,
    kafka_classpath,
    sharing_classes,
)
from pyspark_zkafka.testing.processes import LOOPBACK, SETTLE_TIMEOUT_S, ServerProcesses, Wait, unsettled
from pyspark_zkafka.testing.secure_listener import SecureListener
from pyspark_zkafka.testing.spec import CONTROLLER_LISTENER, ZOOKEEPER, ClusterSpec, Server

_EXIT_TIMEOUT_S = 60
_EXPIRED_AT_START = ("fatal exception during startup", "SessionExpiredException")

_FORMATTER = "kafka.tools.StorageTool"
_FORMAT_HEAP_MB = 128
_FORMAT_TIMEOUT_S = 120

_QUIET = logging.Logger("zkafka-local-cluster", logging.CRITICAL + 1)
_ZOOKEEPER_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_delay": 0.2}
_ZOOKEEPER_TIMEOUT_S = 10.0
_SRVR_TIMEOUT_S = 1.0
_METADATA_TIMEOUT_S = 2.0

_REGISTRY = "schema-registry"
_REGISTRY_ARCHIVE = "io.apicurio:apicurio-registry-app:2.6.13.Final:zip:all"
_REGISTRY_TIMEOUT_S = 5


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterServers(ClusterSpec):
    """The servers of a specification, which `LocalCluster` starts and ends."""

    def __post_init__(self) -> None:
        self._chroot = f"/local-{secrets.token_hex(4)}"
        self._cluster_id = secrets.token_urlsafe(16)  # of 16 bytes, without padding, as in Kafka
        self._processes = ServerProcesses()
        self._running: set[Server] = set()
        self._secure_listener: SecureListener | None = None
        self._client_properties: dict[str, str] = {}

    def adopt(self, processes: ServerProcesses, zookeeper_connect: str | None, client_properties: dict[str, str]) -> None:
        """Use servers that already run."""
        self._processes = processes
        self._client_properties = client_properties
        self._running = {*self.broker_ids, *self.controller_ids}
        if zookeeper_connect is not None:
            self._running.add(ZOOKEEPER)
            self._chroot = "/" + zookeeper_connect.partition("/")[2]

    @property
    def zookeeper_connect(self) -> str:
        """The value of ``zookeeper.connect``: ``127.0.0.1:port/chroot``. Raises `NO_ZOOKEEPER` in KRaft mode."""
        return f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self._chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``kafka.bootstrap.servers``: all brokers, including brokers that are down."""
        return self._bootstrap(self.broker_ids)

    @property
    def running_broker_ids(self) -> list[int]:
        """The ids of the brokers that are neither stopped, killed nor paused, in order."""
        return [broker for broker in self.broker_ids if broker in self._running]

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client needs to log in to the secure listener, with a password. Put ``kafka.`` before them in a job.

        Raises `BAD_CLUSTER` if the cluster is not `secure`, and `CLUSTER_NOT_RUNNING`.
        """
        if not self.secure:
            raise BAD_CLUSTER("This cluster has no secure listener; start one with LocalCluster(secure=True)")
        _ = self._processes.folder  # raises CLUSTER_NOT_RUNNING before the start and after the end
        return dict(self._client_properties)

    def listener_servers(self, listener: str) -> str:
        """Return the bootstrap servers of an additional listener."""
        return self._bootstrap(self.broker_ids, listener)

    def port(self, server: Server, name: str = "") -> int:
        """Return a server's port, or its port for the name of a listener or placeholder."""
        return self._processes.port(self.server_name(server), name)

    def pid(self, server: Server) -> int | None:
        """Return a server's process id. None if the server is down."""
        return self._processes.pid(self.server_name(server))

    def log(self, server: Server) -> Path:
        """Return the path of a server's log, which `close` removes."""
        return self._processes.log(self.server_name(server))

    def zookeeper(self) -> AbstractContextManager[KazooClient]:
        """Connect a kazoo client, with the cluster's chroot, for a `with` block. Raises `NO_ZOOKEEPER` in KRaft mode."""
        return zookeeper_session(self.zookeeper_connect, _ZOOKEEPER_TIMEOUT_S)

    def _bootstrap(self, brokers: Sequence[int], listener: str = "") -> str:
        return ",".join(f"{LOOPBACK}:{self.port(b, listener)}" for b in brokers)

    def _client_settings(self, brokers: Sequence[int] = ()) -> dict[str, object]:
        """Return librdkafka's configuration for a client of some brokers, by default of the running brokers."""
        servers = self._bootstrap(brokers or self.running_broker_ids or self.broker_ids)
        return client_settings(servers, spec.version_tuple(self.kafka_version), self.client_config or {})

    def _metadata(self) -> closing[MetadataWatch]:
        return closing(MetadataWatch({b: self._client_settings([b]) for b in self.running_broker_ids}))

    def _deadline(self) -> Wait:
        return Wait(self.startup_timeout_s)

    def _prepare(self) -> None:
        """Check the specification, find Java and fetch the jars."""
        self.check()
        self._java = find_java()
        self._classpaths = {v: kafka_classpath(v) for v in self.jar_versions}

    def _start_servers(self, deadline: Wait) -> None:
        if self.secure:
            self._secure_listener = SecureListener.create(self._processes.folder, self._java)
            self._client_properties = self._secure_listener.client_properties(self.listener_servers(secure_listener.NAME))
        if self.is_kraft:
            files = [self._write_properties(node) for node in {*self.controller_ids, *self.broker_ids}]
            format_storage(self._java, self._classpaths[self.kafka_version], self._cluster_id, files)
        else:
            self._launch(ZOOKEEPER)
            wait_for_zookeeper(self._processes, deadline)
            with zookeeper_session(f"{LOOPBACK}:{self.port(ZOOKEEPER)}", deadline.left_s) as client:
                client.ensure_path(self._chroot)
        for node in dict.fromkeys([*self.controller_ids, *self.broker_ids]):
            self._launch(node)
        self._wait_ready(deadline)
        if self._secure_listener is not None:
            with AdminClient(self._client_settings()) as admin:
                self._secure_listener.add_user(admin, deadline.left_s)
            self._wait_for_logins(deadline)

    def _wait_for_logins(self, deadline: Wait) -> None:
        """Wait until every broker knows the user of the secure listener."""
        settings = {**self._client_settings(), **self.client_properties}
        address = "bootstrap.servers"
        each = {b: {**settings, address: self._bootstrap([b], secure_listener.NAME)} for b in self.running_broker_ids}
        with closing(MetadataWatch(each)) as watch:
            self._wait_for_brokers(
                lambda: watch.uninformed(set()), "do not let the user of the secure listener log in", deadline
            )

    def _launch(self, server: Server) -> None:
        file = self._write_properties(server)
        command = spec.server_command(self, server, self._java, file, sharing_classes(self._archive(server)))
        self._processes.start(self.server_name(server), command, {"CLASSPATH": self._classpath(server)})
        self._running.add(server)

    def _archive(self, server: Server) -> Path:
        return class_archive(self._java, spec.main_class(server), self._classpath(server))

    def _classpath(self, server: Server) -> str:
        return self._classpaths[spec.ZOOKEEPER_VERSION if server == ZOOKEEPER else self.kafka_version]

    def _write_properties(self, server: Server) -> Path:
        name, folder = self.server_name(server), self._processes.folder
        file = folder / f"{name}.properties"
        if self.is_kraft:
            connect = spec.voters(self, lambda node: self.port(node, CONTROLLER_LISTENER))
        else:
            connect = self.zookeeper_connect
        config = spec.server_properties(self, server, folder / name, partial(self.port, server), connect)
        if self._secure_listener is not None and server in self.broker_ids:
            config = {**self._secure_listener.broker_properties(), **config}
        file.write_text(javaproperties.dumps(config, timestamp=None), encoding="latin-1")
        return file

    def _signal(self, server: Server, number: signal.Signals) -> None:
        name = self.server_name(server)
        if not self._processes.send(name, number):
            raise SERVER_NOT_RUNNING(f"{name} is not running; start it with restart()")

    def _end(self, server: Server, number: signal.Signals) -> None:
        name = self.server_name(server)
        if not self._processes.end(name, number, _EXIT_TIMEOUT_S):
            raise SERVER_DID_NOT_END(
                f"{name} did not end within {_EXIT_TIMEOUT_S} s of {number.name}; its log ends with\n"
                f"{self._processes.log_tail(name)}\nuse kill() for a server that cannot shut down by itself",
            )
        self._running.discard(server)

    def _wait_ready(self, deadline: Wait) -> None:
        known = set(self.running_broker_ids) if self.is_kraft else self._wait_registered(deadline)
        with self._metadata() as watch:
            lack = "do not answer, or do not know all other brokers"
            self._wait_for_brokers(lambda: watch.uninformed(known), lack, deadline)

    def _wait_registered(self, deadline: Wait) -> set[int]:
        """Wait until all brokers have a znode. Returns the brokers that each broker must then know."""
        wait_for_zookeeper(self._processes, deadline)
        expected = set(self.running_broker_ids)
        with zookeeper_session(self.zookeeper_connect, deadline.left_s) as client:
            self._wait_for_brokers(lambda: expected - registered_brokers(client), "have no znode", deadline)
            # In 0.8, brokers learn about each other with the first topic.
            is_known = spec.version_tuple(self.kafka_version) >= (0, 9) or has_topics(client)
        return expected if is_known else set()

    def _wait_for_brokers(self, missing: Callable[[], set[int]], lack: str, deadline: Wait) -> None:
        def complete() -> bool:
            for node in self._running - {ZOOKEEPER}:
                self._revive(node)
            return not missing()

        if not deadline.until(complete) and (late := sorted(missing())):
            tail = self._processes.log_tail(self.server_name(late[0]))
            raise NOT_READY(
                f"After {deadline.timeout_s:.0f} s brokers {late} {lack}; the log of the first ends with\n{tail}\n"
                "raise startup_timeout_s on a slow or busy machine",
                brokers=late,
            )

    def _revive(self, node: Server) -> None:
        """Restart a broker if its session expired at its start. Raises `SERVER_DIED` if it ended for another reason."""
        name = self.server_name(node)
        if self._processes.exit_status(name) is None:
            return
        log = self._processes.log_tail(name)
        if not all(text in log for text in _EXPIRED_AT_START):
            self._processes.raise_if_dead(name)
        self._launch(node)

    def _wait_until_unregistered(self, broker: int, deadline: Wait) -> None:
        """Wait until ZooKeeper, or in KRaft mode every other broker, no longer lists a broker."""
        if not self.is_kraft:
            with self.zookeeper() as client:
                if not deadline.until(lambda: broker not in registered_brokers(client)):
                    raise NOT_READY(f"Broker {broker} ended and still has a znode; stop other brokers with this id")
        elif 2 * len(self._running & set(self.controller_ids)) > len(self.controller_ids):
            with self._metadata() as watch:
                lack = f"broker {broker} has ended, and others still list it"
                watch.agree(lambda views: all(broker not in view.brokers for view in views), lack)


class LocalSchemaRegistry:
    """Apicurio Registry 2.6, which has Confluent's API, on 127.0.0.1, with its schemas in memory.

    The registry answers when `start` returns, and is gone when `close` returns or this process dies. Needs Java 17 and, the
    first time, the network.

    Parameters
    ----------
    heap_mb : int
        The largest heap, in MiB.
    startup_timeout_s : float
        Time limit of `start`, in seconds, after the archive is fetched.

    Examples
    --------
        with LocalSchemaRegistry() as registry:
            frame = spark.read.format("zkafka").option("schema.registry.url", registry.url)
    """

    def __init__(self, *, heap_mb: int = 400, startup_timeout_s: float = 120.0) -> None:
        self._heap_mb = heap_mb
        self._timeout_s = startup_timeout_s
        self._processes = ServerProcesses()

    @property
    def url(self) -> str:
        """The address of Confluent's API, for ``schema.registry.url``. The same until `close`."""
        return f"http://{LOOPBACK}:{self._processes.port(_REGISTRY)}/apis/ccompat/v7"

    def start(self) -> LocalSchemaRegistry:
        """Start the registry, and return it when it answers. Takes about 5 s. If the start fails, nothing remains."""
        java = find_java()
        (jar,) = fetch_archive(_REGISTRY_ARCHIVE).glob("*-runner.jar")
        command = [str(java), f"-Xmx{self._heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
        try:
            self._processes.open()
            address = {"QUARKUS_HTTP_HOST": LOOPBACK, "QUARKUS_HTTP_PORT": str(self._processes.port(_REGISTRY))}
            self._processes.start(_REGISTRY, command, address)
            if not Wait(self._timeout_s).until(self._answers):
                raise NOT_READY(
                    f"The schema registry did not answer within {self._timeout_s:.0f} s; its log ends with\n"
                    f"{self._processes.log_tail(_REGISTRY)}",
                )
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the registry and forget its schemas. Does nothing if the registry does not run."""
        self._processes.close()

    def _answers(self) -> bool:
        self._processes.raise_if_dead(_REGISTRY)
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=_REGISTRY_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:  # also URLError
            return False

    def __enter__(self) -> LocalSchemaRegistry:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()


def format_storage(java: Path, classpath: str, cluster_id: str, files: Collection[Path]) -> None:
    """Format the storage of nodes in parallel, given their configuration files. Takes 1 to 3 s.

    Raises `STORAGE_NOT_FORMATTED` with the tool's output.
    """
    archive = class_archive(java, _FORMATTER, classpath)
    with archiving_classes(archive) if len(files) == 1 else nullcontext(sharing_classes(archive)) as options:
        arguments = ["format", f"--cluster-id={cluster_id}", "--config"]  # an id may start with a dash
        tools = [
            subprocess.Popen(
                spec.jvm_command(java, _FORMAT_HEAP_MB, options, _FORMATTER, [*arguments, str(file)]),
                env={**os.environ, "CLASSPATH": classpath}, cwd=file.parent, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for file in files
        ]  # fmt: skip
        try:
            for tool in tools:
                output, _ = tool.communicate(timeout=_FORMAT_TIMEOUT_S)
                if tool.returncode != 0:
                    raise _not_formatted(f"ended with {tool.returncode}; its output is\n{output.strip()}")
        except subprocess.TimeoutExpired as exc:
            raise _not_formatted(f"did not end within {_FORMAT_TIMEOUT_S} s") from exc
        finally:
            for tool in tools:
                tool.kill()
                tool.communicate()


def _not_formatted(found: str) -> LocalClusterError:
    return STORAGE_NOT_FORMATTED(f"Kafka's tool that formats a node's storage {found}")


def wait_for_zookeeper(processes: ServerProcesses, deadline: Wait) -> None:
    """Wait until ZooKeeper serves. Raises `SERVER_DIED` or `NOT_READY`."""

    def serving() -> bool:
        processes.raise_if_dead(ZOOKEEPER)
        return _serves(processes.port(ZOOKEEPER))

    if not deadline.until(serving):
        lack = f"ZooKeeper does not serve after {deadline.timeout_s:.0f} s; its log ends with"
        raise NOT_READY(f"{lack}\n{processes.log_tail(ZOOKEEPER)}")


def _serves(port: int) -> bool:
    """True if the answer to ``srvr`` shows that a ZooKeeper serves.

    ZooKeeper listens shortly before it serves. A session requested in between is lost, and its client waits for 10 s.
    """
    try:
        with socket.create_connection((LOOPBACK, port), _SRVR_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return False
    return bool(answer) and b"not currently serving" not in answer


@contextmanager
def zookeeper_session(hosts: str, timeout_s: float) -> Iterator[KazooClient]:
    """Connect a client. Raises `ZOOKEEPER_SILENT` if it is not connected in time."""
    client = KazooClient(hosts, timeout=10.0, connection_retry=_ZOOKEEPER_RETRY, logger=_QUIET)
    try:
        client.start(max(timeout_s, 0.1))
        yield client
    except KazooTimeoutError as exc:
        reason = f"ZooKeeper at {hosts} did not answer within {timeout_s:.0f} s; check whether it is stopped or paused"
        raise ZOOKEEPER_SILENT(reason) from exc
    finally:
        client.stop()
        client.close()


def registered_brokers(client: KazooClient) -> set[int]:
    """Return the ids of the brokers that have a znode."""
    if client.exists("/brokers/ids") is None:
        return set()
    return {int(name) for name in client.get_children("/brokers/ids")}


def has_topics(client: KazooClient) -> bool:
    return client.exists("/brokers/topics") is not None and bool(client.get_children("/brokers/topics"))


def client_settings(bootstrap: str, kafka_version: tuple[int, ...], settings: Mapping[str, str]) -> dict[str, object]:
    """Return librdkafka's configuration for the cluster's own clients, which log nothing and reconnect quickly."""
    old = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "log.connection.close": False,
        "error_cb": lambda error: None,  # connections to stopped brokers are lost
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        **(old if kafka_version < (0, 10) else {}),
        **settings,
    }


@dataclass(frozen=True)
class BrokerView:
    """One broker's view of the live brokers, and of each topic's leaders by partition (-1 without a leader)."""

    brokers: frozenset[int]
    leaders: Mapping[str, Mapping[int, int]]

    def is_led(self, topic: str, partitions: int) -> bool:
        """True if a topic has this number of partitions, each with a leader."""
        leaders = self.leaders.get(topic, {})
        return len(leaders) == partitions and -1 not in leaders.values()


class MetadataWatch:
    """A client for each of some brokers, to fetch the broker's metadata repeatedly."""

    def __init__(self, settings: Mapping[int, Mapping[str, object]]) -> None:
        self._clients = {broker: AdminClient(dict(given)) for broker, given in settings.items()}

    def close(self) -> None:
        """Close the clients on this thread: the garbage collector, on a client's own thread, would abort the process."""
        for client in self._clients.values():
            client.__exit__(None, None, None)

    def uninformed(self, brokers: set[int]) -> set[int]:
        """Find the brokers that do not answer, or do not know all of `brokers`."""
        return {b for b, view in self._views().items() if view is None or not brokers <= view.brokers}

    def agree(
        self, agreed: Callable[[list[BrokerView]], bool], lack: str, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> list[BrokerView]:
        """Wait until all brokers answer and `agreed` is true, and return their views. Raises `NOT_SETTLED`."""

        found: list[BrokerView] = []

        def is_agreed() -> bool:
            found[:] = [view for view in self._views().values() if view is not None]
            return len(found) == len(self._clients) and agreed(found)

        if not Wait(timeout_s).until(is_agreed):
            raise unsettled(f"{lack}, after {timeout_s:.0f} s; the brokers' metadata are {self._views()}")
        return found

    def _views(self) -> dict[int, BrokerView | None]:
        return {broker: _broker_view(client) for broker, client in self._clients.items()}


def _broker_view(client: AdminClient) -> BrokerView | None:
    """Return the view of one broker. None if the broker does not answer within 2 s.

    Requests all topics, because a request by name could create the topic. A broker of 0.8 lists no broker before the first
    topic is created.
    """
    try:
        found = client.list_topics(timeout=_METADATA_TIMEOUT_S)
    except KafkaException as exc:
        return BrokerView(frozenset(), {}) if exc.args[0].code() == KafkaError._PARTIAL else None
    known = {name: t for name, t in found.topics.items() if t.error is None}
    leaders = {name: {p.id: p.leader for p in t.partitions.values()} for name, t in known.items()}
    return BrokerView(frozenset(found.brokers), leaders)
