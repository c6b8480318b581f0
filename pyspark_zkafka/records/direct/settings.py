"""Settings of the direct transport, from librdkafka's properties of a consumer or a producer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.records.direct.fetch import FetchSettings
from pyspark_zkafka.wire.protocol import Unsupported
from pyspark_zkafka.wire.settings import WITHOUT_EFFECT, ClientSettings, Properties, client_settings

_WITHOUT_EFFECT_ON_READS = WITHOUT_EFFECT | {
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.queue.backoff.ms",
    "group.id",
    "heartbeat.interval.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "message.max.bytes",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
}
_WITHOUT_EFFECT_ON_WRITES = WITHOUT_EFFECT | {
    "delivery.report.only.error",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "sticky.partitioning.linger.ms",
}
_LEVELS: Mapping[str, Collection[int]] = {
    "none": range(-1, 100),  # librdkafka ignores it without a codec, and with snappy
    "snappy": (),
    "lz4": (),
    "gzip": range(1, 10),
    "zstd": range(1, 23),
}


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How records are batched, compressed and sent.

    `level` is None for the codec's default, and `transactional_id` is None without transactions. A topic counts as gone if
    brokers do not know it for `propagation_s`.
    """

    batch_bytes: int
    batch_records: int
    most_request_bytes: int
    codec: str
    level: int | None
    linger_s: float
    delivery_timeout_s: float
    request_timeout_s: float
    creates_topics: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    propagation_s: float


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How records are fetched. A topic counts as gone if brokers do not know it for `propagation_s`."""

    client: ClientSettings
    fetch: FetchSettings
    propagation_s: float


def settings_of(properties: Mapping[str, Any]) -> ReadSettings:
    """The settings for a consumer's properties. Raises Unsupported, with the name of an unsupported property."""
    given = Properties(properties, _WITHOUT_EFFECT_ON_READS)
    settings = ReadSettings(client_settings(given), _fetch(given), _propagation_s(given))
    given.finish()
    return settings


def producer_settings_of(properties: Mapping[str, Any]) -> tuple[ClientSettings, ProduceSettings]:
    """The settings for a producer's properties. Raises Unsupported, with the name of an unsupported property."""
    given = Properties(properties, _WITHOUT_EFFECT_ON_WRITES)
    settings, produce = client_settings(given), _produce(given)
    _fetch(given)  # ignore a consumer's properties, as librdkafka does
    given.finish()
    return settings, produce


def _propagation_s(given: Properties) -> float:
    return given.seconds("topic.metadata.propagation.max.ms", 30_000)


def _fetch(given: Properties) -> FetchSettings:
    given.seconds("fetch.error.backoff.ms", 500)
    level = given.text("isolation.level", "read_committed")
    if level not in ("read_committed", "read_uncommitted"):
        raise Unsupported("the value of isolation.level")
    return FetchSettings(
        max_wait_ms=given.number("fetch.wait.max.ms", 500),
        min_bytes=given.number("fetch.min.bytes", 1, least=1),
        max_bytes=given.number("fetch.max.bytes", 52_428_800),
        partition_max_bytes=given.number("max.partition.fetch.bytes", 1_048_576, least=1),
        read_committed=level == "read_committed",
        rack=given.text("client.rack", ""),
    )


def _produce(given: Properties) -> ProduceSettings:
    acks = given.text("acks", given.text("request.required.acks", "all"))
    if acks not in ("all", "-1"):
        raise Unsupported(f"acks={acks}")
    if not given.flag("enable.idempotence", True):
        raise Unsupported("enable.idempotence=false")
    codec = given.text("compression.type", given.text("compression.codec", "none"))
    try:
        level = int(given.text("compression.level", "-1"))
    except ValueError:
        raise Unsupported("the value of compression.level") from None
    if codec not in _LEVELS:
        raise Unsupported(f"compression.type={codec}")
    if level != -1 and level not in _LEVELS[codec]:
        raise Unsupported(f"compression.level={level} with {codec}")
    most_bytes = given.number("message.max.bytes", 1_000_000, least=1000)
    timeout_s = given.seconds("delivery.timeout.ms", given.number("message.timeout.ms", 300_000))
    return ProduceSettings(
        batch_bytes=min(given.number("batch.size", 1_000_000, least=1), most_bytes),
        batch_records=given.number("batch.num.messages", 10_000, least=1),
        most_request_bytes=most_bytes,
        codec=codec,
        level=None if level == -1 else level,
        linger_s=given.seconds("linger.ms", given.number("queue.buffering.max.ms", 5)),
        delivery_timeout_s=timeout_s or math.inf,
        request_timeout_s=given.seconds("request.timeout.ms", 30_000),
        creates_topics=given.flag("allow.auto.create.topics", False),
        transactional_id=given.optional("transactional.id"),
        transaction_timeout_ms=given.number("transaction.timeout.ms", 60_000, least=1_000),
        propagation_s=_propagation_s(given),
    )
