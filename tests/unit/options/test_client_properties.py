"""Translation of the options `kafka.*`, and its problems."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.client_properties import Role, is_secret, translate
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.token_providers import PROVIDER

VECTORS = Path(__file__).parents[2] / "vectors"
JAVA: dict[str, Any] = json.loads((VECTORS / "java_config_names.json").read_text(encoding="utf-8"))
ROLES: list[Role] = ["consumer", "producer"]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KEPT = "kept-from-eyes"
P12 = {"ssl.keystore.location": "me.p12", "ssl.keystore.password": KEPT}


def good(properties: Mapping[str, str], role: Role) -> dict[str, str]:
    """Return the translation of properties without a problem."""
    translated, problems = translate(properties, role)
    assert problems == []
    return translated


def bad(properties: Mapping[str, str], role: Role) -> str:
    """Return the only problem of properties."""
    [problem] = translate(properties, role)[1]
    return problem


@pytest.mark.parametrize(
    ("role", "given", "expected"),
    [
        ("consumer", {"request.timeout.ms": "20000"}, {"socket.timeout.ms": "20000"}),
        ("producer", {"request.timeout.ms": "20000"}, {"request.timeout.ms": "20000"}),
        ("consumer", {"Fetch.Max.Wait.MS": " 50 "}, {"fetch.wait.max.ms": "50"}),
        ("consumer", {"max.partition.fetch.bytes": "8388608"}, {"max.partition.fetch.bytes": "8388608"}),
        ("consumer", {"fetch.message.max.bytes": "8388608"}, {"max.partition.fetch.bytes": "8388608"}),
        ("consumer", {"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": "0"}),
        ("producer", {"send.buffer.bytes": "1048576"}, {"socket.send.buffer.bytes": "1048576"}),
        ("producer", {"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ("producer", {"buffer.memory": "1"}, {"queue.buffering.max.kbytes": "1"}),
        ("producer", {"max.request.size": "2000000"}, {"message.max.bytes": "2000000"}),
        ("producer", {"linger.ms": "2.5"}, {"linger.ms": "2.5"}),
        ("producer", {"queue.buffering.max.ms": "20"}, {"linger.ms": "20"}),
        ("producer", {"compression.type": "ZSTD"}, {"compression.type": "ZSTD"}),
        (
            "producer",
            {"compression.type": "gzip", "compression.gzip.level": "6"},
            {"compression.type": "gzip", "compression.level": "6"},
        ),
        ("producer", {"acks": "-1"}, {"acks": "all"}),
        ("producer", {"request.required.acks": "all"}, {"acks": "all"}),
        ("consumer", {"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": "0"}),
        ("consumer", {"metadata.max.age.ms": "60000"}, {"topic.metadata.refresh.interval.ms": "60000"}),
        ("consumer", {"metadata.max.age.ms": "3600000"}, {"topic.metadata.refresh.interval.ms": "715000"}),
        ("producer", {"topic.metadata.refresh.interval.ms": "-1"}, {"topic.metadata.refresh.interval.ms": "-1"}),
        ("consumer", {"check.crcs": "TRUE"}, {"check.crcs": "TRUE"}),
        ("consumer", {"security.protocol": "ssl"}, {"security.protocol": "SSL"}),
        ("consumer", {"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            "consumer",
            {"ssl.endpoint.identification.algorithm": "HTTPS"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
        ("consumer", {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}, {"ssl.ca.location": "ca.pem"}),
        ("consumer", {"ssl.truststore.type": "pem", "ssl.truststore.certificates": "-----"}, {"ssl.ca.pem": "-----"}),
        (
            "consumer",
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": KEPT},
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem", "ssl.key.password": KEPT},
        ),
        (
            "consumer",
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C"},
            {"ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        ("consumer", {"ssl.keystore.type": "PKCS12", **P12}, P12),
        ("consumer", P12, P12),
        (
            "consumer",
            {"sasl.mechanism": "plain", "sasl.jaas.config": f'{PLAIN} required username="me" password="a;\\"b";'},
            {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'a;"b'},
        ),
        (
            "producer",
            {
                "sasl.jaas.config": f"kafkashaded.{SCRAM} required username=me password=b;",
                "sasl.mechanisms": "SCRAM-SHA-512",
            },
            {"sasl.username": "me", "sasl.password": "b", "sasl.mechanism": "SCRAM-SHA-512"},
        ),
        ("producer", {"sasl.password": " blanks stay "}, {"sasl.password": " blanks stay "}),
        ("producer", {"enable.idempotence": "false", "acks": "1"}, {"enable.idempotence": "false", "acks": "1"}),
        ("producer", {}, {}),
    ],
)
def test_translation(role: Role, given: dict[str, str], expected: dict[str, str]) -> None:
    """Java's names become librdkafka's, with values in its format, and librdkafka's own names are passed on."""
    assert good(given, role) == expected


