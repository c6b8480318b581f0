"""Views of a real cluster, through ZooKeeper and through brokers only."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.model.view_tables import VIEWS
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.view_planner import plan_view
from pyspark_zkafka.testing import LocalCluster
from tests.support.chroot import Chroot
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from pyspark.sql import DataFrame, Row, SparkSession

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]
View = Callable[..., "list[Row]"]

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "znodes.json").read_text())
TWO = "two_consumers_two_topics_two_threads_range"


@pytest.fixture
def view(read: Read) -> View:
    """Returns the rows of a view, in its own order: ``view("owners", {"group.id": "g"})``."""

    def rows(name: str, options: dict[str, str] | None = None) -> list[Row]:
        return read({"view": name, **(options or {})}).collect()

    return rows


@contextmanager
def recorded_group(cluster: LocalCluster, name: str, names: dict[str, str]) -> Iterator[KazooClient]:
    """Create znodes recorded from real consumers, with other names of group and topics; members end with the session."""
    with cluster.zookeeper() as client:
        for znode in VECTORS[name]["znodes"]:
            path, value = znode["path"], znode["value"]
            for old, new in names.items():
                path, value = path.replace(old, new), None if value is None else value.replace(old, new)
            data = None if value is None else value.encode()
            client.create(path, data, ephemeral=znode["ephemeral"], makepath=True)
        yield client


@pytest.fixture
def two_topics(new_topic: NewTopic) -> tuple[str, str]:
    """Topics of five and three partitions, like those of the recorded group."""
    return new_topic(partitions=5), new_topic(partitions=3)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group name for the test."""
    return f"g-{request.node.name}".replace("[", "-").replace("]", "")


@pytest.fixture
def client(zkafka_cluster: LocalCluster, group: str, two_topics: tuple[str, str]) -> Iterator[KazooClient]:
    """The session of a live group with two members, each with two threads, on two topics."""
    names = {"g-two": group, "peer-a": two_topics[0], "peer-b": two_topics[1]}
    with recorded_group(zkafka_cluster, TWO, names) as client:
        yield client


@pytest.mark.only_on("spark")
@pytest.mark.parametrize("name", VIEWS)
def test_schema(read: Read, new_topic: NewTopic, name: str) -> None:
    """Each view has its own columns, and can be read and counted in any cluster."""
    frame = read({"view": name, **({"subscribe": new_topic()} if VIEWS[name].of_read else {})})
    assert dict(frame.dtypes) == {n: t.removesuffix("_ltz") for n, t in VIEWS[name].columns.items()}
    assert frame.count() == len(frame.collect())
    assert frame.rdd.getNumPartitions() == 1


def test_brokers(spark: SparkSession, connection: dict[str, str], zkafka_cluster: LocalCluster) -> None:
    """The view brokers lists all live brokers with their addresses."""
    rows = spark.read.format("zkafka").options(**connection, view="brokers").load().collect()
    assert [row.id for row in rows] == zkafka_cluster.running_broker_ids
    assert ",".join(f"{row.host}:{row.port}" for row in rows) == zkafka_cluster.bootstrap_servers
    assert all(row.endpoints == [f"PLAINTEXT://{row.host}:{row.port}"] for row in rows)
    assert {row.version for row in rows} == ({5} if "zookeeper.connect" in connection else {None})
    assert all(row.timestamp is None or row.timestamp.year > 2000 for row in rows)


