"""Fetch and requests of producers in each version, compared with bytes that tests/vectors/KafkaMessages.java recorded."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct import fetch, producer_messages
from pyspark_zkafka.records.direct.fetch import FetchPartition, FetchSettings, PartitionData, fetch_request, read_fetch
from pyspark_zkafka.records.direct.producer_messages import (
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
from pyspark_zkafka.wire.protocol import Api, MalformedResponse, Reader, Request
from tests.support.recorded_messages import CLIENT_ID, CORRELATION_ID, REQUEST, RESPONSE, TAGGED, Vector, needed, recorded

APIS = {api.name: api for module in (fetch, producer_messages) for api in vars(module).values() if isinstance(api, Api)}

A0, A2, G1 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("größe", 1)
ID = uuid.UUID("01234567-89ab-cdef-8877-665544332211").bytes
OTHER_ID = uuid.UUID("0f1e2d3c-4b5a-6978-0102-030405060708").bytes
FAR = 2**40
PRODUCER = ProducerId(0x0102030405060708, 9)
TRANSACTION = "transäktion"

FETCHED = [FetchPartition(A0, ID, FAR, 7, 6), FetchPartition(A2, ID, 0), FetchPartition(G1, OTHER_ID, 5, 0, 0)]
BATCHES = [(A0, memoryview(b"\1\2\3")), (A2, memoryview(b"\4")), (G1, memoryview(b"\5\6"))]
INIT, WITHOUT_ID = InitProducerId(TRANSACTION, 60_000), InitProducerId(None, 0)
PARTITIONS = AddPartitions(TRANSACTION, PRODUCER, (A0, A2, G1))
OFFSETS = AddOffsets(TRANSACTION, PRODUCER, "grüppe")
OFFSET = CommitOffset(TRANSACTION, PRODUCER, GroupOffset("grüppe", "größe", 1, FAR, "späte Daten"))
COMMIT, ABORT = (EndTransaction(TRANSACTION, PRODUCER, commit) for commit in (True, False))


def settings(version: int, *, read_committed: bool) -> FetchSettings:
    return FetchSettings(500, 1, 52_428_800, 1_048_576, read_committed and version >= 4, "zone ä")


REQUESTS: dict[tuple[str, str], Callable[[int], Request]] = {
    ("Fetch", "partitions"): lambda v: fetch_request(v, FETCHED, settings(v, read_committed=True)),
    ("Fetch", "all records"): lambda v: fetch_request(v, [FetchPartition(A0, ID, 0)], settings(v, read_committed=False)),
    ("Produce", "batches"): lambda v: produce_request(v, 1000, BATCHES),
    ("Produce", "batches of a transaction"): lambda v: produce_request(v, 1000, BATCHES, TRANSACTION),
    ("InitProducerId", "transactional id"): INIT.request,
    ("InitProducerId", "no id"): WITHOUT_ID.request,
    ("AddPartitionsToTxn", "partitions"): PARTITIONS.request,
    ("AddOffsetsToTxn", "group"): OFFSETS.request,
    ("TxnOffsetCommit", "offset"): OFFSET.request,
    ("EndTxn", "commit"): COMMIT.request,
    ("EndTxn", "abort"): ABORT.request,
}


def fetched(v: int) -> list[PartitionData]:
    """The data of the sample, without the fields that version `v` lacks."""
    throttle_ms, by_id = 9 if v >= 8 else 0, v >= 13

    def data(error: int, end: int, stable: int, number: int, **more: Any) -> PartitionData:
        diverging = (4, 90 + number) if v >= 12 else None
        return PartitionData(throttle_ms, error, end, stable if v >= 4 else end, diverging, by_id=by_id, **more)

    aborted = ((2**33, 3), (8, 4)) if v >= 4 else ()
    records = memoryview(b"\1\2\3")
    return [
        data(0, FAR, 5, 0, aborted=aborted, replica=1001 if v >= 11 else -1, records=records),
        data(1, -1, -1, 2),
        data(0, 7, 7, 1),
    ]


def produced(v: int) -> tuple[dict[TopicPartition, Produced], int]:
    outcomes = {A0: Produced(0, FAR, 3 if v >= 5 else -1), A2: Produced(87, -1, -1), G1: Produced(6, -1, -1)}
    return outcomes, 9


EXPECTED: dict[tuple[str, str], Callable[[int], Any]] = {
    ("Fetch", "records"): fetched,
    ("Fetch", "throttled"): lambda v: [PartitionData(9 if v >= 8 else 0, 0, by_id=v >= 13)] * 3,
    ("Fetch", "refused"): lambda v: [PartitionData(9 if v >= 8 else 0, 70)] * 3,
    ("Produce", "outcomes"): produced,
    ("Produce", "nothing"): lambda v: ({}, 0),
    ("InitProducerId", "answered"): lambda v: Answer(0, PRODUCER),
    ("InitProducerId", "refused"): lambda v: Answer(51, ProducerId(-1, 0)),
    ("AddPartitionsToTxn", "accepted"): lambda v: Answer(0),
    ("AddPartitionsToTxn", "refused"): lambda v: Answer(29),
    ("AddOffsetsToTxn", "accepted"): lambda v: Answer(0),
    ("AddOffsetsToTxn", "refused"): lambda v: Answer(30),
    ("TxnOffsetCommit", "accepted"): lambda v: Answer(0),
    ("TxnOffsetCommit", "refused"): lambda v: Answer(16),
    ("EndTxn", "ended"): lambda v: Answer(0, PRODUCER if v >= 5 else None),
    ("EndTxn", "refused"): lambda v: Answer(90, ProducerId(-1, -1) if v >= 5 else None),
}
MESSAGES: dict[str, Message] = {
    "InitProducerId": INIT,
    "AddPartitionsToTxn": PARTITIONS,
    "AddOffsetsToTxn": OFFSETS,
    "TxnOffsetCommit": OFFSET,
    "EndTxn": COMMIT,
}
REFUSED = "Fetch", "refused"
REQUEST_VECTORS = recorded(REQUEST, APIS)
RESPONSE_VECTORS = [vector for kind in (RESPONSE, TAGGED) for vector in recorded(kind, APIS)]


def read(api: str, version: int, data: bytes) -> Any:
    """Read a response after its header."""
    request = Request(APIS[api], version, b"")
    response: Reader = request.reader(data)
    request.read_header(response, CORRELATION_ID)
    if api == "Fetch":
        return read_fetch(response, FETCHED)
    return read_produce(response) if api == "Produce" else read_answer(MESSAGES[api], response)


@pytest.mark.parametrize("kind", [REQUEST, RESPONSE, TAGGED])
def test_every_version_is_recorded(kind: str) -> None:
    """Each version of each API has vectors, and in flexible versions also with unknown tagged fields."""
    vectors = recorded(kind, APIS)
    assert {(vector.api, vector.version) for vector in vectors} == needed(kind, APIS.values())
    assert len({vector[:3] for vector in vectors}) == len(vectors)  # both versions of Kafka write the same bytes


def test_every_sample_has_values() -> None:
    """The tables of this file have the values of each recorded sample, and no others."""
    assert {vector[:2] for vector in REQUEST_VECTORS} == REQUESTS.keys()
    assert {vector[:2] for vector in RESPONSE_VECTORS} == EXPECTED.keys()


@pytest.mark.parametrize(Vector._fields, REQUEST_VECTORS)
def test_requests(api: str, sample: str, version: int, data: bytes) -> None:
    """A request has the same bytes as Java's for the same values, after its length."""
    request = REQUESTS[api, sample](version)
    assert (request.api, request.version) == (APIS[api], version)
    sent = request.encoded(CORRELATION_ID, CLIENT_ID) + b"".join(request.parts)
    assert sent == len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize(Vector._fields, RESPONSE_VECTORS)
def test_responses(api: str, sample: str, version: int, data: bytes) -> None:
    """Java's response is read to its values, to the last byte."""
    assert read(api, version, data) == EXPECTED[api, sample](version)


@pytest.mark.parametrize(Vector._fields, [vector for vector in RESPONSE_VECTORS if vector[:2] != REFUSED])
def test_cut_responses(api: str, sample: str, version: int, data: bytes) -> None:
    """A response that ends early, or has bytes left over, is malformed. Of a refused fetch, only the error is read."""
    for size in range(len(data)):
        with pytest.raises(MalformedResponse):
            read(api, version, data[:size])
    with pytest.raises(MalformedResponse):
        read(api, version, data + b"\0")
