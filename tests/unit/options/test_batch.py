"""Options: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.model import (
    CommitPlan,
    Connection,
    ReadOptions,
    StreamOptions,
    WriteOptions,
    ZooKeeperConfig,
    ZooKeeperTls,
)
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import BY_NAME, STREAM, TABLE, VIEWS, table_markdown
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, AtTimestamp, OffsetSpec
from pyspark_zkafka.protocol.partitioners import PARTITIONERS
from pyspark_zkafka.protocol.planning import Assign, Listener, Subscribe, SubscribeExcept, SubscribePattern

ZK = {"zookeeper.connect": "zk:2181"}
READ = {**ZK, "subscribe": "orders"}
WRITE = {**ZK, "topic": "orders"}
GROUP = {**READ, "group.id": "billing"}
T0 = TopicPartition("t", 0)


def problems(parse: Callable[[dict[str, str]], Any], options: dict[str, str]) -> str:
    """The text of the error, in which the problems are counted and listed."""
    with pytest.raises(OptionError) as caught:
        parse(options)
    assert caught.value.condition == "INVALID_OPTIONS"
    return str(caught.value)


def only_problem(parse: Callable[[dict[str, str]], Any], options: dict[str, str]) -> str:
    text = problems(parse, options)
    assert text.startswith("[INVALID_OPTIONS] 1 problem(s) with the options: (1) "), text
    return text


# --- the whole


def test_read_defaults() -> None:
    """The least that a read needs gives Spark's defaults."""
    assert parse_read(READ) == ReadOptions(
        connection=Connection(ZooKeeperConfig("zk:2181"), None, Listener(), {}),
        subscription=Subscribe(("orders",)),
        start=OffsetSpec("startingOffsets", everywhere=EARLIEST),
        end=OffsetSpec("endingOffsets", everywhere=LATEST),
        view=None,
        group=None,
        reset=None,
        no_match="error",
        fail_on_data_loss=True,
        min_partitions=None,
        max_records=None,
        min_records=None,
        include_headers=False,
        poll_timeout_ms=120_000,
        retries=3,
        retry_interval_ms=1000,
        skip_offline=False,
        client_group="zkafka",
        stores=("zookeeper",),
        ignored=(),
    )


def test_write_defaults() -> None:
    """The least that a write needs leaves topics to the column and keys to murmur2."""
    assert parse_write(ZK) == WriteOptions(Connection(ZooKeeperConfig("zk:2181"), None, Listener(), {}), None, "murmur2")


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"subscribe": " b, a ,"}, "subscription", Subscribe(("b", "a"))),
        ({"subscribePattern": "orders-.*"}, "subscription", SubscribePattern("orders-.*")),
        ({"subscribeExceptPattern": "orders-.*"}, "subscription", SubscribeExcept("orders-.*")),
        ({"assign": '{"t": [1, 0]}'}, "subscription", Assign((T0, TopicPartition("t", 1)))),
        ({"subscribe": "t", "auto.offset.reset": "smallest"}, "reset", "earliest"),
        ({"subscribe": "t", "auto.offset.reset": "earliest"}, "reset", "earliest"),
        ({"subscribe": "t", "auto.offset.reset": "Largest"}, "reset", "latest"),
        ({"subscribe": "t", "auto.offset.reset": "latest"}, "reset", "latest"),
        ({"subscribe": "t", "auto.offset.reset": "error"}, "reset", "error"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "LATEST"}, "no_match", "latest"),
        ({"subscribe": "t", "failOnDataLoss": "False"}, "fail_on_data_loss", False),
        ({"subscribe": "t", "failOnDataLoss": " TRUE "}, "fail_on_data_loss", True),
        ({"subscribe": "t", "minPartitions": "8"}, "min_partitions", 8),
        ({"subscribe": "t", "maxRecordsPerPartition": "+8"}, "max_records", 8),
        ({"subscribe": "t", "minRecordsPerPartition": "8", "maxRecordsPerPartition": "8"}, "min_records", 8),
        ({"subscribe": "t", "includeHeaders": "true"}, "include_headers", True),
        ({"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "512"}, "poll_timeout_ms", 512),
        ({"subscribe": "t", "fetchOffset.numRetries": "0"}, "retries", 0),
        ({"subscribe": "t", "fetchOffset.retryIntervalMs": "0"}, "retry_interval_ms", 0),
        ({"subscribe": "t", "offlinePartitions": "skip"}, "skip_offline", True),
        ({"subscribe": "t", "groupIdPrefix": "mine"}, "client_group", "mine"),
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
    """Each option reaches its field, whatever the case and blanks of its value."""
    assert getattr(parse_read({**ZK, **given}), name) == value


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase], ids=["lower", "upper", "swapped"])
def test_names_are_case_insensitive(spell: Callable[[str], str]) -> None:
    """The case of a name does not matter, in either direction."""
    given = {
        **READ,
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "7",
        "kafka.client.rack": "Rack-1",
        "startingOffsetsByTimestamp": '{"T": {"0": 5}}',
    }
    assert parse_read({spell(name): value for name, value in given.items()}) == parse_read(given)
    assert parse_read(given).connection.client_rack == "Rack-1"


