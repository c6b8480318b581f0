"""The parser of options: names, defaults, and all problems in one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.option import Option, Scope
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import TABLE
from tests.support.option_problems import only_problem

ZK = {"zookeeper.connect": "zk:2181"}
READ = {**ZK, "subscribe": "orders"}
WRITE = {**ZK, "topic": "orders"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingOffset", "; did you mean startingOffsets?"),
        ("STARTINGOFFSET", "; did you mean startingOffsets?"),
        ("zookeeper.conect", "; did you mean zookeeper.connect?"),
        ("bootstrap.servers", "; did you mean kafka.bootstrap.servers?"),
        ("failondataloss ", "; did you mean failOnDataLoss?"),
        ("groupid", "; did you mean group.id?"),
        ("qqq", "; docs/options.md lists all options"),
        ("path", ""),
    ],
)
@pytest.mark.parametrize(("parse", "least"), [(parse_read, READ), (parse_stream, READ), (parse_write, WRITE)])
def test_unknown_options_get_the_nearest_match(parse: Any, least: dict[str, str], name: str, hint: str) -> None:
    """An unknown name is a problem in the user's spelling, with the nearest name of the table."""
    assert f"unknown option {name}{hint}" in only_problem(parse, {**least, name: "x"})


def test_all_problems_are_in_one_error() -> None:
    """One error counts and lists all problems, each with the value and the expected form."""
    with pytest.raises(OptionError) as caught:
        parse_read(
            {
                "zookeeper.connect": "zk:port",
                "subscribe": "a",
                "assign": '{"a": [0]}',
                "minPartitions": "0",
                "maxRecordsPerPartition": "many",
                "failOnDataLoss": "yes",
                "startingOffsets": "newest",
                "endingOffsets": "oldest",
                "endingTimestamp": "-1",
                "partitioner": "crc32",
                "kafka.key.deserializer": "x",
                "subscribes": "b",
                "group.id": "a b",
            }
        )
    text = str(caught.value)
    assert text.startswith("[INVALID_OPTIONS] 12 problem(s) with the options: (1) ")
    for problem in (
        "zookeeper.connect is 'zk:port'; expected host:port[,host:port...][/chroot]",
        "subscribe and assign contradict each other; set only one of them",
        "minPartitions is '0'; expected a whole number, 1 or more",
        "maxRecordsPerPartition is 'many'; expected a whole number, 1 or more",
        "failOnDataLoss is 'yes'; expected true or false",
        "startingOffsets is 'newest'; expected earliest, latest (stream), earliest+100, latest-100, committed, or JSON: {",
        "endingOffsets is 'oldest'; expected latest, latest-100, earliest+100, or JSON: {",
        "endingTimestamp is '-1'; expected milliseconds since the epoch, a time such as ",
        "partitioner is an option of a write, not of a read",
        "kafka.key.deserializer",
        "unknown option subscribes; did you mean subscribe?",
        "group.id is 'a b'; the old consumer allows",
    ):
        assert problem in text


@pytest.mark.parametrize("option", [o for o in TABLE if o.default is not None])
def test_a_default_is_a_value_that_a_user_could_give(option: Option) -> None:
    """The parser returns the same value for a missing option as for an explicit default."""
    scope = option.scopes[0]
    given, silent = OptionParser({option.name: str(option.default)}, scope), OptionParser({}, scope)
    assert given.value(option.name) == silent.value(option.name) == option.default_value()


def test_secrets_from_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret may come from the environment or from a file, without the file's last line break."""
    monkeypatch.setenv("ZK_SECRET", "s3cret")
    (tmp_path / "password").write_text("p4ss word\n")
    found = parse_connection(
        {**ZK, "zookeeper.auth": "digest:me:${env:ZK_SECRET}", "kafka.sasl.password": f"${{file:{tmp_path}/password}}"}
    )
    assert found.zookeeper is not None
    assert found.zookeeper.auth == ("digest", "me:s3cret")
    assert found.kafka["sasl.password"] == "p4ss word"


def test_a_reference_within_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference may be part of a value."""
    monkeypatch.setenv("PASSWORD", "s3cret")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="${env:PASSWORD}";'
    found = parse_connection({**ZK, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas})
    assert found.kafka["sasl.password"] == "s3cret"


def test_references_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """One error lists all references that cannot be resolved, with their options."""
    monkeypatch.delenv("NOWHERE", raising=False)
    given = {**ZK, "zookeeper.auth": "digest:me:${env:NOWHERE}", "kafka.sasl.password": "${file:/no/such/file}"}
    with pytest.raises(OptionError) as caught:
        parse_connection(given)
    assert "zookeeper.auth refers to the environment variable NOWHERE, which is not set" in caught.value.message
    assert (
        "kafka.sasl.password refers to the file /no/such/file, which cannot be read: No such file" in caught.value.message
    )


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        ({"kafka.client.id": "${env:NAME}"}, "read"),
        ({"kafka.bootstrap.servers": "${file:/etc/brokers}"}, "read"),
        ({"kafka.client.rack": "${file:/etc/zone}"}, "read"),
        ({"kafka.client.rack": "${env:NAME}"}, "write"),
        ({"subscribe": "t", "group.id": "g", "group.instance.id": "${env:NAME}"}, "stream"),
        ({"topic": "${env:NAME}"}, "write"),
    ],
)
def test_only_secrets_are_resolved(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], scope: Scope) -> None:
    """References in options that are not secret are refused, since Spark would show the values."""
    monkeypatch.setenv("NAME", "planted")
    with pytest.raises(OptionError, match="Write the value itself: only secrets may refer") as caught:
        {"read": parse_read, "stream": parse_stream, "write": parse_write}[scope]({**ZK, **given})
    assert "planted" not in caught.value.message


def test_rack_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver keeps the reference of a read's rack, whether or not it has the variable."""
    monkeypatch.setenv("ZONE", "a")
    found = parse_connection({**ZK, "kafka.Client.Rack": "eu-${env:ZONE}"})
    assert found.kafka["client.rack"] == "eu-${env:ZONE}"
    assert found.client_rack is None
