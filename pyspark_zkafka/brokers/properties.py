"""Properties of Kafka's clients, librdkafka's and the package's own: defaults, and a user's settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from pyspark_zkafka.conditions import UNUSABLE_KAFKA_PROPERTY
from pyspark_zkafka.options.values import ConnectionOptions, concerns_connection, refers, task_rack

CLIENT_DEFAULTS: dict[str, Any] = {"client.id": "zkafka", "reconnect.backoff.ms": 20}
"""Defaults of all clients; a user's settings override them."""

_OF_CONSUMERS: dict[str, Any] = {
    **CLIENT_DEFAULTS,
    "allow.auto.create.topics": False,
    # Java's default; librdkafka's own is read_committed.
    "isolation.level": "read_uncommitted",
    # Java checks them by default; librdkafka does not.
    "check.crcs": True,
    # A planned topic exists. If the brokers do not know it for this long, it is gone (the reader checks that).
    "topic.metadata.propagation.max.ms": 3000,
    # Planned records exist: a response that waits for more only delays the next range on its connection.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}
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
_PROBE = "probe"  # librdkafka then looks for the system's authorities
_FILES = {  # by librdkafka's name
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.keystore.location": "ssl.keystore.location",
}
_SESSION_MS = 45_000  # librdkafka's default
# librdkafka's default sizes of a fetch and of a message, and the smallest size of a message that it accepts.
_LOOKUP_FETCH_BYTES, _LOOKUP_MESSAGE_BYTES, _LEAST_MESSAGE_BYTES = 52_428_800, 1_000_000, 1_000


def _prefetch(fetch_bytes: int, messages: int, kilobytes: int) -> dict[str, Any]:
    """Sizes of a fetch, and of the queue of fetched messages. librdkafka adds about 1 KB to the bytes of each message."""
    return {
        "max.partition.fetch.bytes": fetch_bytes,
        "queued.min.messages": messages,
        "queued.max.messages.kbytes": kilobytes,
    }


# Sizes by the number of records to read. Records beyond the end of a range cost as much as records in it, and are
# discarded. With few classes, ranges of similar length can reuse a consumer.
_RANGES = (
    (1_000, _prefetch(128 * 1024, 1_000, 4 * 1024)),
    (100_000, _prefetch(1024 * 1024, 10_000, 4 * 1024)),
)
_LONG_RANGE = _prefetch(2 * 1024 * 1024, 50_000, 32 * 1024)


def consumer_properties(
    connection: ConnectionOptions,
    bootstrap_servers: str,
    group: str,
    records: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return librdkafka's properties for reading: tuned defaults, the user's, and properties to prove a range complete.

    `records` is the number of records to read, if known. For few records, less is fetched in advance. `environment` is the
    environment of the task, for its rack. A driver passes None: a rack that refers to the environment is left out.
    """
    fitting = (sizes for most, sizes in _RANGES if records is not None and records <= most)
    properties = {**_OF_CONSUMERS, **next(fitting, _LONG_RANGE), **connection.kafka, **_FORCED}
    properties |= {"bootstrap.servers": bootstrap_servers, "group.id": group}
    if refers(rack := str(properties.pop("client.rack", ""))):
        rack = "" if environment is None else task_rack(rack, environment)
    if rack:
        properties["client.rack"] = rack
    if "max.poll.interval.ms" in properties:  # librdkafka requires it to be at least the session timeout
        properties["session.timeout.ms"] = min(_SESSION_MS, int(properties["max.poll.interval.ms"]))
    properties.setdefault("fetch.max.bytes", _fetch_bytes(connection.kafka))
    # librdkafka requires room for a whole response; its default suits fetches of up to 95 MiB.
    room = int(properties["fetch.max.bytes"]) + _RESPONSE_OVERHEAD_BYTES
    properties.setdefault("receive.message.max.bytes", max(100_000_000, room))
    return properties


def _fetch_bytes(kafka: Mapping[str, Any]) -> int:
    """The default size of a fetch, between the sizes of a message and of a response, as librdkafka requires."""
    room = int(kafka.get("receive.message.max.bytes", 2**31 - 1)) - _RESPONSE_OVERHEAD_BYTES
    return min(max(_FETCH_BYTES, int(kafka.get("message.max.bytes", 0))), room)


def shared_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Select the properties of the connection, with the defaults of all clients, as an admin client needs them."""
    return {**CLIENT_DEFAULTS, **{name: value for name, value in properties.items() if concerns_connection(name)}}


def lookup_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Connection properties for a consumer that fetches nothing.

    Even so, librdkafka requires limits for a response, a fetch and a message that fit each other. A producer's limit for
    a response may be too small for the default limits of a fetch and a message.
    """
    shared = shared_properties(properties)
    if "receive.message.max.bytes" in shared:
        response = max(int(shared["receive.message.max.bytes"]), _LEAST_MESSAGE_BYTES + _RESPONSE_OVERHEAD_BYTES)
        fetch = min(_LOOKUP_FETCH_BYTES, response - _RESPONSE_OVERHEAD_BYTES)
        message = min(_LOOKUP_MESSAGE_BYTES, fetch)
        shared |= {"receive.message.max.bytes": response, "fetch.max.bytes": fetch, "message.max.bytes": message}
    return shared


def require_files(properties: Mapping[str, Any]) -> None:
    """Raise OptionError if a file of TLS cannot be read. OpenSSL's errors do not name the file."""
    if not str(properties.get("security.protocol", "")).upper().endswith("SSL"):
        return  # no client reads them
    for name, java in _FILES.items():
        path = Path(str(properties.get(name, _PROBE)))
        try:
            if str(path) != _PROBE and (path.is_file() or not path.exists()):  # a pipe would block
                path.open("rb").close()
        except OSError as error:
            from pyspark_zkafka.options.client_properties import is_secret  # tasks do without it

            shown = "a file" if is_secret(name) else path
            raise UNUSABLE_KAFKA_PROPERTY(
                f"kafka.{name} ({java} in Java) names {shown}, which cannot be read: {error.strerror}. A readable file "
                "must be at this path on the driver and on every executor"
            ) from None  # its text has the path, which may be secret


def are_known(servers: str, known: str) -> bool:
    """True if all bootstrap servers are among the `known` ones.

    >>> are_known("b2:9092", "b1:9092,b2:9092"), are_known("b2:9092,b3:9092", "b1:9092,b2:9092")
    (True, False)
    """
    return set(known.split(",")).issuperset(servers.split(","))


def client_key(properties: Mapping[str, Any]) -> Hashable:
    """The key of a client in a pool: its properties and bootstrap servers, regardless of their order."""
    others = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
    return frozenset(properties["bootstrap.servers"].split(",")), frozenset(others.items())