SENSIBLE: dict[str, str] = {
    "nativePath": "off",
    "zookeeper.connect": "zk1,zk2:2182/kafka",
    "zookeeper.session.timeout.ms": "9000",
    "zookeeper.connection.timeout.ms": "4000",
    "zookeeper.auth": "digest:user:secret",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": "/etc/ca.pem",
    "zookeeper.ssl.endpoint.identification.algorithm": "https",
    "zookeeper.ssl.keystore.location": "/etc/me.pem",
    "zookeeper.ssl.keystore.password": "secret",
    "kafka.bootstrap.servers": "k1:9092",
    "kafka.*": "",
    "listener.name": "INSIDE",
    "subscribe": "t",
    "subscribePattern": "t.*",
    "subscribeExceptPattern": "t.*",
    "assign": '{"t": [0]}',
    "view": "partitions",
    "startingOffsets": '{"t": {"0": 5}}',
    "endingOffsets": '{"t": "latest"}',
    "startingTimestamp": "1700000000000",
    "endingTimestamp": "1700000000001",
    "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "auto.offset.reset": "earliest",
    "failOnDataLoss": "false",
    "minPartitions": "9",
    "maxRecordsPerPartition": "1000",
    "minRecordsPerPartition": "10",
    "includeHeaders": "true",
    "kafkaConsumer.pollTimeoutMs": "30000",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "10",
    "offlinePartitions": "skip",
    "groupIdPrefix": "mine",
    "group.id": "billing",
    "groupMembership": "none",
    "consumer.id": "c1",
    "consumer.threads": "2",
    "partition.assignment.strategy": "roundrobin",
    "offsets.storage": "kafka",
    "dual.commit.enabled": "false",
    "rebalance.max.retries": "10",
    "rebalance.backoff.ms": "500",
    "rebalance.hold.ms": "0",
    "topic": "t",
    "partitioner": "crc32",
    "commitOffsets": '{"t": {"0": 23}}',
    "commitOwner": "g_c1@0x1000a",
    "maxOffsetsPerTrigger": "9",
    "maxBytesPerTrigger": "9",
    "minOffsetsPerTrigger": "9",
    "maxTriggerDelay": "5m",
}
"""A value for every option of the table; kafka.* stands for many and is tested by itself."""


ALONE = ("subscribe", "subscribePattern", "subscribeExceptPattern", "assign", "view")
"""Options that say by themselves what to read."""


def with_company(option: str, parse: Callable[[dict[str, str]], object]) -> dict[str, str]:
    """Options with a sensible value of the one that is asked for, and what else it needs."""
    company = {**ZK, "group.id": "g"}
    if parse is not parse_write and option not in ALONE:
        company["subscribe"] = "t"
    if option == "view":
        del company["group.id"]
    if option == "assign" and parse is parse_stream:
        company["groupMembership"] = "none"
    if option.startswith("zookeeper.ssl."):
        company["zookeeper.ssl.client.enable"] = "true"
    if option == "dual.commit.enabled":
        company["offsets.storage"] = "kafka"
    return {**company, option: SENSIBLE[option]}


