"""Requests for the end of a leader epoch."""

from __future__ import annotations

import pytest

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.transport.direct import wire
from pyspark_zkafka.transport.direct.epochs import EpochEnd, epoch_end_request, read_epoch_end
from pyspark_zkafka.transport.direct.errors import MalformedResponse
from pyspark_zkafka.transport.direct.wire import Reader

TP = TopicPartition("orders", 3)


def test_request() -> None:
    """Version 3 has the replica besides, which a consumer is not."""
    body = "00000001 0006 6f7264657273 00000001 00000003 00000007 00000005"
    assert epoch_end_request(2, TP, 7, 5).body == bytes.fromhex(body)
    assert epoch_end_request(3, TP, 7, 5).body == bytes.fromhex(f"ffffffff {body}")


def test_response() -> None:
    """The error, the epoch and its end, of this partition."""
    row = wire.int16(74) + wire.int32(3) + wire.int32(4) + wire.int64(99)
    data = wire.int32(0) + wire.int32(1) + wire.string("orders") + wire.int32(1) + row
    assert read_epoch_end(Reader(data), TP) == EpochEnd(74, 4, 99)
    with pytest.raises(MalformedResponse, match="lacks the partition"):
        read_epoch_end(Reader(data), TopicPartition("orders", 4))
