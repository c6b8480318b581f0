"""Topics of a local cluster in brokers' metadata and in znodes, with fake clients; replicas; records to produce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import topics
from pyspark_zkafka.testing.topics import AdminTopics, ZnodeTopics, produce, producer_arguments, spread

UNREACHABLE = KafkaException(KafkaError(KafkaError._TRANSPORT, "broker1:9092: refused"))
TOPIC = "/brokers/topics/t"
ELECTION = "/admin/preferred_replica_election"


class Admin:
    """The methods of confluent-kafka's AdminClient that the code uses."""

    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.error: KafkaException | None = None
        self.elected: dict[Any, KafkaError | None] = {}
        self.asked: list[tuple[Any, list[tuple[str, int]]]] = []

    def list_topics(self, timeout: float) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(topics=self.topics)

    def elect_leaders(self, kind: Any, partitions: list[Any]) -> Future[Any]:
        self.asked.append((kind, [(p.topic, p.partition) for p in partitions]))
        answer: Future[Any] = Future()
        if self.error is not None:
            answer.set_exception(self.error)
        else:
            answer.set_result(self.elected)
        return answer


def topic(partitions: dict[int, tuple[list[int], list[int]]], error: KafkaError | None = None) -> Any:
    """Return a topic with the replicas and the ISR of each partition."""
    found = {n: SimpleNamespace(replicas=replicas, isrs=isr) for n, (replicas, isr) in partitions.items()}
    return SimpleNamespace(partitions=found, error=error)


@pytest.fixture
def admin() -> Admin:
    """An admin client of a cluster with topic ``t``."""
    admin = Admin()
    admin.topics["t"] = topic({10: ([3], [3]), 1: ([2, 1], [1, 2])})
    return admin


@pytest.fixture
def state(admin: Any) -> AdminTopics:
    """The state of topics in the metadata."""
    return AdminTopics(admin)


def test_assignment(admin: Admin, state: AdminTopics) -> None:
    """An assignment is in the order of partition numbers, and replicas keep their own order."""
    assert list(state.assignment("t").items()) == [(1, [2, 1]), (10, [3])]


@pytest.mark.parametrize("found", [None, topic({}), topic({0: ([1], [1])}, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))])
def test_deleted_topic(admin: Admin, state: AdminTopics, found: Any) -> None:
    """A topic is gone if the metadata lack it, or have an error or no partitions for it."""
    admin.topics["t"] = found
    assert state.is_gone("t")
    assert not state.all_in_sync("t", {0: [1]})
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_TOPIC\] There is no topic t; create it with create_topic"):
        state.assignment("t")


@pytest.mark.parametrize(
    ("assignment", "is_in_sync"),
    [
        ({1: [1, 2], 10: [3]}, True),
        ({1: [2, 1]}, True),
        ({1: [1, 2, 3]}, False),
        ({1: [1]}, False),
        ({2: [1]}, False),
        ({}, True),
    ],
)
def test_in_sync(state: AdminTopics, assignment: dict[int, list[int]], is_in_sync: bool) -> None:
    """A topic is in sync if each ISR has exactly the assigned replicas, in any order."""
    assert state.all_in_sync("t", assignment) is is_in_sync
    assert not state.is_gone("t")


@pytest.mark.parametrize(
    ("code", "is_done"),
    [
        (None, True),
        (KafkaError.NO_ERROR, True),
        (KafkaError.ELECTION_NOT_NEEDED, True),
        (KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, False),
    ],
)
def test_election(admin: Admin, state: AdminTopics, code: int | None, is_done: bool) -> None:
    """An election is done if each partition succeeded or needed none; otherwise, it must be requested again."""
    admin.elected = {"t-1": None, "t-10": None if code is None else KafkaError(code)}
    assert state.request_election("t", [1, 10]) is is_done
    assert admin.asked == [(ElectionType.PREFERRED, [("t", 1), ("t", 10)])]


def test_brokers_that_do_not_answer(admin: Admin, state: AdminTopics) -> None:
    """Silent brokers are an error with the reason, and an election must be requested again."""
    admin.error = UNREACHABLE
    with pytest.raises(LocalClusterError, match=r"BROKERS_SILENT\] No broker of the local cluster answers: .*refused"):
        state.is_gone("t")
    assert not state.request_election("t", [1])


def test_assignment_in_znodes(znodes: Any) -> None:
    """An assignment is in the order of partition numbers."""
    znodes.data[TOPIC] = b'{"partitions": {"10": [3], "2": [2, 1], "1": [1, 2]}}'
    assert list(ZnodeTopics(znodes).assignment("t").items()) == [(1, [1, 2]), (2, [2, 1]), (10, [3])]
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_TOPIC\] There is no topic gone"):
        ZnodeTopics(znodes).assignment("gone")


