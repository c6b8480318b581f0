"""The cluster's state, from ZooKeeper where there is one, else from the brokers: the same snapshot either way."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from pyspark_zkafka.clients.admin import KafkaAdmin
from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.options import Connection
from pyspark_zkafka.protocol.model import ClusterSnapshot

__all__ = ["ClusterSource", "bootstrap_servers", "open_cluster"]


class ClusterSource(Protocol):
    """What ZooKeeper and the brokers' metadata both can tell."""

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted."""
        ...

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """The brokers and the topics that are asked for (all by default) and exist."""
        ...


@contextmanager
def open_cluster(connection: Connection) -> Iterator[ClusterSource]:
    """An open source of the cluster's state.

    Raises
    ------
    ZooKeeperError, BrokersUnavailable
        It cannot be reached in time.
    """
    if connection.zookeeper is not None:
        from pyspark_zkafka.clients.zookeeper import ZooKeeperClient

        with ZooKeeperClient(connection.zookeeper) as zookeeper:
            yield zookeeper
    else:
        with KafkaAdmin(connection.bootstrap_servers or "", connection.kafka) as admin:
            yield admin


def bootstrap_servers(connection: Connection, snapshot: ClusterSnapshot) -> str:
    """``host:port,...`` to begin with: the user's, else the live brokers' endpoints of the listener that is asked for.

    Raises
    ------
    ClusterStateError
        No broker is registered, or none has the listener.
    """
    if connection.bootstrap_servers is not None:
        return connection.bootstrap_servers
    if not snapshot.brokers:
        raise ClusterStateError(
            "NO_BROKERS",
            "ZooKeeper has no live broker under /brokers/ids; start one, or check the chroot in zookeeper.connect",
        )
    addresses = [connection.listener.address(broker) for broker in snapshot.brokers.values()]
    found = [address for address in addresses if address is not None]
    if not found:
        raise _no_listener(connection, snapshot)
    return ",".join(found)


def _no_listener(connection: Connection, snapshot: ClusterSnapshot) -> ClusterStateError:
    wanted = connection.listener.name or f"with kafka.security.protocol {connection.listener.security_protocol}"
    there = sorted({f"{e.listener} ({e.security_protocol})" for b in snapshot.brokers.values() for e in b.endpoints})
    return ClusterStateError(
        "NO_LISTENER",
        f"No broker has a listener {wanted}; they register {', '.join(there)}; "
        "set listener.name or kafka.security.protocol accordingly",
    )
