"""Topics of a local cluster, by Kafka's admin requests, or through ZooKeeper where the broker is too old for those."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.waiting import Deadline
from pyspark_zkafka.testing.znodes import read_assignment

__all__ = ["AdminTopics", "ZnodeTopics", "open_topics", "spread"]

_PASSING = (KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN)
_REQUEST_TIMEOUT_S = 30


def spread(partitions: range, replication: int, brokers: Sequence[int]) -> dict[int, list[int]]:
    """Replicas of the partitions, round the brokers.

    >>> spread(range(3), 2, [0, 1, 2])
    {0: [0, 1], 1: [1, 2], 2: [2, 0]}
    """
    if not 1 <= replication <= len(brokers):
        raise LocalClusterError(
            "BAD_REPLICATION", f"{replication} replicas were asked for; {len(brokers)} brokers are there; ask for fewer"
        )
    return {p: [brokers[(p + i) % len(brokers)] for i in range(replication)] for p in partitions}


@contextmanager
def open_topics(
    version: tuple[int, ...], settings: Mapping[str, object], zookeeper: Callable[[], AbstractContextManager[KazooClient]]
) -> Iterator[AdminTopics | ZnodeTopics]:
    """The topics of a cluster by its brokers' version."""
    if version >= (0, 10, 2):
        with closing(AdminTopics(settings)) as topics:
            yield topics
    else:
        with zookeeper() as client:
            yield ZnodeTopics(client)


class AdminTopics:
    """Topics of a broker that answers admin requests (from 0.10.2 on; delete_records from 0.11).

    Each call returns when the cluster has accepted it.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._admin = AdminClient(dict(settings))

    def close(self) -> None:
        """End the client on this thread: the garbage collector, on the client's own thread, would abort the process."""
        self._admin.__exit__(None, None, None)

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a topic with the given replicas of each partition."""
        replicas = [list(assignment[p]) for p in sorted(assignment)]
        topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(config))
        self._do(f"create topic {name}", self._admin.create_topics, [topic])

    def delete(self, name: str) -> None:
        """Mark a topic for deletion."""
        self._do(f"delete topic {name}", self._admin.delete_topics, [name])

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Add partitions: `assignment` holds the new ones alone, whose numbers follow the last present one."""
        added = NewPartitions(name, max(assignment) + 1, [list(assignment[p]) for p in sorted(assignment)])
        self._do(f"add partitions to {name}", self._admin.create_partitions, [added])

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        """The log start offset of each partition after its records before an offset were deleted (-1: all)."""
        ends = [TopicPartition(name, p, offset) for p, offset in before.items()]
        done = self._do(f"delete records of {name}", self._admin.delete_records, ends)
        return {tp.partition: deleted.low_watermark for tp, deleted in done.items()}

    def _do(self, what: str, request: Callable[..., Mapping[Any, Future[Any]]], subjects: list[Any]) -> dict[Any, Any]:
        """The results of a request, repeated while the controller moves, or fails because it has lost ZooKeeper.

        In the first case nothing was done; in the other it may have been, and the answer is that it exists already.
        """
        deadline = Deadline(_REQUEST_TIMEOUT_S)
        while True:
            try:
                answers = request(subjects, request_timeout=_REQUEST_TIMEOUT_S)
                return {key: future.result(_REQUEST_TIMEOUT_S + 5) for key, future in answers.items()}
            except KafkaException as exc:
                if exc.args[0].code() not in _PASSING or deadline.left_s <= 0:
                    raise _refused(what, exc) from exc
            time.sleep(0.5)
            with suppress(KafkaException):  # no broker answers: the request itself will fail
                self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S)  # librdkafka looks for the controller every 5 minutes


class ZnodeTopics:
    """Topics of an old broker, as znodes that its controller watches (as AdminUtils of Kafka 0.8.2.2 writes them)."""

    def __init__(self, zookeeper: KazooClient) -> None:
        self._zookeeper = zookeeper

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        with _refusals(f"create topic {name}"):
            self._zookeeper.ensure_path(f"/config/topics/{name}")
            self._zookeeper.set(f"/config/topics/{name}", _json({"version": 1, "config": dict(config)}))
            self._zookeeper.create(f"/brokers/topics/{name}", _partitions(assignment), makepath=True)

    def delete(self, name: str) -> None:
        with _refusals(f"delete topic {name}"):
            self._zookeeper.get(f"/brokers/topics/{name}")
            self._zookeeper.create(f"/admin/delete_topics/{name}", b"", makepath=True)

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        with _refusals(f"add partitions to {name}"):
            present = read_assignment(self._zookeeper, name)
            self._zookeeper.set(f"/brokers/topics/{name}", _partitions({**present, **assignment}))

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        raise LocalClusterError(
            "NOT_IN_THIS_VERSION",
            "This broker cannot delete records on request; Kafka 0.11 and newer can; start one of those",
        )


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Map kazoo's errors inside the block."""
    try:
        yield
    except NodeExistsError as exc:
        raise _refused(what, "it exists already, or that is under way") from exc
    except NoNodeError as exc:
        raise _refused(what, "it does not exist") from exc
    except KazooException as exc:
        raise _refused(what, exc) from exc


def _partitions(assignment: Mapping[int, Sequence[int]]) -> bytes:
    return _json({"version": 1, "partitions": {str(p): list(replicas) for p, replicas in assignment.items()}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _refused(what: str, why: object) -> LocalClusterError:
    return LocalClusterError("REFUSED_BY_CLUSTER", f"The local cluster did not {what}: {why}")
