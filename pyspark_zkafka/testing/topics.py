"""Topics of a local cluster: requests to change them, their state through brokers or znodes, and test records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from confluent_kafka import ElectionType, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.conditions import (
    BAD_RECORD,
    BAD_REPLICATION,
    BROKERS_SILENT,
    NO_SUCH_TOPIC,
    NOT_DELIVERED,
    NOT_IN_THIS_VERSION,
    REFUSED_BY_CLUSTER,
)
from pyspark_zkafka.testing.processes import Wait

Record: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

_REQUEST_TIMEOUT_S = 30
_METADATA_TIMEOUT_S = 10.0
_PASSING = (KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN)
_ELECTED = (KafkaError.NO_ERROR, KafkaError.ELECTION_NOT_NEEDED)

_RECORD_FIELDS = ("key", "value", "partition", "headers", "timestamp")
_FLUSH_TIMEOUT_S = 60
_NEW_PARTITIONS_S = 5.0
_PAUSE_S = 0.2


class AdminTopics:
    """Topics, through admin requests to brokers: 0.10.2 or later, 0.11 to delete records, 1.0 to add partitions.

    A change returns when the cluster has accepted the request. The state comes from a broker's metadata, because KRaft's
    controllers answer no client before Kafka 3.7.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a topic with the given replicas of each partition."""
        replicas = [list(assignment[p]) for p in sorted(assignment)]
        topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(config))
        self._do(f"create topic {name}", self._admin.create_topics, [topic])

    def delete(self, name: str) -> None:
        """Mark a topic for deletion."""
        self._do(f"delete topic {name}", self._admin.delete_topics, [name])

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Add the partitions in `assignment`. Their numbers must follow the existing partitions."""
        added = NewPartitions(name, max(assignment) + 1, [list(assignment[p]) for p in sorted(assignment)])
        self._do(f"add partitions to {name}", self._admin.create_partitions, [added])

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records before an offset (-1: all records), and return the log start offset of each partition."""
        ends = [TopicPartition(name, p, offset) for p, offset in before.items()]
        done = self._do(f"delete records of {name}", self._admin.delete_records, ends)
        return {tp.partition: deleted.low_watermark for tp, deleted in done.items()}

    def _do(self, what: str, request: Callable[..., Mapping[Any, Future[Any]]], subjects: list[Any]) -> dict[Any, Any]:
        """Send a request, repeated while the controller moves or has lost ZooKeeper. Returns the results by key.

        If the controller lost ZooKeeper, the request may have succeeded. The repeated request then fails as a duplicate.
        """
        deadline = Wait(_REQUEST_TIMEOUT_S)
        while True:
            try:
                answers = request(subjects, request_timeout=_REQUEST_TIMEOUT_S)
                return {key: future.result(_REQUEST_TIMEOUT_S + 5) for key, future in answers.items()}
            except KafkaException as exc:
                if exc.args[0].code() not in _PASSING or deadline.left_s <= 0:
                    raise _refused(what, exc) from exc
            time.sleep(0.5)
            with suppress(KafkaException):  # if no broker answers, the request itself fails
                self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S)  # librdkafka finds the new controller

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Return each partition's replicas, the preferred leader first. Raises `NO_SUCH_TOPIC`."""
        found = self._partitions(topic)
        if not found:
            raise _no_such_topic(topic)
        return {p: list(found[p].replicas) for p in sorted(found)}

    def is_gone(self, topic: str) -> bool:
        """True if nothing is left of a deleted topic."""
        return not self._partitions(topic)

    def all_in_sync(self, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
        """True if each partition's ISR has all its replicas."""
        found = self._partitions(topic)
        return all(p in found and set(found[p].isrs) == set(replicas) for p, replicas in assignment.items())

    def request_election(self, topic: str, partitions: Iterable[int]) -> bool:
        """Request a preferred leader election. Returns False if the caller must request it again."""
        asked = [TopicPartition(topic, p) for p in partitions]
        try:
            # confluent-kafka 2.16 fails with any keyword argument here.
            answers = self._admin.elect_leaders(ElectionType.PREFERRED, asked).result()
        except KafkaException:
            return False
        return all(error is None or error.code() in _ELECTED for error in answers.values())

    def _partitions(self, topic: str) -> Mapping[int, Any]:
        """Read the partitions from the metadata of all topics, because a request by name could create the topic."""
        try:
            found = self._admin.list_topics(timeout=_METADATA_TIMEOUT_S).topics.get(topic)
        except KafkaException as exc:
            raise BROKERS_SILENT(f"No broker of the local cluster answers: {exc}") from exc
        return {} if found is None or found.error is not None else found.partitions


class ZnodeTopics:
    """Topics, through znodes that controllers before 1.0 watch. Requests changes like AdminUtils of Kafka 0.8.2.2."""

    def __init__(self, zookeeper: KazooClient) -> None:
        self._zookeeper = zookeeper

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        with _refusals(f"create topic {name}"):
            self._zookeeper.ensure_path(f"/config/topics/{name}")
            self._zookeeper.set(f"/config/topics/{name}", _json({"version": 1, "config": dict(config)}))
            self._zookeeper.create(f"/brokers/topics/{name}", _topic_data(assignment), makepath=True)

    def delete(self, name: str) -> None:
        with _refusals(f"delete topic {name}"):
            self._zookeeper.get(f"/brokers/topics/{name}")
            self._zookeeper.create(f"/admin/delete_topics/{name}", b"", makepath=True)

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        with _refusals(f"add partitions to {name}"):
            present = self.assignment(name)
            self._zookeeper.set(f"/brokers/topics/{name}", _topic_data({**present, **assignment}))

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        raise NOT_IN_THIS_VERSION("This broker cannot delete records on request; start Kafka 0.11 or later")

    def assignment(self, topic: str) -> dict[int, list[int]]:
        if self.is_gone(topic):
            raise _no_such_topic(topic)
        found = json.loads(self._zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]
        return {int(p): found[p] for p in sorted(found, key=int)}

    def is_gone(self, topic: str) -> bool:
        return self._zookeeper.exists(f"/brokers/topics/{topic}") is None

    def all_in_sync(self, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
        return all(self._isr(topic, partition) == set(replicas) for partition, replicas in assignment.items())

    def _isr(self, topic: str, partition: int) -> set[int]:
        try:
            data, _ = self._zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        except NoNodeError:
            return set()
        return set(json.loads(data)["isr"])

    def request_election(self, topic: str, partitions: Iterable[int]) -> bool:
        request = {"version": 1, "partitions": [{"topic": topic, "partition": p} for p in partitions]}
        try:
            self._zookeeper.create("/admin/preferred_replica_election", _json(request), makepath=True)
        except NodeExistsError:  # another election is in progress
            return False
        return True


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Map kazoo's errors inside the block to `REFUSED_BY_CLUSTER`."""
    try:
        yield
    except NodeExistsError as exc:
        raise _refused(what, "it already exists, or the request is in progress") from exc
    except NoNodeError as exc:
        raise _refused(what, "it does not exist") from exc
    except KazooException as exc:
        raise _refused(what, exc) from exc


def _refused(what: str, why: object) -> LocalClusterError:
    return REFUSED_BY_CLUSTER(f"The local cluster did not {what}: {why}")


def _no_such_topic(topic: str) -> LocalClusterError:
    return NO_SUCH_TOPIC(f"There is no topic {topic}; create it with create_topic")


def _topic_data(assignment: Mapping[int, Sequence[int]]) -> bytes:
    return _json({"version": 1, "partitions": {str(p): list(replicas) for p, replicas in assignment.items()}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def spread(partitions: range, replication: int, brokers: Sequence[int]) -> dict[int, list[int]]:
    """Assign replicas of the partitions to the brokers in turn.

    >>> spread(range(3), 2, [0, 1, 2])
    {0: [0, 1], 1: [1, 2], 2: [2, 0]}
    """
    if not 1 <= replication <= len(brokers):
        raise BAD_REPLICATION(
            f"{replication} replicas are not possible with {len(brokers)} running brokers; request 1 to {len(brokers)}"
        )
    return {p: [brokers[(p + i) % len(brokers)] for i in range(replication)] for p in partitions}


def produce(settings: Mapping[str, object], topic: str, records: Iterable[Record]) -> dict[int, list[int]]:
    """Produce records, and return their offsets by partition, in the order of acknowledgement.

    Retries a record of an unknown partition for 5 s, because a broker may not know an added partition yet. Raises
    `BAD_RECORD` and `NOT_DELIVERED`.
    """
    offsets: dict[int, list[int]] = {}
    refused: list[tuple[KafkaError, Message]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append((error, message))
        else:
            offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)

    producer = Producer({"acks": "all", "linger.ms": 5, **settings, "on_delivery": delivered})
    count = 0
    for record in records:
        _send(producer, topic, producer_arguments(record), time.monotonic() + _NEW_PARTITIONS_S)
        count += 1
    waiting = producer.flush(_FLUSH_TIMEOUT_S)
    deadline = time.monotonic() + _NEW_PARTITIONS_S
    # A record of an unknown partition was never sent.
    while refused and all(e.code() == KafkaError._UNKNOWN_PARTITION for e, _ in refused) and time.monotonic() < deadline:
        again, refused[:] = refused[:], []
        for error, message in again:
            record = message.key(), message.value(), message.partition(), message.headers(), message.timestamp()[1]
            try:
                _send(producer, topic, producer_arguments(record), deadline)
            except LocalClusterError:  # still unknown
                refused.append((error, message))
        waiting = producer.flush(_FLUSH_TIMEOUT_S)
    if waiting or refused:
        reason = refused[0][0] if refused else f"no answer within {_FLUSH_TIMEOUT_S} s"
        raise NOT_DELIVERED(
            f"Of {count} records for topic {topic}, {waiting + len(refused)} were not acknowledged; "
            f"the first reason: {reason}. Check that all leaders run",
            topic=topic,
        )
    return offsets


def _send(producer: Producer, topic: str, arguments: dict[str, Any], deadline: float) -> None:
    while True:
        try:
            producer.produce(topic, **arguments)
            break
        except BufferError:
            producer.poll(0.5)
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError._UNKNOWN_PARTITION or time.monotonic() >= deadline:
                raise NOT_DELIVERED(f"A record for topic {topic} was refused: {exc}", topic=topic) from exc
            time.sleep(_PAUSE_S)
            with suppress(KafkaException):
                producer.list_topics(topic, timeout=_METADATA_TIMEOUT_S)  # librdkafka does not ask again by itself
    producer.poll(0)


def producer_arguments(record: Record) -> dict[str, Any]:
    """Convert a record to arguments of `Producer.produce`, without null fields. Raises `BAD_RECORD`."""
    if isinstance(record, Mapping):
        fields, good = record, record.keys() <= set(_RECORD_FIELDS)
    else:
        fields = dict(zip(_RECORD_FIELDS, record, strict=False))
        good = not isinstance(record, str | bytes) and len(record) <= len(_RECORD_FIELDS)
    if not good:
        raise BAD_RECORD(
            f"A record has the fields {', '.join(_RECORD_FIELDS)}; found {record!r}. Use a dict, or a tuple in that order",
        )
    arguments = {name: value for name, value in fields.items() if value is not None}
    if (headers := arguments.get("headers")) is not None:
        arguments["headers"] = list(headers.items() if isinstance(headers, Mapping) else headers)
    return arguments
