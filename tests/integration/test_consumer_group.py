"""`ConsumerGroup`: batch jobs as members of a group."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.consumer_group import GroupBatch
from pyspark_zkafka.errors import DataLoss, GroupError, OptionError, PartitionLost
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.membership import tries_in_vain
from tests.support.options import group_options

NewTopic = Callable[..., str]
EARLIEST = {"auto.offset.reset": "earliest"}


class Group:
    """A group with its own name: its members and its znodes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.connect = cluster.zookeeper_connect
        self.name = f"group-{secrets.token_hex(4)}"

    def join(self, topic: str, options: dict[str, str] | None = None) -> ConsumerGroup:
        """Return a member that has not joined yet."""
        return ConsumerGroup(self.connect, self.name, subscribe=[topic], options={**EARLIEST, **(options or {})})

    @contextmanager
    def other(self, topic: str) -> Iterator[GroupMember]:
        """Join another member in this process, which commits nothing."""
        zookeeper = parse_connection({"zookeeper.connect": self.connect}).zookeeper
        assert zookeeper is not None
        options = group_options(self.name, consumer_id="zz-other", backoff_ms=300)
        with GroupMember(zookeeper, options, Subscribe((topic,))) as member:
            yield member

    def stored(self, topic: str) -> dict[int, int]:
        """Return the group's offsets in ZooKeeper."""
        path = f"/consumers/{self.name}/offsets/{topic}"
        with self.cluster.zookeeper() as client:
            names = client.get_children(path) if client.exists(path) else []
            return {int(name): int(client.get(f"{path}/{name}")[0]) for name in names}

    def znodes(self, path: str) -> list[str]:
        """Return the names below ``ids`` or ``owners/T``."""
        path = f"/consumers/{self.name}/{path}"
        with self.cluster.zookeeper() as client:
            return sorted(client.get_children(path)) if client.exists(path) else []


@pytest.fixture
def group(zkafka_cluster: LocalCluster) -> Group:
    """A group without members."""
    return Group(zkafka_cluster)


def rows(batch: GroupBatch) -> list[tuple[int, int]]:
    """Return partition and offset of each record in a batch, in order."""
    return sorted((r.partition, r.offset) for r in batch.load().select("partition", "offset").collect())


def write(batch: GroupBatch, topic: str, schema: str) -> None:
    """Write columns of a batch to a topic, and so commit the batch."""
    writer = batch.load(schema).write.format("zkafka").option("topic", topic)
    writer.options(**batch.commit_options).mode("append").save()


