"""Broker responses as arbitrary bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct import committed_offsets, messages, producer_messages, wire
from pyspark_zkafka.records.direct.fetch import FETCH, FetchPartition, read_fetch
from pyspark_zkafka.records.direct.wire import Api, Reader, Request, Unsupported, unsigned_varint
from pyspark_zkafka.records.producer import GroupOffset
from tests.support.cases import each

TP = TopicPartition("t", 0)
PARTS = [FetchPartition(TP, bytes(16), 0), FetchPartition(TP._replace(partition=1), bytes(16), 0)]
PRODUCER = ProducerId(1, 0)
COMMIT = producer_messages.CommitOffset("x", PRODUCER, GroupOffset("g", "t", 0, 1, ""))
READERS: dict[Api, Callable[[Reader], Any]] = {
    wire.API_VERSIONS: messages.read_api_versions,
    messages.SASL_HANDSHAKE: messages.read_sasl_handshake,
    messages.SASL_AUTHENTICATE: messages.read_sasl_authenticate,
    messages.METADATA: lambda r: messages.read_metadata(r, "t"),
    messages.LIST_OFFSETS: lambda r: messages.read_list_offsets(r, TP),
    producer_messages.PRODUCE: producer_messages.read_produce,
    producer_messages.FIND_COORDINATOR: producer_messages.read_find_coordinator,
    producer_messages.INIT_PRODUCER_ID: producer_messages.InitProducerId("x", 1).read,
    producer_messages.ADD_PARTITIONS: producer_messages.AddPartitions("x", PRODUCER, (TP,)).read,
    producer_messages.ADD_OFFSETS: producer_messages.AddOffsets("x", PRODUCER, "g").read,
    producer_messages.COMMIT_OFFSETS: COMMIT.read,
    producer_messages.END_TRANSACTION: producer_messages.EndTransaction("x", PRODUCER, True).read,
    committed_offsets.FIND_COORDINATORS: committed_offsets.read_coordinators,
    committed_offsets.OFFSET_FETCH: committed_offsets.read_offsets,
    messages.OFFSET_FOR_LEADER_EPOCH: lambda r: messages.read_epoch_end(r, TP),
    FETCH: lambda r: read_fetch(r, PARTS),
}
REQUESTS = [Request(api, version, b"") for api in READERS for version in range(api.oldest, api.newest + 1)]
# Small numbers are more likely to be lengths that lead further.
RESPONSES = st.lists(st.one_of(st.binary(max_size=8), st.integers(0, 3).map(lambda n: n.to_bytes(4, "big")))).map(b"".join)


@given(data=RESPONSES)
@each("asked", REQUESTS)
def test_any_bytes(asked: Request, data: bytes) -> None:
    """Any response is decoded, or raises `Unsupported`, which leaves it to librdkafka."""
    with suppress(Unsupported):
        READERS[asked.api](asked.reader(data))


@given(st.integers(0, 2**32 - 1))
def test_varints(number: int) -> None:
    """Reading a varint returns what was written."""
    assert Reader(unsigned_varint(number)).unsigned_varint() == number
