"""Broker responses as arbitrary bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct import messages, producer_messages
from pyspark_zkafka.records.direct.fetch import FetchPartition, read_fetch
from pyspark_zkafka.records.direct.wire import Reader, Unsupported, unsigned_varint
from pyspark_zkafka.records.sender import GroupOffset
from tests.support.cases import each

TP = TopicPartition("t", 0)
PARTS = [FetchPartition(TP, bytes(16), 0), FetchPartition(TP._replace(partition=1), bytes(16), 0)]
PRODUCER = ProducerId(1, 0)
COMMIT = producer_messages.CommitOffset("x", PRODUCER, GroupOffset("g", "t", 0, 1, ""))
READERS: dict[str, Callable[[Reader], Any]] = {
    **{f"ApiVersions {v}": lambda r, v=v: messages.read_api_versions(r, v) for v in (0, 3)},
    "SaslHandshake": messages.read_sasl_handshake,
    **{f"SaslAuthenticate {v}": lambda r, v=v: messages.read_sasl_authenticate(r, v) for v in (0, 2)},
    **{f"Metadata {v}": lambda r, v=v: messages.read_metadata(r, v, "t") for v in (4, 7)},
    **{f"ListOffsets {v}": lambda r, v=v: messages.read_list_offsets(r, v, TP) for v in (1, 5)},
    **{f"Produce {v}": lambda r, v=v: producer_messages.read_produce(r, v) for v in (5, 8, 12)},
    "FindCoordinator": producer_messages.read_find_coordinator,
    "InitProducerId": lambda r: producer_messages.InitProducerId("x", 1).read(r, 1),
    "AddPartitionsToTxn": lambda r: producer_messages.AddPartitions("x", PRODUCER, (TP,)).read(r, 2),
    "AddOffsetsToTxn": lambda r: producer_messages.AddOffsets("x", PRODUCER, "g").read(r, 2),
    **{f"TxnOffsetCommit {v}": lambda r, v=v: COMMIT.read(r, v) for v in (2, 5)},
    **{f"EndTxn {v}": lambda r, v=v: producer_messages.EndTransaction("x", PRODUCER, True).read(r, v) for v in (2, 5)},
    "OffsetForLeaderEpoch": lambda r: messages.read_epoch_end(r, TP),
    **{f"Fetch {v}": lambda r, v=v: read_fetch(r, v, PARTS) for v in (4, 11, 12, 17)},
}
# Small numbers are more likely to be lengths that lead further.
RESPONSES = st.lists(st.one_of(st.binary(max_size=8), st.integers(0, 3).map(lambda n: n.to_bytes(4, "big")))).map(b"".join)


@given(data=RESPONSES)
@each("name", READERS)
def test_any_bytes(name: str, data: bytes) -> None:
    """Any response is decoded, or raises `Unsupported`, which leaves it to librdkafka."""
    with suppress(Unsupported):
        READERS[name](Reader(data))


@given(st.integers(0, 2**32 - 1))
def test_varints(number: int) -> None:
    """Reading a varint returns what was written."""
    assert Reader(unsigned_varint(number)).unsigned_varint() == number
