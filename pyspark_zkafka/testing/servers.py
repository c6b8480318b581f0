"""The servers of one local cluster: their ports, their configuration, their life."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import (
    BROKER_MAIN,
    ZOOKEEPER_MAIN,
    broker_properties,
    extra_listeners,
    fill,
    jvm_command,
    kafka_jars,
    properties_text,
    version_tuple,
    zookeeper_properties,
)
from pyspark_zkafka.testing.jars import fetch_jars
from pyspark_zkafka.testing.java import find_java
from pyspark_zkafka.testing.metadata import MetadataWatch, client_settings
from pyspark_zkafka.testing.ports import LOOPBACK, PortReservations
from pyspark_zkafka.testing.processes import ServerProcesses
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["ZOOKEEPER", "ClusterSpec", "Server", "Servers"]

ZOOKEEPER = "zookeeper"
# An old broker's own ZooKeeper is a server from before 4-letter-word lists and Netty TLS: this one serves all versions.
_ZOOKEEPER_FROM = "3.9.1"
_EXPIRED_AT_START = ("fatal exception during startup", "SessionExpiredException")
_EXIT_TIMEOUT_S = 60
_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 1.0
_QUIET = logging.Logger("zkafka-local-cluster", logging.CRITICAL + 1)

Server = int | str


@dataclass(frozen=True)
class ClusterSpec:
    """What a cluster is to be like; see `LocalCluster` for each field."""

    brokers: int = 3
    kafka_version: str = "3.9.1"
    broker_config: Mapping[str, str] = field(default_factory=dict)
    zookeeper_config: Mapping[str, str] = field(default_factory=dict)
    racks: Sequence[str] | None = None
    listeners: Mapping[str, str] = field(default_factory=dict)
    client_config: Mapping[str, str] = field(default_factory=dict)
    broker_heap_mb: int = 320
    zookeeper_heap_mb: int = 128
    broker_jvm_options: Sequence[str] = ()
    zookeeper_jvm_options: Sequence[str] = ()
    startup_timeout_s: float = 90

    def check(self) -> None:
        """Refuse what cannot be started."""
        version = version_tuple(self.kafka_version)
        kafka_jars(self.kafka_version)
        problems = []
        if self.brokers < 1:
            problems.append(f"brokers is {self.brokers}, and must be 1 or more")
        if self.racks is not None and len(self.racks) != self.brokers:
            problems.append(f"racks has {len(self.racks)} entries for {self.brokers} brokers, and must have one for each")
        if self.listeners and version < (0, 10, 2):
            problems.append(f"Kafka {self.kafka_version} has no named listeners, and listeners asks for some")
        if problems:
            raise LocalClusterError("BAD_CLUSTER", "; ".join(problems))


class Servers:
    """Starts, signals and watches the processes of one cluster; see `LocalCluster` for what the methods promise."""

    def __init__(self, spec: ClusterSpec, chroot: str) -> None:
        self.spec = spec
        self.chroot = chroot
        self.processes = ServerProcesses()
        self._reserved = PortReservations()
        self._ports: dict[tuple[Server, str], int] = {}
        self._started: set[Server] = set()
        self._paused: set[Server] = set()

    # -- life of the whole

    def open(self) -> None:
        """Start all; ready when this returns. Nothing stays when it fails."""
        self.spec.check()
        java = find_java()
        jars = fetch_jars(*kafka_jars(self.spec.kafka_version))
        zookeeper_jars = fetch_jars(*kafka_jars(_ZOOKEEPER_FROM))
        self._java, self._jars, self._zookeeper_jars = java, _classpath(jars), _classpath(zookeeper_jars)
        try:
            self.processes.open()
            self._start_all()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all at once."""
        self.processes.close()
        self._reserved.close()
        self._ports.clear()
        self._started.clear()
        self._paused.clear()

    def _start_all(self) -> None:
        deadline = Deadline(self.spec.startup_timeout_s)
        self._launch(ZOOKEEPER)
        self._wait_for_zookeeper(deadline)
        with self.zookeeper(deadline.left_s, chroot="") as client:
            client.ensure_path(self.chroot)
        for broker in range(self.spec.brokers):
            self._launch(broker)
        self.wait_ready(deadline)

    # -- life of one

    def start(self, server: Server) -> None:
        """Start a server that is down; ready when this returns."""
        deadline = Deadline(self.spec.startup_timeout_s)
        if server != ZOOKEEPER:
            self._wait_until_unregistered(server, deadline)
        self._launch(server)
        self.wait_ready(deadline)

    def end(self, server: Server, number: signal.Signals) -> None:
        """Send a signal that ends a server, and wait for its end."""
        name = self.name(server)
        self.processes.send(name, number)
        self.processes.send(name, signal.SIGCONT)
        if Deadline(_EXIT_TIMEOUT_S).until(lambda: self.processes.exit_status(name)) is None:
            raise LocalClusterError(
                "SERVER_DID_NOT_END",
                f"{name} did not end within {_EXIT_TIMEOUT_S} s of {number.name}; its log ends with\n{self._tail(name)}\n"
                "use kill() for a server that cannot shut down by itself",
            )
        self._started.discard(server)
        self._paused.discard(server)

    def pause(self, server: Server) -> None:
        """Halt a running server where it is."""
        self._signal(server, signal.SIGSTOP)
        self._paused.add(server)

    def resume(self, server: Server) -> None:
        """Let a paused server go on."""
        self._signal(server, signal.SIGCONT)
        self._paused.discard(server)

    def wait_until_unregistered(self, broker: Server) -> None:
        """Wait until a broker's znode is gone."""
        self._wait_until_unregistered(broker, Deadline(self.spec.startup_timeout_s))

    def _signal(self, server: Server, number: signal.Signals) -> None:
        if not self.processes.send(self.name(server), number):
            raise LocalClusterError("SERVER_NOT_RUNNING", f"{self.name(server)} is not running; restart() starts it")

    # -- what is there

    def name(self, server: Server) -> str:
        """A server's name: of its log, its folder, and in messages."""
        if server == ZOOKEEPER:
            return ZOOKEEPER
        if server not in range(self.spec.brokers):
            raise LocalClusterError(
                "NO_SUCH_SERVER",
                f"This cluster has no server {server!r}; it has the brokers {list(range(self.spec.brokers))} "
                f"and {ZOOKEEPER!r}",
            )
        return f"broker-{server}"

    def port(self, server: Server, name: str = "") -> int:
        """A port of a server; taken at the first call, the same in all later ones."""
        self.processes.require_open()
        key = (server, name)
        if key not in self._ports:
            self._ports[key] = self._reserved.take()
        return self._ports[key]

    @property
    def running(self) -> list[int]:
        """The brokers that are started and neither stopped, killed nor paused, in order."""
        return sorted(s for s in self._started - self._paused if isinstance(s, int))

    def bootstrap(self, brokers: Sequence[int], listener: str = "") -> str:
        """The addresses of some brokers."""
        return ",".join(f"{LOOPBACK}:{self.port(b, listener)}" for b in brokers)

    def client_settings(self) -> dict[str, object]:
        """librdkafka's configuration for this package's own clients of the running brokers."""
        return self._settings(self.running or list(range(self.spec.brokers)))

    def metadata(self) -> closing[MetadataWatch]:
        """A watch of what each running broker says, for the time of a ``with`` block."""
        return closing(MetadataWatch({b: self._settings([b]) for b in self.running}))

    @contextmanager
    def zookeeper(self, timeout_s: float = _CONNECT_TIMEOUT_S, chroot: str | None = None) -> Iterator[KazooClient]:
        """A ZooKeeper client, connected."""
        hosts = f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self.chroot if chroot is None else chroot}"
        retry = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_delay": 0.2}
        client = KazooClient(hosts, timeout=10.0, connection_retry=retry, logger=_QUIET)
        try:
            client.start(max(timeout_s, 0.1))
            yield client
        except KazooTimeoutError as exc:
            raise LocalClusterError(
                "ZOOKEEPER_SILENT",
                f"ZooKeeper at {hosts} did not answer within {timeout_s:.0f} s; is it stopped or paused?",
            ) from exc
        finally:
            client.stop()
            client.close()

    # -- readiness

    def wait_ready(self, deadline: Deadline) -> None:
        """Return when each running broker has its znode, and tells of all the others."""
        self._wait_for_zookeeper(deadline)
        wanted = set(self.running)
        with self.zookeeper(deadline.left_s) as client:
            self._await_all(wanted, lambda: wanted - _registered(client), "have no znode", deadline)
            told = self._told_of_brokers(client)
        with self.metadata() as watch:

            def silent() -> set[int]:
                return {b for b, view in watch.views().items() if view is None or (told and not wanted <= view.brokers)}

            self._await_all(wanted, silent, "do not answer, or do not know all others yet", deadline)

    def _told_of_brokers(self, client: KazooClient) -> bool:
        """Whether brokers are told of each other: in 0.8, that happens with the first topic."""
        if version_tuple(self.spec.kafka_version) >= (0, 9):
            return True
        return client.exists("/brokers/topics") is not None and bool(client.get_children("/brokers/topics"))

    def _await_all(self, wanted: set[int], missing: Callable[[], set[int]], lack: str, deadline: Deadline) -> None:
        def done() -> bool | None:
            for broker in [b for b in wanted if self.processes.exit_status(self.name(b)) is not None]:
                if not self._expired_at_start(broker):
                    self._raise_if_dead(self.name(broker))
                self._launch(broker)
            return None if missing() else True

        if deadline.until(done) is None:
            late = sorted(missing()) or sorted(wanted)
            raise LocalClusterError(
                "NOT_READY",
                f"After {deadline.timeout_s:.0f} s brokers {late} {lack}; the log of the first ends with\n"
                f"{self._tail(self.name(late[0]))}\nraise startup_timeout_s on a slow or busy machine",
                brokers=late,
            )

    def _wait_for_zookeeper(self, deadline: Deadline) -> None:
        def serves() -> bool | None:
            self._raise_if_dead(ZOOKEEPER)
            return _serves(self.port(ZOOKEEPER)) or None

        if deadline.until(serves) is None:
            raise LocalClusterError(
                "NOT_READY", f"ZooKeeper does not serve after {deadline.timeout_s:.0f} s; its log ends with\n"
                f"{self._tail(ZOOKEEPER)}"
            )  # fmt: skip

    def _wait_until_unregistered(self, broker: Server, deadline: Deadline) -> None:
        with self.zookeeper() as client:
            if deadline.until(lambda: None if broker in _registered(client) else True) is None:
                raise LocalClusterError(
                    "NOT_READY", f"The znode of broker {broker} is still there; check for another broker of this id"
                )

    def _expired_at_start(self, broker: Server) -> bool:
        """Whether a broker ended as ZooKeeper gave its session up while it started: a busy machine stood still."""
        log = self._tail(self.name(broker))
        return all(said in log for said in _EXPIRED_AT_START)

    def _raise_if_dead(self, name: str) -> None:
        status = self.processes.exit_status(name)
        if status is None:
            return
        log = self._tail(name)
        in_use = "Address already in use" in log
        taken = "another program took its port: start the cluster again; " if in_use else ""
        raise LocalClusterError(
            "SERVER_DIED",
            f"{name} ended with {_exit_text(status)}; {taken}its log ends with\n{log}",
            server=name,
            status=status,
        )

    def _tail(self, name: str) -> str:
        return self.processes.log_tail(name) or "(the log is empty)"

    # -- starting

    def _launch(self, server: Server) -> None:
        name = self.name(server)
        file = self.processes.folder / f"{name}.properties"
        spec = self.spec
        if server == ZOOKEEPER:
            config, main, jars = self._zookeeper_config(), ZOOKEEPER_MAIN, self._zookeeper_jars
            heap_mb, options = spec.zookeeper_heap_mb, spec.zookeeper_jvm_options
        else:
            config, main, jars = self._broker_config(int(server)), BROKER_MAIN, self._jars
            heap_mb, options = spec.broker_heap_mb, spec.broker_jvm_options
        file.write_text(properties_text(config), encoding="latin-1")
        command = jvm_command(self._java, heap_mb, options, main, [str(file)])
        self.processes.start(name, command, {"CLASSPATH": jars})
        self._started.add(server)

    def _zookeeper_config(self) -> dict[str, str]:
        data = self.processes.folder / ZOOKEEPER
        config = {**zookeeper_properties(data, self.port(ZOOKEEPER)), **self.spec.zookeeper_config}
        values = {"host": LOOPBACK, "data": str(data), "port": str(self.port(ZOOKEEPER))}
        return fill(config, values, lambda name: self.port(ZOOKEEPER, name))

    def _broker_config(self, broker: int) -> dict[str, str]:
        data, port, spec = self.processes.folder / self.name(broker), self.port(broker), self.spec
        connect = f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self.chroot}"
        config = broker_properties(broker, spec.brokers, spec.kafka_version, data, port, connect)
        if spec.racks is not None:
            config["broker.rack"] = spec.racks[broker]
        if spec.listeners:
            config |= extra_listeners(spec.listeners, {n: self.port(broker, n) for n in spec.listeners}, port)
        values = {"id": str(broker), "host": LOOPBACK, "data": str(data), "zookeeper": connect, "port": str(port)}
        return fill({**config, **spec.broker_config}, values, lambda name: self.port(broker, name))

    def _settings(self, brokers: Sequence[int]) -> dict[str, object]:
        return client_settings(self.bootstrap(brokers), version_tuple(self.spec.kafka_version), self.spec.client_config)


def _classpath(jars: Sequence[Path]) -> str:
    return ":".join(str(jar) for jar in jars)


def _registered(client: KazooClient) -> set[int]:
    if client.exists("/brokers/ids") is None:
        return set()
    return {int(name) for name in client.get_children("/brokers/ids")}


def _serves(port: int) -> bool:
    """Whether a ZooKeeper serves, by its own word.

    It listens a moment before it serves: a session asked for in that moment is lost, and its client waits for 10 s.
    """
    try:
        with socket.create_connection((LOOPBACK, port), _ANSWER_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return False
    return bool(answer) and b"not currently serving" not in answer


def _exit_text(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
