"""The sender over confluent-kafka: rows that wait for room, time-outs and fatal errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records import librdkafka_sender
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.librdkafka_sender import MessageSender
from pyspark_zkafka.records.producer import CountingProducer, Failure, QueueLimits, Sender

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
# Four megabytes are added at a time.
MOST_QUEUED = 4_195


def ignore(error: KafkaError) -> None:
    """Ignore errors: these tests expect no response."""


def add(sender: MessageSender, *values: bytes) -> None:
    rows = OutgoingBatch("t", pa.array(values, pa.binary()), None, None, None, None)
    sender.add(rows, np.zeros(len(values), np.int32))


@pytest.fixture
def sender() -> Iterator[MessageSender]:
    """A sender with room for two megabytes, and a queued record of almost one megabyte."""
    with MessageSender({"bootstrap.servers": "127.0.0.1:1"}, QueueLimits(1_000, 2_000_000)) as opened:
        add(opened, b"x" * 900_000)
        assert opened.advance(0)
        assert opened.queued == 1
        yield opened
        opened.purge(in_flight=True)
        opened.flush(1)


def test_rows_wait_for_room(sender: MessageSender) -> None:
    """Rows wait while the queue has no room, and none is handed over."""
    add(sender, *[b"y" * 500_000] * 4)
    assert not any(sender.advance(0) for _ in range(100_000))
    assert sender.queued == 1


def test_waiting_does_not_make_the_queued_records_smaller(sender: MessageSender) -> None:
    """Queued records keep their size in the accounts while small rows wait behind them."""
    add(sender, *[b"y"] * 10)
    assert not any(sender.advance(0) for _ in range(1_000))
    assert sender.queued == 1


def large_rows(column: str) -> OutgoingBatch:
    """Return 10,000 rows with 1,000 bytes in one column."""
    many, large = 10_000, [b"x" * 1_000] * 10_000
    cells: dict[str, Any] = {"key": None, "headers": None, "value": pa.nulls(many, pa.binary())}
    heads = pa.ListArray.from_arrays(pa.array(range(many + 1), pa.int32()), pa.array([("h", b"x" * 999)] * many, HEADER))
    cells[column] = heads if column == "headers" else pa.array(large, pa.binary())
    return OutgoingBatch("t", partition=None, timestamp_ms=None, **cells)


@pytest.mark.parametrize("column", ["value", "key", "headers"])
def test_all_that_is_sent_takes_room(column: str) -> None:
    """Keys and headers count towards the limit of bytes, like values."""
    with MessageSender({"bootstrap.servers": "127.0.0.1:1"}, QueueLimits(100_000, 1_000_000)) as sender:
        sender.add(large_rows(column), np.zeros(10_000, np.int32))
        assert not sender.advance(0)
        assert 0 < sender.queued <= MOST_QUEUED
        sender.purge(in_flight=True)
        sender.flush(1)


@pytest.mark.parametrize("column", ["value", "key", "headers"])
def test_all_that_is_encoded_takes_room(column: str) -> None:
    """With the direct transport, keys and headers count too; batches exceed the limit by at most one batch."""
    limits = QueueLimits(size_bytes=1_000_000)
    with DirectSender({"bootstrap.servers": "127.0.0.1:1", "batch.size": 50_000}, limits) as sender:
        sender.add(large_rows(column), np.zeros(10_000, np.int32))
        assert not any(sender.advance(0) for _ in range(20))
        assert 900_000 < sender._producing.queued_bytes + sender._encoder.open_bytes <= 1_100_000
        sender.purge(in_flight=True)


@pytest.mark.parametrize("make", [MessageSender, DirectSender])
@pytest.mark.parametrize("most", [0, 2**31 - 1])
def test_no_limit_of_records(make: Callable[..., Sender], most: int) -> None:
    """queue.buffering.max.messages=0 is no limit, as in librdkafka: rows are handed over until they take too many bytes."""
    properties = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": most}
    senders: list[Sender] = []

    def made(*args: Any) -> Sender:
        senders.append(make(*args))
        return senders[0]

    with CountingProducer(properties, made):
        rows = OutgoingBatch("t", pa.nulls(10_001, pa.binary()), None, None, None, None)
        senders[0].add(rows, np.zeros(10_001, np.int32))
        assert senders[0].advance(0)
        assert senders[0].queued == 10_001


def test_throttled_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery of librdkafka that times out names the quota, if brokers have throttled the client since the start."""
    config: dict[str, Any] = {}

    def make(given: dict[str, Any], **_: Any) -> FailingProducer:
        config.update(given)
        return FailingProducer()

    class Late:
        topic = staticmethod(lambda: "t")
        partition = staticmethod(lambda: 0)

    monkeypatch.setattr(librdkafka_sender, "Producer", make)
    with MessageSender({"bootstrap.servers": "127.0.0.1:1"}, QueueLimits()) as sender:
        for is_throttled in (True, False):
            sender.begin()
            if is_throttled:
                config["throttle_cb"](None)
            sender._on_failure(KafkaError(KafkaError._MSG_TIMED_OUT), Late())
            assert sender.failure is not None
            assert ("a quota of the brokers throttles the client" in sender.failure.cause) == is_throttled


class FailingProducer:
    """confluent-kafka's producer after a fatal error, which it raises once, without delivery reports."""

    def __init__(self) -> None:
        self._errors = [KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))]

    def poll(self, timeout_s: float) -> int:
        if self._errors:
            raise self._errors.pop()
        return 0

    def flush(self, timeout_s: float) -> int:
        if self._errors:
            raise SystemError("returned a result with an exception set") from self._errors.pop()
        return 0

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("call", [MessageSender.poll, MessageSender.flush])
def test_a_fatal_error_is_a_failure(call: Callable[[MessageSender, float], None]) -> None:
    """A fatal error that confluent-kafka raises is recorded, and fails records without delivery reports."""
    sender = MessageSender({}, QueueLimits())
    sender._open = FailingProducer()
    call(sender, 0)
    assert sender.failure == Failure("the client failed", "_FENCED: fenced")
    assert sender.reports.last == "_FENCED: fenced"


def test_other_system_errors() -> None:
    """A SystemError with another cause is raised unchanged."""

    class Broken(FailingProducer):
        def poll(self, timeout_s: float) -> int:
            raise SystemError("returned a result with an exception set") from ValueError()

    sender = MessageSender({}, QueueLimits())
    sender._open = Broken()
    with pytest.raises(SystemError, match="exception set"):
        sender.poll(0)
