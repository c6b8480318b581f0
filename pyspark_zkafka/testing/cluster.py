"""A real ZooKeeper and real brokers on this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from kazoo.client import KazooClient

from pyspark_zkafka.testing.ports import LOOPBACK
from pyspark_zkafka.testing.servers import ZOOKEEPER, ClusterSpec, Server, Servers
from pyspark_zkafka.testing.topic_operations import TopicOperations
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["LocalCluster"]


class LocalCluster(TopicOperations):
    """One ZooKeeper and some brokers, on 127.0.0.1, with ports, a chroot and a data folder of their own.

    Everything is ready when `start` returns, and gone when `close` returns or when this process dies, however it dies.
    Several clusters can run at the same time.

    Parameters
    ----------
    brokers : int
        How many; their ids count from 0.
    kafka_version : str
        ``3.9.1``, or another version up to 3.9; ``1.1.1`` and ``0.8.2.2`` are tested too. The ZooKeeper is always that of
        Kafka 3.9.1.
    broker_config : mapping, optional
        Added to, and put over, each broker's configuration. Values may hold ``{id}``, ``{host}``, ``{port}``, ``{data}``
        (the broker's folder), ``{zookeeper}`` (what to connect to) and ``{port:NAME}`` (another free port, see `port`).
    zookeeper_config : mapping, optional
        The same for ZooKeeper, e.g. ``secureClientPort: {port:tls}``.
    racks : sequence of str, optional
        Each broker's rack.
    listeners : mapping, optional
        Further listeners beside ``PLAINTEXT``: name to security protocol, e.g. ``{"SASL": "SASL_PLAINTEXT"}``; each has a
        free port on each broker. What the protocol needs (mechanisms, JAAS, key stores) goes into `broker_config`.
    client_config : mapping, optional
        librdkafka's configuration for this class's own clients, where the plain-text listener was configured away.
    broker_heap_mb, zookeeper_heap_mb : int
        Each process's largest heap, in MiB.
    broker_jvm_options, zookeeper_jvm_options : sequence of str
        Further options of the JVMs, e.g. ``-Djava.security.auth.login.config=...``.
    startup_timeout_s : float
        How long `start` and `restart` may take, in seconds, the fetching of jars apart.

    Notes
    -----
    Needs Java 17 and, the first time for each version, the network (see `fetch_jars`). Where a method takes a server, it
    takes a broker's id or ``"zookeeper"``. Errors are `LocalClusterError`. The JVMs compile with C1 alone, which starts
    faster and leaves more of the machine to the test; ``-XX:TieredStopAtLevel=4`` in `broker_jvm_options` undoes that.

    Leaders move only when a test moves them (``auto.leader.rebalance.enable`` is off), and topics are not created by asking
    for them.

    Examples
    --------
    ::

        with LocalCluster(brokers=2) as cluster:
            cluster.create_topic("orders", partitions=2, replication=2)
            cluster.produce("orders", [{"key": b"a", "value": b"1", "partition": 0}])  # {0: [0]}
            cluster.kill(0)
            cluster.wait_for_leader("orders", 0, not_broker=0)  # 1
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        kafka_version: str = "3.9.1",
        broker_config: Mapping[str, str] | None = None,
        zookeeper_config: Mapping[str, str] | None = None,
        racks: Sequence[str] | None = None,
        listeners: Mapping[str, str] | None = None,
        client_config: Mapping[str, str] | None = None,
        broker_heap_mb: int = 320,
        zookeeper_heap_mb: int = 128,
        broker_jvm_options: Sequence[str] = (),
        zookeeper_jvm_options: Sequence[str] = (),
        startup_timeout_s: float = 90,
    ) -> None:
        spec = ClusterSpec(
            brokers=brokers,
            kafka_version=kafka_version,
            broker_config=broker_config or {},
            zookeeper_config=zookeeper_config or {},
            racks=racks,
            listeners=listeners or {},
            client_config=client_config or {},
            broker_heap_mb=broker_heap_mb,
            zookeeper_heap_mb=zookeeper_heap_mb,
            broker_jvm_options=broker_jvm_options,
            zookeeper_jvm_options=zookeeper_jvm_options,
            startup_timeout_s=startup_timeout_s,
        )
        super().__init__(Servers(spec, f"/local-{secrets.token_hex(4)}"))

    def __repr__(self) -> str:
        return f"LocalCluster(brokers={self._servers.spec.brokers}, kafka_version={self._servers.spec.kafka_version!r})"

    # -- life

    def start(self) -> LocalCluster:
        """This cluster, ready: every broker has its znode, and tells of all others; takes some 5 to 10 s."""
        self._servers.open()
        return self

    def close(self) -> None:
        """End all servers and remove their data; does nothing when there are none, and in a forked child."""
        self._servers.close()

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- where it is

    @property
    def kafka_version(self) -> str:
        """The brokers' version."""
        return self._servers.spec.kafka_version

    @property
    def zookeeper_connect(self) -> str:
        """What to give as ``zookeeper.connect``: ``127.0.0.1:port/chroot``."""
        return f"{LOOPBACK}:{self.port(ZOOKEEPER)}{self._servers.chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """What to give as ``kafka.bootstrap.servers``: all brokers, those that are down too."""
        return self._servers.bootstrap(self.broker_ids)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, those that are down too, in order."""
        return list(range(self._servers.spec.brokers))

    @property
    def running_broker_ids(self) -> list[int]:
        """The ids of the brokers that are neither stopped, killed nor paused, in order."""
        return self._servers.running

    def listener_servers(self, listener: str) -> str:
        """The bootstrap servers of one of the further listeners."""
        return self._servers.bootstrap(self.broker_ids, listener)

    def port(self, server: Server, name: str = "") -> int:
        """A server's port, or its port for a listener's or placeholder's name."""
        self._servers.name(server)
        return self._servers.port(server, name)

    def pid(self, server: Server) -> int | None:
        """A server's process id; None when it is down."""
        return self._servers.processes.pid(self._servers.name(server))

    def log(self, server: Server) -> Path:
        """The file with a server's log; removed by `close`."""
        return self._servers.processes.log(self._servers.name(server))

    @contextmanager
    def zookeeper(self) -> Iterator[KazooClient]:
        """A kazoo client that is connected, with the cluster's chroot, for the length of a `with` block."""
        with self._servers.zookeeper() as client:
            yield client

    # -- faults

    def stop(self, server: Server) -> None:
        """Shut a server down in an orderly way (SIGTERM); returns when it has ended and, of a broker, the znode is gone."""
        self._servers.end(server, signal.SIGTERM)
        if server != ZOOKEEPER:
            self._servers.wait_until_unregistered(server)

    def kill(self, server: Server) -> None:
        """Kill a server (SIGKILL); returns when the process is gone. A broker's znode stays until its session expires."""
        self._servers.end(server, signal.SIGKILL)

    def pause(self, server: Server) -> None:
        """Halt a server (SIGSTOP): it keeps its connections, and answers nothing."""
        self._servers.pause(server)

    def resume(self, server: Server) -> None:
        """Let a paused server go on (SIGCONT); `wait_ready` waits until a broker is back in the cluster."""
        self._servers.resume(server)

    def restart(self, server: Server) -> None:
        """Start a server again, with its ports and data, after stopping it if it runs; returns when all is ready.

        A killed broker's old znode must go first: that takes its session timeout, 6 s by default.
        """
        if self.pid(server) is not None:
            self.stop(server)
        self._servers.start(server)

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Return when all servers that are not stopped, killed or paused are ready."""
        self._servers.wait_ready(Deadline(self._servers.spec.startup_timeout_s if timeout_s is None else timeout_s))

    def expire_session(self, session_id: int, password: bytes) -> None:
        """End somebody's ZooKeeper session: for its owner, it has expired.

        Parameters
        ----------
        session_id : int
            Of a kazoo client: ``client.client_id[0]``.
        password : bytes
            Of a kazoo client: ``client.client_id[1]``.
        """
        hosts = f"{LOOPBACK}:{self.port(ZOOKEEPER)}"
        thief = KazooClient(hosts, client_id=(session_id, password))
        try:
            thief.start()
        finally:
            thief.stop()
            thief.close()
