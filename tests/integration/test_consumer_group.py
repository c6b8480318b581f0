"""`ConsumerGroup`: batch jobs as members of a group."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.consumer_group import GroupBatch
from pyspark_zkafka.errors import DataLoss, GroupError, OptionError, PartitionLost
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Subscribe
from pyspark_zkafka.testing import LocalCluster

EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture
def group() -> str:
    return f"group-{secrets.token_hex(4)}"


@pytest.fixture
def join(zkafka_cluster: LocalCluster, group: str) -> Callable[..., ConsumerGroup]:
    """Makes a member, to be entered: ``join(topic, {"option": "value"})``."""

    def make(topic: str, options: dict[str, str] | None = None) -> ConsumerGroup:
        return ConsumerGroup(
            zkafka_cluster.zookeeper_connect, group, subscribe=[topic], options={**EARLIEST, **(options or {})}
        )

    return make


def rows(batch: GroupBatch) -> list[tuple[int, int]]:
    return sorted((r.partition, r.offset) for r in batch.load().select("partition", "offset").collect())


def stored(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    path = f"/consumers/{group}/offsets/{topic}"
    with cluster.zookeeper() as client:
        names = client.get_children(path) if client.exists(path) else []
        return {int(name): int(client.get(f"{path}/{name}")[0]) for name in names}


def znodes(cluster: LocalCluster, path: str) -> list[str]:
    with cluster.zookeeper() as client:
        return sorted(client.get_children(path)) if client.exists(path) else []


def eventually(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.05)


class Other:
    """Another member, in this process."""

    def __init__(self, cluster: LocalCluster, group: str, topic: str) -> None:
        zookeeper = parse_connection({"zookeeper.connect": cluster.zookeeper_connect}).zookeeper
        assert zookeeper is not None
        options = GroupOptions(group, consumer_id="zz-other", backoff_ms=300)
        self.member = GroupMember(zookeeper, options, Subscribe((topic,)))

    def __enter__(self) -> GroupMember:
        self.member.join()
        return self.member

    def __exit__(self, *exc: object) -> None:
        self.member.leave()


def fill(cluster: LocalCluster, topic: str, count: int, partitions: int = 4) -> None:
    cluster.produce(topic, [{"key": str(i), "value": f"v{i}", "partition": i % partitions} for i in range(count)])


def test_a_write_commits_the_batch(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """A batch is pinned, read, written elsewhere, and committed by the write with nothing but its `commit_options`."""
    source, sink = new_topic(partitions=4), new_topic(partitions=2)
    fill(zkafka_cluster, source, 40)
    with join(source) as member:
        batch = member.plan(spark)
        fill(zkafka_cluster, source, 8)
        frame = batch.load()
        assert frame.count() == 40
        frame.select("key", "value").write.format("zkafka").option("topic", sink).options(**batch.commit_options).mode(
            "append"
        ).save()
        assert stored(zkafka_cluster, group, source) == dict.fromkeys(range(4), 10)
        following = member.plan(spark)
        assert [(r.start, r.until) for r in following.ranges] == [(10, 12)] * 4
        assert rows(following) == [(p, o) for p in range(4) for o in (10, 11)]
    read = spark.read.format("zkafka").option("zookeeper.connect", zkafka_cluster.zookeeper_connect)
    assert read.option("subscribe", sink).load().count() == 40


def test_a_commit_without_a_write(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """`commit` commits the plan, and the next member of the group goes on there."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, 10, 2)
    with join(topic) as member:
        batch = member.plan(spark)
        assert len(rows(batch)) == 10
        assert stored(zkafka_cluster, group, topic) == {}
        batch.commit()
        batch.commit()
    assert stored(zkafka_cluster, group, topic) == {0: 5, 1: 5}
    with join(topic) as member:
        assert rows(member.plan(spark)) == []


