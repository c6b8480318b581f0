"""References to secrets in options."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection

ZK = {"zookeeper.connect": "zk:2181"}


def test_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret comes from the environment or from a file, whose last line break does not count."""
    monkeypatch.setenv("ZK_SECRET", "s3cret")
    (tmp_path / "password").write_text("p4ss word\n")
    found = parse_connection(
        {**ZK, "zookeeper.auth": "digest:me:${env:ZK_SECRET}", "kafka.sasl.password": f"${{file:{tmp_path}/password}}"}
    )
    assert found.zookeeper is not None
    assert (found.zookeeper.auth, found.kafka["sasl.password"]) == (("digest", "me:s3cret"), "p4ss word")


def test_jaas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference may stand within a value."""
    monkeypatch.setenv("PASSWORD", "s3cret")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="${env:PASSWORD}";'
    found = parse_connection({**ZK, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas})
    assert found.kafka["sasl.password"] == "s3cret"


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """References that lead nowhere are problems of their options, all in one error."""
    monkeypatch.delenv("NOWHERE", raising=False)
    given = {**ZK, "zookeeper.auth": "digest:me:${env:NOWHERE}", "kafka.sasl.password": "${file:/no/such/file}"}
    with pytest.raises(OptionError) as caught:
        parse_connection(given)
    assert "zookeeper.auth refers to the environment variable NOWHERE, which is not set" in caught.value.message
    assert (
        "kafka.sasl.password refers to the file /no/such/file, which cannot be read: No such file" in caught.value.message
    )


def test_other_options_are_literal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only secrets are resolved."""
    monkeypatch.setenv("NAME", "x")
    assert parse_connection({**ZK, "kafka.client.id": "${env:NAME}"}).kafka["client.id"] == "${env:NAME}"
