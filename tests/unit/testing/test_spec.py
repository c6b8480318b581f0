"""Versions of local clusters, their nodes, and the configurations and command lines of servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.spec import (
    ClusterSpec,
    broker_properties,
    client_listeners,
    fill,
    jvm_command,
    kafka_jars,
    node_properties,
    server_properties,
    voters,
    zookeeper_properties,
)


@pytest.mark.parametrize(
    ("version", "jar"),
    [
        ("0.8.2.2", "kafka_2.11:0.8.2.2"),
        ("0.11.0.3", "kafka_2.12:0.11.0.3"),
        ("1.1.1", "kafka_2.12:1.1.1"),
        ("2.4.0", "kafka_2.13:2.4.0"),
        ("3.9.1", "kafka_2.13:3.9.1"),
        ("4.3.1", "kafka_2.13:4.3.1"),
    ],
)
def test_scala_version(version: str, jar: str) -> None:
    """Each Kafka version uses the Scala build that exists for it."""
    assert kafka_jars(version)[0] == f"org.apache.kafka:{jar}"


@pytest.mark.parametrize(
    ("version", "added"),
    [("0.10.0.1", []), ("0.10.2.2", ["jaxb-api"]), ("0.11.0.3", ["jaxb-api"]), ("1.1.1", ["slf4j-reload4j"])],
)
def test_added_libraries(version: str, added: list[str]) -> None:
    """Versions that use JAXB, which Java 17 lacks, and versions without a logging back end have these libraries added."""
    assert [jar.split(":")[1] for jar in kafka_jars(version)[1:]] == added


@pytest.mark.parametrize("version", ["3.9", "new"])
def test_malformed_versions_are_refused(version: str) -> None:
    """An incomplete version is refused with the right form."""
    with pytest.raises(LocalClusterError, match="write it like"):
        kafka_jars(version)


def test_kraft() -> None:
    """Kafka 4 always runs in KRaft mode, and older versions on request."""
    assert [ClusterSpec(kafka_version=version).is_kraft for version in ("3.9.1", "4.3.1")] == [False, True]
    assert ClusterSpec(kraft=True).is_kraft
    assert ClusterSpec(brokers=5).controller_ids == []
    assert ClusterSpec(brokers=5, kraft=True).controller_ids == [0, 1, 2]
    assert ClusterSpec(controllers=2).controller_ids == [3000, 3001]


def test_server_names() -> None:
    """A server is named by its node's id or as `zookeeper`, if there is one, and the error for others lists these names."""
    assert [ClusterSpec(controllers=1).server_name(node) for node in (2, 3000)] == ["broker-2", "controller-3000"]
    assert ClusterSpec().server_name("zookeeper") == "zookeeper"
    with pytest.raises(LocalClusterError, match="NO_ZOOKEEPER"):
        ClusterSpec(kraft=True).server_name("zookeeper")
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_SERVER.*\[0, 1, 2\] and 'zookeeper'"):
        ClusterSpec().server_name(3000)


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_fit(brokers: int, copies: str) -> None:
    """Internal topics have as many replicas as there are brokers, but at most three."""
    config = broker_properties(ClusterSpec(brokers=brokers), 0, Path("/d"), lambda name: 1, "zk")
    assert config["offsets.topic.replication.factor"] == config["transaction.state.log.replication.factor"] == copies


def test_old_brokers_have_no_listeners() -> None:
    """0.8 is configured with host and port, and newer brokers with a listener, all on loopback."""
    old, new = (
        broker_properties(ClusterSpec(kafka_version=version), 0, Path("/d"), lambda name: 1, "zk")
        for version in ("0.8.2.2", "1.1.1")
    )
    assert old["host.name"] == "127.0.0.1"
    assert old["port"] == "1"
    assert "listeners" not in old
    assert new["listeners"] == "PLAINTEXT://127.0.0.1:1"