def test_topics(spark: SparkSession, connection: dict[str, str], new_topic: NewTopic) -> None:
    """Counts and ids of topics are the same through ZooKeeper and brokers; only ZooKeeper has settings."""
    plain, tuned = new_topic(), new_topic(partitions=4, replication=2, config={"retention.ms": "86400000"})
    options = {**connection, "view": "topics", "subscribe": f"{tuned},{plain},no-such-topic"}
    rows = {row.topic: row for row in spark.read.format("zkafka").options(**options).load().collect()}
    assert {name: (row.partitions, row.replication) for name, row in rows.items()} == {plain: (1, 1), tuned: (4, 2)}
    assert all(len(row.topic_id) == 22 for row in rows.values())
    through_zookeeper = "zookeeper.connect" in connection
    assert rows[tuned].config == ({"retention.ms": "86400000"} if through_zookeeper else None)
    assert rows[plain].config == ({} if through_zookeeper else None)


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern"])
def test_partitions(spark: SparkSession, connection: dict[str, str], new_topic: NewTopic, how: str) -> None:
    """Partitions of the selected topics are listed in order with leader, ISR and replicas."""
    topic = new_topic(partitions=3, replication=2)
    options = {**connection, "view": "partitions", how: topic}
    rows = spark.read.format("zkafka").options(**options).load().collect()
    assert [(row.topic, row.partition) for row in rows] == [(topic, n) for n in range(3)]
    for row in rows:
        assert row.leader == row.replicas[0]
        assert sorted(row.isr) == sorted(row.replicas)
        assert not row.offline
        assert not row.under_replicated
        assert row.leader_epoch == (0 if "zookeeper.connect" in connection else None)


def test_controller(spark: SparkSession, connection: dict[str, str], zkafka_cluster: LocalCluster) -> None:
    """The view controller has one row, with one of the brokers."""
    (row,) = spark.read.format("zkafka").options(**connection, view="controller").load().collect()
    assert row.broker in zkafka_cluster.running_broker_ids
    assert len(row.cluster_id) == 22
    assert (row.epoch is None) == (row.timestamp is None) == ("zookeeper.connect" not in connection)


