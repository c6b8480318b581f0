"""Options of batch reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Ago, AtTimestamp, FromEdge, OffsetSpec
from pyspark_zkafka.model.planning import Assign, Listener, Subscribe, SubscribePattern
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import ConnectionOptions, ZooKeeperConfig
from tests.support.option_problems import only_problem, problems

ZK = {"zookeeper.connect": "zk:2181"}
READ = {**ZK, "subscribe": "orders"}
GROUP = {**READ, "group.id": "billing"}
BROKERS = {"kafka.bootstrap.servers": "k:9092"}
T0 = TopicPartition("t", 0)


def test_read_defaults() -> None:
    """With minimal options, a read covers the whole logs of its topics, as in Spark, without a group or formats."""
    found = parse_read(READ)
    assert found == replace(
        found,
        connection=ConnectionOptions(ZooKeeperConfig("zk:2181", "", 6000, 6000, "open"), None, Listener(), {}, "auto"),
        subscription=Subscribe(("orders",)),
        start=OffsetSpec("startingOffsets", everywhere=EARLIEST),
        end=OffsetSpec("endingOffsets", everywhere=LATEST),
        group=None,
        client_group="zkafka",
        stores=("zookeeper",),
        missing_topics="fail",
        formats=None,
        ignored=(),
    )


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"subscribe": " b, a ,"}, "subscription", Subscribe(("b", "a"))),
        ({"subscribePattern": "orders-.*"}, "subscription", SubscribePattern("orders-.*")),
        ({"subscribeExceptPattern": "orders-.*"}, "subscription", SubscribePattern("orders-.*", excludes=True)),
        ({"assign": '{"t": [1, 0]}'}, "subscription", Assign((T0, TopicPartition("t", 1)))),
        ({"subscribe": "t", "auto.offset.reset": "smallest"}, "reset", "earliest"),
        ({"subscribe": "t", "auto.offset.reset": "Largest"}, "reset", "latest"),
        ({"subscribe": "t", "auto.offset.reset": "latest"}, "reset", "latest"),
        ({"subscribe": "t", "auto.offset.reset": "error"}, "reset", "error"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "LATEST"}, "no_match", "latest"),
        ({"subscribe": "t", "failOnDataLoss": "False"}, "fail_on_data_loss", False),
        ({"subscribe": "t", "failOnDataLoss": " TRUE "}, "fail_on_data_loss", True),
        ({"subscribe": "t", "maxRecordsPerPartition": "+8"}, "max_records", 8),
        ({"subscribe": "t", "minRecordsPerPartition": "8", "maxRecordsPerPartition": "8"}, "min_records", 8),
        ({"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "9223372036854775807"}, "poll_timeout_ms", 2**31 - 1),
        ({"subscribe": "t", "fetchOffset.retryIntervalMs": "9223372036854775807"}, "retry_interval_ms", 2**31 - 1),
        ({"subscribe": "t", "kafka.group.id": "g", "groupIdPrefix": "mine"}, "client_group", "g"),
        ({"subscribe": "t", "group.id": "a.b_c-9"}, "group", "a.b_c-9"),
        ({"view": "Brokers"}, "view", "brokers"),
        ({"view": "topics", "subscribePattern": "a.*"}, "subscription", SubscribePattern("a.*")),
        ({"view": "brokers"}, "subscription", None),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "9"}, "ignored", ("maxOffsetsPerTrigger",)),
        (
            {"subscribe": "t", "Consumer.Threads": "many", "groupmembership": "x"},
            "ignored",
            ("groupMembership", "consumer.threads"),
        ),
        ({"subscribe": "t", "group.id": "g", "offsets.storage": "ZooKeeper"}, "stores", ("zookeeper",)),
        ({"subscribe": "t", "group.id": "g", "offsets.storage": "kafka"}, "stores", ("kafka", "zookeeper")),
        (
            {"subscribe": "t", "group.id": "g", "offsets.storage": "kafka", "dual.commit.enabled": "true"},
            "stores",
            ("kafka", "zookeeper"),
        ),
        (
            {"subscribe": "t", "group.id": "g", "offsets.storage": "kafka", "dual.commit.enabled": "false"},
            "stores",
            ("kafka",),
        ),
    ],
)
def test_read_option(given: dict[str, str], name: str, value: object) -> None:
    """Each option sets its field, whatever the case of its value and the blanks around it."""
    assert getattr(parse_read({**ZK, **given}), name) == value


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase], ids=["lower", "upper", "swapped"])
def test_names_are_case_insensitive(spell: Callable[[str], str]) -> None:
    """Names ignore case, both in options and in the table."""
    given = {
        **READ,
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "7",
        "kafka.client.rack": "Rack-1",
        "startingOffsetsByTimestamp": '{"T": {"0": 5}}',
    }
    assert parse_read({spell(name): value for name, value in given.items()}) == parse_read(given)
    assert parse_read(given).connection.client_rack == "Rack-1"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "set one of subscribe, subscribePattern, subscribeExceptPattern and assign (or view)"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern contradict each other"),
        (
            {"subscribePattern": "a", "subscribeExceptPattern": "b"},
            "subscribePattern and subscribeExceptPattern contradict each other",
        ),
        ({"subscribe": " , "}, "subscribe names no topic; expected topic[,topic...]"),
        ({"subscribePattern": "("}, "subscribePattern is '('; expected a Java regular expression"),
        ({"subscribePattern": ""}, "subscribePattern is ''; expected a regular expression that is not empty"),
        ({"subscribeExceptPattern": "["}, "subscribeExceptPattern is '['; expected a Java regular expression"),
        (
            {"subscribeExceptPattern": ""},
            "subscribeExceptPattern is ''; expected a regular expression that is not empty",
        ),
        ({"assign": "a:0"}, """assign is 'a:0'; expected {"topicA": [0, 1], "topicB": [2]}"""),
        ({"subscribe": "a", "startingOffsets": "latest"}, "a batch that starts at latest reads nothing"),
        ({"subscribe": "a", "startingOffsets": "committed"}, "startingOffsets=committed needs group.id"),
        ({"subscribe": "a", "endingOffsets": "committed", "group.id": "g"}, "a batch cannot end at the committed offset"),
        (
            {"subscribe": "a", "startingTimestamp": "5", "endingTimestamp": "4"},
            "startingTimestamp is after endingTimestamp",
        ),
        (
            {"subscribe": "a", "startingTimestamp": "tomorrow"},
            "startingTimestamp is 'tomorrow'; expected milliseconds since the epoch, a time such as 2026-01-31T10:00:00Z",
        ),
        (
            {"subscribe": "a", "startingTimestamp": "5 minutes ago", "endingTimestamp": "10 minutes ago"},
            "startingTimestamp is after endingTimestamp",
        ),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "first"}, "'first'; expected error or latest"),
        (
            {"subscribe": "a", "auto.offset.reset": "none"},
            "auto.offset.reset is 'none'; expected earliest (smallest), latest (largest) or",
        ),
        ({"subscribe": "a", "offlinePartitions": "ignore"}, "offlinePartitions is 'ignore'; expected fail or skip"),
        ({"subscribe": "a", "group.id": "gr\u00fcn"}, "group.id is 'gr\u00fcn'; the old consumer allows"),
        (
            {"subscribe": "a", "group.id": ".."},
            "group.id is '..'; the old consumer allows letters, digits, '.', '_' and '-', but not",
        ),
        ({"subscribe": "a", "group.id": ""}, "group.id must not be empty; set a value or leave it out"),
        ({"subscribe": "a", "listener.name": " "}, "listener.name must not be empty; set a value or leave it out"),
        ({"subscribe": "a", "offsets.storage": "disk"}, "offsets.storage is 'disk'; expected zookeeper or kafka"),
        (
            {"subscribe": "a", "group.id": "g", "dual.commit.enabled": "true"},
            "dual.commit.enabled=true has an effect only with offsets.storage=kafka; leave it out",
        ),
        (
            {"subscribe": "a", "minRecordsPerPartition": "5", "maxRecordsPerPartition": "4"},
            "minRecordsPerPartition is 5, more than maxRecordsPerPartition, which is 4; lower it",
        ),
        ({"view": "everything"}, "view is 'everything'; expected brokers or topics or"),
        ({"view": "brokers", "minPartitions": "4"}, "minPartitions is about reading records, and view=brokers reads none"),
        ({"subscribe": "a", "zookeeper.ssl.truststore.location": "/a/b.JKS"}, "/a/b.JKS is not a PEM file; convert it"),
        (
            {"subscribe": "a", "zookeeper.ssl.client.enable": "yes"},
            "zookeeper.ssl.client.enable is 'yes'; expected true or",
        ),
    ],
)
def test_problems_of_a_read(given: dict[str, str], says: str) -> None:
    """Each problem names the option, its value and the expected form."""
    assert any(says in problem for problem in problems(parse_read, {**ZK, **given}))


@pytest.mark.parametrize(
    ("parse", "given"),
    [
        (parse_read, {"subscribe": "a", "startingOffsets": "committed"}),
        (parse_write, {"topic": "t", "commitOffsets": '{"t": {"0": 1}}'}),
    ],
)
def test_offsets_in_zookeeper_need_it(parse: Callable[[Mapping[str, str]], object], given: dict[str, str]) -> None:
    """Reads from and commits of offsets in ZooKeeper are refused with brokers only."""
    says = only_problem(parse, {**BROKERS, "group.id": "g", "offsets.storage": "zookeeper", **given})
    assert says.startswith("offsets.storage=zookeeper needs zookeeper.connect; set it, or leave offsets.storage out")


@pytest.mark.parametrize("membership", [{}, {"groupMembership": "none"}, {"groupMembership": "kafka"}])
def test_stores_without_zookeeper(membership: dict[str, str]) -> None:
    """Without ZooKeeper, reads, streams and writes have a group's offsets in Kafka by default."""
    group = {**BROKERS, "group.id": "g"}
    read = {**group, "subscribe": "a", "startingOffsets": "committed"}
    written = parse_write({**group, "topic": "t", "commitOffsets": '{"t": {"0": 5}}'}).commit
    assert written is not None
    assert {parse_read(read).stores, parse_stream({**read, **membership}).read.stores, written.stores} == {("kafka",)}


