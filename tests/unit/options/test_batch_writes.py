"""Options of writes."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.partitioners import PARTITIONERS
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.batch import parse_append, parse_write
from pyspark_zkafka.options.values import CommitPlan, ConnectionOptions, WriteOptions, ZooKeeperConfig
from tests.support.option_problems import only_problem

ZK = {"zookeeper.connect": "zk:2181"}
WRITE = {**ZK, "topic": "orders"}
T0 = TopicPartition("t", 0)


def test_write_defaults() -> None:
    """A write with minimal options takes topics from the column and partitions by murmur2."""
    connection = ConnectionOptions(ZooKeeperConfig("zk:2181", "", 6000, 6000, "open"), None, Listener(), {}, "auto")
    defaults = WriteOptions(connection, topic=None, partitioner="murmur2", commit=None, once=None, formats=None)
    assert parse_write(ZK) == defaults


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": ""}, "topic must not be empty; set a value or leave it out"),
        ({"partitioner": "random"}, f"partitioner is 'random'; expected {' or '.join(PARTITIONERS)}"),
        ({"includeHeaders": "1"}, "includeHeaders is '1'; expected true or false"),
        ({"group.id": "g", "commitOffsets": "{}"}, "commitOffsets is '{}'; expected offsets of 0 or more by partition: {"),
        (
            {"group.id": "g", "commitOffsets": '{"t": {"0": 1}}', "commitOwner": "g_c1"},
            "commitOwner is 'g_c1'; expected a member and its session: consumer@0x1000a",
        ),
        ({"group.id": "g/h", "commitOffsets": '{"t": {"0": 1}}'}, "group.id is 'g/h'; the old consumer allows"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer is refused"),
        ({"kafka.group.id": "g"}, "kafka.group.id is refused"),
    ],
)
def test_problems_of_a_write(given: dict[str, str], says: str) -> None:
    """Each problem names the option, its value and the expected form."""
    assert says in only_problem(parse_write, {**ZK, **given})


def test_offsets_to_commit() -> None:
    """A write may commit a group's offsets after it has succeeded."""
    options = parse_write({**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 0, "1": 7}}'})
    assert options.commit == CommitPlan("g", {T0: 0, TopicPartition("t", 1): 7}, ("zookeeper",), owner=None)
    assert parse_write({**WRITE, "group.id": "g"}).commit is None


def test_owner_and_stores_of_a_commit() -> None:
    """A commit may be made for a member, and goes to the stores of the group's offsets."""
    given = {**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 5}}', "commitOwner": "g_c1@0x1000a"}
    assert parse_write({**given, "offsets.storage": "kafka"}).commit == CommitPlan(
        "g", {T0: 5}, ("kafka", "zookeeper"), ClaimOwner("g_c1", 0x1000A)
    )


NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def test_options_that_spark_reads() -> None:
    """Spark's own options are accepted and change nothing."""
    raw = {**NOWHERE, "checkpointLocation": "/tmp/c", "queryName": "q"}
    assert parse_append(raw, overwrite=False, is_stream=True) == parse_write(NOWHERE)


@pytest.mark.parametrize(
    ("more", "overwrite", "is_stream", "expected"),
    [
        ({"commitOffsets": "{}"}, False, True, r"\[INVALID_OPTIONS\] commitOffsets .* readStream"),
        ({"COMMITOFFSETS": "{}"}, False, True, "commitOffsets"),
        ({"batchId": "7"}, False, True, r"\[INVALID_OPTIONS\] batchId is an option of batch writes"),
        ({}, True, True, r"\[OUTPUT_MODE\] .* complete .* foreachBatch"),
        ({"queryNames": "q"}, False, True, "unknown option queryNames"),
        ({}, True, False, r"\[SAVE_MODE\] .* cannot be overwritten"),
        ({"queryName": "q"}, False, False, "unknown option queryName"),
    ],
)
def test_writes_that_are_refused(more: dict[str, str], overwrite: bool, is_stream: bool, expected: str) -> None:
    """Modes other than append, unknown options, and streams with fixed offsets or a batchId are refused."""
    with pytest.raises(OptionError, match=expected):
        parse_append({**NOWHERE, **more}, overwrite=overwrite, is_stream=is_stream)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"writerName": "a", "batchId": "1"}, "writerName needs deliveryGuarantee=exactly-once.*batchId needs"),
        ({"kafka.transaction.timeout.ms": "9"}, "kafka.transaction.timeout.ms needs"),
        ({"deliveryGuarantee": "exactly-once", "topic": ""}, "set topic, or ledgerTopic"),
        ({"deliveryGuarantee": "exactly-once", "kafka.acks": "1"}, "needs kafka.enable.idempotence=true"),
        ({"deliveryGuarantee": "exactly-once", "ledgerTopic": "a b"}, "ledgerTopic"),
        ({"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "a/b"}, "transactionalIdPrefix is 'a/b'"),
        (
            {"deliveryGuarantee": "exactly-once", "transport": "librdkafka"},
            "exactly-once does not support transport=librdkafka; leave transport out",
        ),
        ({"deliveryGuarantee": "twice"}, "deliveryGuarantee is 'twice'; expected at-least-once or exactly-once"),
    ],
)
def test_exactly_once_writes_that_are_refused(more: dict[str, str], expected: str) -> None:
    """Options of exactly-once writes need each other, and are refused for other writes."""
    raw = {name: value for name, value in {**NOWHERE, **more}.items() if value}
    with pytest.raises(OptionError, match=expected):
        parse_write(raw)


def test_exactly_once() -> None:
    """The ledger uses the topic's partitions, unless it has its own topic."""
    once = {**NOWHERE, "deliveryGuarantee": "Exactly-Once"}
    assert parse_write(once).ledger_topic == "t"
    assert parse_write({**once, "ledgerTopic": "ledger"}).ledger_topic == "ledger"
    assert parse_write(NOWHERE).once is None
