"""Messages of producers, compared with the bytes that their schemas prescribe."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct.producer_messages import (
    PRODUCE,
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffset,
    EndTransaction,
    InitProducerId,
    Message,
    Produced,
    produce_request,
    read_answer,
    read_produce,
)
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.wire.protocol import MalformedResponse, Request

PRODUCER = ProducerId(0x0102030405060708, 9)
PRODUCER_HEX = "0102030405060708 0009"
OFFSET = GroupOffset("g", "t", 2, 5, "m")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", ""))


@pytest.mark.parametrize(
    ("message", "version", "body"),
    [
        (InitProducerId("x", 60_000), 1, "0001 78 | 0000ea60"),
        (InitProducerId(None, 0), 0, "ffff | 00000000"),
        (
            AddPartitions("x", PRODUCER, (P0, P1)),
            2,
            f"0001 78 {PRODUCER_HEX} | 00000001 0001 74 | 00000002 00000000 00000001",
        ),
        (AddOffsets("x", PRODUCER, "g"), 2, f"0001 78 {PRODUCER_HEX} 0001 67"),
        (EndTransaction("x", PRODUCER, True), 2, f"0001 78 {PRODUCER_HEX} 01"),
        (EndTransaction("x", PRODUCER, False), 5, f"02 78 {PRODUCER_HEX} 00 00"),
        (
            CommitOffset("x", PRODUCER, OFFSET),
            0,
            f"0001 78 0001 67 {PRODUCER_HEX} | 00000001 0001 74 | 00000001 00000002 0000000000000005 0002 6d00",
        ),
        (
            CommitOffset("x", PRODUCER, OFFSET),
            2,
            f"0001 78 0001 67 {PRODUCER_HEX} | 00000001 0001 74 | 00000001 00000002 0000000000000005 ffffffff 0002 6d00",
        ),
        (
            CommitOffset("x", PRODUCER, OFFSET),
            5,
            f"02 78 02 67 {PRODUCER_HEX} ffffffff 01 00 | 02 02 74 02 | 00000002 0000000000000005 ffffffff 03 6d00 000000",
        ),
    ],
)
def test_requests(
    message: InitProducerId | AddPartitions | AddOffsets | EndTransaction | CommitOffset, version: int, body: str
) -> None:
    """Each message is encoded according to its schema; versions with tagged fields are compact."""
    assert message.request(version).body == hexed(body)


@pytest.mark.parametrize(
    ("message", "version", "response", "answer"),
    [
        (InitProducerId("x", 1), 1, f"00000000 0000 {PRODUCER_HEX}", Answer(0, PRODUCER)),
        (InitProducerId("x", 1), 1, "00000000 0033 ffffffffffffffff ffff", Answer(51, ProducerId(-1, -1))),
        (AddPartitions("x", PRODUCER, (P0,)), 2, "00000000 00000001 0001 74 00000001 00000000 0000", Answer(0)),
        (
            AddPartitions("x", PRODUCER, (P0, P1)),
            2,
            "00000000 00000001 0001 74 00000002 00000000 0037 00000001 001d",
            Answer(29),
        ),
        (AddOffsets("x", PRODUCER, "g"), 2, "00000000 001e", Answer(30)),
        (CommitOffset("x", PRODUCER, OFFSET), 2, "00000000 00000001 0001 74 00000001 00000002 0003", Answer(3)),
        (CommitOffset("x", PRODUCER, OFFSET), 5, "00000000 02 02 74 02 00000002 0010 00 00 00", Answer(16)),
        (EndTransaction("x", PRODUCER, True), 2, "00000000 0000", Answer(0)),
        (EndTransaction("x", PRODUCER, True), 5, f"00000000 0000 {PRODUCER_HEX} 00", Answer(0, PRODUCER)),
    ],
)
def test_answers(
    message: InitProducerId | AddPartitions | AddOffsets | EndTransaction | CommitOffset,
    version: int,
    response: str,
    answer: Answer,
) -> None:
    """A response yields the first error that is a cause, which excludes partitions that were not attempted."""
    assert read_answer(message, Request(message.api, version, b"").reader(hexed(response))) == answer


@pytest.mark.parametrize(
    ("version", "transactional_id", "sent"),
    [
        (8, None, "ffff ffff 000003e8 00000001 | 0001 74 00000002 | 00000000 00000003 616263 | 00000001 00000001 64"),
        (8, "x", "0001 78 ffff 000003e8 00000001 | 0001 74 00000002 | 00000000 00000003 616263 | 00000001 00000001 64"),
        (12, "x", "02 78 ffff 000003e8 02 | 02 74 03 | 00000000 04 616263 00 | 00000001 02 64 00 | 00 00"),
    ],
)
def test_produce(version: int, transactional_id: str | None, sent: str) -> None:
    """Record batches follow the head of a request as parts, without being copied."""
    batches = [(P0, memoryview(b"abc")), (P1, memoryview(b"d"))]
    request = produce_request(version, 1000, batches, transactional_id)
    assert request.body + b"".join(request.parts) == hexed(sent)


@pytest.mark.parametrize(
    ("version", "response"),
    [
        (3, "00000001 0001 74 00000001 00000001 0003 0000000000000007 ffffffffffffffff | 00000005"),
        (5, "00000001 0001 74 00000001 00000001 0003 0000000000000007 ffffffffffffffff 0000000000000002 | 00000005"),
        (
            8,
            "00000001 0001 74 00000001 00000001 0003 0000000000000007 ffffffffffffffff 0000000000000002 "
            "00000001 00000000 ffff 0001 65 | 00000005",
        ),
        (
            12,
            "02 02 74 02 00000001 0003 0000000000000007 ffffffffffffffff 0000000000000002 "
            "02 00000000 00 00 02 65 01 00 01 ff 00 | 00000005 00",
        ),
    ],
)
def test_produced(version: int, response: str) -> None:
    """Results by partition and the throttle time are read; errors of single records and new leaders are skipped."""
    start = -1 if version < 5 else 2
    assert read_produce(Request(PRODUCE, version, b"").reader(hexed(response))) == ({P1: Produced(3, 7, start)}, 5)


@pytest.mark.parametrize(
    ("message", "version", "body", "flaw"),
    [
        (AddPartitions("x", PRODUCER, (P0, P1)), 2, "00000000 00000001 0001 74 00000001 00000000 0000", "lacks t-1"),
        (CommitOffset("x", PRODUCER, OFFSET), 2, "00000000 00000000", "lacks t-2"),
        (AddOffsets("x", PRODUCER, "g"), 2, "00000000 0000 00", "1 bytes follow the last field"),
    ],
    ids=["a partition is missing", "no partition", "bytes are left over"],
)
def test_incomplete_response_is_malformed(message: Message, version: int, body: str, flaw: str) -> None:
    """A response without a partition of the request, or with bytes left over, is no success."""
    with pytest.raises(MalformedResponse, match=flaw):
        read_answer(message, Request(message.api, version, b"").reader(hexed(body)))
