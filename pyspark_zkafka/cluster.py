"""The cluster's state, from ZooKeeper or from the brokers. Both give the same kind of snapshot."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import MIGRATED_TO_KRAFT, NO_BROKERS, NO_LISTENER, WRONG_SECURITY_PROTOCOL
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot
from pyspark_zkafka.model.planning import Listener, SubscribePattern, Subscription, requested_topics
from pyspark_zkafka.options.values import ConnectionOptions

if TYPE_CHECKING:
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)


class ClusterSource(Protocol):
    """A source of cluster state: ZooKeeper, or the brokers' metadata."""

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        ...

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Return the brokers, and the requested topics that exist; by default, all topics."""
        ...


def subscribed_topics(subscription: Subscription, cluster: ClusterSource) -> list[str]:
    """Return the topics to look up; see `requested_topics`. A pattern also requires the names of all topics."""
    by_pattern = isinstance(subscription, SubscribePattern)
    return requested_topics(subscription, cluster.topic_names() if by_pattern else ())


@contextmanager
def open_cluster(connection: ConnectionOptions) -> Iterator[ClusterSource]:
    """Open a source of the cluster's state. Raises ZooKeeperError if ZooKeeper cannot be reached.

    Brokers are not contacted before the first request.
    """
    if connection.zookeeper is not None:
        from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

        with ZooKeeperClient(connection.zookeeper) as zookeeper, ExitStack() as opened:
            yield ZooKeeperSource(zookeeper, connection, opened)
    else:
        with KafkaAdmin.of(connection) as admin:
            yield admin


class ZooKeeperSource:
    """The cluster's state from ZooKeeper, and from the brokers once they have left ZooKeeper for KRaft."""

    def __init__(self, zookeeper: ZooKeeperClient, connection: ConnectionOptions, opened: ExitStack) -> None:
        self.zookeeper = zookeeper
        self.brokers: KafkaAdmin | None = None
        self._connection = connection
        self._opened = opened

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted. Blocks for two rounds of requests."""
        if self.zookeeper.all_brokers_migrated():
            return self._admin(self.zookeeper.snapshot([])).topic_names()
        return self.zookeeper.topic_names()

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Return the brokers, and the requested topics that exist; see `current_snapshot`."""
        found = self.zookeeper.snapshot(topics)
        if not found.is_outdated:
            return found
        return current_snapshot(found, self._admin(found), self._connection, topics)

    def _admin(self, outdated: ClusterSnapshot) -> KafkaAdmin:
        if self.brokers is None:
            admin = KafkaAdmin.of(self._connection, bootstrap_servers(self._connection, outdated))
            self.brokers = self._opened.enter_context(admin)
            _log.warning("%s", describe_migration(outdated))
        return self.brokers


def open_admin(cluster: ClusterSource, connection: ConnectionOptions, servers: str) -> AbstractContextManager[KafkaAdmin]:
    """Open an admin client of the brokers, or share the open client of the cluster source."""
    opened = cluster.brokers if isinstance(cluster, ZooKeeperSource) else cluster
    return nullcontext(opened) if isinstance(opened, KafkaAdmin) else KafkaAdmin.of(connection, servers)


def current_snapshot(
    outdated: ClusterSnapshot, admin: KafkaAdmin, connection: ConnectionOptions, topics: Collection[str] | None
) -> ClusterSnapshot:
    """Return the current snapshot of a cluster whose snapshot in ZooKeeper is outdated.

    While some brokers are in ZooKeeper, only the addresses of the other brokers are missing there. Once all brokers have
    left, their metadata replaces ZooKeeper's.
    """
    known = admin.snapshot(outdated.topics if outdated.brokers else topics)
    brokers = {broker.id: of_listener(broker, connection.listener) for broker in known.brokers.values()}
    return completed(outdated, replace(known, brokers=brokers))


def completed(outdated: ClusterSnapshot, known: ClusterSnapshot) -> ClusterSnapshot:
    """Complete an outdated snapshot of ZooKeeper with brokers from their own snapshot, `known`.

    Once all brokers have left ZooKeeper, the result also has the topics of `known`.
    """
    return replace(outdated if outdated.brokers else known, brokers={**known.brokers, **outdated.brokers})


def describe_migration(outdated: ClusterSnapshot) -> str:
    """Return the warning for an outdated snapshot of ZooKeeper."""
    if outdated.brokers:
        return (
            "The cluster is being migrated to KRaft, and some brokers have left ZooKeeper. Set kafka.bootstrap.servers, "
            "and remove zookeeper.connect"
        )
    return "All brokers have left ZooKeeper for KRaft, and its data are out of date. Remove zookeeper.connect"


def of_listener(broker: Broker, listener: Listener) -> Broker:
    """Add the requested listener's name to a broker's endpoints, because the brokers' metadata lacks listener names."""
    if listener.name is None:
        return broker
    return replace(broker, endpoints=tuple(replace(e, listener=listener.name) for e in broker.endpoints))


def bootstrap_servers(connection: ConnectionOptions, snapshot: ClusterSnapshot) -> str:
    """Return the user's bootstrap servers, or else the live brokers' endpoints of the requested listener.

    The form is ``host:port,...``. Raises ClusterStateError if no broker is registered or has the listener, all brokers have
    left ZooKeeper, or the listener has another security protocol.
    """
    if connection.bootstrap_servers is not None:
        return connection.bootstrap_servers
    if not snapshot.brokers and snapshot.kraft_epoch >= 0:
        raise MIGRATED_TO_KRAFT(
            "All brokers have left ZooKeeper for KRaft: /brokers/ids is empty, and /controller is a controller of KRaft; "
            "ZooKeeper's state is out of date. Set kafka.bootstrap.servers to the brokers' addresses",
        )
    if not snapshot.brokers:
        raise NO_BROKERS(
            "No live broker is registered under /brokers/ids; start one, or check the chroot in zookeeper.connect",
        )
    listener, brokers = connection.listener, snapshot.brokers.values()
    found = [endpoint for broker in brokers if (endpoint := listener.endpoint(broker)) is not None]
    if not found:
        requested = listener.name or f"with kafka.security.protocol {listener.security_protocol}"
        registered = sorted({f"{e.listener} ({e.security_protocol})" for broker in brokers for e in broker.endpoints})
        raise NO_LISTENER(
            f"No broker has a listener {requested}; the brokers register {', '.join(registered)}. "
            "Set listener.name or kafka.security.protocol accordingly",
        )
    for endpoint in found:  # with another protocol, librdkafka would retry until the time-out
        if endpoint.security_protocol.upper() != listener.security_protocol.upper():
            raise WRONG_SECURITY_PROTOCOL(
                f"The listener {endpoint.listener} at {endpoint} is registered with {endpoint.security_protocol}, and "
                f"kafka.security.protocol is {listener.security_protocol}; set it to {endpoint.security_protocol}, or, if "
                "a proxy converts the protocol, set kafka.bootstrap.servers to the proxy's address",
            )
    return ",".join(map(str, found))
