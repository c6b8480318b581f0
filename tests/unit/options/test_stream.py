"""Options of streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Ago, AtTimestamp, FromEdge, OffsetSpec
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern, TriggerLimits
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.stream import parse_either, parse_stream
from pyspark_zkafka.options.table import KAFKA_STRATEGIES
from pyspark_zkafka.options.values import GroupOptions, KafkaGroupOptions
from tests.support.option_problems import problems as problems_of

ZK = {"zookeeper.connect": "zk:2181"}
BROKERS = {"kafka.bootstrap.servers": "k:9092"}
STREAM = {**ZK, "subscribe": "orders"}
IN_KAFKA = KafkaGroupOptions(
    "classic", "cooperative-sticky", session_timeout_ms=45_000, max_poll_interval_ms=300_000, hold_ms=30_000
)
BILLING = GroupOptions(
    "billing", membership="auto", threads=1, strategy="range", max_retries=4, backoff_ms=2000, hold_ms=4000, kafka=IN_KAFKA
)
GROUP = {**STREAM, "group.id": "billing"}
T0 = TopicPartition("t", 0)
LATEST_BATCH = (
    "startingOffsets is latest (-1): a batch that starts at latest reads nothing; use earliest, committed or offsets"
)


def in_kafka(strategy: str) -> str:
    """Return the strategy that a group uses if the cluster turns out to have no ZooKeeper."""
    return strategy if strategy in KAFKA_STRATEGIES else "cooperative-sticky"


def problems(options: dict[str, str], parse: Any = parse_stream) -> tuple[str, ...]:
    """Return the problems with some options."""
    return problems_of(parse, options)


# --- the whole


def test_defaults() -> None:
    """By default, a stream reads new records without limits or a group, and all else is as in a batch."""
    found = parse_stream(STREAM)
    assert found.read.start == OffsetSpec("startingOffsets", everywhere=LATEST)
    assert found.limits == TriggerLimits()
    assert found.group is None
    batch = parse_read(STREAM)
    shared = [name for name in type(batch).__slots__ if name != "start"]
    assert [getattr(found.read, n) for n in shared] == [getattr(batch, n) for n in shared]


@pytest.mark.parametrize(
    ("given", "subscription"),
    [
        ({"subscribe": "b,a"}, Subscribe(("b", "a"))),
        ({"subscribePattern": "a.{1,3}"}, SubscribePattern("a.{1,3}")),
        ({"subscribeExceptPattern": "a b"}, SubscribePattern("a b", excludes=True)),
        ({"assign": '{"t": [0]}'}, Assign((T0,))),
        ({"subscribePattern": "a.*, b", "group.id": "g"}, SubscribePattern("a.*|b")),
        ({"subscribeExceptPattern": "'a,b'", "group.id": "g"}, SubscribePattern("a|b", excludes=True)),
        ({"subscribePattern": "a, b", "group.id": "g", "groupMembership": "none"}, SubscribePattern("a, b")),
    ],
)
def test_subscription(given: dict[str, str], subscription: object) -> None:
    """Topics are named as in a batch, and a group member's regex is normalized as by all members of its group."""
    assert parse_stream({**ZK, **given}).read.subscription == subscription


# --- where from


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"startingOffsets": "EARLIEST"}, EARLIEST),
        ({"startingOffsets": "latest"}, LATEST),
        ({"group.id": "g"}, "committed"),
        ({"group.id": "g", "startingOffsets": "committed"}, "committed"),
        ({"group.id": "g", "startingOffsets": "latest"}, LATEST),
        ({"startingOffsets": '{"t": {"0": 5}}'}, {T0: 5}),
        ({"startingOffsets": '{"t": {"0": -1}}'}, {T0: LATEST}),
        ({"startingOffsets": '{"t": {"0": -2}}'}, {T0: EARLIEST}),
        ({"startingTimestamp": "9"}, AtTimestamp(9)),
        ({"group.id": "g", "startingTimestamp": "9"}, AtTimestamp(9)),
        ({"startingTimestamp": "10 minutes ago"}, Ago(600_000)),
        ({"startingOffsets": "latest-9"}, FromEdge(LATEST, -9)),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 7}}'}, {T0: AtTimestamp(7)}),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 7}}', "startingTimestamp": "9"}, AtTimestamp(9)),
        ({"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}, {T0: AtTimestamp(7)}),
    ],
)
def test_start(given: dict[str, str], start: object) -> None:
    """A stream may start at latest, a group's stream starts at its committed offsets, and timestamps override offsets."""
    found = parse_stream({**STREAM, **given}).read.start
    assert (found.by_partition or found.everywhere) == start


