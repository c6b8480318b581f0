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
    # A planned topic exists: one that the brokers do not know for so long is gone (the reader checks that).
    "topic.metadata.propagation.max.ms": 3000,
    # Planned records exist: a response that waits for more only delays the next range on its connection.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True, slots=True)
class _InAdvance:
    """Sizes of a fetch, and of the queue of fetched messages: librdkafka adds about 1 KB to the bytes of each."""

    fetch_bytes: int
    messages: int
    kilobytes: int


# By the number of records to read: records fetched beyond the end of a range cost as much as those in it, and are
# discarded. Few classes, so that a consumer can be reused for a range that is a little longer or shorter.
_RANGES = ((1_000, _InAdvance(128 * 1024, 1_000, 4 * 1024)), (100_000, _InAdvance(1024 * 1024, 10_000, 4 * 1024)))
_LONG_RANGE = _InAdvance(2 * 1024 * 1024, 50_000, 32 * 1024)
_FORCED: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Any other value would skip data silently.
    "auto.offset.reset": "error",
    # The only way to detect that no visible record is left before the end of a range.
    "enable.partition.eof": True,
}
# Larger fetches than librdkafka's default cost brokers less per record; still larger ones exceed the processor's cache.
_FETCH_BYTES = 64 * 1024 * 1024
_RESPONSE_OVERHEAD_BYTES = 512


def consumer_properties(
    connection: Connection, bootstrap_servers: str, group: str, records: int | None = None
) -> dict[str, Any]:
    """librdkafka's properties for reading: tuned defaults, then the user's, then those required to prove a range complete.

    `records` is the number to read, if it is known: for few, less is fetched in advance.
    """
    properties = {**_DEFAULTS, **_in_advance(records), **connection.kafka, **_FORCED}
    properties |= {"bootstrap.servers": bootstrap_servers, "group.id": group}
    properties.setdefault("fetch.max.bytes", _fetch_bytes(connection.kafka))
    # librdkafka requires room for a whole response; its default suits fetches of up to 95 MiB.
    room = int(properties["fetch.max.bytes"]) + _RESPONSE_OVERHEAD_BYTES
    properties.setdefault("receive.message.max.bytes", max(100_000_000, room))
    return properties


def _fetch_bytes(kafka: Mapping[str, Any]) -> int:
    """The default size of a fetch: librdkafka requires at least a message, and that it fits a response."""
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
