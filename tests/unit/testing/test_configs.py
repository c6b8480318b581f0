"""Configurations and command lines, as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import (
    broker_properties,
    extra_listeners,
    fill,
    jvm_command,
    kafka_jars,
    properties_text,
    zookeeper_properties,
)


@pytest.mark.parametrize(
    ("version", "jar"),
    [
        ("0.8.2.2", "kafka_2.11:0.8.2.2"),
        ("1.1.1", "kafka_2.12:1.1.1"),
        ("2.4.0", "kafka_2.13:2.4.0"),
        ("3.9.1", "kafka_2.13:3.9.1"),
    ],
)
def test_scala_version(version: str, jar: str) -> None:
    """Each Kafka comes from the Scala build that exists for it."""
    assert kafka_jars(version)[0] == f"org.apache.kafka:{jar}"


@pytest.mark.parametrize(
    ("version", "said"), [("4.0.0", "does not run with ZooKeeper"), ("3.9", "write it like"), ("new", "write it like")]
)
def test_versions_refused(version: str, said: str) -> None:
    """A version without ZooKeeper, or that is none, is refused with the reason."""
    with pytest.raises(LocalClusterError, match=said):
        kafka_jars(version)


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_fit(brokers: int, copies: str) -> None:
    """Internal topics have as many replicas as there are brokers, up to three."""
    config = broker_properties(0, brokers, "3.9.1", Path("/d"), 1, "zk")
    assert config["offsets.topic.replication.factor"] == config["transaction.state.log.replication.factor"] == copies


def test_old_brokers_have_no_listeners() -> None:
    """0.8 is configured with host and port, newer brokers with a listener; both on the loopback interface."""
    old = broker_properties(0, 1, "0.8.2.2", Path("/d"), 1, "zk")
    assert (old["host.name"], old["port"]) == ("127.0.0.1", "1")
    assert "listeners" not in old
    assert broker_properties(0, 1, "1.1.1", Path("/d"), 1, "zk")["listeners"] == "PLAINTEXT://127.0.0.1:1"


def test_extra_listeners() -> None:
    """Further listeners stand beside the plain one, which the brokers keep for themselves."""
    assert extra_listeners({"SASL": "SASL_PLAINTEXT"}, {"": 1, "SASL": 2}.__getitem__) == {
        "listeners": "PLAINTEXT://127.0.0.1:1,SASL://127.0.0.1:2",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:1,SASL://127.0.0.1:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def test_zookeeper_is_on_loopback() -> None:
    """ZooKeeper listens on the loopback interface alone, without its admin server."""
    config = zookeeper_properties(Path("/d"), 5)
    assert (config["clientPortAddress"], config["clientPort"]) == ("127.0.0.1", "5")
    assert config["admin.enableServer"] == "false"


def test_fill_leaves_other_braces() -> None:
    """Only the known placeholders are filled; a name takes one port, however often it is used."""
    config = {"a": "{id}/{port:TLS}/{unknown}/{id:x}", "b": '{"json": 1}'}
    assert fill(config, {"id": "2"}, lambda name: {"TLS": 9}[name]) == {"a": "2/9/{unknown}/{id:x}", "b": '{"json": 1}'}


def test_properties_are_escaped() -> None:
    """Backslashes and line ends survive Java's reading."""
    assert properties_text({"a": "x\\y\nz"}) == "a=x\\\\y\\nz\n"


def test_own_jvm_options_come_last() -> None:
    """The user's options follow ours, so that theirs count."""
    command = jvm_command(Path("/java"), 64, ["-Xmx1g"], "Main", ["f"])
    assert command[0] == "/java"
    assert command.index("-Xmx64m") < command.index("-Xmx1g")
    assert command[-2:] == ["Main", "f"]
