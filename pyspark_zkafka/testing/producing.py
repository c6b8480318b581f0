"""Produce test records, and return their offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pyspark_zkafka.testing.conditions import BAD_RECORD, NOT_DELIVERED

Record: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
_FIELDS = ("key", "value", "partition", "headers", "timestamp")
_FLUSH_TIMEOUT_S = 60
_NEW_PARTITIONS_S = 5.0
_PAUSE_S = 0.2


def produce(settings: Mapping[str, object], topic: str, records: Iterable[Record]) -> dict[int, list[int]]:
    """Return the offsets of the records by partition, in the order of acknowledgement.

    Retries a record of an unknown partition for 5 s, because a broker may not know an added partition yet. Raises
    `BAD_RECORD` and `NOT_DELIVERED`.
    """
    offsets: dict[int, list[int]] = {}
    refused: list[tuple[KafkaError, Message]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append((error, message))
        else:
            offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)

    producer = Producer({"acks": "all", "linger.ms": 5, **settings, "on_delivery": delivered})
    count = 0
    for record in records:
        _send(producer, topic, producer_arguments(record))
        count += 1
    waiting = producer.flush(_FLUSH_TIMEOUT_S)
    deadline = time.monotonic() + _NEW_PARTITIONS_S
    # A record of an unknown partition was never sent.
    while refused and all(e.code() == KafkaError._UNKNOWN_PARTITION for e, _ in refused) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        again, refused[:] = refused[:], []
        for error, message in again:
            record = message.key(), message.value(), message.partition(), message.headers(), message.timestamp()[1]
            try:
                producer.produce(topic, **producer_arguments(record))
            except KafkaException:  # still unknown
                refused.append((error, message))
        waiting = producer.flush(_FLUSH_TIMEOUT_S)
    if waiting or refused:
        reason = refused[0][0] if refused else f"no answer within {_FLUSH_TIMEOUT_S} s"
        raise NOT_DELIVERED(
            f"Of {count} records for topic {topic}, {waiting + len(refused)} were not acknowledged; "
            f"the first reason: {reason}; check that all leaders run",
            topic=topic,
        )
    return offsets


def _send(producer: Producer, topic: str, arguments: dict[str, Any]) -> None:
    while True:
        try:
            producer.produce(topic, **arguments)
            break
        except BufferError:
            producer.poll(0.5)
        except KafkaException as exc:
            raise NOT_DELIVERED(f"A record for topic {topic} was refused: {exc}") from exc
    producer.poll(0)


def producer_arguments(record: Record) -> dict[str, Any]:
    """Convert a record to arguments of `Producer.produce`, without null fields; raises `BAD_RECORD`."""
    if isinstance(record, Mapping):
        fields, good = record, record.keys() <= set(_FIELDS)
    else:
        fields = dict(zip(_FIELDS, record, strict=False))
        good = not isinstance(record, str | bytes) and len(record) <= len(_FIELDS)
    if not good:
        raise BAD_RECORD(
            f"A record has the fields {', '.join(_FIELDS)}; found {record!r}; use a dict, or a tuple in that order",
        )
    arguments = {name: value for name, value in fields.items() if value is not None}
    if (headers := arguments.get("headers")) is not None:
        arguments["headers"] = list(headers.items() if isinstance(headers, Mapping) else headers)
    return arguments