@pytest.mark.parametrize("option", [o for o in TABLE if o.name != "kafka.*"], ids=lambda o: o.name)
def test_every_option_of_the_table_is_accepted_where_it_belongs(option: Any) -> None:
    """A sensible value of each option is accepted in its scopes, and refused in the others; batches ignore a stream's."""
    scopes = {
        "read": (parse_read, ReadOptions),
        "stream": (parse_stream, StreamOptions),
        "write": (parse_write, WriteOptions),
    }
    for scope, (parse, kind) in scopes.items():
        given = with_company(option.name, parse)
        if scope in option.scopes or (scope == "read" and option.scopes == STREAM):
            assert isinstance(parse(given), kind)
        else:
            refusal = f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {scope}"
            assert refusal in problems(parse, given)


def test_every_option_of_the_table_has_a_sensible_value() -> None:
    """This test knows the whole table."""
    assert set(SENSIBLE) == {option.name for option in TABLE}


def test_names_of_the_table_differ_in_more_than_case() -> None:
    """No option hides another, and each says what it does."""
    assert len(BY_NAME) == len(TABLE)
    assert all(option.doc.endswith(".") or option.doc.endswith(")") for option in TABLE)


def test_markdown_has_a_row_for_every_option() -> None:
    """The generated table names each option once, in the table's order, with as many cells as its head."""
    lines = table_markdown().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [option.name for option in TABLE]
    cells = [line.replace("\\|", "").count("|") for line in lines]
    assert set(cells) == {6}


# --- names


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
@pytest.mark.parametrize(
    ("parse", "least"), [(parse_read, READ), (parse_stream, READ), (parse_write, WRITE)], ids=["read", "stream", "write"]
)
def test_unknown_options_get_the_nearest_match(parse: Any, least: dict[str, str], name: str, hint: str) -> None:
    """An unknown name is an error in the user's spelling, with the nearest name of the table."""
    assert f"unknown option {name}{hint}" in only_problem(parse, {**least, name: "x"})


def test_streaming_options_are_refused_by_a_write() -> None:
    """A write does not swallow the options of streaming."""
    text = only_problem(parse_write, {**WRITE, "MaxOffsetsPerTrigger": "9"})
    assert "maxOffsetsPerTrigger is an option of a stream, not of a write" in text


def test_all_problems_are_in_one_error() -> None:
    """Whatever is wrong is reported at once, counted, each problem with its value and the right form."""
    text = problems(
        parse_read,
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
        },
    )
    assert text.startswith("[INVALID_OPTIONS] 12 problem(s) with the options: (1) ")
    for problem in (
        "zookeeper.connect is 'zk:port'; expected host:port[,host:port...][/chroot]",
        "subscribe and assign contradict each other; set only one of them",
        "minPartitions is '0'; expected a whole number, 1 or more",
        "maxRecordsPerPartition is 'many'; expected a whole number, 1 or more",
        "failOnDataLoss is 'yes'; expected true or false",
        "startingOffsets is 'newest'; expected earliest, committed, or JSON: {",
        "endingOffsets is 'oldest'; expected earliest, latest, committed, or JSON: {",
        "endingTimestamp is '-1'; expected a whole number, 0 or more",
        "partitioner is an option of a write, not of a read",
        "kafka.key.deserializer",
        "unknown option subscribes; did you mean subscribe?",
        "group.id is 'a b'; the old consumer allows",
    ):
        assert problem in text


