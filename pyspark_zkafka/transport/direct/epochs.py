"""Requests for the end of a leader epoch, by which a truncation is found where Fetch does not report it.

References
----------
``OffsetForLeaderEpochRequest.json`` and ``OffsetForLeaderEpochResponse.json`` of Kafka 3.9.1; KIP-320.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.transport.direct.errors import MalformedResponse
from pyspark_zkafka.transport.direct.messages import Api, Request
from pyspark_zkafka.transport.direct.wire import Reader, int32, string

__all__ = ["OFFSET_FOR_LEADER_EPOCH", "EpochEnd", "epoch_end_request", "read_epoch_end"]

OFFSET_FOR_LEADER_EPOCH = Api("OffsetForLeaderEpoch", 23, 2, 3, 4)
_CONSUMER = -1


class EpochEnd(NamedTuple):
    """The response: the last epoch up to the one requested, and its end; both are -1 where the leader knows none."""

    error: int
    epoch: int
    offset: int


def epoch_end_request(version: int, partition: TopicPartition, leader_epoch: int, epoch: int) -> Request:
    """Versions 2 and 3, for one partition, whose leader is fenced by its own epoch."""
    replica = int32(_CONSUMER) if version >= 3 else b""
    row = int32(1) + int32(partition.partition) + int32(leader_epoch) + int32(epoch)
    return Request(OFFSET_FOR_LEADER_EPOCH, version, replica + int32(1) + string(partition.topic) + row)


def read_epoch_end(response: Reader, partition: TopicPartition) -> EpochEnd:
    """Versions 2 and 3, for one partition."""

    def row() -> tuple[int, EpochEnd]:
        error, index = response.int16(), response.int32()
        return index, EpochEnd(error, response.int32(), response.int64())

    def topic() -> tuple[str, dict[int, EpochEnd]]:
        return response.required_string(), dict(response.array(row))

    response.int32()  # throttle time
    found = dict(response.array(topic)).get(partition.topic, {}).get(partition.partition)
    if found is None:
        raise MalformedResponse("the response to OffsetForLeaderEpoch lacks the partition")
    return found
