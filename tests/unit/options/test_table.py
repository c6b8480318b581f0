"""The table of options, compared with the parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import BY_NAME, STREAM, TABLE, is_connection_option
from pyspark_zkafka.options.values import ReadOptions, StreamOptions, WriteOptions
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


_BEARER = "schema.registry.bearer.auth"
_OF_WRITES = ("auto.register.schemas", "use.latest.version", "normalize.schemas")

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "subscribeExceptPattern", "assign", "view")
"""Options that select what to read."""


def with_required(option: str, parse: Callable[[dict[str, str]], object]) -> dict[str, str]:
    """Return an example value of an option, with the other options that it requires."""
    required = {**ZK, "group.id": "g"}
    if parse is not parse_write and option not in SUBSCRIPTIONS:
        required["subscribe"] = "t"
    if option == "view":
        del required["group.id"]
    if option == "assign" and parse is parse_stream:
        required["groupMembership"] = "none"
    if option in ("group.protocol", "group.instance.id", "session.timeout.ms"):
        required["groupMembership"] = "kafka"
    if option == "zookeeper.acl":
        required["zookeeper.auth"] = "digest:user:secret"
    if option.startswith("zookeeper.ssl."):
        required["zookeeper.ssl.client.enable"] = "true"
    if option == "dual.commit.enabled":
        required["offsets.storage"] = "kafka"
    if option in ("transactionalIdPrefix", "ledgerTopic", "writerName", "batchId"):
        required |= {"deliveryGuarantee": "exactly-once"}
    if option == "batchId":
        required["writerName"] = "audit"
    if option == "commitOwner":
        required["commitOffsets"] = EXAMPLES["commitOffsets"]
    required |= _required_format(option)
    if option == "deliveryGuarantee" or "deliveryGuarantee" in required:
        required["ledgerTopic"] = "ledger"
    return {**required, option: EXAMPLES[option]}


def _required_format(option: str) -> dict[str, str]:
    """Return the format options that an option requires."""
    column = option.split(".")[0] if option.startswith(("key.", "value.")) else "value"
    confluent = {f"{column}.format": "avro-confluent", "schema.registry.url": "http://registry:8081"}
    if option in ("key.format", "value.format"):
        return {}
    if option.endswith(".schema"):
        return {f"{column}.format": "json"}
    if option.endswith(".schema.message"):
        return {f"{column}.format": "protobuf", f"{column}.schema": "message Order {}"}
    if option == "mode":
        return {"value.format": "string"}
    if option.startswith("schema.registry.bearer.auth."):
        confluent |= {"schema.registry.bearer.auth.credentials.source": "STATIC_TOKEN", f"{_BEARER}.token": "secret"}
    if option == "schema.registry.basic.auth.credentials.source":
        confluent["schema.registry.basic.auth.user.info"] = "alice:secret"
    if option.startswith("schema.registry.ssl.key."):
        confluent["schema.registry.ssl.certificate.location"] = "/etc/me.pem"
    is_of_registry = option.startswith(("key.", "value.", "schema.registry.")) or option in _OF_WRITES
    return confluent if is_of_registry else {}


@each("option", [o for o in TABLE if o.name != "kafka.*"])
def test_scopes(option: Any) -> None:
    """Each option is accepted in its scopes and refused in others, except that a batch ignores the options of streams."""
    scopes = {
        "read": (parse_read, ReadOptions),
        "stream": (parse_stream, StreamOptions),
        "write": (parse_write, WriteOptions),
    }
    for scope, (parse, kind) in scopes.items():
        given = with_required(option.name, parse)
        if scope in option.scopes or (scope == "read" and option.scopes == STREAM):
            assert isinstance(parse(given), kind)
        else:
            refusal = f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {scope}"
            assert refusal in problems(parse, given)


@each("name", LIMITS)
def test_numeric_limits(name: str) -> None:
    """A numeric option accepts its limits, and names them in the error for the next number beyond each."""
    option = BY_NAME[name.lower()]
    least, most = LIMITS[name]
    assert [option.kind.read(name, str(value)) for value in (least, most)] == [least, most]
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
