"""Options of writes."""

from __future__ import annotations

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.model import CommitPlan, Connection, WriteOptions, ZooKeeperConfig
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.partitioners import PARTITIONERS
from pyspark_zkafka.protocol.planning import Listener
from tests.support.cases import each
from tests.support.option_problems import only_problem

ZK = {"zookeeper.connect": "zk:2181"}
WRITE = {**ZK, "topic": "orders"}
T0 = TopicPartition("t", 0)


def test_write_defaults() -> None:
    """The minimal options of a write take topics from the column, and partition by murmur2."""
    assert parse_write(ZK) == WriteOptions(Connection(ZooKeeperConfig("zk:2181"), None, Listener(), {}), None, "murmur2")


@each(
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
def test_problems_of_a_write(given: dict[str, str], says: str) -> None:
    """Each problem names the option, what was found and what is expected."""
    assert says in only_problem(parse_write, {**ZK, **given})


def test_committing_to_zookeeper_needs_it() -> None:
    """Offsets of a group are committed to ZooKeeper: brokers alone do not suffice."""
    given = {"kafka.bootstrap.servers": "k:9092", "group.id": "g", "commitOffsets": '{"t": {"0": 1}}'}
    assert "it needs zookeeper.connect" in only_problem(parse_write, given)


def test_offsets_to_commit() -> None:
    """A write may commit a group's offsets once it has succeeded."""
    options = parse_write({**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 0, "1": 7}}'})
    assert options.commit == CommitPlan("g", {T0: 0, TopicPartition("t", 1): 7})
    assert parse_write({**WRITE, "group.id": "g"}).commit is None


def test_owner_and_stores_of_a_commit() -> None:
    """The commit may be that of a member, and goes to the stores of the group's offsets."""
    given = {**WRITE, "group.id": "g", "commitOffsets": '{"t": {"0": 5}}', "commitOwner": "g_c1@0x1000a"}
    assert parse_write({**given, "offsets.storage": "kafka"}).commit == CommitPlan(
        "g", {T0: 5}, ("kafka", "zookeeper"), ClaimOwner("g_c1", 0x1000A)
    )