@pytest.mark.parametrize(
    ("role", "given", "problem"),
    [
        ("producer", {"acks": "2"}, r"kafka.acks is '2'; expected one of all, 0, 1"),
        ("producer", {"linger.ms": "soon"}, r"kafka.linger.ms is 'soon'; expected a number of milliseconds"),
        ("producer", {"buffer.memory": "32m"}, r"expected a whole number$"),
        ("producer", {"buffer.memory": "-1"}, r"expected a whole number of bytes, 0 or more$"),
        ("producer", {"buffer.memory": "9" * 18}, r"librdkafka (refuses it|would read)"),
        ("producer", {"delivery.timeout.ms": "0"}, r"from 1 to 2147483647"),
        ("consumer", {"fetch.min.bytes": "0"}, r"allowed range 1\.\.100000000"),
        ("producer", {"Batch.Size": "0"}, r"^kafka.Batch.Size is '0'; librdkafka refuses it: .* range 1\.\.2147483647$"),
        ("consumer", {"Request.Timeout.Ms": "5"}, r"^kafka.Request.Timeout.Ms is '5'; librdkafka refuses .* 10\.\.300000$"),
        ("producer", {"queue.buffering.max.ms": "900001"}, r"is '900001'; librdkafka refuses it: .* range 0\.\.900000$"),
        ("consumer", {"socket.timeout.ms": "4294977296"}, r"expected a whole number: librdkafka would read 10000$"),
        ("consumer", {"statistics.interval.ms": "4294967301"}, r"expected a whole number: librdkafka would read 5$"),
        ("consumer", {"statistics.interval.ms": "10s"}, r"is '10s'; expected a whole number: librdkafka would read 10$"),
        ("consumer", {"statistics.interval.ms": "1.5"}, r"is '1.5'; expected a whole number: librdkafka would read 1$"),
        ("consumer", {"statistics.interval.ms": "010"}, r"is '010'; expected a whole number: librdkafka would read 8$"),
        ("consumer", {"check.crcs": "yes"}, r"librdkafka refuses it: Expected bool value .*: true or false"),
        ("consumer", {"client.rack": " "}, r"expected a text that is not empty"),
        ("consumer", {"client.rack": ""}, r"expected a text that is not empty"),
        ("consumer", {"debug": "fetch,everything"}, r"librdkafka refuses it: Invalid value \"everything\""),
        ("consumer", {"security.protocol": "x" * 200}, rf"is '{'x' * 80}'\.\.\.; expected one of PLAINTEXT, SSL"),
        ("consumer", {"sasl.kerberos.kinit.cmd": "kinit"}, r"expected a whole command line"),
        ("consumer", {"ssl.truststore.location": "ca.jks"}, r"needs ssl\.truststore\.type=PEM; librdkafka reads only PEM"),
        ("consumer", {"ssl.truststore.type": "JKS"}, r"is 'JKS'; expected one of PEM; librdkafka reads only PEM"),
        ("consumer", {"ssl.keystore.type": "JKS"}, r"not JKS: convert it with keytool"),
        ("consumer", {"ssl.keystore.location": "me.JKS"}, r"expected a PKCS12 file; .*convert it with keytool"),
        ("consumer", {"ssl.keystore.key": KEPT}, r"needs ssl\.keystore\.type=PEM"),
        (
            "consumer",
            {"sasl.jaas.config": f'{PLAIN} required username="a" password="{KEPT}";'},
            r"needs sasl\.mechanism=PLAIN or",
        ),
        (
            "consumer",
            {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "a.OAuthBearerLoginModule required;"},
            r"needs sasl\.mechanism=PLAIN or .*; with OAUTHBEARER, set sasl\.oauthbearer\.\* instead",
        ),
        ("producer", {"compression.gzip.level": "6"}, r"needs compression\.type=gzip; set it, or remove the level"),
        ("producer", {"compression.type": "gzip", "compression.gzip.level": "10"}, r"a whole number from -1 to 9"),
        ("producer", {"compression.type": "lz4", "compression.lz4.level": "0"}, r"a whole number from 1 to 12"),
        ("producer", {"compression.type": "zstd", "compression.zstd.level": "-1"}, r"a whole number from 1 to 12"),
        ("consumer", {"sasl.oauthbearer.token.endpoint.url": "u"}, r"needs sasl\.oauthbearer\.method=oidc"),
        (
            "consumer",
            {"linger.ms": "5"},
            r"a producer property, without effect on a read; remove it, or set it where you write",
        ),
        ("producer", {"fetch.min.bytes": "5"}, r"a consumer property, without effect on a write"),
        (
            "consumer",
            {"fetch.max.wait": "5"},
            r"kafka.fetch.max.wait is unknown .*; did you mean kafka.fetch.max.wait.ms\?",
        ),
        (
            "consumer",
            {"Auto.Ofset.Reset": "x"},
            r"kafka.Auto.Ofset.Reset is unknown .*; did you mean kafka.auto.offset.reset\?",
        ),
        ("consumer", {"zzz": "5"}, r"kafka.zzz is unknown to Kafka's Java clients and to librdkafka$"),
        ("consumer", {"": "5"}, r"is unknown"),
        (
            "producer",
            {"linger.ms": "5", "queue.buffering.max.ms": "6"},
            r"queue.buffering.max.ms contradicts kafka.linger.ms",
        ),
    ],
)
def test_problems(role: Role, given: dict[str, str], problem: str) -> None:
    """A name or value without an equivalent is a problem that states the expected form."""
    found = bad(given, role)
    assert re.search(problem, found), found
    assert KEPT not in found


