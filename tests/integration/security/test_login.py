"""SASL logins to brokers, and the listeners that offer them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.write.plan import plan_write
from tests.support.security import (
    JAVA_PLAIN,
    JAVA_SCRAM,
    SCHEMA,
    WRONG,
    Options,
    fails_soon,
    password_login,
    read_values,
    write_values,
)
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestLogin:
    """SASL logins to brokers."""

    _numbers = count()

    @pytest.fixture
    def topic(self, fortress: LocalCluster) -> str:
        name = f"login-{next(self._numbers)}"
        fortress.create_topic(name)
        return name

    @pytest.mark.parametrize(
        "login",
        [
            password_login(),
            *seldom(
                password_login() | {"kafka.sasl.mechanism": "SCRAM-SHA-256"},
                {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN},
            ),
            {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_SCRAM},
            {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN, "listener.name": "login"},
        ],
        ids=["librdkafka's PLAIN", "librdkafka's SCRAM", "Java's PLAIN", "Java's SCRAM", "by name"],
    )
    def test_right(
        self, fortress: LocalCluster, brokers: Options, topic: str, login: Options, shown: Callable[..., None]
    ) -> None:
        """Both spellings of PLAIN and SCRAM can write and read through the listener found in ZooKeeper."""
        options = parse_read({**brokers, **login, "subscribe": topic})
        write_values({**brokers, **login, "topic": topic}, [b"a", b"b"])
        assert read_values({**brokers, **login, "subscribe": topic}) == [b"a", b"b"]
        assert plan_batch(options).bootstrap_servers == fortress.listener_servers("LOGIN")
        shown(options)

    def test_wrong_when_planning(self, brokers: Options, shown: Callable[..., None]) -> None:
        """A wrong password fails planning soon, with an error that says what to check."""
        options = parse_read({**brokers, **password_login(WRONG), "subscribe": "orders"})
        match = r"REFUSED_BY_BROKER.*the broker refuses the login by PLAIN; check the user and password"
        shown(fails_soon(ClusterStateError, match, lambda: plan_batch(options)), options)

    @pytest.mark.long
    def test_wrong_without_zookeeper(self, fortress: LocalCluster, shown: Callable[..., None]) -> None:
        """A wrong password fails planning without ZooKeeper soon, both by topic names and by pattern."""
        wrong = {"kafka.bootstrap.servers": fortress.listener_servers("LOGIN"), **password_login(WRONG)}
        for which in ({"subscribe": "orders"}, {"subscribePattern": "or.*"}):
            options = parse_read({**wrong, **which})
            shown(fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda options=options: plan_batch(options)))

    @pytest.mark.long
    def test_wrong_in_a_task(self, brokers: Options, shown: Callable[..., None]) -> None:
        """A read task whose password has become wrong fails soon."""
        plan = plan_batch(parse_read({**brokers, **password_login(), "subscribe": "orders"}))
        options = parse_read({**brokers, **password_login(WRONG), "subscribe": "orders"})
        split = SplitPartition(plan.splits[:1], plan.bootstrap_servers)
        shown(fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: list(ZKafkaReader(options, SCHEMA).read(split))))

    def test_wrong_in_a_write(self, brokers: Options, topic: str, shown: Callable[..., None]) -> None:
        """A write task with a wrong password fails at once, and writes no record."""
        wrong = {**brokers, **password_login(WRONG), "topic": topic}
        match = r"REFUSED_BY_BROKER.*beginning to write.*refuses the login.*user and password"
        shown(fails_soon(ClusterStateError, match, lambda: write_values(wrong, [b"a", b"b"])))
        assert read_values({**brokers, "subscribe": topic}) == []

    @pytest.mark.long
    def test_wrong_mechanism(self, brokers: Options) -> None:
        """A mechanism that the listener lacks raises an error that lists the available ones."""
        login = password_login() | {"kafka.sasl.mechanism": "SCRAM-SHA-512"}
        options = parse_read({**brokers, **login, "subscribe": "orders"})
        fails_soon(ClusterStateError, "REFUSED_BY_BROKER.*PLAIN,SCRAM-SHA-256", lambda: plan_batch(options))

    @pytest.mark.long
    def test_through_spark(self, spark: SparkSession, brokers: Options, topic: str) -> None:
        """Frames are written and read with a login; a wrong login fails with an error that says what to check."""
        options = {**brokers, "kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN}
        frame = spark.createDataFrame([("a",), ("b",)], "value string")
        frame.write.format("zkafka").options(**options, topic=topic).mode("append").save()
        found = spark.read.format("zkafka").options(**options, subscribe=topic).load()
        assert sorted(row.value for row in found.collect()) == [b"a", b"b"]
        wrong = spark.read.format("zkafka").options(**brokers, **password_login(WRONG), subscribe=topic).load()
        with pytest.raises(Exception, match=r"REFUSED_BY_BROKER.*user and password") as error:
            wrong.collect()
        assert WRONG not in str(error.value)


class TestListeners:
    """The choice of a listener."""

    def test_unknown(self, brokers: Options) -> None:
        """An unknown listener name raises an error that lists the names and protocols available."""
        options = parse_read({**brokers, "listener.name": "BACKDOOR", "subscribe": "orders"})
        listed = r"BOTH \(SASL_SSL\), ELSEWHERE \(SSL\), LOGIN \(SASL_PLAINTEXT\), MUTUAL \(SSL\), PLAINTEXT \(PLAINTEXT\)"
        fails_soon(ClusterStateError, f"NO_LISTENER.*BACKDOOR.*{listed}", lambda: plan_batch(options))

    def test_wrong_protocol(self, brokers: Options) -> None:
        """A named listener with another protocol than configured raises an error at once."""
        options = parse_read({**brokers, "listener.name": "LOGIN", "subscribe": "orders"})
        match = r"WRONG_SECURITY_PROTOCOL.*LOGIN.*set it to SASL_PLAINTEXT"
        fails_soon(ClusterStateError, match, lambda: plan_batch(options), within_s=3)
        write = parse_write({**brokers, "listener.name": "LOGIN", "topic": "orders"})
        fails_soon(ClusterStateError, match, lambda: plan_write(write), within_s=3)
