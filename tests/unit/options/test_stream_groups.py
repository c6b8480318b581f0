"""Options of membership in Kafka or ZooKeeper, and their contradictions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_zkafka.model.planning import SubscribePattern
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.option import Scope
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import KAFKA_STRATEGIES
from pyspark_zkafka.options.values import GroupOptions, KafkaGroupOptions
from tests.support.option_problems import problems

BROKERS = {"kafka.bootstrap.servers": "k:9092"}
ZK = {"zookeeper.connect": "zk:2181"}
CLASSIC = KafkaGroupOptions(
    "classic", "cooperative-sticky", session_timeout_ms=45_000, max_poll_interval_ms=300_000, hold_ms=30_000
)
GROUP = {**ZK, "subscribe": "orders", "group.id": "billing"}

IN_KAFKA = {**BROKERS, "subscribe": "t", "group.id": "billing"}


def member(options: dict[str, str]) -> GroupOptions:
    """Return the options of a stream's membership."""
    group = parse_stream(options).group
    assert group is not None
    return group


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, CLASSIC),
        ({"group.protocol": "Consumer"}, replace(CLASSIC, protocol="consumer")),
        ({"partition.assignment.strategy": "range"}, replace(CLASSIC, strategy="range")),
        ({"group.instance.id": "one"}, replace(CLASSIC, instance_id="one")),
        ({"session.timeout.ms": "6000"}, replace(CLASSIC, session_timeout_ms=6000)),
        ({"rebalance.hold.ms": "9"}, replace(CLASSIC, hold_ms=9)),
        ({"kafka.max.poll.interval.ms": "60000"}, replace(CLASSIC, max_poll_interval_ms=60_000, hold_ms=6_000)),
        (
            {"kafka.max.poll.interval.ms": "10000", "session.timeout.ms": "6000"},
            replace(CLASSIC, session_timeout_ms=6_000, max_poll_interval_ms=10_000, hold_ms=1_000),
        ),
        (
            {"kafka.max.poll.interval.ms": "10000", "group.protocol": "consumer"},
            replace(CLASSIC, protocol="consumer", max_poll_interval_ms=10_000, hold_ms=1_000),
        ),
    ],
)
@pytest.mark.parametrize("named", [{}, {"groupMembership": "auto"}, {"groupMembership": "kafka"}])
def test_group_in_kafka(named: dict[str, str], given: dict[str, str], options: KafkaGroupOptions) -> None:
    """Without ZooKeeper, or with groupMembership=kafka, members and offsets are in Kafka.

    By default, revoked partitions are kept for a tenth of the time that other members wait.
    """
    found = member({**IN_KAFKA, **named, **given})
    assert found.membership == "kafka"
    assert found.kafka == options
    assert found.strategy == options.strategy
    assert parse_stream({**IN_KAFKA, **named, **given}).read.stores == ("kafka",)


def test_hold_of_a_group_that_may_move_to_kafka() -> None:
    """With `auto`, each kind of membership has its own default: all brokers may have left ZooKeeper."""
    group = member({**GROUP, "groupMembership": "auto"})
    assert group.hold_ms == 4_000
    assert group.kafka.hold_ms == 30_000


def test_both_at_hand() -> None:
    """With both addresses, auto leaves the membership to the cluster, and kafka keeps members and offsets in Kafka."""
    for name, stores in (("auto", ("zookeeper",)), ("kafka", ("kafka",))):
        options = {**GROUP, **BROKERS, "groupMembership": name}
        assert member(options).membership == name
        assert parse_stream(options).read.stores == stores


def test_names_of_groups_in_kafka() -> None:
    """A group in Kafka may have any name, unless its members or offsets may be in ZooKeeper, too."""
    name = {"group.id": "team:billing/eu", "subscribe": "t"}
    in_kafka = {"offsets.storage": "kafka", **BROKERS}
    assert parse_stream({**name, **BROKERS}).read.group == "team:billing/eu"
    assert parse_read({**name, **in_kafka}).group == "team:billing/eu"
    commit = parse_write({"group.id": "team:billing", "commitOffsets": '{"t": {"0": 1}}', "topic": "t", **in_kafka}).commit
    assert commit is not None
    assert commit.group == "team:billing"
    (restricted,) = problems(parse_stream, {**name, **BROKERS, **ZK, "groupMembership": "kafka"})
    assert "group.id is 'team:billing/eu', which cannot name a znode" in restricted
    both = {**BROKERS, **ZK, "subscribe": "t", "group.id": "team:billing"}
    assert parse_stream({**both, "groupMembership": "kafka"}).read.group == "team:billing"
    assert parse_read({**both, "offsets.storage": "kafka", "dual.commit.enabled": "false"}).group == "team:billing"
    stored = {**both, "groupMembership": "none", "offsets.storage": "kafka"}
    assert parse_stream({**stored, "dual.commit.enabled": "false"}).read.group == "team:billing"
    for given in (both, stored, {**both, "offsets.storage": "kafka", "dual.commit.enabled": "false"}):
        assert any("the old consumer allows" in problem for problem in problems(parse_stream, given))
    dual = ". Choose another name, or set dual.commit.enabled=false, for offsets in Kafka alone"
    (problem,) = problems(parse_read, {**both, "offsets.storage": "kafka"})
    assert problem.endswith(dual)
    (problem,) = problems(parse_read, both)
    assert problem.endswith(". Choose another name")


