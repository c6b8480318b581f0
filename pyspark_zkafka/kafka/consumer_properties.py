"""librdkafka's properties for reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.kafka.warm_up import CLIENT_DEFAULTS
from pyspark_zkafka.options.model import Connection

__all__ = ["consumer_properties"]

_DEFAULTS: dict[str, Any] = {
    **CLIENT_DEFAULTS,
    "allow.auto.create.topics": False,
    # Java's default; librdkafka's own is read_committed.
    "isolation.level": "read_uncommitted",
    # Java checks them; librdkafka would not.
    "check.crcs": True,
    # A planned topic exists: what the brokers do not know for so long is gone (the reader makes sure of that).
    "topic.metadata.propagation.max.ms": 3000,
    # What is planned is there: an answer that waits for more than that only holds up the next range on its connection.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True, slots=True)
class _InAdvance:
    """How much to fetch at a time, and how much in advance: librdkafka takes about 1 KB for a message beside its bytes."""

    fetch_bytes: int
    messages: int
    kilobytes: int


# By the records to read: what is fetched beyond the end of a range costs as much as the range itself, and is thrown away.
# Few classes, so that a consumer can be used again for a range that is a little longer or shorter.
_RANGES = ((1_000, _InAdvance(128 * 1024, 1_000, 4 * 1024)), (100_000, _InAdvance(1024 * 1024, 10_000, 4 * 1024)))
_LONG_RANGE = _InAdvance(2 * 1024 * 1024, 50_000, 32 * 1024)
_FORCED: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Anything else would skip data without a word.
    "auto.offset.reset": "error",
    # The only way to learn that nothing visible is left before the end of a range.
    "enable.partition.eof": True,
}
# Fetches larger than librdkafka's leave brokers less to do for a record; still larger ones leave the processor's cache.
_FETCH_BYTES = 64 * 1024 * 1024
_RESPONSE_OVERHEAD_BYTES = 512


def consumer_properties(
    connection: Connection, bootstrap_servers: str, group: str, records: int | None = None
) -> dict[str, Any]:
    """librdkafka's properties for reading: tuned defaults, then the user's, then what the proof of a range needs.

    `records` is how many are to be read, if that is known: few are not fetched with thousands of others.
    """
    properties = {**_DEFAULTS, **_in_advance(records), **connection.kafka, **_FORCED}
    properties |= {"bootstrap.servers": bootstrap_servers, "group.id": group}
    properties.setdefault("fetch.max.bytes", _fetch_bytes(connection.kafka))
    # librdkafka wants room for a whole response; its default suits fetches of up to 95 MiB.
    room = int(properties["fetch.max.bytes"]) + _RESPONSE_OVERHEAD_BYTES
    properties.setdefault("receive.message.max.bytes", max(100_000_000, room))
    return properties


def _fetch_bytes(kafka: Mapping[str, Any]) -> int:
    """How much to fetch where the user does not say: what librdkafka wants is at least a message, and fits a response."""
    room = int(kafka.get("receive.message.max.bytes", 2**31 - 1)) - _RESPONSE_OVERHEAD_BYTES
    return min(max(_FETCH_BYTES, int(kafka.get("message.max.bytes", 0))), room)


def _in_advance(records: int | None) -> dict[str, Any]:
    fitting = (found for most, found in _RANGES if records is not None and records <= most)
    found = next(fitting, _LONG_RANGE)
    return {
        "max.partition.fetch.bytes": found.fetch_bytes,
        "queued.min.messages": found.messages,
        "queued.max.messages.kbytes": found.kilobytes,
    }
