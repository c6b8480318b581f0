"""Events of a partition, and batches of confluent-kafka's messages."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import RAW_HEADERS
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.message_consumer import MessageBatch, PartitionEvents
from pyspark_zkafka.testing import MockCluster
from tests.support.clock import Clock
from tests.support.foreign_headers import write_header
from tests.support.split_logs import OFFSETS, FakeMessage

REFUSED = KafkaError(KafkaError._SSL, "ssl://b:1/1: SSL handshake failed: certificate verify failed")
RECORDS = Poll(records=1, first=5, last=5)
TRUNCATED = (
    "Partition log truncation detected at offset 307 (leader epoch 1): broker end offset is 10 (offset leader epoch 0). "
    "Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
)
UNKNOWN_EPOCH = (
    "No epoch found less or equal to offset 307 (leader epoch 1): broker end offset is -1 (offset leader epoch -1). "
    "Reset using configured policy.: Local: Partition log truncation detected (broker 1)"
)
NOT_THERE = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)"


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def events(clock: Clock) -> PartitionEvents:
    return PartitionEvents(TopicPartition("t", 0), clock)


def test_header_names_that_are_not_utf8() -> None:
    """Messages with such names have no headers where these are read only for ids. Later messages keep theirs."""
    with MockCluster() as cluster:
        cluster.create_topic("t")
        cluster.produce("t", [{"headers": [("h", b"1")]}] * 100)
        for _ in range(2):
            write_header(cluster.bootstrap_servers, "t", b"\xff\xfe")
        cluster.produce("t", [{"headers": [("h", b"2")]}])
        gathered = MessageBatch(pa.schema([("headers", RAW_HEADERS)]))
        with closing(Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})) as consumer:
            consumer.assign([KafkaTopicPartition("t", 0, 0)])
            gathered.add(consumer.consume(103, 30), 103)
        found = gathered.take().column(0).to_pylist()
    assert found == [[{"key": b"h", "value": b"1"}]] * 100 + [None, None, [{"key": b"h", "value": b"2"}]]


@pytest.mark.parametrize(
    ("offsets", "ordered"),
    [([], True), ([7], True), ([5, 7, 8], True), ([5, 9, 6, 8], False), ([5, 5, 7], False), ([6, 5], False)],
)
def test_offsets_out_of_order(offsets: list[int], ordered: bool) -> None:
    """Offsets may have gaps, and must ascend, also where the last one fits their number."""
    assert MessageBatch(OFFSETS).add([FakeMessage(offset) for offset in offsets], 100).ordered is ordered


def test_nothing_comes_after_a_refusal(events: PartitionEvents, clock: Clock) -> None:
    """A refusal that no record follows for two seconds ends the read."""
    events.note(REFUSED)
    clock.now += 2
    with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER.*reading t-0.*certificate verify failed"):
        events.finish(Poll())


def test_a_group_that_is_not_used(events: PartitionEvents) -> None:
    """A missing right on the client's group, which librdkafka looks up, is ignored; one on the topic is an error."""
    events.take(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), -1, Poll())
    with pytest.raises(ClusterStateError, match="an ACL must allow Read, Write or Describe on the topic"):
        events.take(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), -1, Poll())


def test_a_handshake_that_succeeds_the_second_time(events: PartitionEvents, clock: Clock) -> None:
    """The read waits two seconds after a refusal, since librdkafka retries and may succeed."""
    events.note(REFUSED)
    clock.now += 1.9
    events.finish(Poll())
    events.finish(RECORDS)
    clock.now += 60
    assert events.finish(Poll()).error is not None


@pytest.mark.parametrize("answer", [Poll(records=1, first=5, last=5), Poll(first=7, last=7), Poll(end=8)])
def test_an_answer_ends_a_refusal(events: PartitionEvents, clock: Clock, answer: Poll) -> None:
    """Records, even beyond the range, and the end of the log clear earlier refusals."""
    events.note(REFUSED)
    events.finish(answer)
    clock.now += 3600
    assert events.finish(Poll()).first is None


def test_a_new_refusal_after_an_answer(events: PartitionEvents, clock: Clock) -> None:
    """Credentials revoked during a read end it."""
    events.finish(RECORDS)
    events.note(REFUSED)
    clock.now += 2
    with pytest.raises(ClusterStateError, match="REFUSED_BY_BROKER"):
        events.finish(Poll())


@pytest.mark.parametrize(("text", "truncation"), [(TRUNCATED, TRUNCATED), (UNKNOWN_EPOCH, None), (NOT_THERE, None)])
def test_reasons_of_a_reset(text: str, truncation: str | None) -> None:
    """A reset means an offset out of range, or a truncated log: librdkafka's text distinguishes them."""
    poll = Poll()
    PartitionEvents(TopicPartition("t", 0)).take(KafkaError(KafkaError._AUTO_OFFSET_RESET, text), -1001, poll)
    assert poll.out_of_range
    assert poll.truncation == truncation


MIB = 1024 * 1024


def requests(size: int, count: int, most_records: int = 1_000_000, most_bytes: int = 8 * MIB) -> list[int]:
    """Return the sizes of successive requests for messages of one size."""
    batch = MessageBatch(OFFSETS)
    made: list[int] = []
    for _ in range(count):
        made.append(batch.request_size(most_records, most_bytes))
        batch.add([FakeMessage(offset, size) for offset in range(made[-1])], 1_000_000)
    return made


def test_large_records() -> None:
    """Records of unknown size are requested in small number, then as many as fit, and always at least one."""
    assert requests(MIB, 3) == [16, 8, 8]
    assert requests(100 * MIB, 3) == [16, 1, 1]


def test_small_records() -> None:
    """Requests grow up to a limit, so that records that suddenly become large are not requested by the thousand."""
    assert requests(100, 6) == [16, 64, 256, 1_000, 1_000, 1_000]
    assert requests(100, 4, most_records=50) == [16, 50, 50, 50]
    assert requests(100, 1, most_records=3) == [3]


def test_records_that_grow() -> None:
    """When records become large, the next request is for as many as fit."""
    batch = MessageBatch(OFFSETS)
    batch.add([FakeMessage(offset, 100) for offset in range(16)], 1_000_000)
    assert batch.request_size(1_000_000, 8 * MIB) == 64
    batch.add([FakeMessage(offset, MIB) for offset in range(16, 80)], 1_000_000)
    assert batch.request_size(1_000_000, 8 * MIB) == 8
