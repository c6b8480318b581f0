"""Servers of a local cluster: their processes, addresses, configurations and readiness."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import configs, spec, znodes
from pyspark_zkafka.testing.jars import kafka_classpath
from pyspark_zkafka.testing.java import find_java
from pyspark_zkafka.testing.metadata import MetadataWatch, client_settings
from pyspark_zkafka.testing.ports import LOOPBACK
from pyspark_zkafka.testing.processes import ServerProcesses
from pyspark_zkafka.testing.spec import CONTROLLER_LISTENER, ZOOKEEPER, ZOOKEEPER_VERSION, ClusterSpec, Server
from pyspark_zkafka.testing.storage import format_storage, new_cluster_id
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["ClusterServers"]

_CONNECT_TIMEOUT_S = 10.0
_EXIT_TIMEOUT_S = 60
_EXPIRED_AT_START = ("fatal exception during startup", "SessionExpiredException")


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterServers(ClusterSpec):
    """The servers that a specification asks for, which `LocalCluster` starts and ends."""

    def __post_init__(self) -> None:
        self._chroot = f"/local-{secrets.token_hex(4)}"
        self._cluster_id = new_cluster_id()
        self._processes = ServerProcesses()
        self._running: set[Server] = set()

    def adopt(self, processes: ServerProcesses, zookeeper_connect: str | None) -> None:
        """Use servers that run already instead of starting some."""
        self._processes = processes
        self._running = {*self.broker_ids, *self.controller_ids}
        if zookeeper_connect is not None:
            self._running.add(ZOOKEEPER)
            self._chroot = "/" + zookeeper_connect.partition("/")[2]

    # -- addresses and processes

    @property
    def zookeeper_connect(self) -> str:
        """The value of ``zookeeper.connect``: ``127.0.0.1:port/chroot``; raises `NO_ZOOKEEPER` in KRaft mode."""
        return f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self._chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``kafka.bootstrap.servers``: all brokers, those that are down too."""
        return self._bootstrap(self.broker_ids)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, those that are down too, in order."""
        return list(range(self.brokers))

    @property
    def controller_ids(self) -> list[int]:
        """The ids of KRaft's controllers, in order; none in a cluster with ZooKeeper."""
        return spec.controller_ids(self)

    @property
    def running_broker_ids(self) -> list[int]:
        """The ids of the brokers that are neither stopped, killed nor paused, in order."""
        return [broker for broker in self.broker_ids if broker in self._running]

    def listener_servers(self, listener: str) -> str:
        """The bootstrap servers of one of the further listeners."""
        return self._bootstrap(self.broker_ids, listener)

    def port(self, server: Server, name: str = "") -> int:
        """A server's port, or its port for a listener's or placeholder's name."""
        return self._processes.port(spec.server_name(self, server), name)

    def pid(self, server: Server) -> int | None:
        """A server's process id; None when it is down."""
        return self._processes.pid(spec.server_name(self, server))

    def log(self, server: Server) -> Path:
        """The file with a server's log; removed by `close`."""
        return self._processes.log(spec.server_name(self, server))

    def zookeeper(self) -> AbstractContextManager[KazooClient]:
        """A kazoo client that is connected, with the cluster's chroot, for the length of a `with` block.

        Raises `NO_ZOOKEEPER` in KRaft mode.
        """
        return znodes.zookeeper_session(self.zookeeper_connect, _CONNECT_TIMEOUT_S)

    # -- addresses and clients

    def _bootstrap(self, brokers: Sequence[int], listener: str = "") -> str:
        return ",".join(f"{LOOPBACK}:{self.port(b, listener)}" for b in brokers)

    def _client_settings(self, brokers: Sequence[int] = ()) -> dict[str, object]:
        """librdkafka's configuration for a client of some brokers, by default of those that run."""
        servers = self._bootstrap(brokers or self.running_broker_ids or self.broker_ids)
        return client_settings(servers, spec.version_tuple(self.kafka_version), self.client_config or {})

    def _metadata(self) -> closing[MetadataWatch]:
        return closing(MetadataWatch({b: self._client_settings([b]) for b in self.running_broker_ids}))

    # -- processes

    def _deadline(self) -> Deadline:
        return Deadline(self.startup_timeout_s)

    @property
    def _is_kraft(self) -> bool:
        return spec.is_kraft(self)

    def _prepare(self) -> None:
        """Check the specification, and have Java and the jars."""
        spec.check(self)
        self._java = find_java()
        versions = (self.kafka_version,) if self._is_kraft else (self.kafka_version, ZOOKEEPER_VERSION)
        self._classpaths = {v: kafka_classpath(v) for v in versions}

    def _start_servers(self, deadline: Deadline) -> None:
        if self._is_kraft:
            self._format_nodes()
        else:
            self._start_zookeeper(deadline)
        for node in dict.fromkeys([*self.controller_ids, *self.broker_ids]):
            self._launch(node)
        self._wait_ready(deadline)

    def _start_zookeeper(self, deadline: Deadline) -> None:
        self._launch(ZOOKEEPER)
        znodes.wait_for_zookeeper(self._processes, deadline)
        with znodes.zookeeper_session(f"{LOOPBACK}:{self.port(ZOOKEEPER)}", deadline.left_s) as client:
            client.ensure_path(self._chroot)

    def _format_nodes(self) -> None:
        files = [self._write_properties(node) for node in {*self.controller_ids, *self.broker_ids}]
        format_storage(self._java, self._classpaths[self.kafka_version], self._cluster_id, files)

    def _launch(self, server: Server) -> None:
        file = self._write_properties(server)
        command = configs.server_command(self, server, self._java, file)
        self._processes.start(spec.server_name(self, server), command, {"CLASSPATH": self._classpath(server)})
        self._running.add(server)

    def _classpath(self, server: Server) -> str:
        return self._classpaths[ZOOKEEPER_VERSION if server == ZOOKEEPER else self.kafka_version]

    def _write_properties(self, server: Server) -> Path:
        name, folder = spec.server_name(self, server), self._processes.folder
        file = folder / f"{name}.properties"
        connect = configs.voters(self, self._controller_port) if self._is_kraft else self.zookeeper_connect
        config = configs.server_properties(self, server, folder / name, partial(self.port, server), connect)
        file.write_text(configs.properties_text(config), encoding="latin-1")
        return file

    def _controller_port(self, node: int) -> int:
        return self.port(node, CONTROLLER_LISTENER)

    def _signal(self, server: Server, number: signal.Signals) -> None:
        name = spec.server_name(self, server)
        if not self._processes.send(name, number):
            raise LocalClusterError("SERVER_NOT_RUNNING", f"{name} is not running; restart() starts it")

    def _end(self, server: Server, number: signal.Signals) -> None:
        name = spec.server_name(self, server)
        if not self._processes.end(name, number, _EXIT_TIMEOUT_S):
            raise LocalClusterError(
                "SERVER_DID_NOT_END",
                f"{name} did not end within {_EXIT_TIMEOUT_S} s of {number.name}; its log ends with\n"
                f"{self._processes.log_tail(name)}\nuse kill() for a server that cannot shut down by itself",
            )
        self._running.discard(server)

    # -- readiness

    def _wait_ready(self, deadline: Deadline) -> None:
        known = set(self.running_broker_ids) if self._is_kraft else self._wait_registered(deadline)
        with self._metadata() as watch:
            lack = "do not answer, or do not know all others yet"
            self._wait_for_brokers(lambda: watch.uninformed(known), lack, deadline)

    def _wait_registered(self, deadline: Deadline) -> set[int]:
        """Wait until all brokers have a znode; returns those that all others are to know then."""
        znodes.wait_for_zookeeper(self._processes, deadline)
        expected = set(self.running_broker_ids)
        with znodes.zookeeper_session(self.zookeeper_connect, deadline.left_s) as client:
            self._wait_for_brokers(lambda: expected - znodes.registered_brokers(client), "have no znode", deadline)
            # In 0.8, brokers learn of each other with the first topic.
            is_known = spec.version_tuple(self.kafka_version) >= (0, 9) or znodes.has_topics(client)
        return expected if is_known else set()

    def _wait_for_brokers(self, missing: Callable[[], set[int]], lack: str, deadline: Deadline) -> None:
        def complete() -> bool | None:
            for node in self._running - {ZOOKEEPER}:
                self._revive(node)
            return not missing() or None

        if deadline.until(complete) is None and (late := sorted(missing())):
            tail = self._processes.log_tail(spec.server_name(self, late[0]))
            raise LocalClusterError(
                "NOT_READY",
                f"After {deadline.timeout_s:.0f} s brokers {late} {lack}; the log of the first ends with\n{tail}\n"
                "raise startup_timeout_s on a slow or busy machine",
                brokers=late,
            )

    def _revive(self, node: Server) -> None:
        """Start a broker again whose session expired at its start; raises `SERVER_DIED` for any other that has ended."""
        name = spec.server_name(self, node)
        if self._processes.exit_status(name) is None:
            return
        log = self._processes.log_tail(name)
        if not all(text in log for text in _EXPIRED_AT_START):
            self._processes.raise_if_dead(name)
        self._launch(node)

    def _wait_until_unregistered(self, broker: int, deadline: Deadline) -> None:
        if self._is_kraft:
            self._wait_until_unlisted(broker)
            return
        with self.zookeeper() as client:
            if deadline.until(lambda: None if broker in znodes.registered_brokers(client) else True) is None:
                lack = f"The znode of broker {broker} is still there; is a namesake running?"
                raise LocalClusterError("NOT_READY", lack)

    def _wait_until_unlisted(self, broker: int) -> None:
        """Wait until no other broker lists this one, if there are controllers to decide that."""
        running = self._running & set(self.controller_ids)
        if 2 * len(running) > len(self.controller_ids):
            with self._metadata() as watch:
                lack = f"broker {broker} has ended, and others still list it"
                watch.agree(lambda views: all(broker not in view.brokers for view in views), lack)
