"""Rules among client properties."""

from __future__ import annotations

import re

import pytest

from pyspark_zkafka.options.client_properties import Role, translate
from pyspark_zkafka.options.client_property_rules import broken_rules, disables_idempotence
from pyspark_zkafka.options.librdkafka import judge
from tests.support.cases import each


@each(
    ("role", "given", "problem"),
    [
        ("consumer", {"fetch.max.bytes": "1000"}, r"fetch.max.bytes must be at least message.max.bytes"),
        ("consumer", {"receive.message.max.bytes": "52428800"}, r"must be at least fetch.max.bytes .* \+ 512"),
        (
            "consumer",
            {"reconnect.backoff.ms": "20000"},
            r"reconnect.backoff.max.ms \(10000 if not given\) must be at least",
        ),
        (
            "producer",
            {"linger.ms": "120000"},
            r"delivery.timeout.ms \(120000 if not given\) must be greater than linger.ms",
        ),
        ("producer", {"enable.gapless.guarantee": "true", "acks": "1"}, r"needs enable.idempotence=true"),
        ("producer", {"queue.buffering.backpressure.threshold": "9"}, r"needs enable.idempotence=false"),
        ("consumer", {"ssl.keystore.location": "a.p12"}, r"needs ssl.keystore.password"),
        ("consumer", {"https.ca.location": "a", "https.ca.pem": "b"}, r"exclude each other"),
        ("consumer", {"sasl.mechanism": "PLAIN"}, r"needs sasl.jaas.config, or sasl.username and sasl.password"),
        ("consumer", {"sasl.mechanism": "OAUTHBEARER"}, r"needs sasl.oauthbearer.method=oidc"),
        (
            "consumer",
            {"sasl.oauthbearer.method": "oidc", "enable.sasl.oauthbearer.unsecure.jwt": "true"},
            r"exclude each other",
        ),
    ],
)
def test_broken_rules(role: Role, given: dict[str, str], problem: str) -> None:
    """Properties that contradict each other are one problem, which states what is required."""
    [found] = translate(given, role, judge)[1]
    assert re.search(problem, found), found


@pytest.mark.parametrize("of_consumer", [True, False])
def test_defaults_break_no_rule(of_consumer: bool) -> None:
    """Without any property, no rule is broken."""
    assert broken_rules({}, of_consumer=of_consumer) == []


@pytest.mark.parametrize(
    "given", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"max.in.flight": "6"}], ids=lambda g: "".join(g)
)
def test_idempotence(given: dict[str, str]) -> None:
    """As in Java, what rules idempotence out disables it if it is not set, and contradicts it if it is."""
    translated, problems = translate(given, "producer", judge)
    assert (translated["enable.idempotence"], problems) == ("false", [])
    [problem] = translate({**given, "enable.idempotence": "true"}, "producer", judge)[1]
    assert "enable.idempotence=true needs" in problem


def test_idempotence_that_is_set() -> None:
    """Only properties that do not set idempotence disable it."""
    assert disables_idempotence({"acks": "1"})
    assert not disables_idempotence({"acks": "1", "enable.idempotence": "true"})
    assert not disables_idempotence({"acks": "all", "retries": "5"})
