"""The transactional producer with a fake client, errors of transactions, and the brokers' limit for the time-out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pyspark_zkafka.brokers.errors import ConnectionReports, connection_error
from pyspark_zkafka.errors import ClusterStateError, DeliveryFailed, OptionError, TransactionFailed
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.model.producing import OVERDUE
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records import transactions
from pyspark_zkafka.records.direct.transactions import StepFailed
from pyspark_zkafka.records.producer import Failure, GroupOffset
from pyspark_zkafka.records.transactions import (
    TransactionalProducer,
    require_transaction_timeout,
    transactional_properties,
)
from pyspark_zkafka.wire.protocol import LoginRefused
from tests.support.clock import Clock

ID = "zkafka-q-0"
REFUSED = LoginRefused("b:1: Authentication failed")
WAITING = StepFailed(ErrorCode.REQUEST_TIMED_OUT, "not yet", is_retriable=True)
FENCED = StepFailed(ErrorCode.PRODUCER_FENCED, is_fatal=True)


class Client:
    """A `DirectSender` without rows. Each call of its transactions takes a second, and raises the next of its `errors`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reports = ConnectionReports(clock)
        self.calls: list[str] = []
        self.offsets: list[GroupOffset] = []
        self.errors: dict[str, list[StepFailed]] = {}
        self.refusals: list[LoginRefused] = []
        self.is_open = False
        self.queued = 0
        self.failure: Failure | None = None
        self.acknowledged = 0
        self.transactions = Transactions(self)

    def __enter__(self) -> Client:
        self.is_open = True
        return self

    def __exit__(self, *exc: object) -> None:
        self.is_open = False

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, dict[int, int]]:
        return ErrorCode.NONE, {2: 0}

    def poll(self, timeout_s: float) -> None:
        self.clock.now += timeout_s
        for refusal in self.refusals:
            self.reports.note(str(refusal), partial(connection_error, refusal))
        self.refusals.clear()


