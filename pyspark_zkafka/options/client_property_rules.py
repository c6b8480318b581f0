"""Rules among librdkafka properties, checked on the driver, before any task fails by them.

References
----------
``ProducerConfig.postProcessAndValidateIdempotenceConfigs`` of kafka-clients 3.9.1; ``rd_kafka_conf_finalize`` of
librdkafka 2.16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

__all__ = ["DELIVERY_TIMEOUT_MS", "broken_rules", "idempotence_given_up"]

Properties: TypeAlias = Mapping[str, str]

DELIVERY_TIMEOUT_MS = 120_000
"""delivery.timeout.ms of a write that does not set it: Java's default; librdkafka's is 300,000."""

_IDEMPOTENT_IN_FLIGHT = 5
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def broken_rules(translated: Properties, *, of_consumer: bool) -> list[str]:
    """A text for each rule that librdkafka properties break; those not set have our defaults or librdkafka's."""
    rules = (*_RULES, _fetch_sizes) if of_consumer else _RULES
    return [text for rule in rules for text in rule(translated)]


def idempotence_given_up(translated: Properties) -> bool:
    """True if the properties turn idempotence off implicitly, as in Java: one rules it out, and none enables it."""
    return "enable.idempotence" not in translated and any(_against_idempotence(translated))


def _against_idempotence(given: Properties) -> Iterator[str]:
    if given.get("acks", "all") != "all":
        yield "acks=all"
    if given.get("retries") == "0":
        yield "retries of 1 or more"
    if int(given.get("max.in.flight.requests.per.connection", "1")) > _IDEMPOTENT_IN_FLIGHT:
        yield f"max.in.flight.requests.per.connection of {_IDEMPOTENT_IN_FLIGHT} or less"


def _idempotence(given: Properties) -> Iterator[str]:
    if given.get("enable.idempotence") == "true":
        for needed in _against_idempotence(given):
            yield f"enable.idempotence=true needs {needed}"


def _only_with_idempotence(given: Properties) -> Iterator[str]:
    off = given.get("enable.idempotence") == "false" or idempotence_given_up(given)
    if given.get("enable.gapless.guarantee") == "true" and off:
        yield "enable.gapless.guarantee=true needs enable.idempotence=true"
    if int(given.get("queue.buffering.backpressure.threshold", "1")) > 1 and not off:
        yield "queue.buffering.backpressure.threshold above 1 needs enable.idempotence=false"


def _delivery(given: Properties) -> Iterator[str]:
    linger = given.get("linger.ms")
    if linger is not None and float(linger) >= int(given.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)):
        yield f"delivery.timeout.ms ({DELIVERY_TIMEOUT_MS} if not given) must be greater than linger.ms"


def _fetch_sizes(given: Properties) -> Iterator[str]:
    message = int(given.get("message.max.bytes", "1000000"))
    fetch = int(given.get("fetch.max.bytes", max(52428800, message)))
    if fetch < message:
        yield "fetch.max.bytes must be at least message.max.bytes (1000000 if not given)"
    if int(given.get("receive.message.max.bytes", "2147483647")) < fetch + 512:
        yield f"receive.message.max.bytes must be at least fetch.max.bytes (here {fetch}) + 512"


def _reconnect(given: Properties) -> Iterator[str]:
    if int(given.get("reconnect.backoff.max.ms", "10000")) < int(given.get("reconnect.backoff.ms", "100")):
        yield "reconnect.backoff.max.ms (10000 if not given) must be at least reconnect.backoff.ms (100 if not given)"


def _keystore(given: Properties) -> Iterator[str]:
    if "ssl.keystore.location" in given and "ssl.keystore.password" not in given:
        yield "ssl.keystore.location needs ssl.keystore.password"


def _authorities(given: Properties) -> Iterator[str]:
    if "https.ca.location" in given and "https.ca.pem" in given:
        yield "https.ca.location and https.ca.pem exclude each other"


def _login(given: Properties) -> Iterator[str]:
    mechanism = given.get("sasl.mechanism")
    if mechanism in _PASSWORD_MECHANISMS and not {"sasl.username", "sasl.password"} <= set(given):
        yield f"sasl.mechanism={mechanism} needs sasl.jaas.config, or sasl.username and sasl.password"
    token = given.get("sasl.oauthbearer.method") == "oidc" or given.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    if mechanism == "OAUTHBEARER" and not token:
        yield "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.method=oidc and its properties"


def _one_token(given: Properties) -> Iterator[str]:
    if given.get("sasl.oauthbearer.method") == "oidc" and given.get("enable.sasl.oauthbearer.unsecure.jwt") == "true":
        yield "sasl.oauthbearer.method=oidc and enable.sasl.oauthbearer.unsecure.jwt=true exclude each other"


_RULES: tuple[Callable[[Properties], Iterator[str]], ...] = (
    _idempotence,
    _only_with_idempotence,
    _delivery,
    _reconnect,
    _keystore,
    _authorities,
    _login,
    _one_token,
)
