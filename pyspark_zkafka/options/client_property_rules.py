"""Rules among librdkafka properties, checked on the driver, before any task fails by them.

References
----------
``ProducerConfig.postProcessAndValidateIdempotenceConfigs`` of kafka-clients 3.9.1; ``rd_kafka_conf_finalize`` of
librdkafka 2.16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

__all__ = ["DELIVERY_TIMEOUT_MS", "TRANSACTION_TIMEOUT_MS", "broken_rules", "disables_idempotence"]

Properties: TypeAlias = Mapping[str, str]

DELIVERY_TIMEOUT_MS = 120_000
"""delivery.timeout.ms of a write that does not set it: Java's default; librdkafka's is 300,000."""

TRANSACTION_TIMEOUT_MS = 300_000
"""transaction.timeout.ms of an exactly-once write that does not set it: a task must be done by then.

The brokers abort a transaction after it; so long at the most does one of a query that is gone hold up readers of committed
records. Brokers allow 900,000 by default; librdkafka's own default is 60,000.
"""

_IDEMPOTENT_IN_FLIGHT = 5
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def broken_rules(properties: Properties, *, of_consumer: bool) -> list[str]:
    """A text for each rule that librdkafka properties break; those not set have our defaults or librdkafka's."""
    of_client = _fetch_sizes(properties) if of_consumer else _delivery(properties)
    return [*of_client, *_connection(properties), *_credentials(properties)]


def disables_idempotence(properties: Properties) -> bool:
    """True if the properties turn idempotence off implicitly, as in Java: one rules it out, and none enables it."""
    return "enable.idempotence" not in properties and any(_against_idempotence(properties))


def _against_idempotence(properties: Properties) -> Iterator[str]:
    if properties.get("acks", "all") != "all":
        yield "acks=all"
    if properties.get("retries") == "0":
        yield "retries of 1 or more"
    if int(properties.get("max.in.flight.requests.per.connection", "1")) > _IDEMPOTENT_IN_FLIGHT:
        yield f"max.in.flight.requests.per.connection of {_IDEMPOTENT_IN_FLIGHT} or less"


def _delivery(properties: Properties) -> Iterator[str]:
    if properties.get("enable.idempotence") == "true":
        yield from (f"enable.idempotence=true needs {needed}" for needed in _against_idempotence(properties))
    off = properties.get("enable.idempotence") == "false" or disables_idempotence(properties)
    if properties.get("enable.gapless.guarantee") == "true" and off:
        yield "enable.gapless.guarantee=true needs enable.idempotence=true"
    if int(properties.get("queue.buffering.backpressure.threshold", "1")) > 1 and not off:
        yield "queue.buffering.backpressure.threshold above 1 needs enable.idempotence=false"
    transaction_ms = properties.get("transaction.timeout.ms")
    if transaction_ms is not None and int(properties.get("delivery.timeout.ms", "0")) > int(transaction_ms):
        yield "delivery.timeout.ms must not be greater than transaction.timeout.ms"
    linger_ms, timeout_ms = properties.get("linger.ms"), properties.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)
    if linger_ms is not None and float(linger_ms) >= int(timeout_ms):
        yield f"delivery.timeout.ms ({DELIVERY_TIMEOUT_MS} if not given) must be greater than linger.ms"


def _fetch_sizes(properties: Properties) -> Iterator[str]:
    message = int(properties.get("message.max.bytes", "1000000"))
    fetch = int(properties.get("fetch.max.bytes", max(52428800, message)))
    if fetch < message:
        yield "fetch.max.bytes must be at least message.max.bytes (1000000 if not given)"
    if int(properties.get("receive.message.max.bytes", "2147483647")) < fetch + 512:
        yield f"receive.message.max.bytes must be at least fetch.max.bytes (here {fetch}) + 512"


def _connection(properties: Properties) -> Iterator[str]:
    if int(properties.get("reconnect.backoff.max.ms", "10000")) < int(properties.get("reconnect.backoff.ms", "100")):
        yield "reconnect.backoff.max.ms (10000 if not given) must be at least reconnect.backoff.ms (100 if not given)"
    if "ssl.keystore.location" in properties and "ssl.keystore.password" not in properties:
        yield "ssl.keystore.location needs ssl.keystore.password"
    if {"https.ca.location", "https.ca.pem"} <= properties.keys():
        yield "https.ca.location and https.ca.pem exclude each other"


def _credentials(properties: Properties) -> Iterator[str]:
    mechanism, oidc = properties.get("sasl.mechanism"), properties.get("sasl.oauthbearer.method") == "oidc"
    unsecure = properties.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    if mechanism in _PASSWORD_MECHANISMS and not {"sasl.username", "sasl.password"} <= properties.keys():
        yield f"sasl.mechanism={mechanism} needs sasl.jaas.config, or sasl.username and sasl.password"
    if mechanism == "OAUTHBEARER" and not (oidc or unsecure):
        yield "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.method=oidc and its properties"
    if oidc and unsecure:
        yield "sasl.oauthbearer.method=oidc and enable.sasl.oauthbearer.unsecure.jwt=true exclude each other"
