"""Reads of a whole cluster for the exporter, over connections that stay open between scrapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark_zkafka.cluster import bootstrap_servers
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.kafka.group_admin import GroupAdmin
from pyspark_zkafka.operations.group_reads import Logs, OffsetsStorage, read_groups, read_logs
from pyspark_zkafka.operations.group_state import GroupState
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

if TYPE_CHECKING:
    from pyspark_zkafka.options.model import Connection
    from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition

__all__ = ["BrokerReader", "Brokers", "Ensemble", "EnsembleReader", "Selection"]

_EVERYTHING = re.compile("")


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics and groups to show: those in whose name the regex is found."""

    topics: re.Pattern[str] = _EVERYTHING
    groups: re.Pattern[str] = _EVERYTHING


@dataclass(frozen=True, slots=True)
class Ensemble:
    """State of the cluster in ZooKeeper."""

    snapshot: ClusterSnapshot
    controller_epoch: int | None = None
    groups: Mapping[str, GroupState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The bounds of the logs, and the groups' offsets and numbers of members in Kafka."""

    logs: Logs
    kafka_offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    kafka_members: Mapping[str, int] = field(default_factory=dict)


class EnsembleReader:
    """Reader of the cluster's state in ZooKeeper. It reconnects after an error. Use it from one thread."""

    def __init__(self, connection: Connection, selection: Selection) -> None:
        if connection.zookeeper is None:
            raise OptionError(
                "INVALID_OPTION",
                "The exporter reads ZooKeeper; use --zookeeper (or ZKAFKA_ZOOKEEPER), or kafka_exporter for a cluster "
                "without it",
            )
        self._config = connection.zookeeper
        self._selection = selection
        self._opened = ExitStack()
        self._client: ZooKeeperClient | None = None

    def read(self) -> Ensemble:
        """The cluster's state; blocks for some seven rounds of requests.

        Groups come first: with logs that are read later, no lag is negative because of a commit between the two.
        """
        try:
            client = self._client = self._client or self._opened.enter_context(ZooKeeperClient(self._config))
            groups = read_groups(client, matching=self._selection.groups)
            topics = [name for name in client.topic_names() if self._selection.topics.search(name)]
            return Ensemble(client.snapshot(topics), _controller_epoch(client), groups)
        except ZKafkaError:
            self.close()
            raise

    def close(self) -> None:
        """Close the session, if there is one."""
        self._client = None
        self._opened.close()


def _controller_epoch(client: ZooKeeperClient) -> int | None:
    node = client.get_many([znodes.CONTROLLER_EPOCH]).get(znodes.CONTROLLER_EPOCH)
    return None if node is None else znodes.decode_controller_epoch(znodes.CONTROLLER_EPOCH, node.data)


class BrokerReader:
    """Reader of the logs' bounds and of offsets in Kafka. It connects anew after an error. Use it from one thread."""

    def __init__(self, connection: Connection, storage: OffsetsStorage, timeout_s: float) -> None:
        timeout_ms = min(int(connection.kafka.get("socket.timeout.ms", 30_000)), int(timeout_s * 1000))
        self._connection = connection
        self._properties = {**connection.kafka, "socket.timeout.ms": timeout_ms}
        self._storage = storage
        self._opened = ExitStack()
        self._client: GroupAdmin | None = None
        self._servers = ""

    def read(self, ensemble: Ensemble) -> Brokers:
        """The bounds of the logs in the snapshot; blocks for two requests to each leader, and two to each coordinator."""
        try:
            client = self._connect(bootstrap_servers(self._connection, ensemble.snapshot))
            groups = () if self._storage == "zookeeper" else ensemble.groups
            in_kafka, states = client.committed_many(groups), client.group_states(groups)
            members = {name: len(state.members) for name, state in states.items()}
            return Brokers(read_logs(lambda: client, ensemble.snapshot), in_kafka, members)
        except ZKafkaError:
            self.close()
            raise

    def _connect(self, servers: str) -> GroupAdmin:
        if self._client is None or servers != self._servers:
            self.close()
            self._servers = servers
            self._client = GroupAdmin(servers, self._properties)
            self._opened.enter_context(self._client)
        return self._client

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._client = None
        self._opened.close()