# --- contradictions


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
        ({"subscribePattern": "("}, "subscribePattern is '('; expected a regular expression ("),
        ({"subscribePattern": ""}, "subscribePattern is ''; expected a regular expression that is not empty"),
        ({"subscribeExceptPattern": "["}, "subscribeExceptPattern is '['; expected a regular expression ("),
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
            "startingTimestamp is 'tomorrow'; expected a whole number, 0",
        ),
        ({"subscribe": "a", "startingTimestamp": "1.5"}, "startingTimestamp is '1.5'; expected a whole number"),
        ({"subscribe": "a", "startingTimestamp": "9" * 19}, "expected a whole number"),
        ({"subscribe": "a", "minPartitions": ""}, "minPartitions is ''; expected a whole number, 1 or more"),
        ({"subscribe": "a", "minPartitions": "1_000"}, "minPartitions is '1_000'; expected a whole number"),
        ({"subscribe": "a", "minPartitions": "\u0663"}, "minPartitions is '\u0663'; expected a whole number"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "first"}, "'first'; expected error or latest"),
        ({"subscribe": "a", "auto.offset.reset": "none"}, "auto.offset.reset is 'none'; expected earliest or smallest or"),
        ({"subscribe": "a", "offlinePartitions": "ignore"}, "offlinePartitions is 'ignore'; expected fail or skip"),
        ({"subscribe": "a", "kafkaConsumer.pollTimeoutMs": "0"}, "a whole number, 1 or more"),
        ({"subscribe": "a", "fetchOffset.numRetries": "-1"}, "a whole number, 0 or more"),
        ({"subscribe": "a", "group.id": "gr\u00fcn"}, "group.id is 'gr\u00fcn'; the old consumer allows"),
        ({"subscribe": "a", "group.id": ""}, "group.id must not be empty; set a value or leave it out"),
        ({"subscribe": "a", "listener.name": " "}, "listener.name must not be empty; set a value or leave it out"),
        ({"subscribe": "a", "offsets.storage": "disk"}, "offsets.storage is 'disk'; expected zookeeper or kafka"),
        (
            {"subscribe": "a", "group.id": "g", "dual.commit.enabled": "true"},
            "dual.commit.enabled has an effect only with offsets.storage=kafka; leave it out",
        ),
        ({"subscribe": "a", "minRecordsPerPartition": "0"}, "minRecordsPerPartition is '0'; expected a whole number, 1 or"),
        (
            {"subscribe": "a", "minRecordsPerPartition": "5", "minPartitions": "2"},
            "minRecordsPerPartition merges input partitions, minPartitions divides them; set only one of them",
        ),
        (
            {"subscribe": "a", "minRecordsPerPartition": "5", "maxRecordsPerPartition": "4"},
            "minRecordsPerPartition is 5, more than maxRecordsPerPartition, which is 4; lower it",
        ),
        ({"view": "everything"}, "view is 'everything'; expected brokers or topics or"),
        ({"view": "brokers", "minPartitions": "4"}, "minPartitions is about reading records, and view=brokers reads none"),
        ({"subscribe": "a", "zookeeper.session.timeout.ms": "0"}, "zookeeper.session.timeout.ms is '0'; expected a whole"),
        ({"subscribe": "a", "zookeeper.ssl.truststore.location": "/a/b.JKS"}, "/a/b.JKS is not a PEM file; convert it"),
        (
            {"subscribe": "a", "zookeeper.ssl.client.enable": "yes"},
            "zookeeper.ssl.client.enable is 'yes'; expected true or",
        ),
    ],
)
def test_what_a_read_cannot_obey(given: dict[str, str], says: str) -> None:
    """Each mistake is reported, with what was found and what is expected."""
    assert says in problems(parse_read, {**ZK, **given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": ""}, "topic must not be empty; set a value or leave it out"),
        ({"partitioner": "random"}, f"partitioner is 'random'; expected {' or '.join(PARTITIONERS)}"),
        ({"includeHeaders": "1"}, "includeHeaders is '1'; expected true or false"),
        ({"commitOffsets": '{"t": {"0": 1}}'}, "commitOffsets needs group.id"),
        ({"group.id": "g", "commitOffsets": "latest"}, "commitOffsets is latest (-1): expected offsets of 0 or more"),
        (
            {"group.id": "g", "commitOffsets": '{"t": "latest"}'},
            "commitOffsets is latest (-1): expected offsets of 0 or more",
        ),
        (
            {"group.id": "g", "commitOffsets": '{"t": {"0": -1}}'},
            "commitOffsets is latest (-1): expected offsets of 0 or more",
        ),
        ({"group.id": "g", "commitOffsets": '{"t": {"0": -2}}'}, "commitOffsets is earliest (-2)"),
        ({"group.id": "g", "commitOffsets": "{}"}, "commitOffsets is '{}'; expected offsets of 0 or more by partition: {"),
        (
            {"group.id": "g", "commitOffsets": '{"t": {"0": 1}}', "commitOwner": "g_c1"},
            "commitOwner is 'g_c1'; expected a member and its session: consumer@0x1000a",
        ),
        ({"group.id": "g/h", "commitOffsets": '{"t": {"0": 1}}'}, "group.id is 'g/h'; the old consumer allows"),
        ({"startingOffsets": "earliest"}, "startingOffsets is an option of a read or stream, not of a write"),
        ({"endingOffsets": "latest"}, "endingOffsets is an option of a read, not of a write"),
        ({"consumer.threads": "2"}, "consumer.threads is an option of a stream, not of a write"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer is refused"),
    ],
)
def test_what_a_write_cannot_obey(given: dict[str, str], says: str) -> None:
    """Each mistake of a write is reported likewise."""
    assert says in only_problem(parse_write, {**ZK, **given})


@pytest.mark.parametrize("parse", [parse_read, parse_write])
def test_a_cluster_must_be_named(parse: Any) -> None:
    """Without ZooKeeper and without brokers there is nothing to connect to."""
    expected = "set zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper"
    assert expected in problems(parse, {"subscribe": "a"} if parse is parse_read else {})
    assert expected in problems(parse, {"kafka.bootstrap.servers": " "})


BROKERS = {"kafka.bootstrap.servers": "k:9092"}


@pytest.mark.parametrize(
    ("parse", "given", "says"),
    [
        (parse_read, {"subscribe": "a", "startingOffsets": "committed", "group.id": "g"}, "it needs zookeeper.connect"),
        (parse_write, {"group.id": "g", "commitOffsets": '{"t": {"0": 1}}'}, "it needs zookeeper.connect"),
        *((parse_read, {"view": v}, f"view={v} reads ZooKeeper and needs") for v in VIEWS[4:]),
    ],
)
def test_groups_need_zookeeper(parse: Any, given: dict[str, str], says: str) -> None:
    """What is kept in ZooKeeper cannot be had from brokers alone."""
    assert says in only_problem(parse, {**BROKERS, **given})


# --- where from and to


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
    ({"startingOffsets": "latest", "startingTimestamp": "9"}, AtTimestamp(9), LATEST),
    ({"endingOffsets": "earliest", "endingOffsetsByTimestamp": '{"t": {"0": 7}}'}, EARLIEST, {T0: AtTimestamp(7)}),
]


