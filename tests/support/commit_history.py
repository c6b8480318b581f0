"""All commits of a group to Kafka, from its coordinator's log."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.model.nouns import TopicPartition

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["commit_history", "went_back"]

_LOG = "__consumer_offsets"
_COMMIT_KEYS = (0, 1)
_TIMEOUT_S = 30


def commit_history(cluster: LocalCluster, group: str) -> dict[TopicPartition, list[int]]:
    """Return the committed offsets of each partition in order, without deletions. The group has committed at least once.

    A young cluster has not yet compacted the log.
    """
    found: dict[TopicPartition, list[int]] = {}
    for key, value in _records(cluster):
        version, name = struct.unpack_from(">h", key)[0], _texts(key)
        if version in _COMMIT_KEYS and name[0] == group and value is not None:
            place = TopicPartition(name[1], struct.unpack_from(">i", key, len(key) - 4)[0])
            found.setdefault(place, []).append(struct.unpack_from(">q", value, 2)[0])
    assert found, f"group {group} has committed nothing"
    return found


def went_back(history: dict[TopicPartition, list[int]]) -> dict[TopicPartition, list[int]]:
    """Return partitions with a commit below an earlier one, by a member that no longer owned the partition."""
    return {tp: offsets for tp, offsets in history.items() if offsets != sorted(offsets)}


def _texts(key: bytes) -> list[str]:
    """Return the texts of a key: group and topic, or only the group."""
    texts, at = [], 2
    while at + 2 < len(key) and len(texts) < 2:
        length = struct.unpack_from(">h", key, at)[0]
        texts.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return texts


def _records(cluster: LocalCluster) -> list[tuple[bytes, bytes | None]]:
    properties = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "history", "enable.auto.commit": False}
    consumer = Consumer({**properties, "enable.partition.eof": True})
    try:
        numbers = consumer.list_topics(_LOG, timeout=_TIMEOUT_S).topics[_LOG].partitions
        consumer.assign([KafkaTopicPartition(_LOG, number, OFFSET_BEGINNING) for number in numbers])
        found, ended, errors, deadline = [], set[int](), [], time.monotonic() + _TIMEOUT_S
        while len(ended) < len(numbers):
            assert time.monotonic() < deadline, f"the log of the group's coordinator was not read to its end: {errors}"
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is None:
                if message.key() is not None:
                    found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                errors.append(error)  # librdkafka tries again
        return found
    finally:
        consumer.close()