@pytest.mark.only_on("spark")
def test_plan(spark: SparkSession, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """The view plan has the ranges of a read with the same options, and the Spark task of each."""
    topic = new_topic(partitions=2, replication=2)
    zkafka_cluster.produce(topic, [{"value": str(n), "partition": n % 2} for n in range(20)])
    options = {
        **connection,
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": 4, "1": 4}}),
        "minPartitions": "4",
    }
    reader = spark.read.format("zkafka").options(**options)
    rows = reader.option("view", "plan").load().collect()
    assert [(row.partition, row.start, row.until, row.records) for row in rows] == [
        (0, 4, 7, 3), (0, 7, 10, 3), (1, 4, 7, 3), (1, 7, 10, 3)
    ]  # fmt: skip
    assert sorted(row.spark_partition for row in rows) == [0, 1, 2, 3]
    assert all(row.leader in row.isr and row.rack is None for row in rows)
    assert spark.read.format("zkafka").options(**options).load().rdd.getNumPartitions() == 4


def test_groups(view: View, client: KazooClient, group: str, two_topics: tuple[str, str]) -> None:
    """A group has a row with its number of members and its topics, and can be selected by topic."""
    first, second = two_topics
    expected = (group, 2, sorted(two_topics))
    assert tuple(view("groups", {"group.id": group})[0]) == expected
    assert expected in [tuple(row) for row in view("groups")]
    assert [tuple(row) for row in view("groups", {"subscribe": second})] == [(group, 2, [second])]
    assert [tuple(row) for row in view("groups", {"subscribePattern": f"{first}|x"})] == [(group, 2, [first])]


def test_members_and_garbage(view: View, client: KazooClient, group: str, two_topics: tuple[str, str]) -> None:
    """Members are shown with their subscription, and a foreign unreadable znode with the reason."""
    client.create(f"/consumers/{group}/ids/{group}_pykafka:1", b"peer-a", ephemeral=True)
    c1, c2, foreign = view("members", {"group.id": group})
    subscription = dict.fromkeys(two_topics, 2)
    assert c1.consumer == f"{group}_c1"
    assert c1.pattern == "static"
    assert c1.subscription == subscription
    assert c1.timestamp.astimezone(timezone.utc) == datetime.fromtimestamp(1_795_228_865.441, timezone.utc)
    assert c2.consumer == f"{group}_c2"
    assert c2.readable
    assert c2.error is None
    assert not foreign.readable
    assert foreign.subscription is None
    assert foreign.pattern is None
    assert "cannot be read: found b'peer-a'" in foreign.error


def test_owners(view: View, client: KazooClient, group: str, two_topics: tuple[str, str]) -> None:
    """Each claim is shown with its thread and consumer, and disappears with its session."""
    second = two_topics[1]
    rows = view("owners", {"group.id": group, "subscribe": second})
    threads = [f"{group}_c1-0", f"{group}_c1-1", f"{group}_c2-0"]
    assert [(r.topic, r.partition, r.thread) for r in rows] == [(second, n, t) for n, t in enumerate(threads)]
    assert [r.consumer for r in rows] == [t[:-2] for t in threads]
    assert len(view("owners", {"group.id": group})) == 8
    client.stop()
    assert view("owners", {"group.id": group}) == view("members", {"group.id": group}) == []
    assert len(view("offsets", {"group.id": group})) == 8


def test_offsets_and_lag(
    view: View, zkafka_cluster: LocalCluster, client: KazooClient, group: str, two_topics: tuple[str, str]
) -> None:
    """Committed offsets are shown next to the log's latest; malformed, legacy and orphaned ones have no lag."""
    first, second = two_topics
    zkafka_cluster.produce(first, [{"value": b"v", "partition": n % 2} for n in range(60)])
    client.set(f"/consumers/{group}/offsets/{first}/2", b"7\n")
    client.create(f"/consumers/{group}/offsets/{first}/1-0", b"4096")
    client.create(f"/consumers/{group}/offsets/no-such-topic/0", b"3", makepath=True)
    rows = view("offsets", {"group.id": group})
    shown = [(r.topic, r.partition, r.broker, r.offset, r.latest, r.lag) for r in rows if r.topic != second]
    assert shown == [
        ("no-such-topic", 0, None, 3, None, None),
        (first, 0, None, 20, 30, 10),
        (first, 1, None, 20, 30, 10),
        (first, 2, None, None, None, None),
        (first, 3, None, 20, 0, -20),
        (first, 4, None, 20, 0, -20),
        (first, 0, 1, 4096, None, None),
    ]
    assert [r.partition for r in rows if r.error is not None] == [2]
    age = datetime.now(timezone.utc) - rows[0].timestamp.astimezone(timezone.utc)
    assert timedelta(minutes=-1) < age < timedelta(minutes=5)


def test_group_with_empty_parts(view: View, zkafka_cluster: LocalCluster, group: str) -> None:
    """A group without members, owners and offsets has a row in the view groups only."""
    with zkafka_cluster.zookeeper() as client:
        client.create(f"/consumers/{group}", b"", makepath=True)
        assert [tuple(row) for row in view("groups", {"group.id": group})] == [(group, 0, [])]
        client.create(f"/consumers/{group}/ids", b"")
        client.create(f"/consumers/{group}/owners/t", None, makepath=True)
        assert [tuple(row) for row in view("groups", {"group.id": group})] == [(group, 0, ["t"])]
        for name in ("members", "owners", "offsets"):
            assert view(name, {"group.id": group}) == []
    for name in ("groups", "members", "owners", "offsets"):
        assert view(name, {"group.id": "no-such-group"}) == []


def test_configs(view: View, new_topic: NewTopic) -> None:
    """Each setting of a topic is a row; a topic without settings has none."""
    plain, tuned = new_topic(), new_topic(config={"retention.ms": "86400000", "cleanup.policy": "compact"})
    rows = [tuple(row) for row in view("configs", {"subscribe": f"{plain},{tuned}"})]
    assert rows == [(tuned, "cleanup.policy", "compact"), (tuned, "retention.ms", "86400000")]
    assert rows[0] in [tuple(row) for row in view("configs")]


def test_admin(view: View, chroot: Chroot) -> None:
    """The view admin shows operations in progress from recorded znodes, and is empty without any."""
    eventually(lambda: view("admin") == [])  # other workers administer the shared cluster, too
    here = {"zookeeper.connect": chroot.config.connect}
    assert view("admin", here) == []
    for znode in VECTORS["brokers_1.1.1_transient"]["znodes"]:  # no controller exists that would execute them
        data = None if znode["value"] is None else znode["value"].encode()
        if chroot.other.exists(znode["path"]) is None:
            chroot.other.create(znode["path"], data, makepath=True)
    rows = view("admin", here)
    assert tuple(rows[0]) == ("reassign_partitions", "k11-a", 0, [7])
    assert tuple(rows[1]) == ("preferred_replica_election", "k11-a", 0, None)
    assert tuple(rows[-1]) == ("delete_topics", "k11-del", None, None)
    assert len(rows) == 8
    assert {row.topic for row in view("admin", {**here, "subscribe": "k11-del"})} == {"k11-del"}


@pytest.mark.long
def test_brokers_down(view: View, caplog: pytest.LogCaptureFixture) -> None:
    """With all brokers down, partitions are shown offline and offsets without lag, with a warning."""
    with LocalCluster(brokers=1) as cluster, cluster.zookeeper() as client:
        cluster.create_topic("t", partitions=2)
        client.create("/consumers/g/offsets/t/0", b"5", makepath=True)
        cluster.stop(0)
        here = {"zookeeper.connect": cluster.zookeeper_connect}
        assert view("brokers", here) == []
        assert [(row.broker, row.epoch) for row in view("controller", here)] == [(None, 1)]
        assert [(row.partition, row.offline) for row in view("partitions", here)] == [(0, True), (1, True)]
        shown: list[Any] = [(row.offset, row.latest, row.lag) for row in view("offsets", here)]
        assert shown == [(5, None, None)]
        with caplog.at_level(logging.WARNING):
            plan_view("offsets", parse_read({**here, "view": "offsets"}))
        assert "has no lag for partitions without a leader: t-0" in caplog.text
        assert "NO_BROKERS" in caplog.text


@pytest.mark.long
def test_one_broker_is_silent(view: View) -> None:
    """If a leader does not answer, the committed offset is shown with a null lag."""
    with LocalCluster(brokers=2) as cluster, cluster.zookeeper() as client:
        cluster.create_topic("t", partitions=2)
        for partition in range(2):
            client.create(f"/consumers/g/offsets/t/{partition}", b"0", makepath=True)
        here = {"zookeeper.connect": cluster.zookeeper_connect}
        silent = view("partitions", here)[1].leader
        cluster.pause(silent)
        rows = view("offsets", here)
        assert [row.offset for row in rows] == [0, 0]
        assert rows[1].latest is None
        assert rows[1].lag is None
        cluster.resume(silent)


def test_projection(read: Read, client: KazooClient, group: str) -> None:
    """A user's schema selects columns of a view; unknown columns and wrong types are refused."""
    options = {"view": "owners", "group.id": group}
    frame = read(options, schema="thread string, partition int")
    assert frame.columns == ["thread", "partition"]
    assert tuple(frame.first()) == (f"{group}_c1-0", 0)
    assert read(options, schema="group string").count() == 8
    with pytest.raises(Exception, match=r"INVALID_SCHEMA.*has no column 'value'; .*partition of view=owners is int"):
        read(options, schema="value string, partition bigint").collect()


def test_joining_views(view: View, read: Read, client: KazooClient, group: str, two_topics: tuple[str, str]) -> None:
    """Views can be joined like any frame: offsets with owners."""
    options = {"group.id": group, "subscribe": two_topics[1]}
    offsets, owners = read({"view": "offsets", **options}), read({"view": "owners", **options})
    rows = offsets.join(owners, ["group", "topic", "partition"]).orderBy("partition").select("thread", "offset").collect()
    assert [tuple(row) for row in rows] == [(f"{group}_c1-0", 24), (f"{group}_c1-1", 27), (f"{group}_c2-0", 24)]


def test_contradicting_options(read: Read) -> None:
    """Options that do not fit the view are refused before anything is read."""
    with pytest.raises(Exception, match=r"2 problem.*leave out subscribe.*startingOffsets is about reading records"):
        read({"view": "brokers", "startingOffsets": "earliest", "subscribe": "t"}).printSchema()