def test_a_pattern_in_kafka() -> None:
    """With a group in Kafka, a pattern is not normalized, so a comma is no alternative."""
    options = {**BROKERS, "group.id": "g", "subscribePattern": "(a+)b{1,2}, b"}
    assert parse_stream(options).read.subscription == SubscribePattern("(a+)b{1,2}, b")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"consumer.id": "c"}, "consumer.id concerns groups in ZooKeeper, and has no effect with groupMembership=kafka"),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            "strategy has no effect with group.protocol=consumer: the brokers' group.consumer.assignors decides",
        ),
        (
            {"session.timeout.ms": "60000", "kafka.max.poll.interval.ms": "50000"},
            "session.timeout.ms is 60000, more than kafka.max.poll.interval.ms, which is 50000; lower it",
        ),
        ({"kafka.group.protocol": "consumer"}, "use the option group.protocol without the prefix kafka."),
    ],
)
def test_contradictions_in_kafka(given: dict[str, str], says: str) -> None:
    """An option that contradicts membership in Kafka, or has no effect with it, is a problem."""
    (problem,) = problems(parse_stream, {**IN_KAFKA, "groupMembership": "kafka", **given})
    assert says in problem


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"group.protocol": "consumer"},
            "group.protocol concerns groups that Kafka coordinates; set groupMembership=kafka",
        ),
        ({"partition.assignment.strategy": "cooperative-sticky"}, "is not a strategy of groups in ZooKeeper; use one of"),
    ],
)
def test_contradictions_in_zookeeper(given: dict[str, str], says: str) -> None:
    """An option of Kafka's groups is a problem if ZooKeeper coordinates the group."""
    (problem,) = problems(parse_stream, {**GROUP, **given})
    assert says in problem


@pytest.mark.parametrize(
    ("given", "scope", "joins"),
    [
        ({**BROKERS, "group.id": "g"}, "stream", True),
        ({**BROKERS, "group.id": "g", "groupMembership": "Auto"}, "stream", True),
        ({**BROKERS, "groupMembership": "auto"}, "stream", False),
        ({**ZK, "group.id": "g"}, "stream", False),
        ({**ZK, **BROKERS, "group.id": "g", "groupMembership": "auto"}, "stream", False),
        ({**ZK, "group.id": "g", "groupMembership": "KAFKA"}, "stream", True),
        ({**BROKERS, "group.id": "g", "groupMembership": "none"}, "stream", False),
        ({**BROKERS, "group.id": "g", "groupMembership": "zookeeper"}, "stream", False),
        ({**BROKERS, "group.id": "g"}, "read", False),
    ],
)
def test_who_joins_in_kafka(given: dict[str, str], scope: Scope, joins: bool) -> None:
    """A stream joins in Kafka by the option, or if it has a group and no ZooKeeper, but a batch never joins."""
    assert OptionParser(given, scope).joins_kafka is joins


@pytest.mark.parametrize("named", KAFKA_STRATEGIES)
def test_strategies_in_kafka(named: str) -> None:
    """A strategy of Kafka's groups may be written in any case."""
    assert member({**IN_KAFKA, "partition.assignment.strategy": named.upper()}).kafka.strategy == named


def test_a_strategy_that_only_zookeeper_has() -> None:
    """A member with a strategy that only ZooKeeper has uses the default one if its group turns out to be in Kafka."""
    group = member({**GROUP, "partition.assignment.strategy": "sticky"})
    assert group.strategy == "sticky"
    assert group.kafka.strategy == "cooperative-sticky"


def test_session_as_long_as_the_poll_interval() -> None:
    """A session may last as long as the poll interval."""
    found = member({**IN_KAFKA, "session.timeout.ms": "60000", "kafka.max.poll.interval.ms": "60000"}).kafka
    assert found.session_timeout_ms == found.max_poll_interval_ms == 60_000


def test_each_contradiction_is_a_problem() -> None:
    """Each option that contradicts the membership is a separate problem, in the order of the table."""
    given = {"consumer.threads": "2", "consumer.id": "c", "group.instance.id": "one"}
    in_kafka = problems(parse_stream, {**IN_KAFKA, **given})
    assert [problem.split()[0] for problem in in_kafka] == ["consumer.id", "consumer.threads"]
    assert len(problems(parse_stream, {**GROUP, **given})) == 1
