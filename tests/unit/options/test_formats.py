"""Options of formats and of the schema registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import ColumnFormat, FormatOptions, RegistryOptions
from tests.support.option_problems import only_problem, problems

READ = {"kafka.bootstrap.servers": "k:9092", "subscribe": "t"}
WRITE = {"kafka.bootstrap.servers": "k:9092", "topic": "t"}
URL = {"schema.registry.url": "http://registry:8081"}
CONFLUENT = {**URL, "value.format": "avro-confluent"}
USER_INFO = {"schema.registry.basic.auth.user.info": "alice:secret"}
TOKEN = {"schema.registry.bearer.auth.credentials.source": "STATIC_TOKEN", "schema.registry.bearer.auth.token": "secret"}


def formats(options: dict[str, str]) -> FormatOptions:
    found = parse_read({**READ, **options}).formats
    assert found is not None
    return found


def test_defaults() -> None:
    """By default, keys and values are bytes."""
    assert parse_read(READ).formats is None
    assert parse_stream({**READ, "value.format": "binary"}).read.formats is None
    assert parse_write(WRITE).formats is None


def test_values() -> None:
    """Each format has its settings, and names and words ignore case."""
    given = {"key.format": "String", "value.format": "AVRO", "value.schema": '"int"', "mode": "dropmalformed"}
    assert formats(given) == FormatOptions(
        columns=(
            ColumnFormat("key", "string", None, None, None, None, "topic"),
            ColumnFormat("value", "avro", '"int"', None, None, None, "topic"),
        ),
        mode="DROPMALFORMED",
        registry=None,
        auto_register=False,
        use_latest=False,
        normalize=False,
    )


def test_schema_files(tmp_path: Path) -> None:
    """A schema may be in a file of text, also with a byte order mark, or of bytes."""
    file = tmp_path / "order.avsc"
    file.write_text('"int"', encoding="utf-8")
    assert formats({"value.format": "avro", "value.schema": str(file)}).columns[0].schema == '"int"'
    file.write_bytes(b'\xef\xbb\xbf"int"')
    assert formats({"value.format": "avro", "value.schema": str(file)}).columns[0].schema == '"int"'
    file.write_bytes(b"\xff\n")
    assert formats({"value.format": "protobuf", "value.schema": str(file)}).columns[0].schema == "/wo="
    assert formats({"value.format": "json", "value.schema": "id bigint"}).columns[0].schema == "id bigint"
    missing = {**READ, "value.format": "avro", "value.schema": str(tmp_path / "none.avsc")}
    assert "none.avsc, which cannot be read: " in only_problem(parse_read, missing)


def test_registry() -> None:
    """A registry may have several addresses; credentials in an address become the client's user, and are not shown."""
    given = {**CONFLUENT, "schema.registry.url": "http://al%40ice:se%3Acret@a:1/apis/v7/, https://al%40ice:se%3Acret@b:2"}
    registry = formats(given).registry
    assert registry == RegistryOptions(("http://a:1/apis/v7", "https://b:2"), (("basic.auth.user.info", "al@ice:se:cret"),))
    urls = "http://[::1]:65535/a", "http://[::1]", "https://registry"
    registry = formats({**CONFLUENT, "schema.registry.url": ",".join(urls)}).registry
    assert registry == RegistryOptions(urls, ())
    assert formats({**CONFLUENT, **USER_INFO, "schema.registry.ssl.ca.location": "/ca.pem"}).registry == RegistryOptions(
        ("http://registry:8081",), (("basic.auth.user.info", "alice:secret"), ("ssl.ca.location", "/ca.pem"))
    )
    assert formats({**CONFLUENT, **TOKEN}).registry == RegistryOptions(
        ("http://registry:8081",), (("bearer.auth.credentials.source", "STATIC_TOKEN"), ("bearer.auth.token", "secret"))
    )


