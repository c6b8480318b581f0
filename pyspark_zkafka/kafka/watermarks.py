"""Bulk offset lookup through a consumer, for when all leaders answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import NoLeader, UnknownTopic
from pyspark_zkafka.kafka.batches import DEFAULT_SIZES, batches
from pyspark_zkafka.kafka.clients import CLIENT_DEFAULTS, MessageClient
from pyspark_zkafka.kafka.consumer_properties import lookup_properties
from pyspark_zkafka.kafka.errors import from_exception
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, Position

__all__ = ["find_watermarks", "lookup_client"]

_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
_TIMESTAMPS: dict[Position, int] = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}


class LookupClient(Protocol):
    """An open client, as `MessageClient`."""

    def warm_up(self, topic: str) -> None: ...

    @property
    def consumer(self) -> Any: ...


def lookup_client(properties: Mapping[str, Any], *, read_committed: bool) -> MessageClient:
    """A client for `find_watermarks`, not open yet; if `read_committed`, the latest offset is the last stable one."""
    return MessageClient(
        {
            **CLIENT_DEFAULTS,
            **lookup_properties(properties),
            "group.id": "zkafka",  # librdkafka requires a name; it never becomes a member
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )


def find_watermarks(
    client: LookupClient,
    positions: Mapping[TopicPartition, Position],
    timeout_s: float,
    epochs: dict[TopicPartition, int] | None = None,
    request_size: int = DEFAULT_SIZES.request,
) -> dict[TopicPartition, int] | None:
    """The earliest or latest offsets of many partitions; None if a leader did not return one of them in time.

    An AdminClient creates a future for each partition: 10,000 cost two to three times as much as here. But the result is
    all offsets or None, without the leaders that did not answer, or the reason.

    Blocks for `timeout_s`, 2 s at the most; the first time for up to a second, whatever it is.
    `positions` are only `EARLIEST` and `LATEST`. `epochs` receives the logs' leader epochs, if brokers return these.
    """
    deadline = time.monotonic() + min(timeout_s, _PATIENCE_S)
    found: dict[TopicPartition, int] = {}
    client.warm_up(next(iter(positions)).topic)
    try:
        for partitions in batches(list(positions), request_size):
            requested = [KafkaTopicPartition(*tp, _TIMESTAMPS[positions[tp]]) for tp in partitions]
            answers = _request(client.consumer, requested, deadline)
            if [(answer.topic, answer.partition) for answer in answers] != partitions:
                return None
            found.update(zip(partitions, (answer.offset for answer in answers), strict=True))
            if epochs is not None:
                epochs.update(
                    (tp, answer.leader_epoch) for tp, answer in zip(partitions, answers, strict=True) if _has_epoch(answer)
                )
    except KafkaException as error:
        _log.info("bulk offset lookup failed: %s", error)
        return None
    # A leader that does not answer leaves the code of the request, below 0.
    return found if all(offset >= 0 for offset in found.values()) else None


def _request(consumer: Any, partitions: Sequence[Any], deadline: float) -> Sequence[Any]:
    """The answers; repeated once, with new metadata, if librdkafka's has no leader for a partition.

    If it has none for all of them, librdkafka returns `_UNKNOWN_PARTITION` at once, and does not update metadata that names
    no leader: during an election, and after an answer of a broker that does not know a new topic yet.
    """
    try:
        return _answers(consumer, partitions, deadline)
    except KafkaException as error:
        if not isinstance(from_exception(error, ""), (NoLeader, UnknownTopic)):
            raise
    topics = {partition.topic for partition in partitions}
    consumer.list_topics(*(topics if len(topics) == 1 else ()), timeout=max(deadline - time.monotonic(), 0))
    return _answers(consumer, partitions, deadline)


def _answers(consumer: Any, partitions: Sequence[Any], deadline: float) -> Sequence[Any]:
    answers: Sequence[Any] = consumer.offsets_for_times(partitions, timeout=max(deadline - time.monotonic(), 0))
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def _has_epoch(answer: Any) -> bool:
    return answer.leader_epoch is not None and answer.leader_epoch >= 0