@pytest.mark.parametrize(("given", "start", "end"), BOUNDS)
def test_precedence_of_starts_and_ends(given: dict[str, str], start: object, end: object) -> None:
    """One timestamp for all wins over timestamps by partition, and these over offsets."""
    options = parse_read({**READ, **given})
    assert (options.start.by_partition or options.start.everywhere) == start
    assert (options.end.by_partition or options.end.everywhere) == end


def test_specifications_are_named_after_their_option() -> None:
    """A later error can say which option a start or an end came from."""
    options = parse_read({**READ, "startingOffsetsByTimestamp": '{"t": {"0": 7}}', "endingTimestamp": "9"})
    assert (options.start.option, options.end.option) == ("startingOffsetsByTimestamp", "endingTimestamp")


def test_what_is_overruled_is_still_checked() -> None:
    """A bad value is reported though another option wins over it."""
    text = only_problem(parse_read, {**READ, "startingOffsets": "newest", "startingTimestamp": "5"})
    assert "startingOffsets is 'newest'" in text


def test_committed_with_a_group() -> None:
    """A read may start at what a ZooKeeper group has committed."""
    options = parse_read({**GROUP, "startingOffsets": "committed"})
    assert (options.start.everywhere, options.group) == ("committed", "billing")


def test_a_timestamp_overrules_committed() -> None:
    """Where a timestamp wins, committed needs no group."""
    assert parse_read({**READ, "startingOffsets": "committed", "startingTimestamp": "5"}).start.everywhere == AtTimestamp(5)


def test_offsets_to_commit() -> None:
    """A write may commit a group's offsets when it has succeeded."""
    options = parse_write({**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 0, "1": 7}}'})
    assert options.commit == CommitPlan("g", {T0: 0, TopicPartition("t", 1): 7})
    assert parse_write({**WRITE, "group.id": "g"}).commit is None


def test_who_commits_and_where() -> None:
    """What a write commits may be a member's, and goes to where the group's offsets are."""
    given = {**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 5}}', "commitOwner": "g_c1@0x1000a"}
    assert parse_write({**given, "offsets.storage": "kafka"}).commit == CommitPlan(
        "g", {T0: 5}, ("kafka", "zookeeper"), ClaimOwner("g_c1", 0x1000A)
    )