def test_membership(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """A member is registered and owns its partitions inside the block, and is gone right after it, error or not."""
    topic = new_topic(partitions=3)
    ids, owners = f"/consumers/{group}/ids", f"/consumers/{group}/owners/{topic}"
    member = join(topic, {"consumer.id": "job"})

    def work() -> None:
        with member:
            assert member.consumer == f"{group}_job"
            assert znodes(zkafka_cluster, ids) == [f"{group}_job"]
            assert znodes(zkafka_cluster, owners) == ["0", "1", "2"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert znodes(zkafka_cluster, ids) == znodes(zkafka_cluster, owners) == []
    with pytest.raises(GroupError, match="with block"):
        member.plan(spark)


def test_two_members_share(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """Each member's plan holds its own partitions, and a member that owns nothing has an empty batch."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, 10, 2)
    ids = {"rebalance.backoff.ms": "300"}
    with join(topic, {**ids, "consumer.id": "a"}) as first, join(topic, {**ids, "consumer.id": "b"}) as second:
        with join(topic, {**ids, "consumer.id": "c"}) as third:
            idle = third.plan(spark)
            assert idle.ranges == ()
            assert idle.load().columns == second.plan(spark).load().columns
            assert idle.load().count() == 0
            idle.commit()
            assert "commitOffsets" not in idle.commit_options
        plans = [first.plan(spark), second.plan(spark)]
        assert [[r.partition.partition for r in plan.ranges] for plan in plans] == [[0], [1]]


def test_a_partition_lost_meanwhile(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """A commit names the partitions that the member lost after the plan; the others are committed."""
    topic, sink = new_topic(partitions=4), new_topic(partitions=1)
    fill(zkafka_cluster, topic, 20)
    with join(topic, {"consumer.id": "a", "rebalance.hold.ms": "100"}) as member:
        batch = member.plan(spark)
        with Other(zkafka_cluster, group, topic) as other:
            eventually(lambda: len(other.owned()) == 2)
            with pytest.raises(PartitionLost, match=rf"{topic}-2, {topic}-3 .*2 partition\(s\) are committed") as caught:
                batch.commit()
            assert caught.value.parameters["partitions"] == [TopicPartition(topic, 2), TopicPartition(topic, 3)]
            assert stored(zkafka_cluster, group, topic) == {0: 5, 1: 5}
            writer = batch.load("value binary").write.format("zkafka").option("topic", sink).options(**batch.commit_options)
            with pytest.raises(PySparkException, match="PARTITION_LOST"):
                writer.mode("append").save()
    assert stored(zkafka_cluster, group, topic) == {0: 5, 1: 5}


def test_partitions_are_held_while_a_batch_is_worked_on(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """Another member gets partitions when the batch is committed, not before, if that is within rebalance.hold.ms."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, 10, 2)
    with join(topic, {"consumer.id": "a", "rebalance.hold.ms": "30000"}) as member:
        batch = member.plan(spark)
        with Other(zkafka_cluster, group, topic) as other:
            assert not other.wait_settled(1.0)
            assert not other.owned()
            batch.commit()
            eventually(lambda: list(other.owned()) == [TopicPartition(topic, 1)])
    assert stored(zkafka_cluster, group, topic) == {0: 5, 1: 5}


def test_offsets_outside_the_log(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """A committed offset beyond the log's end is an error that says so, or, without failOnDataLoss, the log's end."""
    topic = new_topic(partitions=1)
    fill(zkafka_cluster, topic, 3, 1)
    with zkafka_cluster.zookeeper() as client:
        client.create(f"/consumers/{group}/offsets/{topic}/0", b"9", makepath=True)
    with join(topic) as member, pytest.raises(DataLoss, match=r"offset 9 is outside the log"):
        member.plan(spark)
    with join(topic, {"failOnDataLoss": "false"}) as member:
        assert [(r.start, r.until) for r in member.plan(spark).ranges] == [(3, 3)]


def test_offsets_in_kafka(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    join: Callable[..., ConsumerGroup],
    group: str,
) -> None:
    """With offsets.storage=kafka a batch is committed there, and to ZooKeeper, too, unless dual.commit.enabled is false."""
    topic, sink = new_topic(partitions=2), new_topic(partitions=1)
    fill(zkafka_cluster, topic, 10, 2)
    only_kafka = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}
    with join(topic, only_kafka) as member:
        batch = member.plan(spark)
        batch.load("value binary").write.format("zkafka").option("topic", sink).options(**batch.commit_options).mode(
            "append"
        ).save()
    assert stored(zkafka_cluster, group, topic) == {}
    fill(zkafka_cluster, topic, 2, 2)
    with join(topic, {"offsets.storage": "kafka"}) as member:
        batch = member.plan(spark)
        assert rows(batch) == [(0, 5), (1, 5)]
        batch.commit()
    assert stored(zkafka_cluster, group, topic) == {0: 6, 1: 6}
    with join(topic) as member:
        assert rows(member.plan(spark)) == []
    committed = (
        spark.read.format("zkafka")
        .option("zookeeper.connect", zkafka_cluster.zookeeper_connect)
        .options(**{**only_kafka, "group.id": group, "subscribe": topic, "startingOffsets": "committed"})
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
    """Options are checked when the object is made, before anything is connected."""
    with pytest.raises(OptionError, match=says):
        ConsumerGroup("zk:2181", "g", subscribe=["t"], options=options)


def test_subscription_by_pattern(
    spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], group: str
) -> None:
    """A pattern makes a white list, as JVM consumers register it."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, 4, 2)
    connect = zkafka_cluster.zookeeper_connect
    with ConsumerGroup(connect, group, subscribe_pattern=topic, options=EARLIEST) as member:
        assert len(rows(member.plan(spark))) == 4
        with zkafka_cluster.zookeeper() as client:
            data, _ = client.get(f"/consumers/{group}/ids/{member.consumer}")
    assert json.loads(data)["pattern"] == "white_list"
    assert json.loads(data)["subscription"] == {topic: 1}