def test_start_by_topic() -> None:
    """A stream may start at latest for a whole topic."""
    assert parse_stream({**STREAM, "startingOffsets": '{"t": "latest"}'}).read.start.by_topic == {"t": LATEST}


# --- how much


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"minOffsetsPerTrigger": "7", "maxOffsetsPerTrigger": "7"}, TriggerLimits(max_records=7, min_records=7)),
        ({"minOffsetsPerTrigger": "7", "maxTriggerDelay": "90s"}, TriggerLimits(min_records=7, max_delay_ms=90_000)),
    ],
)
def test_limits(given: dict[str, str], limits: TriggerLimits) -> None:
    """A trigger has limits in records, bytes and milliseconds."""
    assert parse_stream({**STREAM, **given}).limits == limits


# --- the group


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({}, BILLING),
        ({"groupMembership": "NONE"}, replace(BILLING, membership="none")),
        ({"groupMembership": "zookeeper"}, replace(BILLING, membership="zookeeper")),
        ({"consumer.id": "c1", "consumer.threads": "3"}, replace(BILLING, consumer_id="c1", threads=3)),
        (
            {"rebalance.max.retries": "10", "rebalance.backoff.ms": "300"},
            replace(BILLING, max_retries=10, backoff_ms=300, hold_ms=1500),
        ),
        ({"rebalance.hold.ms": "0"}, replace(BILLING, hold_ms=0, kafka=replace(IN_KAFKA, hold_ms=0))),
        *(
            (
                {"partition.assignment.strategy": s.upper()},
                replace(BILLING, strategy=s, kafka=replace(IN_KAFKA, strategy=in_kafka(s))),
            )
            for s in STRATEGIES
        ),
    ],
)
def test_group(given: dict[str, str], group: GroupOptions) -> None:
    """With group.id, a stream joins by default, and keeps revoked partitions for half the time that others wait."""
    found = parse_stream({**GROUP, **given})
    assert found.group == group
    assert found.read.group == "billing"


@pytest.mark.parametrize(
    ("given", "stores"),
    [
        (GROUP, ("zookeeper",)),
        ({**GROUP, "offsets.storage": "kafka"}, ("kafka", "zookeeper")),
        ({**GROUP, "offsets.storage": "kafka", "dual.commit.enabled": "false"}, ("kafka",)),
        ({**BROKERS, "subscribe": "t", "group.id": "g", "groupMembership": "none", "offsets.storage": "kafka"}, ("kafka",)),
    ],
)
def test_where_offsets_are_kept(given: dict[str, str], stores: tuple[str, ...]) -> None:
    """A group's offsets are in ZooKeeper, or in Kafka and, unless dual commits are disabled, in ZooKeeper, too."""
    assert parse_stream(given).read.stores == stores


def test_brokers_alone() -> None:
    """Without a group, a stream needs only brokers."""
    assert parse_stream({**BROKERS, "subscribe": "t"}).read.connection.bootstrap_servers == "k:9092"


# --- problems


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": "newest"}, "is 'newest'; expected earliest, latest (stream), earliest+100, "),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'; expected a duration such as 15m"),
        (
            {"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "7"},
            "minOffsetsPerTrigger is larger than maxOffsetsPerTrigger; lower it",
        ),
        ({"group.id": "g", "groupMembership": "yes"}, "groupMembership is 'yes'; expected auto or"),
        ({"group.id": "g", "consumer.id": " "}, "consumer.id must not be empty; set a value or leave it out"),
        ({"group.id": "g", "consumer.id": "a/b"}, "consumer.id is 'a/b'; a znode is named after it, which cannot"),
        ({"group.id": "g", "partition.assignment.strategy": "uniform"}, "strategy is 'uniform'; expected range or"),
    ],
)
def test_the_only_problem(given: dict[str, str], says: str) -> None:
    """Each problem names the option, its value and the expected form."""
    (problem,) = problems({**STREAM, **given})
    assert says in problem


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern contradict each other"),
        (
            {"assign": '{"t": [0]}', "group.id": "g"},
            "assign leaves nothing for the group to assign; use subscribe, or set",
        ),
        (
            {"subscribePattern": "a,*b", "group.id": "g"},
            "subscribePattern is 'a,*b', which a group's members read as 'a|*b'",
        ),
        ({"subscribePattern": '""', "group.id": "g"}, "which a group's members read as ''"),
        (
            {"subscribePattern": "a{1,2}", "group.id": "g"},
            "not a regular expression that members can evaluate (a { that begins no repetition, at character 1)",
        ),
        (
            {"subscribePattern": "(a+)\\1", "group.id": "g"},
            "expected a Java regular expression that matches in bounded time (a reference to a group, at",
        ),
        ({"subscribeExceptPattern": "[a]" * 4000, "group.id": "g"}, "12000 characters, of which no more than 10000"),
        ({"subscribe": "a,b", "consumer.threads": "50001", "group.id": "g"}, "a member has at most 100000"),
    ],
)
def test_bad_subscription(given: dict[str, str], says: str) -> None:
    """Exactly one option must select topics, and the group must be able to assign them."""
    (problem,) = problems({**ZK, **given})
    assert says in problem


