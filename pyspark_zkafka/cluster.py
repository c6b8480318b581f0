"""The cluster's state, from ZooKeeper where there is one, else from the brokers: the same snapshot either way."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.protocol.model import ClusterSnapshot, Endpoint
from pyspark_zkafka.protocol.planning import Listener

__all__ = ["ClusterSource", "bootstrap_servers", "open_cluster"]


class ClusterSource(Protocol):
    """Cluster state that both ZooKeeper and the brokers' metadata provide."""

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted."""
        ...

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """The brokers, and the requested topics that exist; all topics by default."""
        ...


@contextmanager
def open_cluster(connection: Connection) -> Iterator[ClusterSource]:
    """An open source of the cluster's state; raises ZooKeeperError or BrokersUnavailable if it cannot be reached."""
    if connection.zookeeper is not None:
        from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

        with ZooKeeperClient(connection.zookeeper) as zookeeper:
            yield zookeeper
    else:
        with KafkaAdmin.of(connection) as admin:
            yield admin


def bootstrap_servers(connection: Connection, snapshot: ClusterSnapshot) -> str:
    """Bootstrap servers, ``host:port,...``: the user's, else the live brokers' endpoints of the requested listener.

    Raises ClusterStateError if no broker is registered, none has the listener, or it has another security protocol.
    """
    if connection.bootstrap_servers is not None:
        return connection.bootstrap_servers
    if not snapshot.brokers:
        raise ClusterStateError(
            "NO_BROKERS",
            "No live broker is registered under /brokers/ids; start one, or check the chroot in zookeeper.connect",
        )
    endpoints = [connection.listener.endpoint(broker) for broker in snapshot.brokers.values()]
    found = [endpoint for endpoint in endpoints if endpoint is not None]
    if not found:
        raise _no_listener(connection, snapshot)
    _require_protocol(connection.listener, found)
    return ",".join(map(str, found))


def _require_protocol(listener: Listener, endpoints: Collection[Endpoint]) -> None:
    """Raise for a listener, chosen by name, of another security protocol: librdkafka would retry until it times out."""
    for endpoint in endpoints:
        if endpoint.security_protocol.upper() != listener.security_protocol.upper():
            raise ClusterStateError(
                "WRONG_SECURITY_PROTOCOL",
                f"The listener {endpoint.listener} at {endpoint} is registered with {endpoint.security_protocol}, and "
                f"kafka.security.protocol is {listener.security_protocol}; set it to {endpoint.security_protocol}, or, if "
                "a proxy converts the protocol, set kafka.bootstrap.servers to the proxy's address",
            )


def _no_listener(connection: Connection, snapshot: ClusterSnapshot) -> ClusterStateError:
    requested = connection.listener.name or f"with kafka.security.protocol {connection.listener.security_protocol}"
    registered = sorted({f"{e.listener} ({e.security_protocol})" for b in snapshot.brokers.values() for e in b.endpoints})
    return ClusterStateError(
        "NO_LISTENER",
        f"No broker has a listener {requested}; the brokers register {', '.join(registered)}; "
        "set listener.name or kafka.security.protocol accordingly",
    )
