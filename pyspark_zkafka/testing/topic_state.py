"""State of a local cluster's topics: in znodes, or, in KRaft mode, in the brokers' metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import znodes

__all__ = ["MetadataState", "TopicState", "ZnodeState", "open_metadata_state", "open_znode_state"]

_REQUEST_TIMEOUT_S = 10.0
_ELECTED = (KafkaError.NO_ERROR, KafkaError.ELECTION_NOT_NEEDED)


class TopicState(Protocol):
    """Assignments, in-sync replicas and elections of topics."""

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Each partition's replicas, the preferred leader first; raises `NO_SUCH_TOPIC`."""
        ...

    def is_gone(self, topic: str) -> bool:
        """True if nothing is left of a deleted topic."""
        ...

    def all_in_sync(self, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
        """True if each partition's isr is its whole assignment."""
        ...

    def request_election(self, topic: str, partitions: Iterable[int]) -> bool:
        """Request a preferred leader election; False if it is to be requested again."""
        ...


class ZnodeState:
    """The state in ZooKeeper."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def assignment(self, topic: str) -> dict[int, list[int]]:
        return znodes.read_assignment(self._client, topic)

    def is_gone(self, topic: str) -> bool:
        return self._client.exists(f"/brokers/topics/{topic}") is None

    def all_in_sync(self, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
        return znodes.all_in_sync(self._client, topic, assignment)

    def request_election(self, topic: str, partitions: Iterable[int]) -> bool:
        return znodes.request_election(self._client, topic, partitions)


class MetadataState:
    """The state in the metadata of one of the brokers; KRaft's controllers answer no client before Kafka 3.7."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def assignment(self, topic: str) -> dict[int, list[int]]:
        found = self._partitions(topic)
        if not found:
            raise znodes.no_such_topic(topic)
        return {p: list(found[p].replicas) for p in sorted(found)}

    def is_gone(self, topic: str) -> bool:
        return not self._partitions(topic)

    def all_in_sync(self, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
        found = self._partitions(topic)
        return all(p in found and set(found[p].isrs) == set(replicas) for p, replicas in assignment.items())

    def request_election(self, topic: str, partitions: Iterable[int]) -> bool:
        asked = [TopicPartition(topic, p) for p in partitions]
        try:
            # confluent-kafka 2.16 fails with any keyword argument here.
            answers = self._admin.elect_leaders(ElectionType.PREFERRED, asked).result()
        except KafkaException:
            return False
        return all(error is None or error.code() in _ELECTED for error in answers.values())

    def _partitions(self, topic: str) -> Mapping[int, Any]:
        """The partitions, from the metadata of all topics: to request one by name could create it."""
        try:
            found = self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics.get(topic)
        except KafkaException as exc:
            raise LocalClusterError("BROKERS_SILENT", f"No broker of the local cluster answers: {exc}") from exc
        return {} if found is None or found.error is not None else found.partitions


@contextmanager
def open_znode_state(session: AbstractContextManager[KazooClient]) -> Iterator[TopicState]:
    """The state in ZooKeeper, through a session that ends with the block."""
    with session as client:
        yield ZnodeState(client)


@contextmanager
def open_metadata_state(settings: Mapping[str, object]) -> Iterator[TopicState]:
    """The state in the brokers' metadata, through a client that is closed with the block, on this thread."""
    with AdminClient(dict(settings)) as admin:
        yield MetadataState(admin)