# --- where to connect


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zk", "zk:2181", ""),
        ("zk:2182", "zk:2182", ""),
        ("zk:2181/", "zk:2181", ""),
        ("zk:2181/kafka", "zk:2181", "/kafka"),
        ("zk:2181/kafka/", "zk:2181", "/kafka"),
        ("zk/a/b", "zk:2181", "/a/b"),
        (" zk1:2181 , zk2 /kafka", "zk1:2181,zk2:2181", "/kafka"),
        ("zk1,zk2:2182,zk3", "zk1:2181,zk2:2182,zk3:2181", ""),
        ("10.0.0.1:2181", "10.0.0.1:2181", ""),
        ("[::1]", "[::1]:2181", ""),
        ("[::1]:2182/k", "[::1]:2182", "/k"),
        ("[fe80::1]:2181,[fe80::2]", "[fe80::1]:2181,[fe80::2]:2181", ""),
        ("[::ffff:10.0.0.1]:2181", "[::ffff:10.0.0.1]:2181", ""),
    ],
)
def test_zookeeper_connect(text: str, hosts: str, chroot: str) -> None:
    """Hosts get the default port, blanks go, and the chroot has no slash at its end."""
    found = parse_connection({"zookeeper.connect": text}).zookeeper
    assert found == ZooKeeperConfig(hosts, chroot)
    assert found.connect == hosts + chroot


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "/kafka",
        ":2181",
        "zk:",
        "zk:port",
        "zk:123456",
        "zk,,zk2",
        "zk1:2181,",
        "::1",
        "[::1",
        "zk//a",
        "zk/a//b",
        "a b:2181",
        "zk:2181:2181",
        "zk:2181,/kafka",
        "zk1:2181/kafka,zk2:2181/kafka",
        "zk:0",
        "zk:65536",
    ],
)
def test_bad_zookeeper_connect(text: str) -> None:
    """What is no list of hosts with a chroot is quoted beside the right form."""
    says = only_problem(parse_connection, {"zookeeper.connect": text})
    assert f"zookeeper.connect is {text.strip()!r}; expected host:port[,host:port...][/chroot], e.g. zk1:2181" in says


@pytest.mark.parametrize(
    ("given", "session_ms", "connection_ms"),
    [
        ({}, 6000, 6000),
        ({"zookeeper.session.timeout.ms": "9000"}, 9000, 9000),
        ({"zookeeper.connection.timeout.ms": "500"}, 6000, 500),
        ({"zookeeper.session.timeout.ms": "9000", "zookeeper.connection.timeout.ms": "500"}, 9000, 500),
    ],
)
def test_zookeeper_timeouts(given: dict[str, str], session_ms: int, connection_ms: int) -> None:
    """The connection time-out is the session's unless it is given."""
    found = parse_connection({**ZK, **given}).zookeeper
    assert found is not None
    assert (found.session_timeout_ms, found.connection_timeout_ms) == (session_ms, connection_ms)


@pytest.mark.parametrize(
    ("text", "auth"),
    [
        ("digest:user:pass:word", ("digest", "user:pass:word")),
        ("DIGEST:user:p", ("digest", "user:p")),
        ("sasl:DIGEST-MD5:user:p", ("sasl", "DIGEST-MD5:user:p")),
        ("SASL:digest-md5:user:p:q", ("sasl", "digest-md5:user:p:q")),
    ],
)
def test_zookeeper_auth(text: str, auth: tuple[str, str]) -> None:
    """Scheme in small letters, credential as given."""
    found = parse_connection({**ZK, "zookeeper.auth": text}).zookeeper
    assert found is not None
    assert found.auth == auth


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "user:hunter2",
        "digest:hunter2",
        "sasl:user:hunter2",
        "sasl:GSSAPI:user:hunter2",
        "kerberos:u:hunter2",
    ],
)
def test_bad_zookeeper_auth_is_not_quoted(text: str) -> None:
    """A malformed credential is reported without a word of it."""
    says = only_problem(parse_connection, {**ZK, "zookeeper.auth": text})
    assert "zookeeper.auth is malformed; expected digest:user:password or sasl:DIGEST-MD5:user:password" in says
    assert "hunter2" not in says


