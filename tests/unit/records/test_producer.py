"""The counting producer with a fake sender: failures, refusals, and waits for partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.errors import ConnectionReports, connection_error
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, DeliveryFailed, UnknownTopic
from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.producing import OVERDUE
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.records.producer import CountingProducer, Failure, QueueLimits, Sender, producer_properties
from pyspark_zkafka.wire.protocol import LoginRefused
from tests.support.clock import Clock

REFUSED = LoginRefused("b:1: Authentication failed")


class FakeSender:
    """A `Sender` whose brokers acknowledge at once, unless they are `silent`; each poll takes 0.2 seconds.

    The next poll notes the refusals in `refusals`. `is_out_of_reach` makes requests for leaders fail.
    """

    def __init__(self, clock: Clock, partitions: int) -> None:
        self._clock = clock
        self.reports = ConnectionReports(clock)
        self._partitions = partitions
        self._handed_over = self._acknowledged = 0
        self.silent = False
        self.refusals: list[LoginRefused] = []
        self.is_out_of_reach = False
        self.error_of_topics: int = NONE
        self.answers: list[int] = []
        self.refused_when_asked: list[LoginRefused] = []
        self.is_moving = False
        self.failure: Failure | None = None

    def __enter__(self) -> FakeSender:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None:
        self._handed_over = self._acknowledged = 0

    def add(self, rows: OutgoingBatch, partitions: Any) -> None:
        self._handed_over += len(partitions)

    def advance(self, timeout_s: float) -> bool:
        self.poll(0)
        return True

    def poll(self, timeout_s: float) -> None:
        self._clock.now += 0.2
        if not self.silent:
            self._acknowledged = self._handed_over
        refusals, self.refusals = self.refusals, []
        for refusal in refusals:
            self.reports.note(str(refusal), partial(connection_error, refusal))

    def flush(self, timeout_s: float) -> None:
        self.poll(timeout_s)

    def purge(self, *, in_flight: bool) -> None:
        self.silent = False

    @property
    def queued(self) -> int:
        return self._handed_over - self._acknowledged

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, dict[int, int]]:
        self.refusals += self.refused_when_asked
        self.refused_when_asked = []
        if self.is_out_of_reach:
            self.poll(0)
            raise self.reports.refusal("asking") or BROKERS_UNAVAILABLE("no broker answered")
        error = self.answers.pop(0) if self.answers else self.error_of_topics
        return error, dict.fromkeys(range(self._partitions), 0)


@contextmanager
def opened(clock: Clock, partitions: int = 1, **kafka: str) -> Iterator[tuple[CountingProducer, FakeSender]]:
    """Yield a producer of a write with some `kafka.*` options, and its sender."""
    options = {"kafka.bootstrap.servers": "b:1", **{f"kafka.{name}": value for name, value in kafka.items()}}
    properties = producer_properties(parse_connection(options, "write"), "b:1")
    senders: list[FakeSender] = []

    def make(properties: Mapping[str, Any], limits: QueueLimits) -> FakeSender:
        senders.append(FakeSender(clock, partitions))
        return senders[0]

    with CountingProducer(properties, make, clock) as producer:
        yield producer, senders[0]


def send(producer: CountingProducer, partition: int = 0) -> None:
    rows = OutgoingBatch("t", pa.array([b"x"], pa.binary()), None, None, None, None)
    producer.send(rows, np.array([partition], np.int32))


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def test_the_protocol_has_no_constructor() -> None:
    """Sender defines no constructor: in Python 3.10, senders would inherit an empty one in its place."""
    assert Sender.__init__.__module__ == "typing"


@pytest.mark.parametrize(
    ("code", "cause", "overdue_topic"),
    [
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            "MESSAGE_TOO_LARGE; kafka.message.max.bytes or the topic's max.message.bytes "
            "is smaller than the record, or with transport=librdkafka than kafka.batch.size",
            None,
        ),
        (OVERDUE, "the brokers did not acknowledge the record within kafka.delivery.timeout.ms", "orders"),
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "TOPIC_AUTHORIZATION_FAILED; an ACL must allow Write on the topic",
            None,
        ),
        (
            ErrorCode.INVALID_RECORD,
            "INVALID_RECORD; with cleanup.policy=compact, a topic takes only records with a key",
            None,
        ),
        (
            ErrorCode.INVALID_TIMESTAMP,
            "INVALID_TIMESTAMP; the topic's message.timestamp.before.max.ms or "
            "message.timestamp.after.max.ms does not allow the row's timestamp",
            None,
        ),
        (
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            "UNSUPPORTED_FOR_MESSAGE_FORMAT; set kafka.enable.idempotence to false, or raise the topic's "
            "message.format.version to 0.11",
            None,
        ),
    ],
)
def test_failure_by_its_code(code: int, cause: str, overdue_topic: str | None) -> None:
    """A failure names the partition and Kafka's error, the right or limit to change, and a late record's topic."""
    assert Failure.of("orders", 3, code) == Failure("orders-3", cause, overdue_topic)


def test_a_refusal_before_this_task_is_forgotten(clock: Clock) -> None:
    """A handshake that failed while the producer was idle does not fail the next task, however slow its brokers are."""
    with opened(clock) as (producer, sender):
        with producer.counting():
            send(producer)
        sender.refusals.append(REFUSED)
        clock.now += 60
        with producer.counting():
            send(producer)
            clock.now += 60
            send(producer)
        assert producer.acknowledged == 2


def test_acknowledgements_end_a_refusal(clock: Clock) -> None:
    """A task with acknowledged records survives a failed handshake."""
    with opened(clock) as (producer, sender), producer.counting():
        sender.refusals.append(REFUSED)
        for _ in range(20):
            send(producer)
    assert clock.now > 102


def test_a_refusal_without_acknowledgements(clock: Clock) -> None:
    """A task fails with a refusal if nothing is acknowledged for two seconds after it."""
    with opened(clock) as (producer, sender):
        sender.silent = True
        sender.refusals.append(REFUSED)
        with pytest.raises(DeliveryFailed, match=r"the brokers refuse.*Authentication failed"), producer.counting():
            send(producer)
        assert clock.now < 130


def test_metadata_that_are_refused(clock: Clock) -> None:
    """An unanswered request for partitions fails with the refusal that was reported during it."""
    with opened(clock) as (producer, sender):
        producer.partitions_of("t")
        sender.is_out_of_reach = True
        with pytest.raises(BrokersUnavailable):
            producer.partitions_of("t")
        sender.refused_when_asked.append(REFUSED)
        with pytest.raises(ClusterStateError, match="REFUSED_BY_BROKER"):
            producer.partitions_of("t")
        with pytest.raises(BrokersUnavailable):
            producer.partitions_of("t")


def test_a_topic_that_cannot_be_created(clock: Clock) -> None:
    """If brokers try to create a topic and fail, the error has their reason."""
    with opened(clock) as (producer, sender):
        sender._partitions, sender.error_of_topics = 0, ErrorCode.INVALID_REPLICATION_FACTOR
        with pytest.raises(UnknownTopic, match=r"does not create it automatically \(INVALID_REPLICATION_FACTOR\)\."):
            producer.partitions_of("t")


def test_a_topic_that_an_acl_hides(clock: Clock) -> None:
    """A topic that the user may not see is not reported as missing, and not after a wait."""
    with opened(clock) as (producer, sender):
        begin = clock.now
        sender.answers = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(
            ClusterStateError,
            match=r"REFUSED_BY_BROKER.*partitions of t: .*Write or Describe on the topic, Create to make",
        ):
            producer.partitions_of("t")
        assert clock.now - begin < 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (NONE, "; of "),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ", and the brokers have no topic t; of "),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "; of "),
    ],
)
def test_records_of_a_topic_that_was_deleted(clock: Clock, error: int, cause: str) -> None:
    """Records for a missing topic time out like records for silent brokers, but with another error."""
    with opened(clock) as (producer, sender):
        sender.error_of_topics = error
        sender.failure = Failure.of("t", 0, OVERDUE)
        with pytest.raises(DeliveryFailed) as caught, producer.counting():
            send(producer)
    assert f"t-0: the brokers did not acknowledge the record within kafka.delivery.timeout.ms{cause}" in str(caught.value)


def test_a_broker_that_is_starting(clock: Clock) -> None:
    """A topic counts as missing only after several responses, since a starting broker knows no topics."""
    with opened(clock) as (producer, sender):
        # Two requests precede the failure.
        sender.answers = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3 + [NONE]
        sender.failure = Failure.of("t", 0, OVERDUE)
        with pytest.raises(DeliveryFailed, match=r"delivery\.timeout\.ms; of") as caught, producer.counting():
            send(producer)
        assert caught.value.parameters["missing_topic"] is None
        assert sender.answers == []


@pytest.mark.parametrize("name", ["delivery.timeout.ms", "message.timeout.ms"])
def test_partitions_are_waited_for_as_long_as_a_delivery(clock: Clock, name: str) -> None:
    """A write waits for an unknown partition as long as for a delivery, in either spelling of that time-out."""
    with opened(clock, partitions=1, **{name: "3000"}) as (producer, _), producer.counting():
        begin = clock.now
        send(producer, partition=5)
        assert 3 <= clock.now - begin < 4


def test_a_request_for_partitions_that_fails(clock: Clock) -> None:
    """A failed request does not end the wait for partitions, and a refusal does."""
    with opened(clock, partitions=5) as (producer, sender):
        sender.is_out_of_reach = True

        def recover(timeout_s: float, poll: Callable[[float], None] = sender.poll) -> None:
            poll(timeout_s)
            sender.is_out_of_reach = not (105 < clock.now < 110 or clock.now > 115)
            sender._partitions = 5 if clock.now < 120 else 6

        sender.poll = recover  # type: ignore[method-assign]
        with producer.counting():
            send(producer, 5)
        assert clock.now >= 120
        sender.is_out_of_reach = sender.silent = True
        sender.poll = lambda timeout_s: FakeSender.poll(sender, timeout_s)  # type: ignore[method-assign]
        sender.refused_when_asked.append(REFUSED)
        with pytest.raises(DeliveryFailed, match=r"the brokers refuse.*Authentication failed"), producer.counting():
            send(producer, 6)
        assert clock.now < 130
