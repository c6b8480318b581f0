"""Bulk offset lookup through a consumer, for when all leaders answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.consumer_client import MessageClient
from pyspark_zkafka.kafka.warm_up import CLIENT_DEFAULTS
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, Position

__all__ = ["WatermarkReader"]

_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
# librdkafka's work for an answer grows with the square of its partitions; but each request waits for the brokers.
_MOST_PER_QUESTION = 1_000
_TIMESTAMPS: dict[Position, int] = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}


class WatermarkReader:
    """Lookup of the earliest or latest offsets of many partitions, by a consumer that fetches nothing.

    An AdminClient creates a future for each partition: 10,000 cost two to three times as much as here. But the result is
    all offsets or None, without the leaders that did not answer, or the reason. Open for the time of a ``with`` block, in
    one process.

    Parameters
    ----------
    properties : mapping
        librdkafka's, of the connection.
    read_committed : bool
        True if the latest offset is the last stable one.
    """

    def __init__(self, properties: Mapping[str, Any], *, read_committed: bool) -> None:
        self._client = MessageClient(
            {
                **CLIENT_DEFAULTS,
                **properties,
                "group.id": "zkafka",  # librdkafka requires a name; it never becomes a member
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            }
        )

    def __enter__(self) -> WatermarkReader:
        self._client.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.__exit__(kind, error, trace)

    def find(
        self, wanted: Mapping[TopicPartition, Position], timeout_s: float, epochs: dict[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int] | None:
        """All the offsets; None if a leader did not return one of them in time.

        Blocks for `timeout_s`, 2 s at the most; the first time for up to a second, whatever it is.
        `wanted` are only `EARLIEST` and `LATEST`. `epochs` receives the logs' leader epochs, if brokers return these.
        """
        deadline = time.monotonic() + min(timeout_s, _PATIENCE_S)
        found: dict[TopicPartition, int] = {}
        partitions = list(wanted)
        self._client.warm_up(partitions[0].topic)
        try:
            for start in range(0, len(partitions), _MOST_PER_QUESTION):
                some = partitions[start : start + _MOST_PER_QUESTION]
                told = self._ask([KafkaTopicPartition(*tp, _TIMESTAMPS[wanted[tp]]) for tp in some], deadline)
                if [(one.topic, one.partition) for one in told] != some:
                    return None
                found.update(zip(some, (one.offset for one in told), strict=True))
                if epochs is not None:
                    epochs.update((tp, one.leader_epoch) for tp, one in zip(some, told, strict=True) if _has_epoch(one))
        except KafkaException as error:
            _log.info("bulk offset lookup failed: %s", error)
            return None
        return found if _are_told(found.values()) else None

    def _ask(self, partitions: Sequence[Any], deadline: float) -> Sequence[Any]:
        told: Sequence[Any] = self._client.consumer.offsets_for_times(
            list(partitions), timeout=max(deadline - time.monotonic(), 0)
        )
        for one in told:
            if one.error is not None:
                raise KafkaException(one.error)
        return told


def _has_epoch(told: Any) -> bool:
    return told.leader_epoch is not None and told.leader_epoch >= 0


def _are_told(offsets: Collection[int]) -> bool:
    """True if all are offsets: a leader that does not answer leaves the code of the request, below 0."""
    return all(offset >= 0 for offset in offsets)