def test_zookeeper_tls() -> None:
    """With TLS on, one PEM file holds certificate and key; with TLS off, files for it are a problem, not left unused."""
    given = {
        **ZK,
        "zookeeper.ssl.truststore.location": "/ca.pem",
        "zookeeper.ssl.keystore.location": "/me.pem",
        "zookeeper.ssl.keystore.password": "pw",
    }
    found = parse_connection({**given, "zookeeper.ssl.client.enable": "true"}).zookeeper
    assert found is not None
    assert found.tls == ZooKeeperTls("/ca.pem", "/me.pem", "pw", check_hostname=True)
    with pytest.raises(OptionError, match=r"zookeeper.ssl.\* has no effect without zookeeper.ssl.client.enable=true"):
        parse_connection({**given, "zookeeper.ssl.client.enable": "false"})


@pytest.mark.parametrize(("text", "checked"), [("HTTPS", True), ("", False), ("none", False)])
def test_zookeeper_host_names(text: str, checked: bool) -> None:
    """Host names are checked unless the option is emptied, as Kafka spells it."""
    algorithm = {"zookeeper.ssl.endpoint.identification.algorithm": text}
    found = parse_connection({**ZK, "zookeeper.ssl.client.enable": "true", **algorithm}).zookeeper
    assert found is not None
    assert found.tls == ZooKeeperTls(check_hostname=checked)


def test_brokers_alone() -> None:
    """Without ZooKeeper there are only brokers; they are not among the client's properties."""
    connection = parse_connection({"kafka.bootstrap.servers": " k1:9092,k2:9092 ", "kafka.group.id": "g"})
    assert connection.zookeeper is None
    assert connection.bootstrap_servers == "k1:9092,k2:9092"
    assert not {"bootstrap.servers", "group.id"} & set(connection.kafka)


@pytest.mark.parametrize(
    ("given", "listener"),
    [
        ({}, Listener()),
        ({"listener.name": "INSIDE"}, Listener("INSIDE")),
        ({"kafka.security.protocol": "SSL"}, Listener(None, "SSL")),
        ({"kafka.security.protocol": "SSL", "listener.name": "x"}, Listener("x", "SSL")),
    ],
)
def test_listener(given: dict[str, str], listener: Listener) -> None:
    """The listener is named, or follows from the security protocol."""
    found = parse_connection({**ZK, **given}).listener
    assert (found.name, found.security_protocol.upper()) == (listener.name, listener.security_protocol)


@pytest.mark.parametrize(("given", "expected"), [(None, False), ("read_uncommitted", False), ("read_committed", True)])
def test_isolation_level(given: str | None, expected: bool) -> None:
    """Open and aborted transactions are left out only on demand."""
    options = ZK if given is None else {**ZK, "kafka.isolation.level": given}
    assert parse_connection(options).read_committed is expected


# --- secrets and pickling

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


@pytest.mark.parametrize("parse", [lambda o: parse_read({**o, "subscribe": "t"}), parse_write, parse_connection])
def test_secrets_are_not_shown(parse: Any) -> None:
    """No repr or text of parsed options holds a password, though the options do."""
    options = parse(SECRETS)
    assert b"hunter2" in pickle.dumps(options)
    assert "hunter2" not in repr(options)
    assert "hunter2" not in str(options)


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
    ids=lambda bad: " ".join(bad),
)
def test_secrets_are_not_in_errors(bad: dict[str, str]) -> None:
    """An error names a bad secret, or an unknown option, without its value, and without those of good ones."""
    text = problems(parse_read, {**SECRETS, **bad})  # no subscription: there is always a problem
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "options",
    [
        parse_read(GROUP),
        parse_read({**READ, "startingOffsets": '{"orders": {"0": 5}}', "endingTimestamp": "9", "kafka.client.rack": "r"}),
        parse_write({**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 1}}'}),
        parse_connection(SECRETS),
    ],
    ids=["read", "read bounds", "write", "connection"],
)
def test_options_pickle(options: object) -> None:
    """Options are the same on the other side of a pickle, and cannot be changed there."""
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert copy is not options
    with pytest.raises((AttributeError, TypeError)):
        copy.connection = None