@pytest.mark.parametrize(
    ("jaas", "problem"),
    [
        (f'{PLAIN} required username="me" password="{KEPT}"', "followed by a semicolon"),
        (f'{PLAIN} required username="me" password={KEPT}/x;', "followed by a semicolon"),
        (f'{PLAIN} required username="me";', "both a username and a password"),
        (f'{PLAIN} required username="me" password="";', "both a username and a password"),
        (f'{SCRAM} required username="me" password="{KEPT}" tokenauth="true";', "librdkafka has no tokenauth"),
        (f'com.sun.security.auth.module.Krb5LoginModule required password="{KEPT}";', "sasl.kerberos.principal"),
        (f'a.OAuthBearerLoginModule required clientSecret="{KEPT}";', "sasl.oauthbearer.method=oidc"),
        (f'my.LoginModule required password="{KEPT}";', "librdkafka does not run Java's login modules"),
    ],
)
def test_jaas_problems_never_repeat_the_secret(jaas: str, problem: str) -> None:
    """A JAAS line without an equivalent is a problem with the reason, but without any of the line's text."""
    found = bad({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}, "consumer")
    assert found.startswith("kafka.sasl.jaas.config is malformed (its value is secret and not shown); expected ")
    assert problem in found
    assert "Kerberos" not in found  # the mechanism is given
    assert KEPT not in found


def test_all_problems_come_at_once() -> None:
    """Every bad property is reported in the given order, and the good ones are still translated."""
    translated, problems = translate({"acks": "2", "linger.ms": "5", "nonsense": "", "group.id": "g"}, "producer")
    assert translated == {"linger.ms": "5"}
    assert [p.split()[0] for p in problems] == ["kafka.acks", "kafka.nonsense", "kafka.group.id"]


def test_two_names_of_one_property_may_agree() -> None:
    """An alias and its property may both be set to the same value."""
    assert good({"linger.ms": "5", "queue.buffering.max.ms": "5"}, "producer") == {"linger.ms": "5"}