def test_a_write_commits_the_batch(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """A batch keeps its ranges, and a write with its `commit_options` commits it."""
    source, sink = new_topic(partitions=4), new_topic(partitions=2)
    fill(group.cluster, source, 10, range(4))
    with group.join(source) as member:
        batch = member.plan(spark)
        fill(group.cluster, source, 2, range(4))
        assert batch.load().count() == 40
        write(batch, sink, "key binary, value binary")
        assert group.stored(source) == dict.fromkeys(range(4), 10)
        following = member.plan(spark)
        assert [(r.start, r.until) for r in following.ranges] == [(10, 12)] * 4
        assert rows(following) == [(p, o) for p in range(4) for o in (10, 11)]
    read = spark.read.format("zkafka").option("zookeeper.connect", group.connect)
    assert read.option("subscribe", sink).load().count() == 40


def test_a_commit_without_a_write(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """`commit` commits the plan, repeatedly if called again, and the group's next member starts there."""
    topic = new_topic(partitions=2)
    fill(group.cluster, topic, 5, range(2))
    with group.join(topic) as member:
        batch = member.plan(spark)
        assert len(rows(batch)) == 10
        assert group.stored(topic) == {}
        batch.commit()
        batch.commit()
    assert group.stored(topic) == {0: 5, 1: 5}
    with group.join(topic) as member:
        assert rows(member.plan(spark)) == []


def test_membership(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """A member is registered and owns its partitions inside the with block, and is gone after it, even after an error."""
    topic = new_topic(partitions=3)
    ids, owners = "ids", f"owners/{topic}"
    member = group.join(topic, {"consumer.id": "job"})

    def work() -> None:
        with member:
            assert member.consumer == f"{group.name}_job"
            assert group.znodes(ids) == [f"{group.name}_job"]
            assert group.znodes(owners) == ["0", "1", "2"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert group.znodes(ids) == group.znodes(owners) == []
    with pytest.raises(GroupError, match="with block"):
        member.plan(spark)


def test_two_members_share(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """Each member's plan contains its own partitions, and a member without partitions gets an empty batch."""
    topic = new_topic(partitions=2)
    fill(group.cluster, topic, 5, range(2))
    ids = {"rebalance.backoff.ms": "300"}
    with group.join(topic, {**ids, "consumer.id": "a"}) as first, group.join(topic, {**ids, "consumer.id": "b"}) as second:
        with group.join(topic, {**ids, "consumer.id": "c"}) as third:
            idle = third.plan(spark)
            assert idle.ranges == ()
            assert idle.load().columns == second.plan(spark).load().columns
            assert idle.load().count() == 0
            idle.commit()
            assert "commitOffsets" not in idle.commit_options
        plans = [first.plan(spark), second.plan(spark)]
        assert [[r.partition.partition for r in plan.ranges] for plan in plans] == [[0], [1]]


def test_a_partition_lost_meanwhile(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """A commit commits what the member still owns, and the error names the partitions lost since the plan."""
    topic, sink = new_topic(partitions=4), new_topic(partitions=1)
    fill(group.cluster, topic, 5, range(4))
    with group.join(topic, {"consumer.id": "a", "rebalance.hold.ms": "100"}) as member:
        batch = member.plan(spark)
        with group.other(topic) as other:
            eventually(lambda: len(other.owned()) == 2)
            with pytest.raises(PartitionLost, match=rf"{topic}-2, {topic}-3 .*2 partition\(s\) are committed") as caught:
                batch.commit()
            assert caught.value.parameters["partitions"] == [TopicPartition(topic, 2), TopicPartition(topic, 3)]
            assert group.stored(topic) == {0: 5, 1: 5}
            with pytest.raises(PySparkException, match="PARTITION_LOST"):
                write(batch, sink, "value binary")
    assert group.stored(topic) == {0: 5, 1: 5}


def test_partitions_are_held_while_a_batch_is_worked_on(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """Another member gets a partition when the batch is committed, not before, if that is within rebalance.hold.ms."""
    topic = new_topic(partitions=2)
    fill(group.cluster, topic, 5, range(2))
    with group.join(topic, {"consumer.id": "a", "rebalance.hold.ms": "30000"}) as member:
        batch = member.plan(spark)
        with group.other(topic) as other:
            tries_in_vain(other)
            assert not other.owned()
            batch.commit()
            eventually(lambda: list(other.owned()) == [TopicPartition(topic, 1)])
    assert group.stored(topic) == {0: 5, 1: 5}


def test_offsets_outside_the_log(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """A committed offset beyond the log's end raises an error, or starts at the log's end with failOnDataLoss=false."""
    topic = new_topic(partitions=1)
    fill(group.cluster, topic, 3)
    with group.cluster.zookeeper() as client:
        client.create(f"/consumers/{group.name}/offsets/{topic}/0", b"9", makepath=True)
    with group.join(topic) as member, pytest.raises(DataLoss, match=r"offset 9 is outside the log"):
        member.plan(spark)
    with group.join(topic, {"failOnDataLoss": "false"}) as member:
        assert [(r.start, r.until) for r in member.plan(spark).ranges] == [(3, 3)]


def test_offsets_in_kafka(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """With offsets.storage=kafka a batch is committed to both stores, or to Kafka only if dual.commit.enabled is false."""
    topic, sink = new_topic(partitions=2), new_topic(partitions=1)
    fill(group.cluster, topic, 5, range(2))
    only_kafka = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}
    with group.join(topic, only_kafka) as member:
        write(member.plan(spark), sink, "value binary")
    assert group.stored(topic) == {}
    fill(group.cluster, topic, 1, range(2))
    with group.join(topic, {"offsets.storage": "kafka"}) as member:
        batch = member.plan(spark)
        assert rows(batch) == [(0, 5), (1, 5)]
        batch.commit()
    assert group.stored(topic) == {0: 6, 1: 6}
    with group.join(topic) as member:
        assert rows(member.plan(spark)) == []
    committed = (
        spark.read.format("zkafka")
        .option("zookeeper.connect", group.connect)
        .options(**{**only_kafka, "group.id": group.name, "subscribe": topic, "startingOffsets": "committed"})
    )
    assert committed.load().count() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": "earliest"}, "does not accept startingOffsets"),
        ({"assign": "{}"}, "does not accept assign"),
        ({"consumer.thread": "2"}, "did you mean consumer.threads"),
        ({"consumer.id": "a/b"}, "cannot contain '/'"),
    ],
)
def test_options_that_cannot_be_obeyed(options: dict[str, str], says: str) -> None:
    """Invalid options raise an error in the constructor, before any connection."""
    with pytest.raises(OptionError, match=says):
        ConsumerGroup("zk:2181", "g", subscribe=["t"], options=options)


def test_group_in_kafka(spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A group in Kafka may have any name, and accepts max.poll.interval.ms and limits of batches."""
    topic = new_topic()
    fill(zkafka_cluster, topic, 3)
    options = {
        "kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "6000",
        "kafka.max.poll.interval.ms": "10000",
        "maxOffsetsPerTrigger": "2",
    }
    with ConsumerGroup(None, f"team:{topic}/eu", subscribe=[topic], options=options) as member:
        batch = member.plan(spark)
        assert [row.offset for row in batch.load().collect()] == [0, 1]
        batch.commit()
        assert [(r.start, r.until) for r in member.plan(spark).ranges] == [(2, 3)]


def test_subscription_by_pattern(spark: SparkSession, group: Group, new_topic: NewTopic) -> None:
    """A pattern is registered as a white list, as JVM consumers register it."""
    topic = new_topic(partitions=2)
    fill(group.cluster, topic, 2, range(2))
    with ConsumerGroup(group.connect, group.name, subscribe_pattern=topic, options=EARLIEST) as member:
        assert len(rows(member.plan(spark))) == 4
        with group.cluster.zookeeper() as client:
            data, _ = client.get(f"/consumers/{group.name}/ids/{member.consumer}")
    assert json.loads(data)["pattern"] == "white_list"
    assert json.loads(data)["subscription"] == {topic: 1}