def test_writes() -> None:
    """A write registers its schema, unless it uses the latest one or registration is disabled."""
    for more, expected in (
        ({}, (True, False, False)),
        ({"use.latest.version": "true"}, (False, True, False)),
        ({"auto.register.schemas": "false", "normalize.schemas": "true"}, (False, False, True)),
    ):
        found = parse_write({**WRITE, **CONFLUENT, **more}).formats
        assert found is not None
        assert (found.auto_register, found.use_latest, found.normalize) == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"value.format": "avro"}, "value.format=avro needs value.schema"),
        ({"value.schema": "x"}, "value.schema has no effect with value.format=binary; set value.format to"),
        ({"value.format": "string", "value.schema": "x"}, "value.schema has no effect with value.format=string"),
        ({"key.format": "json", "key.schema.message": "M"}, "and has no effect with key.format=json; leave it out"),
        ({"value.format": "avro-confluent"}, "value.format=avro-confluent needs schema.registry.url"),
        ({**URL, "value.format": "string"}, "schema.registry.url needs a format of Confluent"),
        ({"value.format": "thrift"}, "value.format is 'thrift'; expected binary or string or avro"),
        ({"value.format": "string", "mode": "lax"}, "mode is 'lax'; expected FAILFAST, PERMISSIVE or DROPMALFORMED"),
        ({**CONFLUENT, "value.schema.version": "0"}, "value.schema.version is '0'; expected a whole number, 1 or more"),
        ({**CONFLUENT, "value.subject.name.strategy": "RecordNameStrategy"}, "depends on the record's name; set"),
        ({**CONFLUENT, "schema.registry.url": "registry:8081"}, "schema.registry.url is malformed; expected http(s)"),
        ({**CONFLUENT, "schema.registry.url": "http://a:1/b?key=secret:1"}, "[/path][,...], without a query"),
        ({**CONFLUENT, "schema.registry.url": "http://a:1?key=secret:1@b"}, "[/path][,...], without a query"),
        ({**CONFLUENT, "schema.registry.url": "http://a:1/b#c"}, "[/path][,...], without a query"),
        ({**CONFLUENT, "schema.registry.url": "http://alice:1/secret:@b"}, "percent-encode / @ ? # and , in a password"),
        ({**CONFLUENT, "schema.registry.url": "http://alice/secret:@b"}, "is malformed; expected http(s)"),
        ({**CONFLUENT, "schema.registry.url": "http://a:65536"}, "and with a port of 1 to 65535"),
        ({**CONFLUENT, "schema.registry.url": "http://a:0/b"}, "and with a port of 1 to 65535"),
        ({**CONFLUENT, "schema.registry.url": "http://a:b"}, "and with a port of 1 to 65535"),
        ({**CONFLUENT, "schema.registry.url": "http://a, http://u:secret@b"}, "have different logins, and each address"),
        ({**CONFLUENT, "schema.registry.url": "http://u:a@a, http://u:secret@b"}, "; set schema.registry.basic.auth"),
        ({**CONFLUENT, **USER_INFO, **TOKEN}, "are two logins; set only one"),
        ({**CONFLUENT, **TOKEN, "schema.registry.bearer.auth.token": "secret:\n1"}, "without blanks and line breaks"),
        ({**CONFLUENT, **TOKEN, "schema.registry.bearer.auth.token": "secret:\u00e9"}, "expected printable ASCII"),
        (
            {**CONFLUENT, "schema.registry.bearer.auth.credentials.source": "OAUTHBEARER"},
            "needs schema.registry.bearer.auth.client.id and schema.registry.bearer.auth.client.secret and",
        ),
        ({**CONFLUENT, **USER_INFO, "schema.registry.url": "http://a:b@c"}, "credentials in schema.registry.url exclude"),
        ({**CONFLUENT, "schema.registry.basic.auth.user.info": "secret"}, "are malformed; expected user:password"),
        ({**CONFLUENT, "schema.registry.basic.auth.credentials.source": "USER_INFO"}, "=USER_INFO needs"),
        ({**CONFLUENT, "schema.registry.basic.auth.credentials.source": "URL"}, "=URL needs user:password@ in"),
    ],
)
def test_problems(given: dict[str, str], problem: str) -> None:
    """Each contradiction is one problem, without secrets."""
    found = only_problem(parse_read, {**READ, **given})
    assert problem in found
    assert "secret:" not in found.replace("client.secret", "")


def test_a_pattern() -> None:
    """A pattern needs value.subject, since it does not name the topic whose subject gives the type."""
    given = {"kafka.bootstrap.servers": "k:9092", "subscribePattern": "t.*", **CONFLUENT}
    assert "a pattern does not say which subject gives the type" in only_problem(parse_read, given)
    assert parse_read({**given, "value.subject": "t-value"}).formats is not None


def test_all_problems_at_once() -> None:
    """One error lists all problems."""
    given = {**READ, "value.format": "avro", "key.format": "protobuf", "mode": "lax", **URL}
    assert len(problems(parse_read, given)) == 4


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"mode": "PERMISSIVE", "value.format": "string"}, "mode is an option of a read or stream, not of a write"),
        ({**CONFLUENT, "auto.register.schemas": "true", "use.latest.version": "true"}, "contradict each other"),
        ({**CONFLUENT, "use.latest.version": "true", "value.schema": "x"}, "encodes by the subject's schema; leave out"),
        (
            {**CONFLUENT, "use.latest.version": "true", "value.subject.name.strategy": "RecordNameStrategy"},
            "the subject of value depends on the record's name; set value.subject",
        ),
    ],
)
def test_problems_of_writes(given: dict[str, str], problem: str) -> None:
    """Each contradiction in a write is one problem."""
    assert problem in only_problem(parse_write, {**WRITE, **given})


def test_references_to_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets may come from the environment."""
    monkeypatch.setenv("REGISTRY", "alice:secret")
    given = {**CONFLUENT, "schema.registry.basic.auth.user.info": "${env:REGISTRY}"}
    registry = formats(given).registry
    assert registry is not None
    assert registry.properties == (("basic.auth.user.info", "alice:secret"),)