def test_extra_listeners() -> None:
    """Further listeners are added to the plain one, which brokers use among themselves."""
    assert client_listeners({"SASL": "SASL_PLAINTEXT"}, {"": 1, "SASL": 2}.__getitem__) == {
        "listeners": "PLAINTEXT://127.0.0.1:1,SASL://127.0.0.1:2",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:1,SASL://127.0.0.1:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def test_zookeeper_is_on_loopback() -> None:
    """ZooKeeper listens only on loopback, without its admin server."""
    config = zookeeper_properties(Path("/d"), 5)
    assert config["clientPortAddress"] == "127.0.0.1"
    assert config["clientPort"] == "5"
    assert config["admin.enableServer"] == "false"


def test_fill_leaves_other_braces() -> None:
    """Only known placeholders are filled, and each name has one port, however often it is used."""
    config = {"a": "{id}/{port:TLS}/{unknown}/{id:x}", "b": '{"json": 1}'}
    assert fill(config, {"id": "2"}, lambda name: {"TLS": 9}[name]) == {"a": "2/9/{unknown}/{id:x}", "b": '{"json": 1}'}


def test_own_jvm_options_come_last() -> None:
    """The user's options follow the defaults, so that they take precedence."""
    command = jvm_command(Path("/java"), 64, ["-Xmx1g"], "Main", ["f"])
    assert command[0] == "/java"
    assert command.index("-Xmx64m") < command.index("-Xmx1g")
    assert command[-2:] == ["Main", "f"]


def test_nodes_of_kraft() -> None:
    """In KRaft mode, the first three brokers are also controllers, unless there are separate controllers."""
    ports = {"": 1, "CONTROLLER": 2, "TLS": 3}.__getitem__

    def roles(spec: ClusterSpec, node: int) -> tuple[str, str]:
        config = server_properties(spec, node, Path("/d"), ports, "v")
        return config["process.roles"], config["listeners"]

    combined = ClusterSpec(kafka_version="4.3.1", brokers=4, listeners={"TLS": "SSL"})
    clients = "PLAINTEXT://127.0.0.1:1,TLS://127.0.0.1:3"
    assert roles(combined, 2) == ("broker,controller", f"{clients},CONTROLLER://127.0.0.1:2")
    assert roles(combined, 3) == ("broker", clients)
    apart = ClusterSpec(kafka_version="3.9.1", brokers=1, controllers=2)
    assert roles(apart, 0) == ("broker", "PLAINTEXT://127.0.0.1:1")
    assert roles(apart, 3001) == ("controller", "CONTROLLER://127.0.0.1:2")
    assert voters(apart, lambda node: node) == "3000@127.0.0.1:3000,3001@127.0.0.1:3001"


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        pytest.param(
            {"kafka_version": "2.6.3"}, r"2\.6\.3 cannot be secure: with ZooKeeper, secure needs Kafka 2\.7", id="zookeeper"
        ),
        pytest.param({"kafka_version": "3.4.1", "kraft": True}, r"in KRaft mode, secure needs Kafka 3\.5", id="kraft"),
        pytest.param({"listeners": {"secure": "SSL"}}, "listeners has SECURE", id="name is taken"),
    ],
)
def test_clusters_that_cannot_be_secure(arguments: dict[str, Any], needed: str) -> None:
    """A secure cluster needs brokers that create its user, and the name of its listener."""
    with pytest.raises(LocalClusterError, match=needed):
        ClusterSpec(secure=True, **arguments).check()


def test_secure_listener() -> None:
    """A secure cluster has one more listener with TLS and a login; brokers still use the plain-text one."""
    spec = ClusterSpec(secure=True, listeners={"OTHER": "SSL"}, kafka_version="4.3.1")
    config = node_properties(spec, 0, Path("/d"), lambda name: 1, "")
    assert "PLAINTEXT:PLAINTEXT,OTHER:SSL,SECURE:SASL_SSL" in config["listener.security.protocol.map"]
    assert config["inter.broker.listener.name"] == "PLAINTEXT"
