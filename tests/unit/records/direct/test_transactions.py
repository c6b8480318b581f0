"""Transactions and connections to coordinators, with brokers of values."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct import transactions
from pyspark_zkafka.records.direct.producer_messages import END_TRANSACTION, Answer
from pyspark_zkafka.records.direct.transactions import CoordinatorConnections, DirectTransactions, StepFailed
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.group_messages import TRANSACTION, Coordinator, FoundCoordinator
from pyspark_zkafka.wire.protocol import Reader

COORDINATOR = Coordinator("id", TRANSACTION)


class Message(NamedTuple):
    """A message, and its answer."""

    api: Any = END_TRANSACTION

    def request(self, version: int) -> str:
        return "request"

    def read(self, response: Reader) -> Answer:
        return Answer(0)


class Connection:
    """An open connection, which answers or not."""

    is_open, is_opening = True, False

    def __init__(self, answers: bool) -> None:
        self._answers = answers
        self.sent = 0

    def version(self, *api: Any) -> int:
        return 0

    def feature(self, name: str) -> int:
        return 0

    def send(self, request: str) -> None:
        self.sent += 1

    def begin_opening(self, deadline: Deadline) -> None: ...

    def receive(self, buffer: object, deadline: Deadline) -> Reader | None:
        return Reader(b"") if self._answers else None

    def close(self) -> None:
        self.is_open = False


class Client:
    """A client whose connections answer as listed; `now` is its clock."""

    now = 0.0

    def __init__(self, *answer: bool) -> None:
        self.connections = list(map(Connection, answer))
        self._next = iter(self.connections)

    def clock(self) -> float:
        return self.now

    def ask_any(self, message: Any, deadline: Deadline) -> bytes:
        return b""

    def new_connection(self, address: object) -> Connection:
        return next(self._next)

    def setup_deadline(self, failures: int) -> Deadline:
        return Deadline.after(0, self.clock)


def test_lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose answer is lost is sent again, on another connection, after the time-out of a request."""
    found_coordinator = FoundCoordinator(0, 1, ("k", 9092))
    monkeypatch.setattr(transactions, "read_coordinators", lambda response, keys: dict.fromkeys(keys, found_coordinator))
    client: Any = Client(False, True)
    noted: list[Exception] = []
    found = CoordinatorConnections(client, noted.append, request_timeout_s=30.0)
    message: Any = Message()

    def ask() -> Answer | None:
        return found.ask(COORDINATOR, message, 0, Deadline.after(1, client.clock))

    assert ask() is None
    client.now = 29.0
    assert ask() is None
    assert not noted
    client.now = 30.0
    assert ask() is None
    assert "no response to EndTxn" in str(noted)
    assert ask() == Answer(0)
    assert [(one.sent, one.is_open) for one in client.connections] == [(1, False), (1, True)]


class Coordinators:
    """Answers each message with success, or as `refusals` says by the name of the message, and notes the messages."""

    protocol = 0

    def __init__(self, **refusals: int) -> None:
        self._refusals = refusals
        self._sent_ahead = ""
        self.asked: list[str] = []

    def ask(self, coordinator: Coordinator, message: Any, protocol: int, deadline: Deadline) -> Answer | None:
        name = type(message).__name__
        assert self._sent_ahead in ("", name), "the connection still waits for another answer"
        if self._sent_ahead != name:
            self.asked.append(name)
        self._sent_ahead = name if deadline.has_passed else ""
        return None if deadline.has_passed else Answer(self._refusals.get(name, NONE), ProducerId(7, 0))


class TestGroupSentAhead:
    """The offset's group is added to the transaction while rows are sent."""

    def _begun(self, coordinators: Coordinators) -> DirectTransactions:
        sender: Any = type("Sender", (), {"refusal": NONE, "drain": lambda self, timeout_s: True})()
        sender.start = sender.register = lambda *arguments: None
        sender.end_transaction = lambda: None
        given: Any = coordinators
        found = DirectTransactions(60_000, given, sender, lambda: 1.0, lambda seconds: None)
        found.init("x", 1.0)
        found.begin("g")
        assert found.add_partitions([TopicPartition("t", 0)], 1.0)
        return found

    def test_once(self) -> None:
        """One request adds the group, however many partitions follow. Its answer is received before the next request."""
        coordinators = Coordinators()
        found = self._begun(coordinators)
        assert found.add_partitions([TopicPartition("t", 1)], 1.0)
        found.commit_offset(GroupOffset("g", "t", 0, 1, ""), 1.0)
        found.commit(1.0)
        assert coordinators.asked == [
            *("InitProducerId", "AddPartitions", "AddOffsets", "AddPartitions", "CommitOffset", "EndTransaction")
        ]

    def test_refused(self) -> None:
        """A refused group fails the commit of its offset, and the transaction can be aborted."""
        coordinators = Coordinators(AddOffsets=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        found = self._begun(coordinators)
        with pytest.raises(StepFailed, match="GROUP_AUTHORIZATION_FAILED"):
            found.commit_offset(GroupOffset("g", "t", 0, 1, ""), 1.0)
        found.abort(1.0)
        assert coordinators.asked == ["InitProducerId", "AddPartitions", "AddOffsets", "EndTransaction"]

    def test_refused_before_the_abort(self) -> None:
        """A transaction whose group is refused is aborted, although nobody has asked for the offset yet."""
        coordinators = Coordinators(AddOffsets=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        self._begun(coordinators).abort(1.0)
        assert coordinators.asked == ["InitProducerId", "AddPartitions", "AddOffsets", "EndTransaction"]