def test_assign_without_joining() -> None:
    """Fixed partitions can be read by a stream that does not join its group."""
    options = {**ZK, "assign": '{"t": [0]}', "group.id": "g", "groupMembership": "none"}
    assert parse_stream(options).read.subscription == Assign((T0,))


def test_a_group_in_zookeeper_needs_zookeeper() -> None:
    """Members that register in ZooKeeper need zookeeper.connect, wherever their offsets are."""
    given = {**BROKERS, "subscribe": "t", "group.id": "g", "groupMembership": "zookeeper"}
    (meet,) = problems(given)
    assert meet.startswith("groupMembership=zookeeper registers members there; set zookeeper.connect, or groupMembership")
    assert problems({**given, "offsets.storage": "kafka"}) == (meet,)
    _, stored = problems({**given, "offsets.storage": "zookeeper"})
    assert stored.startswith("offsets.storage=zookeeper needs zookeeper.connect; set it")
    (malformed,) = problems({**given, "zookeeper.connect": "zk:port"})
    assert malformed.startswith("zookeeper.connect is 'zk:port'")


def test_all_problems_are_in_one_error() -> None:
    """One error has all problems of names, limits and the group."""
    given = {"maxOffsetsPerTrigger": "x", "endingOffsets": "latest", "consumer.threads": "0", "speed": "11"}
    assert len(problems({**GROUP, **given})) == 4


# --- a schema for either


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"endingOffsets": '{"t": "latest"}'},
        {"view": "brokers"},
        {"maxOffsetsPerTrigger": "9"},
        {"includeHeaders": "true"},
    ],
)
def test_either_is_a_batch(given: dict[str, str]) -> None:
    """Options that are valid for a batch are parsed as those of a batch."""
    options = {**ZK, **given} if "view" in given else {**STREAM, **given}
    assert parse_either(options) == parse_read(options)


@pytest.mark.parametrize("given", [{"startingOffsets": "latest"}, {"startingOffsets": '{"orders": {"0": -1}}'}])
def test_either_is_a_stream(given: dict[str, str]) -> None:
    """Options that are only valid for a stream are parsed as those of a stream."""
    options = {**STREAM, **given, "includeHeaders": "true"}
    assert parse_either(options) == parse_stream(options).read


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffset": "latest"}, ["unknown option startingOffset; did you mean startingOffsets?"]),
        ({"startingOffsets": "latest", "failOnDataLoss": "no"}, ["failOnDataLoss is 'no'; expected true or false"]),
        ({"endingOffsets": "latest", "failOnDataLoss": "no"}, ["failOnDataLoss is 'no'; expected true or false"]),
        (
            {"view": "brokers", "startingOffsets": "earliest", "failOnDataLoss": "false"},
            [
                "view=brokers cannot be restricted to topics; leave out subscribe",
                "startingOffsets is about reading records, and view=brokers reads none; leave out one of them",
                "failOnDataLoss is about reading records, and view=brokers reads none; leave out one of them",
            ],
        ),
        (
            {"startingOffsets": "latest", "maxOffsetsPerTrigger": "no"},
            ["maxOffsetsPerTrigger is 'no'; expected a whole number, 1 or more"],
        ),
        ({"startingOffsets": "latest", "endingOffsets": "latest"}, [LATEST_BATCH]),
    ],
)
def test_neither(given: dict[str, str], says: list[str]) -> None:
    """Invalid options have the problems of the kind that their names imply, or of the kind with fewer problems."""
    assert list(problems({**STREAM, **given}, parse_either)) == says
