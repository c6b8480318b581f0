"""Translated properties in librdkafka itself; its clients are created without brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka
import pytest

from pyspark_zkafka.options.client_properties import Role, translate
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED, ClientProperty
from pyspark_zkafka.token_providers import PROVIDER

NUMBERS = "-1 0 1 5 6 7 9 10 12 100 1000 45000 60000 300000 900000 3600000 86400000 1000000 100000000 1000000000 2147483647"
WORDS = """
    true false all none https gzip lz4 zstd read_committed rebootstrap v4 SSL SASL_SSL PLAIN OAUTHBEARER PEM PKCS12 oidc
    default GSSAPI use_all_dns_ips client_credentials azure_imds ES256 conf,telemetry 0.9.0.1 a:1,b:2 P-256 some-text
"""
CANDIDATES = [*NUMBERS.split(), *WORDS.split(), "kinit -k", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
LOGIN = {"sasl.username": "a", "sasl.password": "b"}
OIDC = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "a",
    "sasl.oauthbearer.client.secret": "b",
    "sasl.oauthbearer.token.endpoint.url": "https://localhost/token",
}
SPECIAL = {"sasl.jaas.config": [JAAS], "https.ca.location": ["probe"]}
COMPANIONS: dict[str, dict[str, str]] = {
    "sasl.mechanism": LOGIN | OIDC,
    "sasl.mechanisms": LOGIN | OIDC,
    "security.protocol": {"sasl.mechanism": "PLAIN", **LOGIN},
    "sasl.oauthbearer.token.endpoint.url": OIDC,
    "sasl.oauthbearer.method": OIDC,
    "enable.gapless.guarantee": {"enable.idempotence": "true"},
}
# Not a property of librdkafka: `client_config` replaces it by a callback.
OF_LIBRDKAFKA = [row for row in PROPERTIES if row.name != PROVIDER]
ROLES: dict[Role, str] = {"consumer": "C", "producer": "P"}


def make(role: Role, properties: Mapping[str, str]) -> None:
    """Create and close a client. Raises KafkaException if librdkafka refuses the properties."""
    if role == "consumer":  # a session may not exceed max.poll.interval.ms, see `consumer_properties`
        confluent_kafka.Consumer({"group.id": "g", "session.timeout.ms": "1", **properties}).close()
    else:
        confluent_kafka.Producer(dict(properties)).flush(0)


def accepted(row: ClientProperty, role: Role) -> Iterator[dict[str, str]]:
    """Yield the candidates for a row that `translate` accepts, translated."""
    needed = {str(row.when[0]): str(row.when[1])} if row.when else {}
    if row.target_names() == ["ssl.keystore.location"]:
        needed["ssl.keystore.password"] = "x"
    for value in SPECIAL.get(row.name, CANDIDATES):
        found, problems = translate({**COMPANIONS.get(row.name, {}), **needed, row.name: value}, role)
        if not problems:
            yield found


VECTORS = Path(__file__).parents[1] / "vectors" / "librdkafka_config_names.json"
LIBRDKAFKA: dict[str, str] = json.loads(VECTORS.read_text(encoding="utf-8"))["properties"]
PASSED_ON = sorted(set(LIBRDKAFKA) - set(REFUSED) - {row.name for row in PROPERTIES})
FILES_AND_CRYPTOGRAPHY = ("https.", "sasl.", "ssl.")  # librdkafka evaluates these when a client is created
SLOW = ("bootstrap.servers-producer", "metadata.broker.list-consumer", "metadata.broker.list-producer")
"""Pairs that take seconds. Consumers with bootstrap.servers take less, and stay in everyday tests."""
PAIRS = [
    pytest.param(row, role, id=f"{row.name}-{role}", marks=[pytest.mark.long] if f"{row.name}-{role}" in SLOW else [])
    for row in OF_LIBRDKAFKA
    for role in ROLES
    if ROLES[role] in row.clients
]


@pytest.mark.parametrize(("row", "role"), PAIRS)
def test_librdkafka_takes_what_is_translated(row: ClientProperty, role: Role) -> None:
    """A real client can be created with any value that passes the translation, and some value passes."""
    found = {json.dumps(properties): properties for properties in accepted(row, role)}
    assert found
    for properties in found.values():
        make(role, properties)


def test_the_recorded_names_are_the_installed_ones() -> None:
    """All properties that the translation can produce are known to the installed librdkafka."""
    assert {target for row in OF_LIBRDKAFKA for target in row.target_names()} <= set(LIBRDKAFKA)


@pytest.mark.long
def test_librdkafka_takes_what_is_passed_on() -> None:
    """A real client can be created with any value that the driver accepts for a property passed on unchanged."""
    for name in PASSED_ON:
        taken = [value for value in CANDIDATES if not translate({name: value}, "consumer")[1]]
        assert taken, name
        if not name.startswith(FILES_AND_CRYPTOGRAPHY):
            for value in taken:
                make("consumer", {name: value})
