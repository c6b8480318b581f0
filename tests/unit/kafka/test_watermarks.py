"""What is taken for an answer when the ends of many logs are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.watermarks import WatermarkReader
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST

WANTED = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): EARLIEST}


class Told:
    """Stands for the consumer: partition 0 ends at 5; partition 1 is told as `second`, or left as it was asked for."""

    def __init__(self, second: int | Exception | None) -> None:
        self._second = second

    def list_topics(self, topic: str, timeout: float) -> None:
        assert topic == "t"
        assert 0 < timeout <= 1

    def offsets_for_times(self, partitions: list[Any], timeout: float) -> list[Any]:
        assert [one.offset for one in partitions] == [-1, -2]
        if isinstance(self._second, Exception):
            raise self._second
        second = partitions[1].offset if self._second is None else self._second
        return [KafkaTopicPartition("t", 0, 5), KafkaTopicPartition("t", 1, second)]


def find(second: int | Exception | None) -> dict[TopicPartition, int] | None:
    bounds = WatermarkReader({"bootstrap.servers": "host:1"}, read_committed=False)
    bounds._client._open = Told(second)  # type: ignore[assignment]
    return bounds.find(WANTED, 2)


def test_told() -> None:
    """All offsets, if all are told."""
    assert find(0) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


@pytest.mark.parametrize("second", [None, -1001, KafkaException(KafkaError(KafkaError._TIMED_OUT))])
def test_not_told(second: int | Exception | None) -> None:
    """Nothing, if one is left as it was asked for, or the question failed."""
    assert find(second) is None


def test_not_open() -> None:
    """Outside of its with block it is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        WatermarkReader({"bootstrap.servers": "host:1"}, read_committed=False).find(WANTED, 2)