BOUNDS = [
    ({}, EARLIEST, LATEST),
    ({"startingOffsets": '{"t": {"0": 5}}'}, {T0: 5}, LATEST),
    ({"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}, {T0: AtTimestamp(7)}, LATEST),
    ({"startingOffsetsByTimestamp": '{"t": {"0": 7}}', "startingTimestamp": "9"}, AtTimestamp(9), LATEST),
    ({"startingOffsets": "earliest", "startingTimestamp": "0"}, AtTimestamp(0), LATEST),
    ({"endingOffsets": '{"t": {"0": 5}}'}, EARLIEST, {T0: 5}),
    ({"endingOffsets": "latest", "endingOffsetsByTimestamp": '{"t": {"0": 7}}'}, EARLIEST, {T0: AtTimestamp(7)}),
    ({"endingOffsetsByTimestamp": '{"t": {"0": 7}}', "endingTimestamp": "9"}, EARLIEST, AtTimestamp(9)),
    ({"startingTimestamp": "9", "endingTimestamp": "9"}, AtTimestamp(9), AtTimestamp(9)),
    ({"startingTimestamp": "1970-01-01", "endingTimestamp": "5 minutes ago"}, AtTimestamp(0), Ago(300_000)),
    ({"startingOffsets": "latest-9", "endingOffsets": "earliest+5"}, FromEdge(LATEST, -9), FromEdge(EARLIEST, 5)),
    ({"startingOffsets": "latest", "startingTimestamp": "9"}, AtTimestamp(9), LATEST),
    ({"endingOffsets": "earliest", "endingOffsetsByTimestamp": '{"t": {"0": 7}}'}, EARLIEST, {T0: AtTimestamp(7)}),
]


@pytest.mark.parametrize(("given", "start", "end"), BOUNDS)
def test_precedence_of_starts_and_ends(given: dict[str, str], start: object, end: object) -> None:
    """One timestamp for all partitions overrides timestamps by partition, which override offsets."""
    options = parse_read({**READ, **given})
    assert (options.start.by_partition or options.start.everywhere) == start
    assert (options.end.by_partition or options.end.everywhere) == end


def test_specifications_are_named_after_their_option() -> None:
    """A start and an end carry the name of their option, for later errors."""
    options = parse_read({**READ, "startingOffsetsByTimestamp": '{"t": {"0": 7}}', "endingTimestamp": "9"})
    assert options.start.option == "startingOffsetsByTimestamp"
    assert options.end.option == "endingTimestamp"


def test_overridden_options_are_checked() -> None:
    """A malformed value is a problem even if another option overrides it."""
    text = only_problem(parse_read, {**READ, "startingOffsets": "newest", "startingTimestamp": "5"})
    assert "startingOffsets is 'newest'" in text


def test_committed_with_a_group() -> None:
    """A read may start at the committed offsets of a group."""
    options = parse_read({**GROUP, "startingOffsets": "committed"})
    assert options.start.everywhere == "committed"
    assert options.group == "billing"


def test_a_timestamp_overrides_committed() -> None:
    """If a timestamp overrides committed, no group is needed."""
    assert parse_read({**READ, "startingOffsets": "committed", "startingTimestamp": "5"}).start.everywhere == AtTimestamp(5)
