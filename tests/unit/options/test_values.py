"""Options as values: secrets and pickling; references to environment variables and files."""

from __future__ import annotations

import pickle

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import concerns_connection, resolve_references, task_rack
from tests.support.option_problems import problems

ZK = {"zookeeper.connect": "zk:2181"}
READ = {**ZK, "subscribe": "orders"}
WRITE = {**ZK, "topic": "orders"}
GROUP = {**READ, "group.id": "billing"}
SECRETS = {
    **ZK,
    "zookeeper.auth": "digest:user:hunter2",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.keystore.location": "/me.pem",
    "zookeeper.ssl.keystore.password": "hunter2",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="user" password="hunter2";'
    ),
    "kafka.ssl.key.password": "hunter2",
}


@pytest.mark.parametrize(
    "bad",
    [
        {"zookeeper.auth": "hunter2"},
        {"kafka.sasl.jaas.config": "Module required password=hunter2"},
        {"kafka.sasl.jaas.config": 'a.b.Other required password="hunter2";'},
        {"kafka.sasl.password": "hunter2", "kafka.sasl.username": "u"},
        {"kafka.ssl.keystore.password": "hunter2", "kafka.ssl.keystore.type": "hunter"},
        {"kafka.sasl.passwort": "hunter2"},
        {"zookeeper.ssl.keystore.pasword": "hunter2"},
        {"passwd": "hunter2"},
    ],
)
def test_secrets_are_not_in_errors(bad: dict[str, str]) -> None:
    """An error names a bad secret or an unknown option without its value, and without the values of good secrets."""
    found = problems(parse_read, {**SECRETS, **bad})  # no subscription, so there is always a problem
    assert any(name in problem for name in bad for problem in found)
    assert not any("hunter2" in problem for problem in found)


@pytest.mark.parametrize(
    "options",
    [
        parse_read(GROUP),
        parse_read({**READ, "startingOffsets": '{"orders": {"0": 5}}', "endingTimestamp": "9", "kafka.client.rack": "r"}),
        parse_write({**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 1}}'}),
        parse_connection(SECRETS),
        parse_stream({**GROUP, "maxOffsetsPerTrigger": "5"}),
    ],
    ids=["read", "read bounds", "write", "connection", "stream"],
)
def test_options_pickle(options: object) -> None:
    """Unpickled options equal the original ones, and cannot be changed."""
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert copy is not options
    with pytest.raises((AttributeError, TypeError)):
        setattr(copy, type(copy).__slots__[0], None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bootstrap.servers", True),
        ("log_level", True),
        ("ssl.ca.pem", True),
        ("socket.keepalive.enable", True),
        ("fetch.min.bytes", False),
        ("message.max.bytes", False),
        ("queue.buffering.max.ms", False),
    ],
)
def test_concerns_connection(name: str, expected: bool) -> None:
    """Sockets, security and logs are properties of the connection, and fetches and queues are not."""
    assert concerns_connection(name) is expected


@pytest.mark.parametrize(
    ("rack", "expected"),
    [
        ("a", "a"),
        ("${env:ZONE}", "b"),
        ("eu-${env:ZONE}", "eu-b"),
        ("${env:ZONE:-c}", "b"),
        ("${env:NONE:-c}", "c"),
        ("${env:EMPTY:-c}", "c"),
    ],
)
def test_task_rack(rack: str, expected: str) -> None:
    """A task's rack is literal text, its executor's variable, or the default if the variable is missing or empty."""
    assert task_rack(rack, {"ZONE": "b", "EMPTY": ""}) == expected


def test_no_rack() -> None:
    """A missing or empty variable is an error that names it and says where to set it."""
    with pytest.raises(OptionError, match=r"client.rack.*environment variable NONE, which is not set on the executor"):
        task_rack("${env:NONE}", {})
    with pytest.raises(OptionError, match=r"\$\{env:EMPTY\}.*which is empty on the executor; .*spark.executorEnv.NAME"):
        task_rack("${env:EMPTY}", {"EMPTY": ""})


def test_defaults_of_secrets() -> None:
    """An empty secret without a default stays empty."""
    assert resolve_references("${env:A}-${env:B:-x}-${env:B:-}", {"A": "", "B": ""}) == "-x-"
