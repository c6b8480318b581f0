"""Requests for the offsets of many partitions: their sizes, and a bulk lookup through a consumer.

librdkafka's work for an answer grows with the square of the number of its partitions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import OffsetSpec

from pyspark_zkafka.brokers.clients import MessageClient
from pyspark_zkafka.brokers.consumer_properties import lookup_properties
from pyspark_zkafka.brokers.librdkafka_errors import from_exception
from pyspark_zkafka.errors import NoLeader, UnknownTopic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, HIGH_WATERMARK, LATEST, AtTimestamp, Position

T = TypeVar("T")
_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
_TIMESTAMPS: dict[Position, int] = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}


@dataclass(frozen=True, slots=True)
class LookupSizes:
    """Numbers of partitions in lookups of offsets.

    `request` is the maximum in a request: librdkafka takes 0.25 s for 10,000, but each request needs a round trip. `bulk`
    is the minimum for which a second connection to the brokers pays.
    """

    request: int = 1_000
    bulk: int = 1_000


DEFAULT_SIZES = LookupSizes()


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, `size` at a time, or fewer in the last batch.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    for start in range(0, len(items), size):
        yield items[start : start + size]


def offset_requests(
    positions: Mapping[TopicPartition, Position], size: int, *, read_committed: bool
) -> Iterator[tuple[IsolationLevel, dict[TopicPartition, OffsetSpec]]]:
    """Divide offsets into requests, each with one isolation level and at most `size` partitions.

    With `read_committed`, the latest offset is the last stable one. Only the high watermark is the end of the log.
    """
    specs = {position: _spec(position) for position in set(positions.values())}
    for committed in (True, False):
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        partitions = [tp for tp, p in positions.items() if committed == (read_committed and p != HIGH_WATERMARK)]
        for batch in batches(partitions, size):
            yield level, {tp: specs[positions[tp]] for tp in batch}


def _spec(position: Position) -> OffsetSpec:
    if isinstance(position, AtTimestamp):
        return OffsetSpec.for_timestamp(position.timestamp_ms)
    return OffsetSpec.earliest() if position == EARLIEST else OffsetSpec.latest()


def lookup_client(properties: Mapping[str, Any], *, read_committed: bool) -> MessageClient:
    """A client for `find_watermarks`, not open. With `read_committed`, the latest offset is the last stable one."""
    return MessageClient(
        {
            **lookup_properties(properties),
            "group.id": "zkafka",  # librdkafka requires a name, but does not join
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )


def find_watermarks(
    client: MessageClient,
    positions: Mapping[TopicPartition, Position],
    timeout_s: float,
    epochs: dict[TopicPartition, int],
    request_size: int,
) -> dict[TopicPartition, int] | None:
    """The offsets of many partitions at `EARLIEST` or `LATEST`. None unless every leader answers in time.

    An AdminClient creates a future for each partition, which costs two to three times as much for 10,000. But here the
    result is all or nothing, without a reason. Blocks for `timeout_s`, at most 2 s, and for up to a second the first time.
    `epochs` receives the leader epochs of logs, if brokers return them.
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
            found_epochs = zip(partitions, (answer.leader_epoch for answer in answers), strict=True)
            epochs.update((tp, epoch) for tp, epoch in found_epochs if epoch is not None and epoch >= 0)
    except KafkaException as error:
        _log.info("Offsets are requested by the slower admin client: %s", error)
        return None
    # Without an answer, the offset is the code of the request, below 0.
    return found if all(offset >= 0 for offset in found.values()) else None


def _request(consumer: Any, partitions: Sequence[Any], deadline: float) -> Sequence[Any]:
    """Request offsets, and again with new metadata if librdkafka knows no leader of a partition.

    If it knows no leader at all, librdkafka returns `_UNKNOWN_PARTITION` at once, and does not update its metadata: during
    an election, or after an answer of a broker that does not know a new topic yet.
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
