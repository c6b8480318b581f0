"""The direct sender with a scripted broker: retries, failures and their errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.direct.settings import ProduceSettings, producer_settings_of
from pyspark_zkafka.records.producer import Failure, QueueLimits, producer_properties
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import ConnectionLost, LoginRefused, Unsupported
from tests.support.clock import Clock
from tests.support.scripted_broker import RANGES, Received, ScriptedBroker, answered
from tests.support.scripted_cluster import INIT_PRODUCER_ID, PRODUCE, ScriptedCluster, Treatment, sent_batches
from tests.support.scripted_cluster import Log as PartitionLog

FIND_COORDINATOR = 10
HANGS_S = 20.0
NONE, NOT_LEADER, TOO_LARGE, NOT_ENOUGH_REPLICAS, DUPLICATE, UNKNOWN_PRODUCER_ID = 0, 6, 10, 19, 46, 59


class Sent(NamedTuple):
    """A record batch in a Produce request."""

    partition: int
    producer: int
    sequence: int
    records: int
    bytes: bytes


class Log(ScriptedCluster):
    """A broker that leads all partitions of topic ``t``.

    `answers` are the first responses to Produce. Each is an error; None closes the connection, and ``b""`` sends nothing.
    Later requests succeed. `batches` has all record batches that have arrived.
    """

    def __init__(self, *answers: int | bytes | None, partitions: int = 2, log_start: int = 0) -> None:
        super().__init__(self._next, partitions=partitions, produce_version=11, log_start=log_start)
        self._answers = list(answers)
        self.batches: list[Sent] = []

    def _next(self, broker: int, request: Received) -> Treatment:
        if request.api != PRODUCE:
            return Treatment()
        self.batches += (sent(partition, data) for partition, data in sent_batches(request))
        if not self._answers:
            return Treatment()
        answer = self._answers.pop(0)
        if isinstance(answer, int):
            return Treatment(code=answer, is_processed=answer == NONE)
        return Treatment(is_processed=False, respond=lambda request, body: answer)


def sent(partition: int, data: bytes) -> Sent:
    """Read the header of a record batch."""
    number = lambda start, stop: int.from_bytes(data[start:stop], "big", signed=True)  # noqa: E731
    return Sent(partition, number(43, 51), number(53, 57), number(57, 61), data)


class UnsteadyLog(Log):
    """A log whose partitions change with each response to Metadata, and a `clock` that advances by a second with each.

    A state is the number of partitions and their leader, -1 for none. The last one repeats.
    """

    def __init__(self, states: list[tuple[int, int]], *answers: int) -> None:
        super().__init__(*answers)
        self._states = states
        self._ahead_s = 0.0

    def clock(self) -> float:
        return time.monotonic() + self._ahead_s

    def metadata(self, error: int) -> bytes:
        partitions, leader = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        self.logs = [PartitionLog(leader) for _ in range(partitions)]
        self._ahead_s += 1.0
        return super().metadata(error)


class JumpingClock:
    """A clock that jumps ahead by `seconds` when it is first read after `has_come` is true.

    A sender does not count the time between two calls. The jump counts if `has_come` becomes true within a call.
    """

    def __init__(self, seconds: float) -> None:
        self.has_come: Callable[[], bool] = lambda: False
        self._seconds = seconds
        self._ahead_s = 0.0

    def __call__(self) -> float:
        if not self._ahead_s and self.has_come():
            self._ahead_s = self._seconds
        return time.monotonic() + self._ahead_s


@contextmanager
def opened(
    log: Log,
    limits: QueueLimits = QueueLimits(),  # noqa: B008
    clock: Callable[[], float] = time.monotonic,
    **kafka: Any,
) -> Iterator[DirectSender]:
    with log:
        properties = {"bootstrap.servers": log.servers, "retry.backoff.ms": 1, "reconnect.backoff.ms": 1}
        given = {name.replace("_", "."): value for name, value in kafka.items()}
        with DirectSender({**properties, **given}, limits, clock) as sender:
            yield sender
    log.settle()


def rows(*values: bytes) -> OutgoingBatch:
    return OutgoingBatch("t", pa.array(values, pa.binary()), None, None, None, None)


def add(sender: DirectSender, partition: int, *values: bytes) -> None:
    sender.add(rows(*values), np.full(len(values), partition, np.int32))
    assert sender.advance(0)


def flush_until(sender: DirectSender, is_done: Callable[[], bool], timeout_s: float = 10.0) -> None:
    until = time.monotonic() + timeout_s
    while not is_done():
        assert time.monotonic() < until
        sender.flush(0.01)


def finish(sender: DirectSender) -> None:
    """Flush until everything is acknowledged, or something has failed."""
    flush_until(sender, lambda: not sender.queued or sender.failure is not None)


def finish_all(sender: DirectSender, count: int) -> None:
    """Flush until this many records of the task are acknowledged."""
    finish(sender)
    assert sender.failure is None
    assert sender.acknowledged == count


def failure_of(sender: DirectSender) -> Failure:
    """Flush until something has failed, and return the failure."""
    finish(sender)
    assert sender.failure is not None
    return sender.failure


def delivered(sender: DirectSender) -> dict[int, int]:
    """Return the acknowledged records by partition."""
    return {tp.partition: count for tp, count in sender._producing.delivered.items()}


def test_acknowledged() -> None:
    """Rows are counted by partition; sequences continue across batches and tasks."""
    log = Log()
    with opened(log) as sender:
        for _ in range(2):
            sender.begin()
            add(sender, 0, b"a", b"b")
            add(sender, 1, b"c")
            finish(sender)
            assert delivered(sender) == {0: 2, 1: 1}
            assert sender.acknowledged == 3
    assert [(s.partition, s.sequence, s.records) for s in sorted(log.batches)] == [
        (0, 0, 2),
        (0, 2, 2),
        (1, 0, 1),
        (1, 1, 1),
    ]
    assert {s.producer for s in log.batches} == {1}


@pytest.mark.parametrize("answer", [NOT_LEADER, None, 7, 20])
def test_sent_again(answer: int | None) -> None:
    """After a temporary error or a lost connection, the same bytes are sent again."""
    log = Log(answer)
    with opened(log) as sender:
        add(sender, 0, b"a")
        finish_all(sender, 1)
    first, second = log.batches
    assert first == second


def test_duplicates() -> None:
    """A batch that the broker already has counts as acknowledged."""
    log = Log(None, DUPLICATE)
    with opened(log) as sender:
        add(sender, 0, b"a")
        finish_all(sender, 1)


@pytest.mark.parametrize(("log_start", "fails"), [(-1, False), (0, True)])
def test_unknown_producer(log_start: int, fails: bool) -> None:
    """If a broker forgets the producer, the write fails, unless the partition has just moved away from this broker."""
    log = Log(NONE, UNKNOWN_PRODUCER_ID, log_start=log_start)
    with opened(log) as sender:
        for value in (b"a", b"b"):
            add(sender, 0, value)
            finish(sender)
        assert (sender.failure is not None) == fails
        assert sender.acknowledged == (1 if fails else 2)
        sender.purge(in_flight=True)
    assert [batch.sequence for batch in log.batches] == ([0, 1] if fails else [0, 1, 1])
    assert log.producers == 1


@pytest.mark.parametrize("answer", [ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_permanent_error_fails_the_write(answer: ErrorCode) -> None:
    """The failure has the partition and the name of the error, and nothing else is sent."""
    log = Log(answer)
    with opened(log) as sender:
        add(sender, 1, b"a")
        failure = failure_of(sender)
        assert failure.partition == "t-1"
        assert failure.cause.startswith(answer.name)
        add(sender, 0, b"b")
        sender.flush(0.01)
        sender.purge(in_flight=True)
        assert sender.queued == 0
        assert sender.acknowledged == 0
    assert len(log.batches) == 1


def test_producer_id_that_is_refused_later() -> None:
    """If a producer id is refused while rows are written, the reports of errors have the brokers' error."""
    answers = [Treatment(respond=lambda request, body: None)]

    def treat(broker: int, request: Received) -> Treatment:
        if request.api != INIT_PRODUCER_ID:
            return Treatment()
        return answers.pop() if answers else Treatment(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    with ScriptedCluster(treat) as cluster:
        properties = {"bootstrap.servers": cluster.servers, "reconnect.backoff.ms": 1}
        with DirectSender(properties, QueueLimits()) as sender:
            add(sender, 0, b"a")
            assert "a producer id was refused: CLUSTER_AUTHORIZATION_FAILED" in failure_of(sender).cause
            sender.purge(in_flight=True)
            assert str(sender.reports.last).startswith("CLUSTER_AUTHORIZATION_FAILED; an ACL must allow Write")


def test_too_large() -> None:
    """A batch too large for the topic is sent in halves with their own sequences; a row too large fails the write."""
    log = Log(TOO_LARGE, NONE, NONE, TOO_LARGE)
    with opened(log) as sender:
        add(sender, 1, b"a", b"b", b"c")
        finish_all(sender, 3)
        add(sender, 1, b"d")
        assert "; kafka.message.max.bytes or the topic's max.message.bytes is smaller" in failure_of(sender).cause
    assert [(batch.sequence, batch.records) for batch in log.batches] == [(0, 3), (0, 1), (1, 2), (3, 1)]


def test_uncertain() -> None:
    """A batch without a response until its time-out may have been written, and the error says so."""
    clock = JumpingClock(1_000.0)
    with opened(Log(b""), clock=clock, delivery_timeout_ms=700_000) as sender:
        clock.has_come = lambda: sender.is_moving
        add(sender, 0, b"a")
        failure = failure_of(sender)
        assert failure.overdue_topic == "t"
        assert "the broker may have written the records" in failure.cause


def test_reason_of_a_time_out() -> None:
    """A batch that the brokers refuse until its time-out fails with their reason."""
    log = Log(NOT_ENOUGH_REPLICAS)
    clock = JumpingClock(1_000.0)
    with opened(log, clock=clock, delivery_timeout_ms=700_000) as sender:
        clock.has_come = lambda: bool(log.batches) and not sender.is_moving
        add(sender, 0, b"a")
        failure = failure_of(sender)
        assert failure.overdue_topic == "t"
        assert failure.cause == (
            "the brokers did not acknowledge the record within kafka.delivery.timeout.ms; they refused the last attempt "
            "with NOT_ENOUGH_REPLICAS; fewer replicas are in sync than the topic's min.insync.replicas"
        )


def test_room() -> None:
    """While brokers do not answer, rows wait once the queue is full."""
    log = Log(*[b""] * 50)
    with opened(log, QueueLimits(size_bytes=10_000), batch_size=1_000) as sender:
        sender.add(rows(*[bytes(500)] * 100), np.zeros(100, np.int32))
        assert not any(sender.advance(0) for _ in range(20))
        assert sender.queued == 100
        sender.purge(in_flight=True)
        assert sender.queued == 0


def test_throttled() -> None:
    """A throttling broker gets no request for the requested time; other brokers are not affected."""
    now, throttled = 0.0, [600_000]

    def treat(broker: int, request: Received) -> Treatment:
        is_first = broker == 0 and request.api == PRODUCE and bool(throttled)
        return Treatment(throttle_ms=throttled.pop() if is_first else 0)

    with ScriptedCluster(treat, brokers=2) as cluster:
        properties = {"bootstrap.servers": cluster.servers, "linger.ms": 0, "delivery.timeout.ms": 10_000_000}
        with DirectSender(properties, QueueLimits(), clock=lambda: now + time.monotonic()) as sender:
            add(sender, 0, b"a")
            finish(sender)
            add(sender, 0, b"a")
            add(sender, 1, b"b")
            while delivered(sender) != {0: 1, 1: 1}:
                sender.flush(0.01)
            sender.flush(0.1)
            assert delivered(sender) == {0: 1, 1: 1}
            now += 600.0
            finish(sender)
            assert delivered(sender) == {0: 2, 1: 1}


@pytest.mark.parametrize(("passed_s", "fails"), [(300.0, False), (1_000.0, True)])
def test_request_behind_a_throttled_one(passed_s: float, fails: bool) -> None:
    """A broker leaves the next request unread while it throttles the client: a time-out after that names the quota."""
    are_sent = threading.Event()

    def respond_after_both(request: Received, body: bytes) -> bytes:
        assert are_sent.wait(30)
        return answered(request, body)

    def treat(broker: int, request: Received) -> Treatment:
        if request.api != PRODUCE or not cluster.logs[0].values:
            return Treatment()
        if len(cluster.logs[0].values) == 1:
            return Treatment(throttle_ms=600_000, respond=respond_after_both)
        return Treatment(respond=lambda request, body: b"")

    clock = JumpingClock(passed_s)
    with ScriptedCluster(treat) as cluster:
        properties = {"bootstrap.servers": cluster.servers, "linger.ms": 0, "delivery.timeout.ms": 700_000}
        with DirectSender(properties, QueueLimits(), clock) as sender:
            add(sender, 0, b"a")
            finish(sender)
            for value in (b"b", b"c"):
                add(sender, 0, value)
                sender.flush(0)
            clock.has_come = lambda: sender.acknowledged == 2
            are_sent.set()
            flush_until(sender, clock.has_come)
            if fails:
                finish(sender)
            else:
                sender.flush(0.01)  # with the time after the jump
            assert sender.acknowledged == 2
            assert (sender.reports.last is not None) == fails
            assert (sender.failure is not None) == fails
            if sender.failure is not None:
                assert "a quota of the brokers throttles the client: raise the quota or" in sender.failure.cause
            sender.purge(in_flight=True)


def test_throttled_by_an_old_broker() -> None:
    """The throttle time of a broker before 2.0 is not waited for, since the broker has already delayed its response."""
    cluster = ScriptedCluster(lambda broker, request: Treatment(throttle_ms=60_000), produce_version=5)
    with cluster, DirectSender({"bootstrap.servers": cluster.servers}, QueueLimits()) as sender:
        for _ in range(2):
            add(sender, 0, b"a")
            finish(sender)
        assert sender.acknowledged == 2


def test_a_slow_source() -> None:
    """Time between the caller's calls does not count towards a batch's time-out."""
    now = 0.0
    clock = lambda: now + time.monotonic()  # noqa: E731
    with opened(Log(), clock=clock, delivery_timeout_ms=20_000, linger_ms=60_000) as sender:
        for _ in range(3):
            add(sender, 0, b"a")
            now += 100.0
        finish_all(sender, 3)


def test_linger() -> None:
    """Rows of a slow source are sent after linger.ms, not only at the end."""
    now, log = 0.0, Log()
    with opened(log, clock=lambda: now + time.monotonic(), linger_ms=60_000) as sender:
        add(sender, 0, b"a")
        now += 100.0
        add(sender, 0, b"a")
        end = time.monotonic() + 30
        while not log.batches and time.monotonic() < end:
            sender.poll(0.1)
        assert [batch.records for batch in log.batches] == [2]
        add(sender, 0, b"a")
        finish(sender)
        assert sender.acknowledged == 3


def test_a_connection_lost_with_requests_to_send() -> None:
    """A connection that breaks while several requests are sent loses none of their batches."""
    log = Log(None, partitions=20)
    with opened(log, message_max_bytes=2_000, batch_size=1_500) as sender:
        for number in range(20):
            sender.add(rows(bytes(1_000)), np.full(1, number, np.int32))
            sender.advance(0)
        finish_all(sender, 20)


def test_answers_after_a_purge() -> None:
    """A response to a request that was given up is ignored."""
    is_purged = threading.Event()

    def respond_late(request: Received, body: bytes) -> bytes:
        assert is_purged.wait(30)
        return answered(request, body)

    def treat(broker: int, request: Received) -> Treatment:
        is_late = request.api == PRODUCE and bool(cluster.logs[0].values)
        return Treatment(respond=respond_late) if is_late else Treatment()

    with (
        ScriptedCluster(treat) as cluster,
        DirectSender({"bootstrap.servers": cluster.servers}, QueueLimits()) as sender,
    ):
        add(sender, 0, b"a")
        finish(sender)
        add(sender, 0, b"b")
        flush_until(sender, lambda: len(cluster.logs[0].values) == 2)
        sender.purge(in_flight=True)
        assert sender.is_moving
        is_purged.set()
        flush_until(sender, lambda: not sender.is_moving)
        assert sender.queued == 0
        assert sender.failure is None
        assert delivered(sender) == {0: 1}


@pytest.mark.parametrize(("leader", "answers"), [(0, [NOT_LEADER]), (-1, [])], ids=["with a leader", "without a leader"])
def test_a_partition_that_was_missed_once(leader: int, answers: list[int]) -> None:
    """A partition that is missing in metadata, reported, and missing again, counts as missing only from then on."""
    log = UnsteadyLog([(1, 0), (2, leader), (1, 0), (2, 0)], *answers)
    with opened(log, clock=log.clock) as sender:
        add(sender, 1, b"a")
        finish_all(sender, 1)
    assert len(log.batches) == len(answers) + 1


def test_memory_of_many_partitions() -> None:
    """Open batches count towards the queue's limit, so that many partitions use no more memory."""
    log = Log(partitions=500)
    limits = QueueLimits(size_bytes=1_000_000)
    with opened(log, limits, linger_ms=60_000) as sender:
        for _ in range(20):
            sender.add(rows(*[bytes(400)] * 500), np.arange(500, dtype=np.int32))
            is_added = False
            while not is_added:
                is_added = sender.advance(0.01)
                assert sender._encoder.open_bytes + sender._producing.queued_bytes < 2 * limits.size_bytes
        finish(sender)
        assert sender.acknowledged == 10_000


def served_s(cluster: ScriptedCluster) -> float:
    """Write to two brokers, the second of which hangs; return the seconds until the first has acknowledged all its rows."""
    with cluster:
        servers = cluster.servers.split(",")[0]
        properties = {"bootstrap.servers": servers, "socket.send.buffer.bytes": 100_000}
        with DirectSender(properties, QueueLimits()) as sender:
            began_at = time.monotonic()
            sender.add(rows(*[bytes(100_000)] * 200), np.arange(200, dtype=np.int32) % 2)
            while delivered(sender).get(0, 0) < 100:
                assert time.monotonic() - began_at < 2 * HANGS_S
                sender.advance(0.01)
                sender.flush(0.01)
            took_s = time.monotonic() - began_at
            sender.purge(in_flight=True)
    return took_s


def test_a_broker_that_reads_nothing() -> None:
    """A broker that does not read its requests does not delay the other broker."""

    def treat(broker: int, request: Received) -> Treatment:
        return Treatment(delay_s=HANGS_S if (broker, request.api) == (1, PRODUCE) else 0)

    assert served_s(ScriptedCluster(treat, brokers=2)) < HANGS_S / 2


def test_a_broker_that_does_not_answer_at_first() -> None:
    """A broker that accepts connections and stays silent does not delay the other broker."""

    class Silent(ScriptedBroker):
        def _accept(self) -> None:
            pass

    cluster = ScriptedCluster(brokers=2)
    cluster.brokers[1] = Silent(lambda request: None)
    assert served_s(cluster) < HANGS_S / 2


def test_unknown_partition() -> None:
    """A partition that the brokers do not have fails the write."""
    with opened(Log(partitions=1)) as sender:
        add(sender, 1, b"a")
        assert failure_of(sender).cause == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_large_row() -> None:
    """A row above message.max.bytes fails before it is sent."""
    log = Log()
    with opened(log, message_max_bytes=1_000) as sender:
        add(sender, 0, bytes(2_000))
        assert failure_of(sender).cause.startswith("MESSAGE_TOO_LARGE; ")
    assert log.batches == []


@pytest.mark.parametrize("kafka", [{}, {"transactional.id": "id"}], ids=["idempotent", "transactional"])
@pytest.mark.parametrize(
    ("producing", "codec", "why"),
    [
        ({PRODUCE: (0, 2), INIT_PRODUCER_ID: (0, 1)}, "none", "Produce 0 to 2"),
        ({PRODUCE: (0, 6), INIT_PRODUCER_ID: (0, 1)}, "zstd", "without zstd"),
        ({}, "none", "the broker has no Produce"),
    ],
    ids=["old batches", "without zstd", "without Produce"],
)
def test_brokers_that_need_librdkafka(
    producing: dict[int, tuple[int, int]], codec: str, why: str, kafka: dict[str, str]
) -> None:
    """A broker without record batches, the codec, or the request, is left to librdkafka, without a connection left."""
    with ScriptedBroker(lambda request: None, {**RANGES, FIND_COORDINATOR: (0, 1), **producing}) as broker:
        properties = {"bootstrap.servers": f"127.0.0.1:{broker.address[1]}", "compression.type": codec, **kafka}
        sender = DirectSender(properties, QueueLimits())
        with pytest.raises(Unsupported, match=why):
            sender.__enter__()
        broker.finish()


def test_coordinator_that_needs_librdkafka() -> None:
    """The connection to a coordinator that lacks the requests of transactions is closed, even if the error is kept."""

    def find(request: Received) -> bytes:
        assert request.api == FIND_COORDINATOR
        place = protocol.int32(1) + protocol.string("127.0.0.1") + protocol.int32(broker.address[1])
        return answered(request, protocol.int32(0) + protocol.int16(NONE) + protocol.string(None) + place)

    ranges = {**RANGES, FIND_COORDINATOR: (0, 1), PRODUCE: (0, 9), INIT_PRODUCER_ID: (0, 1)}
    with ScriptedBroker(find, ranges) as broker:
        properties = {"bootstrap.servers": f"127.0.0.1:{broker.address[1]}", "transactional.id": "id"}
        sender = DirectSender(properties, QueueLimits())
        with pytest.raises(Unsupported, match="AddPartitionsToTxn"):
            sender.__enter__()
        assert broker.connections == 2
        broker.finish()


def test_broker_without_producer_ids() -> None:
    """A broker that assigns no producer ids is left to librdkafka."""
    with ScriptedBroker(lambda request: None, {**RANGES, PRODUCE: (0, 11)}) as broker:
        properties = {"bootstrap.servers": f"127.0.0.1:{broker.address[1]}"}
        with pytest.raises(Unsupported, match="InitProducerId"):
            DirectSender(properties, QueueLimits()).__enter__()


def test_no_broker() -> None:
    """Without a broker, rows wait; a request for leaders fails."""
    with DirectSender({"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 100}, QueueLimits()) as sender:
        with pytest.raises(BrokersUnavailable, match=r"partitions of t: 127\.0\.0\.1:1: .*refused.*; no broker answered"):
            sender.leaders("t", 0.2)
        add(sender, 0, b"a")
        failure = failure_of(sender)
        assert failure.overdue_topic == "t"
        assert "may have written" not in failure.cause


def settings(**kafka: Any) -> ProduceSettings:
    from pyspark_zkafka.model.planning import Listener
    from pyspark_zkafka.options.values import ConnectionOptions

    given = {name.replace("_", "."): value for name, value in kafka.items()}
    return producer_settings_of(producer_properties(ConnectionOptions(None, "b", Listener(), given, "auto"), "b:1"))[1]


def test_settings() -> None:
    """A write's properties are honoured under librdkafka's names."""
    assert settings().batch_bytes == 1_000_000
    found = settings(compression_type="zstd", compression_level="3", batch_size="5000", delivery_timeout_ms="0")
    assert found.codec == "zstd"
    assert found.level == 3
    assert found.batch_bytes == 5000
    assert found.delivery_timeout_s == float("inf")


@pytest.mark.parametrize(
    "kafka", [{"acks": "1"}, {"enable_idempotence": False}, {"no_such": "1"}, {"message_send_max_retries": "3"}]
)
def test_settings_for_librdkafka(kafka: dict[str, Any]) -> None:
    """Properties that the direct transport does not honour are left to librdkafka."""
    with pytest.raises(Unsupported):
        settings(**kafka)


def test_refused_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused login is repeated once, after 3 s: each attempt counts towards a lock-out of the user."""
    clock, attempts = Clock(), []

    def refuse(*_: object, **__: object) -> None:
        attempts.append(clock.now)
        raise LoginRefused("no")

    sender = DirectSender({"bootstrap.servers": "b:1"}, QueueLimits(), clock, clock.sleep)
    monkeypatch.setattr(sender._client, "metadata", refuse)
    with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER.*check the user and password"):
        sender.leaders("t", 10.0)
    assert attempts == [0.0, 3.0]


class Hanging:
    """A connection to a broker that drops packets. It moves a test's clock ahead while it waits."""

    is_open = is_opening = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def begin_opening(self, deadline: Deadline) -> None:
        self._deadline, self.is_opening = deadline, True

    def continue_opening(self, pause: Deadline) -> bool:
        self._clock.now = max(self._clock.now, self._deadline.or_sooner(pause).at)
        if self._deadline.has_passed:
            self.is_opening = False
            raise ConnectionLost("connecting failed")
        return False

    def close(self) -> None:
        self.is_opening = False


def test_a_broker_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for a producer id does not hold up the caller while a connection is opened."""
    clock = Clock()
    sender = DirectSender({"bootstrap.servers": "b:1"}, QueueLimits(), clock, clock.sleep)
    monkeypatch.setattr(sender._client, "new_connection", lambda address: Hanging(clock))
    with sender:
        assert clock.now == 3.0
        add(sender, 0, b"a")
        for _ in range(20):
            sender.flush(0.1)
        assert clock.now < 8.0
        sender.purge(in_flight=True)
