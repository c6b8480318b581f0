"""Production of test records, with their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from confluent_kafka import KafkaException, Producer

from pyspark_zkafka.errors import LocalClusterError

__all__ = ["Record", "produce", "producer_arguments"]

Record: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
_FIELDS = ("key", "value", "partition", "headers", "timestamp")
_FLUSH_TIMEOUT_S = 60


def produce(settings: Mapping[str, object], topic: str, records: Iterable[Record]) -> dict[int, list[int]]:
    """The offsets of the records by partition, in the order of acknowledgement; raises `BAD_RECORD`, `NOT_DELIVERED`."""
    offsets: dict[int, list[int]] = {}
    refused: list[object] = []

    def delivered(error: object, message: Any) -> None:
        if error is not None:
            refused.append(error)
        else:
            offsets.setdefault(message.partition(), []).append(message.offset())

    producer = Producer({"acks": "all", "linger.ms": 5, **settings, "on_delivery": delivered})
    count = 0
    for record in records:
        _send(producer, topic, producer_arguments(record))
        count += 1
    waiting = producer.flush(_FLUSH_TIMEOUT_S)
    if waiting or refused:
        reason = refused[0] if refused else f"no answer within {_FLUSH_TIMEOUT_S} s"
        raise LocalClusterError(
            "NOT_DELIVERED",
            f"Of {count} records for topic {topic}, {waiting + len(refused)} were not acknowledged; "
            f"the first reason: {reason}; are all leaders running?",
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
            raise LocalClusterError("NOT_DELIVERED", f"A record for topic {topic} was refused: {exc}") from exc
    producer.poll(0)


def producer_arguments(record: Record) -> dict[str, Any]:
    """A record as arguments of `Producer.produce`, which refuses None for most of them; raises `BAD_RECORD`."""
    if isinstance(record, Mapping):
        fields, good = record, record.keys() <= set(_FIELDS)
    else:
        fields = dict(zip(_FIELDS, record, strict=False))
        good = not isinstance(record, str | bytes) and len(record) <= len(_FIELDS)
    if not good:
        raise LocalClusterError(
            "BAD_RECORD",
            f"A record has the fields {', '.join(_FIELDS)}; found {record!r}; give a dict, or a tuple in that order",
        )
    return {name: _headers(value) if name == "headers" else value for name, value in fields.items() if value is not None}


def _headers(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)