def test_java_passwords_are_secret() -> None:
    """Each property that the Java client declares as a password is secret."""
    assert all(is_secret(name) for name in JAVA["passwords"])


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("kafka.Ssl.Key.Password", True),
        ("my.own.client.secret", True),
        ("SASL.JAAS.CONFIG", True),
        ("my\npassword", True),
        ("ssl.ca.location", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("acks", False),
    ],
)
def test_secrets_are_known_by_name(name: str, secret: bool) -> None:
    """Listed names are secret, and so are unknown names that sound secret."""
    assert is_secret(name) is secret


@pytest.mark.parametrize("name", sorted({row.name for row in PROPERTIES if is_secret(row.name)}))
def test_a_malformed_secret_is_not_shown(name: str) -> None:
    """No problem with a secret property repeats its value."""
    assert all(KEPT not in problem for role in ROLES for problem in translate({name: KEPT}, role)[1])


@pytest.mark.parametrize(
    ("role", "given", "problem"),
    [
        ("consumer", {"fetch.max.bytes": "1000"}, r"`fetch.max.bytes` must be >= `message.max.bytes`"),
        ("consumer", {"receive.message.max.bytes": "52428800"}, r"must be >= `fetch.max.bytes` \+ 512"),
        ("consumer", {"reconnect.backoff.ms": "20000"}, r"`reconnect.backoff.max.ms` must be >="),
        ("producer", {"linger.ms": "120000"}, r"must be greater than `linger.ms`"),
        ("producer", {"enable.gapless.guarantee": "true", "acks": "1"}, r"requires `enable.idempotence` to be enabled"),
        ("producer", {"queue.buffering.backpressure.threshold": "9"}, r"must be set to 1 when `enable.idempotence`"),
        ("consumer", {"ssl.keystore.location": "a.p12"}, r"`ssl.keystore.password` is mandatory"),
        ("consumer", {"sasl.mechanism": "PLAIN"}, r"needs kafka.sasl.jaas.config, or kafka.sasl.username and"),
        (
            "consumer",
            {"sasl.mechanism": "OAUTHBEARER"},
            r"needs kafka.sasl.oauthbearer.token.provider .* or kafka.sasl.oauthbearer.method=oidc",
        ),
        (
            "producer",
            {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b", PROVIDER: "google"},
            r"token.provider needs kafka.sasl.mechanism=OAUTHBEARER",
        ),
        (
            "consumer",
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", PROVIDER: "acme.logins:token"},
            r"token.provider needs .* without kafka.sasl.oauthbearer.method=oidc",
        ),
        (
            "consumer",
            {"sasl.mechanism": "OAUTHBEARER", PROVIDER: "acme.logins.token"},
            r"expected package.module:function, or one of aws-msk-iam, microsoft-entra, google",
        ),
        (
            "consumer",
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
            },
            r"mutually exclusive",
        ),
    ],
)
def test_broken_rules(role: Role, given: dict[str, str], problem: str) -> None:
    """Properties that contradict each other are one problem, which states the requirement."""
    [found] = translate(given, role)[1]
    assert re.search(problem, found), found


@pytest.mark.parametrize(
    "given", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"max.in.flight": "6"}], ids=lambda g: "".join(g)
)
def test_idempotence(given: dict[str, str]) -> None:
    """As in Java, a property that excludes idempotence disables it by default, and contradicts it if it is set."""
    translated, problems = translate(given, "producer")
    assert problems == []
    assert translated["enable.idempotence"] == "false"
    [problem] = translate({**given, "enable.idempotence": "true"}, "producer")[1]
    assert "when `enable.idempotence` is true" in problem


@pytest.mark.parametrize(
    ("role", "given"),
    [
        ("consumer", {"max.poll.interval.ms": "10000"}),
        ("consumer", {"message.max.bytes": "100000000"}),
        ("producer", {"delivery.timeout.ms": "1"}),
        ("producer", {"transaction.timeout.ms": "1000", "delivery.timeout.ms": "2000"}),
        ("producer", {"acks": "all", "retries": "5"}),
    ],
)
def test_properties_that_fit_the_defaults(role: Role, given: dict[str, str]) -> None:
    """A property does not contradict a default that follows it."""
    assert translate(given, role)[1] == []