class Transactions:
    """The transactions of a `Client`, and the error that has failed the open one."""

    failure: StepFailed | None = None
    delay: StepFailed | None = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def init(self, transactional_id: str, timeout_s: float) -> None:
        assert transactional_id == ID
        self._take("init", timeout_s)

    def begin(self, group: str = "") -> None:
        self._take("begin", 0)

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        self._client.offsets.append(offset)
        self._take("commit_offset", timeout_s)

    def commit(self, timeout_s: float) -> None:
        self._take("commit", timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._take("abort", timeout_s)

    def _take(self, name: str, timeout_s: float) -> None:
        self._client.calls.append(name)
        if errors := self._client.errors.get(name):
            self._client.clock.now += min(timeout_s, 1)
            raise errors.pop(0)


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


class Made:
    """A producer that is not open yet, and its client."""

    def __init__(self, clock: Clock, **kafka: str) -> None:
        options = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
        connection = parse_connection({"kafka.bootstrap.servers": "b:1", **options}, "write")
        properties = transactional_properties(connection, "b:1", ID)

        def make(properties: Any, limits: Any) -> Any:
            self.client = Client(clock)
            self.client.errors = self.errors
            self.client.refusals = self.refusals
            return self.client

        self.errors: dict[str, list[StepFailed]] = {}
        self.refusals: list[LoginRefused] = []
        self._producer = TransactionalProducer(properties, make, clock)

    @contextmanager
    def open(self) -> Iterator[TransactionalProducer]:
        with self._producer as producer:
            producer.start(ID)
            yield producer


@pytest.fixture
def made(clock: Clock) -> Made:
    return Made(clock)


def commit(producer: TransactionalProducer) -> None:
    producer.commit(GroupOffset("g", "t", 2, 7, "{}"))


def test_one_transaction(made: Made) -> None:
    """A transaction is begun and committed with an offset, and the client is closed at the end."""
    with made.open() as producer:
        producer.begin()
        assert producer.is_open
        commit(producer)
        assert not producer.is_open
        assert made.client.is_open
    assert made.client.calls == ["init", "begin", "commit_offset", "commit"]
    assert made.client.offsets == [GroupOffset("g", "t", 2, 7, "{}")]
    assert not made.client.is_open


@pytest.mark.parametrize("step", ["init", "commit_offset", "commit"])
def test_retriable_errors(made: Made, step: str) -> None:
    """A step is repeated after a retriable error."""
    made.errors[step] = [WAITING, WAITING]
    with made.open() as producer:
        producer.begin()
        commit(producer)
    assert made.client.calls.count(step) == 3


@pytest.mark.parametrize("step", ["init", "commit"])
def test_deadline(made: Made, clock: Clock, step: str) -> None:
    """A step is not repeated after delivery.timeout.ms."""
    made.errors[step] = [WAITING] * 500
    with pytest.raises(TransactionFailed, match=r"TRANSACTION_FAILED.*REQUEST_TIMED_OUT: not yet"), made.open() as producer:
        commit(producer)
    assert 120 <= clock.now - 100 < 125


def test_refused_credentials_end_the_wait(made: Made, clock: Clock) -> None:
    """A refusal of the credentials ends the wait at once."""
    made.errors["init"] = [WAITING] * 500
    made.refusals.append(REFUSED)
    with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER.*Authentication failed"), made.open():
        pass
    assert clock.now - 100 < 10
    assert not made.client.is_open


def test_refused_credentials_end_a_commit(made: Made, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the credentials also ends the commit of an offset."""
    made.errors["commit_offset"] = [WAITING] * 500
    with made.open() as producer:
        call = made.client.transactions.commit_offset

        def refused(offset: GroupOffset, timeout_s: float) -> None:
            made.client.refusals.append(REFUSED)
            call(offset, timeout_s)

        monkeypatch.setattr(made.client.transactions, "commit_offset", refused)
        producer.begin()
        with pytest.raises(ClusterStateError, match="REFUSED_BY_BROKER"):
            commit(producer)
        assert clock.now - 100 < 10


def test_errors_that_are_not_retriable(made: Made) -> None:
    """A permanent error ends the transaction, which is aborted when the producer is closed."""
    made.errors["commit"] = [StepFailed(ErrorCode.INVALID_TXN_STATE, "1 message failed")]

    def write() -> None:
        with made.open() as producer:
            producer.begin()
            commit(producer)

    with pytest.raises(TransactionFailed, match=r"committing a transaction: INVALID_TXN_STATE: 1 message failed"):
        write()
    assert made.client.calls[-2:] == ["commit", "abort"]
    assert not made.client.is_open


def test_row_that_fails_its_transaction(made: Made) -> None:
    """A row that fails its transaction is reported with its remedy: another attempt would fail in the same way."""
    with made.open() as producer:
        producer.begin()
        made.client.failure = Failure.of("t", 2, ErrorCode.MESSAGE_TOO_LARGE)
        made.client.transactions.failure = StepFailed(ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(DeliveryFailed, match=r"t-2: MESSAGE_TOO_LARGE; .*max\.message\.bytes.*do not see any row"):
            commit(producer)


def test_row_in_a_failed_transaction(made: Made) -> None:
    """If another producer fails the transaction, the error of an undelivered row says so."""
    with made.open() as producer:
        producer.begin()
        made.client.failure = Failure.of("t", 2, ErrorCode.PRODUCER_FENCED)
        made.client.transactions.failure = FENCED
        with pytest.raises(TransactionFailed, match=r"\[FENCED\] writing to t-2: PRODUCER_FENCED"):
            commit(producer)


def test_abort_that_fails(made: Made) -> None:
    """Closing a producer succeeds even if its transaction cannot be aborted."""
    made.errors["abort"] = [FENCED]
    with made.open() as producer:
        producer.begin()
    assert made.client.calls[-1] == "abort"
    assert not made.client.is_open


def test_fenced_at_begin(made: Made) -> None:
    """A fenced producer begins no transaction."""
    with made.open() as producer:
        made.errors["begin"] = [FENCED]
        with pytest.raises(TransactionFailed, match="FENCED"):
            producer.begin()
        assert not producer.is_open


def test_time_left(made: Made, clock: Clock) -> None:
    """The remaining time is counted from the start of each transaction."""
    with made.open() as producer:
        assert producer.left_s == 300
        producer.begin()
        clock.now += 301
        assert producer.left_s == -1
        commit(producer)
        assert producer.left_s == 300


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        ({}, (300_000, 120_000, 1_000)),
        ({"kafka.transaction.timeout.ms": "60000"}, (60_000, 60_000, 1_000)),
        ({"kafka.transaction.timeout.ms": "60000", "kafka.delivery.timeout.ms": "90000"}, (60_000, 60_000, 1_000)),
        ({"kafka.delivery.timeout.ms": "5000"}, (300_000, 5_000, 1_000)),
        ({"kafka.linger.ms": "3"}, (300_000, 120_000, 3)),
    ],
)
def test_properties(kafka: dict[str, str], expected: tuple[int, int, int]) -> None:
    """Records are delivered within the transaction, a user's properties override the defaults, and the id is the task's."""
    connection = parse_connection({"kafka.bootstrap.servers": "b:1", **kafka}, "write")
    found = transactional_properties(connection, "b:1", ID)
    names = ("transaction.timeout.ms", "delivery.timeout.ms", "linger.ms")
    assert tuple(float(found[name]) for name in names) == expected
    assert found["transactional.id"] == "zkafka-q-0"
    assert found["enable.idempotence"] is True


# --- the brokers' limit

UNREACHABLE = "127.0.0.1:1"


def connected(timeout_ms: int) -> ConnectionOptions:
    return parse_connection(
        {"kafka.bootstrap.servers": UNREACHABLE, "kafka.transaction.timeout.ms": str(timeout_ms)}, "write"
    )


def require_within(monkeypatch: pytest.MonkeyPatch, timeout_ms: int, limits: list[int | None]) -> None:
    """Check a time-out in a new process, where the brokers report these limits one after the other."""
    answers = iter(limits)
    monkeypatch.setattr(transactions, "_limits", Remembered())
    monkeypatch.setattr(transactions, "_find_limit", lambda connection, servers: next(answers))
    require_transaction_timeout(connected(timeout_ms), UNREACHABLE)


@pytest.mark.parametrize(("timeout_ms", "allowed_ms"), [(900_000, 900_000), (1_000, 900_000), (2**31 - 1, None)])
def test_timeout_within_the_limit_is_allowed(
    monkeypatch: pytest.MonkeyPatch, timeout_ms: int, allowed_ms: int | None
) -> None:
    """A time-out up to the brokers' limit is allowed, and any time-out if the limit is unknown."""
    require_within(monkeypatch, timeout_ms, [allowed_ms])


def test_timeout_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out above the brokers' limit raises an option error with both numbers and names."""
    with pytest.raises(OptionError) as caught:
        require_within(monkeypatch, 900_001, [900_000])
    assert str(caught.value) == (
        "[TRANSACTION_TIMEOUT] kafka.transaction.timeout.ms is 900001, and the brokers allow at most 900000 "
        "(transaction.max.timeout.ms); lower it, or raise transaction.max.timeout.ms of the brokers"
    )


def test_limit_that_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that a time-out exceeds is requested again, since brokers may have been restarted with a higher one."""
    low, high = connected(900_000), connected(1_800_000)
    require_within(monkeypatch, 900_000, [900_000, 900_000, None, 3_600_000])
    for _ in range(2):  # the same answer, and none
        with pytest.raises(OptionError, match="TRANSACTION_TIMEOUT"):
            require_transaction_timeout(high, UNREACHABLE)
    require_transaction_timeout(high, UNREACHABLE)
    require_transaction_timeout(low, UNREACHABLE)


def test_unknown_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that do not report their limit are asked once per process, and nothing is refused before a task starts."""
    options = {"kafka.bootstrap.servers": UNREACHABLE, "kafka.socket.timeout.ms": "300"}
    connection = parse_connection({**options, "kafka.transaction.timeout.ms": "2000000000"}, "write")
    with caplog.at_level(logging.INFO):
        require_transaction_timeout(connection, UNREACHABLE)
        require_transaction_timeout(connection, UNREACHABLE)
    assert [text.partition(": ")[0] for text in caplog.messages if "transaction.max" in text] == [
        "kafka.transaction.timeout.ms is not checked, because the brokers' transaction.max.timeout.ms is unknown"
    ]


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize(("age_s", "overdue"), [(0.0, False), (290.0, False), (301.0, True)])
def test_fenced(clock: Clock, code: ErrorCode, age_s: float, overdue: bool) -> None:
    """Before its time-out, a transaction is fenced by another producer; afterwards, brokers have ended it."""
    made = Made(clock, transaction_timeout_ms="300000")
    made.errors["commit"] = [StepFailed(code, is_fatal=True)]
    with made.open() as producer:
        producer.begin()
        clock.now += age_s
        with pytest.raises(TransactionFailed) as caught:
            commit(producer)
    assert caught.value.condition == "FENCED"
    assert caught.value.parameters == {"transactional_id": ID, "code": code.name, "overdue": overdue}
    reason = "raise kafka.transaction.timeout.ms" if overdue else f"another producer has begun to write as {ID}"
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, f"Write and Describe on the transactional id {ID}"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "an ACL must allow Read on the group"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Write on the topics written to, and Read on the ledger's topic"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional.id.expiration.ms; write again"),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, "(now 300000) to at most the brokers' transaction.max.timeout.ms"),
        (ErrorCode.UNSUPPORTED_VERSION, "brokers of version 0.11 or later"),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "topics of message format 0.11 or later (log.message.format.version)"),
        (ErrorCode.INVALID_TXN_STATE, "finds out by the ledger whether the rows were committed"),
    ],
)
def test_remedies(clock: Clock, code: ErrorCode, remedy: str) -> None:
    """An error has the name and text of the cause, the action, and a remedy."""
    made = Made(clock, transaction_timeout_ms="300000")
    made.errors["commit"] = [StepFailed(code, "quoted")]
    with made.open() as producer:
        producer.begin()
        with pytest.raises(TransactionFailed) as caught:
            commit(producer)
    assert caught.value.condition == "TRANSACTION_FAILED"
    assert caught.value.message.startswith(f"committing a transaction: {code.name}: quoted; ")
    assert caught.value.message.endswith(remedy)
    assert caught.value.parameters == {"transactional_id": ID, "code": code.name}


def test_rows_that_wait_for_the_coordinator(made: Made) -> None:
    """Rows that were not sent, because the coordinator did not add their partition, fail with its error."""
    with made.open() as producer:
        producer.begin()
        made.client.failure = Failure.of("t", 2, OVERDUE)
        made.client.transactions.delay = StepFailed(ErrorCode.CONCURRENT_TRANSACTIONS, "wait", is_retriable=True)
        with pytest.raises(TransactionFailed, match="adding t-2 to the transaction: CONCURRENT_TRANSACTIONS: wait"):
            commit(producer)


def test_step_without_an_answer(made: Made) -> None:
    """A step without an answer fails with the last error of a connection, and says what to check."""
    with made.open() as producer:
        made.errors["commit"] = [WAITING] * 500
        made.client.reports.note("k:9092: connecting failed")
        producer.begin()
        with pytest.raises(TransactionFailed) as caught:
            commit(producer)
    assert "REQUEST_TIMED_OUT: not yet (last error of the connection: k:9092: connecting failed); " in caught.value.message
    assert "advertised.listeners" in caught.value.message