@pytest.mark.parametrize(
    ("isr", "is_in_sync"),
    [({0: b"[2, 1]", 1: b"[2]"}, True), ({0: b"[1]", 1: b"[2]"}, False), ({0: b"[1, 2]"}, False)],
)
def test_in_sync_in_znodes(znodes: Any, isr: dict[int, bytes], is_in_sync: bool) -> None:
    """A topic is in sync if each ISR has all replicas in any order; a partition without a state is not in sync."""
    znodes.data = {f"{TOPIC}/partitions/{n}/state": b'{"isr": %s}' % found for n, found in isr.items()}
    assert ZnodeTopics(znodes).all_in_sync("t", {0: [1, 2], 1: [2]}) is is_in_sync


def test_election_in_znodes(znodes: Any) -> None:
    """An election is requested in Kafka's own format, unless another one is in progress."""
    assert ZnodeTopics(znodes).request_election("t", [1, 0])
    expected = b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":0}]}'
    assert znodes.data == {ELECTION: expected}
    assert not ZnodeTopics(znodes).request_election("t", [0])
    assert znodes.data == {ELECTION: expected}


def test_spread() -> None:
    """Replicas are assigned to the brokers in turn, whatever their ids, starting at the first requested partition."""
    assert spread(range(2), 2, [0, 5]) == {0: [0, 5], 1: [5, 0]}
    assert spread(range(3, 4), 1, [0, 1]) == {3: [1]}
    with pytest.raises(LocalClusterError, match="3 replicas are not possible with 2 running brokers; request 1 to 2"):
        spread(range(1), 3, [0, 1])


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (("k", "v"), {"key": "k", "value": "v"}),
        ((None, b"v", 3, None, 5), {"value": b"v", "partition": 3, "timestamp": 5}),
        ({"value": b"v", "headers": {"h": b"1"}}, {"value": b"v", "headers": [("h", b"1")]}),
        ({"value": b"v", "headers": [("h", None), ("h", b"2")]}, {"value": b"v", "headers": [("h", None), ("h", b"2")]}),
        ({}, {}),
    ],
)
def test_records(record: Any, arguments: dict[str, Any]) -> None:
    """A record is a dict or a tuple, and None values are left out."""
    assert producer_arguments(record) == arguments


@pytest.mark.parametrize("record", ["text", b"bytes", {"value": b"v", "topic": "t"}, (1, 2, 3, 4, 5, 6)])
def test_bad_records(record: Any) -> None:
    """A bare value, an unknown field and a tuple that is too long are refused."""
    with pytest.raises(LocalClusterError, match="BAD_RECORD"):
        producer_arguments(record)


UNKNOWN = KafkaError(KafkaError._UNKNOWN_PARTITION)


class LateProducer:
    """A producer whose metadata lack the partition: at first in all records' reports, later at once, until it asks again.

    `requests` is the number of requests for metadata until a broker knows the partition.
    """

    def __init__(self, requests: int, has_metadata: bool, delivered: Callable[..., None]) -> None:
        self.requests, self._has_metadata, self._delivered = requests, has_metadata, delivered
        self._sent: list[Any] = []

    def produce(self, topic: str, *, value: bytes, partition: int, timestamp: int = 0) -> None:
        if self._has_metadata and self.requests > 0:
            raise KafkaException(UNKNOWN)
        fields = {"value": value, "partition": partition, "timestamp": (0, timestamp), "offset": 7}
        fields |= {"key": None, "headers": None}
        self._sent.append(SimpleNamespace(**{name: lambda given=given: given for name, given in fields.items()}))

    def poll(self, timeout_s: float) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> None:
        self.requests -= 1

    def flush(self, timeout_s: float) -> int:
        self._has_metadata = True
        sent, self._sent = self._sent, []
        for message in sent:
            self._delivered(UNKNOWN if self.requests > 0 else None, message)
        return 0


@pytest.mark.parametrize("has_metadata", [False, True])
@pytest.mark.parametrize("requests", [2, 1_000])
def test_new_partition(monkeypatch: pytest.MonkeyPatch, has_metadata: bool, requests: int) -> None:
    """Metadata are requested until they have an added partition, for 5 s, also if the producer has older metadata."""
    clock = iter(range(10_000))
    monkeypatch.setattr(topics, "time", SimpleNamespace(monotonic=lambda: next(clock) / 10, sleep=lambda s: None))

    def producer(config: Mapping[str, Any]) -> LateProducer:
        return LateProducer(requests, has_metadata, config["on_delivery"])

    monkeypatch.setattr(topics, "Producer", producer)
    if requests < 1_000:
        assert produce({}, "t", [{"value": b"v", "partition": 3}]) == {3: [7]}
    else:
        with pytest.raises(LocalClusterError, match=r"NOT_DELIVERED.*_UNKNOWN_PARTITION"):
            produce({}, "t", [{"value": b"v", "partition": 3}])
