"""The ends of thousands of logs, when all is well."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.clients.kafka_errors import from_exception
from pyspark_zkafka.clients.librdkafka_log import librdkafka_logger
from pyspark_zkafka.clients.new_clients import CLIENT_DEFAULTS, INTRODUCTION_S
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, Position

__all__ = ["MANY", "LogBounds"]

_log = logging.getLogger(__name__)

MANY = 1_000
"""From so many partitions on, it pays to be connected to the brokers once more."""

_PATIENCE_S = 2.0
# librdkafka's work for an answer grows with the square of its partitions; for each question, the brokers are waited for.
_MOST_PER_QUESTION = 1_000
_TIMESTAMPS: dict[Position, int] = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}


class LogBounds:
    """Asks for the earliest or latest offsets of many partitions, by a consumer that reads nothing.

    An AdminClient makes a future for each partition: 10,000 cost two to three times as much as here. But here nobody learns
    who did not answer, or why: it finds all, or nothing. Open for the time of a ``with`` block, in one process.

    Parameters
    ----------
    bootstrap_servers : str
        ``host:port[,host:port...]``
    properties : mapping
        librdkafka's, of the connection.
    read_committed : bool
        Whether the latest offset is the last stable one.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any], *, read_committed: bool) -> None:
        self._config = {
            **CLIENT_DEFAULTS,
            **properties,
            "bootstrap.servers": bootstrap_servers,
            "group.id": "zkafka",  # librdkafka wants a name; it never becomes a member
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
        self._client: Consumer | None = None
        self._introduced = False

    def __enter__(self) -> LogBounds:
        try:
            self._client = Consumer({**self._config, "error_cb": _ignore}, logger=librdkafka_logger())
        except KafkaException as error:
            raise from_exception(error, "making a consumer for planning") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def find(self, wanted: Mapping[TopicPartition, Position], timeout_s: float) -> dict[TopicPartition, int] | None:
        """All the offsets; None if one of them was not told in time. Blocks for `timeout_s`, 2 s at the most.

        `wanted` are `EARLIEST` and `LATEST` alone.
        """
        deadline = time.monotonic() + min(timeout_s, _PATIENCE_S)
        found: dict[TopicPartition, int] = {}
        partitions = list(wanted)
        try:
            self._introduce(partitions[0].topic, deadline)
            for start in range(0, len(partitions), _MOST_PER_QUESTION):
                some = partitions[start : start + _MOST_PER_QUESTION]
                told = self._ask([KafkaTopicPartition(*tp, _TIMESTAMPS[wanted[tp]]) for tp in some], deadline)
                if [(one.topic, one.partition) for one in told] != some:
                    return None
                found.update(zip(some, (one.offset for one in told), strict=True))
        except KafkaException as error:
            _log.info("not all logs could be asked for their ends at once: %s", error)
            return None
        return found if _are_told(found.values()) else None

    def _ask(self, partitions: Sequence[Any], deadline: float) -> Sequence[Any]:
        told: Sequence[Any] = self._open().offsets_for_times(list(partitions), timeout=max(deadline - time.monotonic(), 0))
        for one in told:
            if one.error is not None:
                raise KafkaException(one.error)
        return told

    def _introduce(self, topic: str, deadline: float) -> None:
        if not self._introduced:
            self._open().list_topics(topic, timeout=min(INTRODUCTION_S, deadline - time.monotonic()))
            self._introduced = True

    def _open(self) -> Consumer:
        if self._client is None:
            raise RuntimeError("LogBounds is used outside of its with block")
        return self._client


def _are_told(offsets: Collection[int]) -> bool:
    """Whether all are answers: what a silent leader was asked for stands there as it was, a code below 0."""
    return all(offset >= 0 for offset in offsets)


def _ignore(error: Any) -> None:
    """An error of the client as a whole; what it means shows in what is asked next."""
