"""Events of a partition, as the reader of a split is to see them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.clients.consumer import PartitionEvents, Poll
from pyspark_zkafka.protocol.model import TopicPartition

TRUNCATED = (
    "Partition log truncation detected at offset 307 (leader epoch 1): broker end offset is 10 (offset leader epoch 0). "
    "Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
)
UNKNOWN_EPOCH = (
    "No epoch found less or equal to offset 307 (leader epoch 1): broker end offset is -1 (offset leader epoch -1). "
    "Reset using configured policy.: Local: Partition log truncation detected (broker 1)"
)
NOT_THERE = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)"


@pytest.mark.parametrize(
    ("text", "truncation"), [(TRUNCATED, TRUNCATED), (UNKNOWN_EPOCH, UNKNOWN_EPOCH), (NOT_THERE, None)]
)
def test_reasons_of_a_reset(text: str, truncation: str | None) -> None:
    """An offset that is to be reset was out of range, or the log was truncated: librdkafka's text says which."""
    poll = Poll()
    PartitionEvents(TopicPartition("t", 0)).take(KafkaError(KafkaError._AUTO_OFFSET_RESET, text), -1001, poll)
    assert poll.out_of_range
    assert poll.truncation == truncation
