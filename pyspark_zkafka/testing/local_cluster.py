"""Real brokers, with a real ZooKeeper or KRaft controllers, on this machine for a `with` block."""

from __future__ import annotations

import fcntl
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from kazoo.protocol import serialization as zookeeper_protocol

from pyspark_zkafka.testing import spec
from pyspark_zkafka.testing.conditions import BAD_CLUSTER
from pyspark_zkafka.testing.jars import archiving_classes
from pyspark_zkafka.testing.processes import LOOPBACK, SETTLE_TIMEOUT_S, Wait, settle
from pyspark_zkafka.testing.servers import BrokerView, ClusterServers, wait_for_zookeeper
from pyspark_zkafka.testing.spec import ZOOKEEPER, Server
from pyspark_zkafka.testing.topics import AdminTopics, Record, ZnodeTopics, produce, spread


@dataclass(kw_only=True, eq=False, repr=False)
class LocalCluster(ClusterServers):
    """Brokers on 127.0.0.1, with one ZooKeeper or KRaft controllers, and with their own ports and data folder.

    All servers are ready when `start` returns, and gone when `close` returns or this process dies. Several clusters can
    run at the same time.

    Parameters
    ----------
    brokers : int
        The number of brokers. Their ids start at 0.
    kafka_version : str
        ``4.3.1``, ``3.9.1``, ``1.1.1``, ``0.11.0.3``, ``0.10.2.2``, ``0.10.0.1``, ``0.9.0.1`` and ``0.8.2.2`` are tested.
        ZooKeeper always comes from Kafka 3.9.1. Kafka 4 has no ZooKeeper.
    kraft : bool
        KRaft mode instead of ZooKeeper, for Kafka 3.3 or later. Kafka 4 always uses it.
    controllers : int, optional
        The number of separate controllers in KRaft mode, with ids from 3000. If not given, the first three brokers are
        also controllers. Implies `kraft`.
    broker_config : mapping, optional
        Overrides of each broker's configuration. Values may contain ``{id}``, ``{host}``, ``{port}``, ``{data}`` (the
        broker's folder), ``{zookeeper}`` (its ``zookeeper.connect``) and ``{port:NAME}`` (another free port, see `port`).
    controller_config, zookeeper_config : mapping, optional
        Overrides for separate controllers and for ZooKeeper, e.g. ``secureClientPort: {port:tls}``.
    racks : sequence of str, optional
        Each broker's rack.
    listeners : mapping, optional
        Listeners in addition to ``PLAINTEXT``, each with a free port on each broker: name to security protocol, e.g.
        ``{"SASL": "SASL_PLAINTEXT"}``. Set mechanisms, JAAS and key stores in `broker_config`.
    secure : bool
        A listener ``SECURE`` with TLS and a login by password (SCRAM), whose `client_properties` the cluster chooses. The
        plain-text listener stays. For Kafka 2.7 or later, in KRaft mode 3.5.
    client_config : mapping, optional
        librdkafka's configuration for this class's own clients, if `broker_config` removes the plain-text listener.
    broker_heap_mb, zookeeper_heap_mb : int
        The largest heap of each process, in MiB. Controllers have the heap of a broker.
    broker_jvm_options, zookeeper_jvm_options : sequence of str
        Further options of the JVMs, e.g. ``-Djava.security.auth.login.config=...``.
    startup_timeout_s : float
        Time limit of `start` and `restart`, in seconds, after the jars are fetched.

    Notes
    -----
    Needs Java 17 and, the first time for each version, the network (see `fetch_jars`). A server is the id of a broker or
    controller, or ``"zookeeper"``. Errors are `LocalClusterError`. Leaders move only when a test moves them
    (``auto.leader.rebalance.enable`` is off), and topics are not created automatically. To start faster, the JVMs use only
    the compiler C1. Set ``-XX:TieredStopAtLevel=4`` in `broker_jvm_options` to enable C2.

    Examples
    --------
        with LocalCluster(brokers=2) as cluster:
            cluster.create_topic("orders", partitions=2, replication=2)
            cluster.produce("orders", [{"key": b"a", "value": b"1", "partition": 0}])  # {0: [0]}
            cluster.kill(0)
            cluster.wait_for_leader("orders", 0, not_broker=0)  # 1
    """

    def __repr__(self) -> str:
        return f"LocalCluster(brokers={self.brokers}, kafka_version={self.kafka_version!r})"

    def start(self) -> LocalCluster:
        """Start all servers, and return this cluster when every broker knows all other brokers. Takes 3 to 6 s.

        The first start of a version takes some 10 s more: it archives the servers' classes in the cache folder. Does
        nothing if the servers run. If the start fails, nothing remains.
        """
        if self._running:
            return self
        self._prepare()
        self._archive_classes()
        try:
            self._processes.open()
            self._start_servers(self._deadline())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all servers and remove their data. Does nothing without servers, and in a forked child."""
        self._processes.close()
        self._running.clear()

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def stop(self, server: Server) -> None:
        """Shut a server down (SIGTERM). Returns when the server has ended, and a broker is no longer registered.

        In KRaft mode, a broker can shut down only while a majority of the controllers run. `kill` works without them.
        """
        self._end(server, signal.SIGTERM)
        if server in self.broker_ids:
            self._wait_until_unregistered(int(server), self._deadline())

    def kill(self, server: Server) -> None:
        """Kill a server (SIGKILL). Returns when its process has ended. A broker's session expires later."""
        self._end(server, signal.SIGKILL)

    def pause(self, server: Server) -> None:
        """Pause a server (SIGSTOP): it keeps its connections, but answers nothing."""
        self._signal(server, signal.SIGSTOP)
        self._running.discard(server)

    def resume(self, server: Server) -> None:
        """Continue a paused server (SIGCONT). Call `wait_ready` to wait until a broker is back in the cluster."""
        self._signal(server, signal.SIGCONT)
        self._running.add(server)

    def restart(self, *servers: Server) -> None:
        """Restart servers with their ports and data. Starts them if they do not run. Returns when they are ready.

        Waits until a killed broker's old session expires, 6 s by default. In KRaft mode, a majority of the controllers
        must run afterwards: pass all the servers needed for this majority in one call.
        """
        # Brokers need ZooKeeper, or the controllers, to stop and to start.
        for server in sorted(servers, key=lambda server: server not in self.broker_ids):
            if self.pid(server) is not None:
                self.stop(server)
        deadline = self._deadline()
        for server in sorted(servers, key=lambda server: server in self.broker_ids):
            if not self.is_kraft and server in self.broker_ids:  # in KRaft mode, brokers wait by themselves
                self._wait_until_unregistered(int(server), deadline)
            self._launch(server)
            if server == ZOOKEEPER:
                wait_for_zookeeper(self._processes, deadline)
        self._wait_ready(deadline)

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until all servers are ready, except for stopped, killed and paused servers."""
        self._wait_ready(self._deadline() if timeout_s is None else Wait(timeout_s))

    def expire_session(self, session_id: int, password: bytes) -> None:
        """Expire the ZooKeeper session of another client. A kazoo client has both arguments in its ``client_id``."""
        resume = zookeeper_protocol.Connect(0, 0, 10_000, session_id, password, False).serialize()
        close = zookeeper_protocol.int_int_struct.pack(1, zookeeper_protocol.Close.type)
        # Both at once over one connection: a client that only resumes the session loses it to its owner, which reconnects.
        with socket.create_connection((LOOPBACK, self.port(ZOOKEEPER)), SETTLE_TIMEOUT_S) as connection:
            connection.sendall(b"".join(len(frame).to_bytes(4, "big") + frame for frame in (resume, close)))
            while connection.recv(4096):  # until the server has closed the session, and then this connection
                pass

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic. Returns when every running broker knows a leader of every partition.

        Replicas are assigned to the running brokers in turn. `assignment` replaces `partitions` and `replication`: it lists
        each partition's replicas, the preferred leader first.
        """
        with self._topics() as topics:
            replicas = assignment or spread(range(partitions), replication, self.running_broker_ids)
            topics.create(name, replicas, config or {})
        self._wait_for_leaders(name, len(replicas))

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions, to a total of `total`. Returns when every running broker knows a leader of each partition."""
        present = self.assignment(name)
        if total <= len(present):
            raise BAD_CLUSTER(f"{name} has {len(present)} partitions, and {total} are not more; give a larger total")
        running = self.running_broker_ids
        more = spread(range(len(present), total), min(len(present[0]), len(running)), running)
        with self._topics(first=(1,)) as topics:
            topics.extend(name, more)
        self._wait_for_leaders(name, total)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Returns when it is gone from every running broker's metadata, and from ZooKeeper."""
        with self._topics() as topics:
            topics.delete(name)
        with self._metadata() as watch:
            watch.agree(lambda views: all(name not in v.leaders for v in views), f"topic {name} is not gone")
        with self._topic_state() as state:
            settle(
                lambda: state.is_gone(name), f"topic {name} still exists; check that the brokers of all its replicas run"
            )

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records before an offset (-1: all records), and return the log start offset of each partition."""
        with self._topics() as topics:
            return topics.delete_records(topic, before)

    def produce(
        self, topic: str, records: Iterable[Record], config: Mapping[str, object] | None = None
    ) -> dict[int, list[int]]:
        """Produce records, and return their offsets by partition when all in-sync replicas have acknowledged them.

        Records are dicts with any of key, value, partition, headers (list of pairs, or dict) and timestamp (milliseconds
        since the epoch), or tuples in that order. Texts are encoded as UTF-8. `config` adds to the producer's
        configuration, in librdkafka's names.
        """
        return produce({**self._client_settings(), **(config or {})}, topic, records)

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Return each partition's replicas, the preferred leader first."""
        with self._topic_state() as state:
            return state.assignment(topic)

    def wait_for_leader(
        self, topic: str, partition: int, not_broker: int | None = None, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> int:
        """Wait until all running brokers agree on a running leader other than `not_broker`, and return it."""

        def led(views: list[BrokerView]) -> bool:
            leaders = {v.leaders.get(topic, {}).get(partition, -1) for v in views}
            return len(leaders) == 1 and leaders <= set(self.running_broker_ids) - {not_broker}

        with self._metadata() as watch:
            views = watch.agree(led, f"{topic}-{partition} has no agreed leader (other than {not_broker})", timeout_s)
        return views[0].leaders[topic][partition]

    def wait_in_sync(self, topic: str, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Wait until all replicas of all partitions of a topic are in sync."""
        with self._topic_state() as state:
            assignment = state.assignment(topic)
            lack = f"not all replicas of {topic} are in sync; check that all of their brokers run"
            settle(lambda: state.all_in_sync(topic, assignment), lack, timeout_s)

    def elect_preferred_leaders(self, topic: str, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Elect each partition's first replica when all replicas are in sync. Returns when all running brokers know."""
        self.wait_in_sync(topic, timeout_s)
        preferred = {p: replicas[0] for p, replicas in self.assignment(topic).items()}
        with self._topic_state() as state:
            settle(lambda: state.request_election(topic, preferred), "another election is still in progress", timeout_s)
        lack = f"the partitions of {topic} are not led by their preferred replicas {preferred}"
        with self._metadata() as watch:
            watch.agree(lambda views: all(v.leaders.get(topic) == preferred for v in views), lack, timeout_s)

    def _archive_classes(self) -> None:
        """Archive the servers' classes once for each Java and version of Kafka, by running a cluster of one broker."""
        servers: list[Server] = [0] if self.is_kraft else [ZOOKEEPER, 0]
        archives = {server: self._archive(server) for server in servers}
        own = (*self.broker_jvm_options, *self.zookeeper_jvm_options)
        if all(archive.is_file() for archive in archives.values()) or any("ArchiveClassesAtExit" in o for o in own):
            return
        lock = archives[0].with_name(".lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a")
        except OSError:  # the cache is read-only
            return
        with file, ExitStack() as archiving:
            fcntl.flock(file, fcntl.LOCK_EX)
            options = {server: archiving.enter_context(archiving_classes(a)) for server, a in archives.items()}
            if all(archive.is_file() for archive in archives.values()) or not all(options.values()):
                return
            with LocalCluster(
                brokers=1,
                kafka_version=self.kafka_version,
                kraft=self.is_kraft,
                broker_jvm_options=options[0],
                zookeeper_jvm_options=options.get(ZOOKEEPER, ()),
                startup_timeout_s=self.startup_timeout_s,
            ) as cluster:
                cluster.create_topic("archived")
                cluster.produce("archived", [{"value": b"v"}])
                for server in reversed(servers):
                    cluster.stop(server)

    def _topics(self, first: tuple[int, ...] = (0, 10, 2)) -> AbstractContextManager[AdminTopics | ZnodeTopics]:
        """Open the topics for a change that brokers carry out on request from the version `first` on."""
        return self._open_topics(through_brokers=spec.version_tuple(self.kafka_version) >= first)

    def _topic_state(self) -> AbstractContextManager[AdminTopics | ZnodeTopics]:
        return self._open_topics(through_brokers=self.is_kraft)

    @contextmanager
    def _open_topics(self, *, through_brokers: bool) -> Iterator[AdminTopics | ZnodeTopics]:
        if through_brokers:
            # Close the client on this thread: closed by the garbage collector on its own thread, it aborts the process.
            with AdminClient(self._client_settings()) as admin:
                yield AdminTopics(admin)
        else:
            with self.zookeeper() as client:
                yield ZnodeTopics(client)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        with self._metadata() as watch:
            lack = f"not every partition of {topic} has a leader"
            watch.agree(lambda views: all(view.is_led(topic, partitions) for view in views), lack)
