"""Topics of a local cluster, by Kafka's admin requests, or through ZooKeeper where the broker is too old for those."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["AdminTopics", "Topics", "ZnodeTopics", "open_topics", "spread"]

_PASSING = (KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN)
_REQUEST_TIMEOUT_S = 30
_Result = TypeVar("_Result")


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


class Topics(Protocol):
    """Operations on topics; each call returns when the cluster has accepted it."""

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a topic with the given replicas of each partition."""
        ...

    def delete(self, name: str) -> None:
        """Mark a topic for deletion."""
        ...

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Add partitions: `assignment` holds the new ones alone, whose numbers follow the last present one."""
        ...

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        """The log start offset of each partition after its records before an offset were deleted (-1: all)."""
        ...


@contextmanager
def open_topics(
    version: tuple[int, ...], settings: Mapping[str, object], zookeeper: AbstractContextManager[KazooClient]
) -> Iterator[Topics]:
    """The topics of a cluster by its brokers' version."""
    if version >= (0, 10, 2):
        with closing(AdminTopics(settings)) as topics:
            yield topics
    else:
        with zookeeper as client:
            yield ZnodeTopics(client)


class AdminTopics(Topics):
    """Topics of a broker that answers admin requests (from 0.10.2 on; delete_records from 0.11)."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._admin = AdminClient(dict(settings))

    def close(self) -> None:
        """End the client on this thread: a collector that does it on the client's own would abort the process."""
        self._admin.__exit__(None, None, None)

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        replicas = [list(assignment[p]) for p in sorted(assignment)]
        topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(config))
        self._do(f"create topic {name}", lambda: self._admin.create_topics([topic], request_timeout=_REQUEST_TIMEOUT_S))

    def delete(self, name: str) -> None:
        self._do(f"delete topic {name}", lambda: self._admin.delete_topics([name], request_timeout=_REQUEST_TIMEOUT_S))

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        wanted = NewPartitions(name, max(assignment) + 1, [list(assignment[p]) for p in sorted(assignment)])
        self._do(
            f"add partitions to {name}",
            lambda: self._admin.create_partitions([wanted], request_timeout=_REQUEST_TIMEOUT_S),
        )

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        ends = [TopicPartition(name, p, offset) for p, offset in before.items()]
        done = self._do(
            f"delete records of {name}", lambda: self._admin.delete_records(ends, request_timeout=_REQUEST_TIMEOUT_S)
        )
        return {tp.partition: deleted.low_watermark for tp, deleted in done.items()}

    def _do(self, what: str, ask: Callable[[], Mapping[Any, Future[_Result]]]) -> dict[Any, _Result]:
        """The results; asked for again while the controller moves, or fails by itself, as one does that has lost ZooKeeper.

        In the first case nothing was done, in the other it may have been: then the answer is that it is there already.
        """
        deadline = Deadline(_REQUEST_TIMEOUT_S)
        while True:
            try:
                return {key: future.result(_REQUEST_TIMEOUT_S + 5) for key, future in ask().items()}
            except KafkaException as exc:
                if exc.args[0].code() not in _PASSING or deadline.left_s <= 0:
                    raise _refused(what, exc) from exc
            time.sleep(0.5)
            with suppress(KafkaException):  # no broker answers, either: the request itself will fail
                self._admin.list_topics(timeout=_REQUEST_TIMEOUT_S)  # by itself, librdkafka asks who it is every 5 minutes


class ZnodeTopics(Topics):
    """Topics of an old broker, written to where its controller looks (as AdminUtils of Kafka 0.8.2.2 does)."""

    def __init__(self, zookeeper: KazooClient) -> None:
        self._zookeeper = zookeeper

    def create(self, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        def write() -> None:
            self._put(f"/config/topics/{name}", {"version": 1, "config": dict(config)})
            self._zookeeper.create(f"/brokers/topics/{name}", _partitions(assignment), makepath=True)

        self._try(f"create topic {name}", write)

    def delete(self, name: str) -> None:
        def write() -> None:
            self._zookeeper.get(f"/brokers/topics/{name}")
            self._zookeeper.create(f"/admin/delete_topics/{name}", b"", makepath=True)

        self._try(f"delete topic {name}", write)

    def extend(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        def write() -> None:
            data, _ = self._zookeeper.get(f"/brokers/topics/{name}")
            present = {int(p): replicas for p, replicas in json.loads(data)["partitions"].items()}
            self._zookeeper.set(f"/brokers/topics/{name}", _partitions({**present, **assignment}))

        self._try(f"add partitions to {name}", write)

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        raise LocalClusterError(
            "NOT_IN_THIS_VERSION",
            "This broker cannot delete records on request; Kafka 0.11 and newer can; start one of those",
        )

    def _put(self, path: str, value: object) -> None:
        data = json.dumps(value, separators=(",", ":")).encode()
        try:
            self._zookeeper.create(path, data, makepath=True)
        except NodeExistsError:
            self._zookeeper.set(path, data)

    @staticmethod
    def _try(what: str, write: Callable[[], None]) -> None:
        try:
            write()
        except NodeExistsError as exc:
            raise _refused(what, "it exists already, or that is under way") from exc
        except NoNodeError as exc:
            raise _refused(what, "it does not exist") from exc
        except KazooException as exc:
            raise _refused(what, exc) from exc


def _partitions(assignment: Mapping[int, Sequence[int]]) -> bytes:
    value = {"version": 1, "partitions": {str(p): list(replicas) for p, replicas in assignment.items()}}
    return json.dumps(value, separators=(",", ":")).encode()


def _refused(what: str, why: object) -> LocalClusterError:
    return LocalClusterError("REFUSED_BY_CLUSTER", f"The local cluster did not {what}: {why}")
