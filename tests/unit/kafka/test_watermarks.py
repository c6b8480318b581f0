"""Answers to a lookup of the ends of many logs: all of them count, or none."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.watermarks import find_watermarks, lookup_client
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST

POSITIONS = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): EARLIEST}


class FakeClient:
    """A client whose partition 0 ends at 5; partition 1 is answered with `second`, or left as it was requested.

    New metadata changes `second` to `refreshed`.
    """

    def __init__(self, second: int | Exception | None, refreshed: int | Exception | None = None) -> None:
        self.second = second
        self.refreshed = refreshed
        self.refreshes: list[tuple[str, ...]] = []
        self.consumer = self

    def warm_up(self, topic: str) -> None:
        assert topic == "t"

    def list_topics(self, *topic: str, timeout: float) -> None:
        assert timeout > 0
        self.refreshes.append(topic)
        self.second = self.refreshed

    def offsets_for_times(self, partitions: list[Any], timeout: float) -> list[Any]:
        assert [partition.offset for partition in partitions] == [-1, -2]
        if isinstance(self.second, Exception):
            raise self.second
        second = partitions[1].offset if self.second is None else self.second
        return [KafkaTopicPartition("t", 0, 5), KafkaTopicPartition("t", 1, second)]


def test_all_answered() -> None:
    """All offsets, if all leaders answer."""
    assert find_watermarks(FakeClient(0), POSITIONS, 2) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


@pytest.mark.parametrize("second", [None, -1001, KafkaException(KafkaError(KafkaError._TIMED_OUT))])
def test_not_all_answered(second: int | Exception | None) -> None:
    """None, if a partition is left as it was requested, or the request failed."""
    assert find_watermarks(FakeClient(second), POSITIONS, 2) is None


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_outdated_metadata(code: int) -> None:
    """If no leader is known, the request is repeated with new metadata, once."""
    unknown = KafkaException(KafkaError(code))
    client = FakeClient(unknown, refreshed=0)
    assert find_watermarks(client, POSITIONS, 2) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
    client = FakeClient(unknown, refreshed=unknown)
    assert find_watermarks(client, POSITIONS, 2) is None
    assert client.refreshes == [("t",)]


def test_not_open() -> None:
    """A client outside of its with block is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        find_watermarks(lookup_client({"bootstrap.servers": "host:1"}, read_committed=False), POSITIONS, 2)
