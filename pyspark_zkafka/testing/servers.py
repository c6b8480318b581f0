"""Servers of a local cluster: processes, addresses, configurations and readiness."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import javaproperties
from kazoo.client import KazooClient

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import configs, readiness, spec
from pyspark_zkafka.testing.conditions import NOT_READY, SERVER_DID_NOT_END, SERVER_NOT_RUNNING, STORAGE_NOT_FORMATTED
from pyspark_zkafka.testing.jars import archiving_classes, class_archive, find_java, kafka_classpath, sharing_classes
from pyspark_zkafka.testing.processes import LOOPBACK, ServerProcesses, Wait
from pyspark_zkafka.testing.readiness import MetadataWatch
from pyspark_zkafka.testing.spec import CONTROLLER_LISTENER, ZOOKEEPER, ZOOKEEPER_VERSION, ClusterSpec, Server

_CONNECT_TIMEOUT_S = 10.0
_EXIT_TIMEOUT_S = 60
_FORMAT_TIMEOUT_S = 120
_FORMAT_HEAP_MB = 128
_FORMATTER = "kafka.tools.StorageTool"
_EXPIRED_AT_START = ("fatal exception during startup", "SessionExpiredException")


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


def format_storage(java: Path, classpath: str, cluster_id: str, files: Collection[Path]) -> None:
    """Format the storage of nodes, given their configuration files, in parallel; takes 1 to 3 s.

    Raises `STORAGE_NOT_FORMATTED` with the tool's output.
    """
    archive = class_archive(java, _FORMATTER, classpath)
    with archiving_classes(archive) if len(files) == 1 else nullcontext(sharing_classes(archive)) as options:
        arguments = ["format", f"--cluster-id={cluster_id}", "--config"]  # an id may start with a dash
        tools = [
            subprocess.Popen(
                configs.jvm_command(java, _FORMAT_HEAP_MB, options, _FORMATTER, [*arguments, str(file)]),
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


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterServers(ClusterSpec):
    """The servers of a specification, which `LocalCluster` starts and ends."""

    def __post_init__(self) -> None:
        self._chroot = f"/local-{secrets.token_hex(4)}"
        self._cluster_id = secrets.token_urlsafe(16)  # of 16 bytes, without padding, as in Kafka
        self._processes = ServerProcesses()
        self._running: set[Server] = set()

    def adopt(self, processes: ServerProcesses, zookeeper_connect: str | None) -> None:
        """Use servers that already run."""
        self._processes = processes
        self._running = {*self.broker_ids, *self.controller_ids}
        if zookeeper_connect is not None:
            self._running.add(ZOOKEEPER)
            self._chroot = "/" + zookeeper_connect.partition("/")[2]

    @property
    def zookeeper_connect(self) -> str:
        """The value of ``zookeeper.connect``: ``127.0.0.1:port/chroot``; raises `NO_ZOOKEEPER` in KRaft mode."""
        return f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self._chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """The value of ``kafka.bootstrap.servers``: all brokers, including those that are down."""
        return self._bootstrap(self.broker_ids)

    @property
    def running_broker_ids(self) -> list[int]:
        """The ids of the brokers that are neither stopped, killed nor paused, in order."""
        return [broker for broker in self.broker_ids if broker in self._running]

    def listener_servers(self, listener: str) -> str:
        """Return the bootstrap servers of one of the further listeners."""
        return self._bootstrap(self.broker_ids, listener)

    def port(self, server: Server, name: str = "") -> int:
        """Return a server's port, or its port for the name of a listener or placeholder."""
        return self._processes.port(self.server_name(server), name)

    def pid(self, server: Server) -> int | None:
        """Return a server's process id; None if it is down."""
        return self._processes.pid(self.server_name(server))

    def log(self, server: Server) -> Path:
        """Return the path of a server's log, which `close` removes."""
        return self._processes.log(self.server_name(server))

    def zookeeper(self) -> AbstractContextManager[KazooClient]:
        """Connect a kazoo client, with the cluster's chroot, for a `with` block; raises `NO_ZOOKEEPER` in KRaft mode."""
        return readiness.zookeeper_session(self.zookeeper_connect, _CONNECT_TIMEOUT_S)

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
        versions = (self.kafka_version,) if self.is_kraft else (self.kafka_version, ZOOKEEPER_VERSION)
        self._classpaths = {v: kafka_classpath(v) for v in versions}

    def _start_servers(self, deadline: Wait) -> None:
        if self.is_kraft:
            files = [self._write_properties(node) for node in {*self.controller_ids, *self.broker_ids}]
            format_storage(self._java, self._classpaths[self.kafka_version], self._cluster_id, files)
        else:
            self._launch(ZOOKEEPER)
            readiness.wait_for_zookeeper(self._processes, deadline)
            with readiness.zookeeper_session(f"{LOOPBACK}:{self.port(ZOOKEEPER)}", deadline.left_s) as client:
                client.ensure_path(self._chroot)
        for node in dict.fromkeys([*self.controller_ids, *self.broker_ids]):
            self._launch(node)
        self._wait_ready(deadline)

    def _launch(self, server: Server) -> None:
        file = self._write_properties(server)
        command = configs.server_command(self, server, self._java, file, sharing_classes(self._archive(server)))
        self._processes.start(self.server_name(server), command, {"CLASSPATH": self._classpath(server)})
        self._running.add(server)

    def _archive(self, server: Server) -> Path:
        return class_archive(self._java, configs.main_class(server), self._classpath(server))

    def _classpath(self, server: Server) -> str:
        return self._classpaths[ZOOKEEPER_VERSION if server == ZOOKEEPER else self.kafka_version]

    def _write_properties(self, server: Server) -> Path:
        name, folder = self.server_name(server), self._processes.folder
        file = folder / f"{name}.properties"
        if self.is_kraft:
            connect = configs.voters(self, lambda node: self.port(node, CONTROLLER_LISTENER))
        else:
            connect = self.zookeeper_connect
        config = configs.server_properties(self, server, folder / name, partial(self.port, server), connect)
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
        """Wait until all brokers have a znode; return the brokers that each broker must then know."""
        readiness.wait_for_zookeeper(self._processes, deadline)
        expected = set(self.running_broker_ids)
        with readiness.zookeeper_session(self.zookeeper_connect, deadline.left_s) as client:
            self._wait_for_brokers(lambda: expected - readiness.registered_brokers(client), "have no znode", deadline)
            # In 0.8, brokers learn about each other with the first topic.
            is_known = spec.version_tuple(self.kafka_version) >= (0, 9) or readiness.has_topics(client)
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
        """Restart a broker if its session expired at its start; raises `SERVER_DIED` if it ended for another reason."""
        name = self.server_name(node)
        if self._processes.exit_status(name) is None:
            return
        log = self._processes.log_tail(name)
        if not all(text in log for text in _EXPIRED_AT_START):
            self._processes.raise_if_dead(name)
        self._launch(node)

    def _wait_until_unregistered(self, broker: int, deadline: Wait) -> None:
        """Wait until no broker, or ZooKeeper, lists this one any more."""
        if not self.is_kraft:
            with self.zookeeper() as client:
                if not deadline.until(lambda: broker not in readiness.registered_brokers(client)):
                    raise NOT_READY(f"Broker {broker} ended and still has a znode; stop other brokers with this id")
        elif 2 * len(self._running & set(self.controller_ids)) > len(self.controller_ids):
            with self._metadata() as watch:
                lack = f"broker {broker} has ended, and others still list it"
                watch.agree(lambda views: all(broker not in view.brokers for view in views), lack)
