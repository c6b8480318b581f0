"""The table of options, compared with the parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.kinds import INT32
from pyspark_zkafka.options.option import STREAM, Option, Rule, Scope
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import BY_NAME, SUBSCRIPTIONS, TABLE, is_connection_option
from pyspark_zkafka.options.values import options_of_fields
from tests.support.cases import each
from tests.support.numeric_limits import LIMITS
from tests.support.option_problems import problems

ZK = {"zookeeper.connect": "zk:2181"}


EXAMPLES: dict[str, str] = {
    "transport": "librdkafka",
    "zookeeper.connect": "zk1,zk2:2182/kafka",
    "zookeeper.session.timeout.ms": "9000",
    "zookeeper.connection.timeout.ms": "4000",
    "zookeeper.auth": "digest:user:secret",
    "zookeeper.acl": "readable",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": "/etc/ca.pem",
    "zookeeper.ssl.endpoint.identification.algorithm": "https",
    "zookeeper.ssl.keystore.location": "/etc/me.pem",
    "zookeeper.ssl.keystore.password": "secret",
    "kafka.bootstrap.servers": "k1:9092",
    "kafka.*": "",
    "listener.name": "INSIDE",
    "subscribe": "t",
    "subscribePattern": "t.*",
    "subscribeExceptPattern": "t.*",
    "assign": '{"t": [0]}',
    "missingTopics": "wait",
    "view": "partitions",
    "startingOffsets": '{"t": {"0": 5}}',
    "endingOffsets": '{"t": "latest"}',
    "startingTimestamp": "1700000000000",
    "endingTimestamp": "1700000000001",
    "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "auto.offset.reset": "earliest",
    "failOnDataLoss": "false",
    "minPartitions": "9",
    "maxRecordsPerPartition": "1000",
    "minRecordsPerPartition": "10",
    "includeHeaders": "true",
    "pushFilters": "true",
    "kafkaConsumer.pollTimeoutMs": "30000",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "10",
    "offlinePartitions": "skip",
    "groupIdPrefix": "mine",
    **{
        f"{column}.{option}": example
        for column in ("key", "value")
        for option, example in (
            ("format", "string"),
            ("schema", '{"type": "string"}'),
            ("schema.message", "shop.Order"),
            ("schema.version", "3"),
            ("subject", "orders"),
            ("subject.name.strategy", "TopicNameStrategy"),
        )
    },
    "mode": "permissive",
    "schema.registry.url": "http://registry:8081",
    "schema.registry.basic.auth.credentials.source": "USER_INFO",
    "schema.registry.basic.auth.user.info": "alice:secret",
    "schema.registry.bearer.auth.credentials.source": "STATIC_TOKEN",
    "schema.registry.bearer.auth.token": "secret",
    "schema.registry.bearer.auth.issuer.endpoint.url": "http://tokens",
    "schema.registry.bearer.auth.client.id": "me",
    "schema.registry.bearer.auth.client.secret": "secret",
    "schema.registry.bearer.auth.scope": "schemas",
    "schema.registry.bearer.auth.logical.cluster": "lsrc-1",
    "schema.registry.bearer.auth.identity.pool.id": "pool-1",
    "schema.registry.ssl.ca.location": "/etc/ca.pem",
    "schema.registry.ssl.certificate.location": "/etc/me.pem",
    "schema.registry.ssl.key.location": "/etc/me.key",
    "schema.registry.ssl.key.password": "secret",
    "schema.registry.proxy": "http://proxy",
    "auto.register.schemas": "true",
    "use.latest.version": "true",
    "normalize.schemas": "true",
    "group.id": "billing",
    "groupMembership": "none",
    "group.protocol": "consumer",
    "group.instance.id": "one",
    "session.timeout.ms": "6000",
    "consumer.id": "c1",
    "consumer.threads": "2",
    "partition.assignment.strategy": "roundrobin",
    "offsets.storage": "kafka",
    "dual.commit.enabled": "false",
    "rebalance.max.retries": "10",
    "rebalance.backoff.ms": "500",
    "rebalance.hold.ms": "0",
    "topic": "t",
    "partitioner": "crc32",
    "commitOffsets": '{"t": {"0": 23}}',
    "commitOwner": "g_c1@0x1000a",
    "deliveryGuarantee": "exactly-once",
    "transactionalIdPrefix": "team-a.",
    "ledgerTopic": "ledger",
    "writerName": "audit",
    "batchId": "7",
    "maxOffsetsPerTrigger": "9",
    "maxBytesPerTrigger": "9",
    "minOffsetsPerTrigger": "9",
    "maxTriggerDelay": "5m",
}
"""A value for every option of the table except kafka.*, which stands for many and is tested separately."""


PARSERS: dict[Scope, Callable[[dict[str, str]], object]] = {
    "read": parse_read,
    "stream": parse_stream,
    "write": parse_write,
}
NEEDED_BY_VALUES = {
    ("value.format", "protobuf"): {"value.schema": "message Order {}"},
    ("key.format", "protobuf"): {"key.schema": "message Order {}"},
    ("schema.registry.bearer.auth.credentials.source", "STATIC_TOKEN"): {"schema.registry.bearer.auth.token": "secret"},
}
"""Options that are needed by a value of another option, and not by a rule of the table."""


def completed(given: dict[str, str]) -> dict[str, str]:
    """Add the options that the given options need."""
    pending = list(given)
    for name in pending:
        needed = NEEDED_BY_VALUES.get((name, given[name]), {})
        for rule in BY_NAME[name.lower()].rules:
            if not rule.excludes and (not rule.when or given[name].lower() in rule.when):
                alternatives = {other: rule.values[0] if rule.values else EXAMPLES[other] for other in rule.names}
                if not given.keys() & alternatives.keys():
                    needed = {**needed, rule.names[0]: alternatives[rule.names[0]]}
        pending += needed
        given = {**needed, **given}
    return given


def example(option: Option, scope: Scope) -> dict[str, str]:
    """Return an example value of an option, with the other options that it needs in a scope."""
    topics = {} if scope == "write" or option.name == "view" or option in SUBSCRIPTIONS else {"subscribe": "t"}
    return completed({**ZK, **topics, option.name: EXAMPLES[option.name]})


@each("option", [o for o in TABLE if o.name != "kafka.*"])
def test_scopes(option: Option) -> None:
    """Each option is accepted in its scopes and refused in others, except that a batch ignores the options of streams."""
    for scope, parse in PARSERS.items():
        given = example(option, scope)
        if scope in option.scopes or (scope == "read" and option.scopes == STREAM):
            parse(given)
        else:
            refusal = f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {scope}"
            assert refusal in problems(parse, given)


def values_by_option(found: Any, column: str = "") -> dict[str, object]:
    """Return the values of the fields, at any depth, that are annotated with an option, by the option's name."""
    column = getattr(found, "column", column)
    values = {name.format(column=column): getattr(found, field) for field, name in options_of_fields(type(found)).items()}
    for field in fields(found):
        value = getattr(found, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            values |= values_by_option(part) if is_dataclass(part) else {}
    return values


@each("option", [o for o in TABLE if o.name != "kafka.*"])
def test_fields(option: Option) -> None:
    """A field that is annotated with an option has the value that the option's row reads."""
    for scope in option.scopes:
        found = values_by_option(PARSERS[scope](example(option, scope)))
        if option.name in found:
            assert found[option.name] == option.kind.read(option.name, EXAMPLES[option.name])


@each(("option", "rule"), [(option, rule) for option in TABLE for rule in option.rules])
def test_rules(option: Option, rule: Rule) -> None:
    """An option is refused without another one that it needs, and next to one that it excludes."""
    scope = next(scope for scope in option.scopes if scope in BY_NAME[rule.names[0].lower()].scopes)
    given = example(option, scope)
    if rule.when:
        given = completed({**given, option.name: rule.when[0]})
    if rule.excludes:
        given[rule.names[0]] = rule.values[0] if rule.values else EXAMPLES[rule.names[0]]
    else:
        given = {name: value for name, value in given.items() if name not in rule.names}
    expected = f"{option.name}{'=' * bool(rule.when)}{''.join(rule.when[:1])} {rule.problem.partition('{found}')[0]}"
    assert any(problem.startswith(expected) for problem in problems(PARSERS[scope], given))


@each("name", LIMITS)
def test_numeric_limits(name: str) -> None:
    """A numeric option accepts its limits, and names them in the error for the next number beyond each."""
    option = BY_NAME[name.lower()]
    least, most = LIMITS[name]
    longest = most if not option.kind.form.endswith(" ms") else min(most, INT32)  # longer waits would overflow
    assert [option.kind.read(name, str(value)) for value in (least, most)] == [least, longest]
    with pytest.raises(ValueError, match=f"^a whole number, {least} or more$"):
        option.kind.read(name, str(least - 1))
    for value in (most + 1, 10**40):
        with pytest.raises(ValueError, match=f"^a whole number from {least} to {most}$"):
            option.kind.read(name, str(value))


def test_all_numeric_options_have_limits() -> None:
    """The table of limits has each option whose value is a number."""
    assert {option.name for option in TABLE if "integer" in option.kind.form} == LIMITS.keys()


def test_example_values() -> None:
    """Each option of the table has an example value."""
    assert set(EXAMPLES) == {option.name for option in TABLE}


def test_names_are_unique() -> None:
    """Names are unique regardless of case, and each option is documented in sentences."""
    assert len(BY_NAME) == len(TABLE)
    assert all(option.doc.endswith(".") or option.doc.endswith(")") for option in TABLE)


@each(
    ("name", "expected"),
    [
        ("ZooKeeper.Connect", True),
        ("listener.name", True),
        ("kafka.bootstrap.servers", True),
        ("Kafka.Ssl.Truststore.Location", True),
        ("kafka.fetch.min.bytes", False),
        ("group.id", False),
        ("no.such", False),
    ],
)
def test_connection_options(name: str, expected: bool) -> None:
    """Connection options include the client properties of sockets, TLS and SASL, in any case."""
    assert is_connection_option(name) is expected


def test_documented_redaction() -> None:
    """Spark's redaction, as docs/security.md sets it, masks each option that may hold a secret."""
    security = Path(__file__).parents[3] / "docs" / "security.md"
    documented = re.search(r"spark\.redaction\.regex=([^']*)'", security.read_text(encoding="utf-8"))
    assert documented is not None
    secrets = [option.name for option in TABLE if option.secret]
    secrets += [f"kafka.{row.name}" for row in PROPERTIES if is_secret(f"kafka.{row.name}")]
    assert len(secrets) > 10
    assert [name for name in secrets if not re.search(documented[1], name)] == []
