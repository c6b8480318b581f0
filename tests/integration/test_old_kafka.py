"""A cluster of Kafka 1.1.1 of 2018, the last version with the old consumer and without topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.testing import LocalCluster
from tests.support.both_paths import BOTH
from tests.support.both_paths_reads import VALUE, Read
from tests.support.both_paths_writes import frame, send
from tests.support.eventually import eventually
from tests.support.tiers import seldom
from tests.support.topics import KEPT, arrived
from tests.support.transactions import abort, commit
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.options.values import Transport

T0 = 1_700_000_000_000


@pytest.fixture(params=["zookeeper", *seldom("bootstrap")])
def old_connection(request: pytest.FixtureRequest, old_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the old cluster, through ZooKeeper or through its broker only."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": old_cluster.zookeeper_connect}
    return {"kafka.bootstrap.servers": old_cluster.bootstrap_servers}


@pytest.fixture(scope="module")
def written(spark: SparkSession, old_cluster: LocalCluster) -> str:
    """A topic of three partitions written by zkafka, with keys and headers."""
    old_cluster.create_topic("written", partitions=3, config=KEPT)
    frame = spark.range(60, numPartitions=1).selectExpr(  # one task keeps the order of time
        "cast(id % 6 AS string) AS key",
        "cast(id AS string) AS value",
        "array(named_struct('key', 'id', 'value', cast(cast(id AS string) AS binary))) AS headers",
        f"timestamp_millis({T0} + id) AS timestamp",
    )
    options = {"zookeeper.connect": old_cluster.zookeeper_connect, "topic": "written"}
    frame.write.format("zkafka").options(**options).mode("append").save()
    return "written"


def read(spark: SparkSession, connection: dict[str, str], **options: str) -> DataFrame:
    return spark.read.format("zkafka").options(**connection, **options).load()


@pytest.mark.parametrize("old_connection", ["zookeeper", "bootstrap"], indirect=True)
def test_written_and_read(spark: SparkSession, old_connection: dict[str, str], written: str) -> None:
    """Keys, values, headers and timestamps are read back, each key from one partition, with and without ZooKeeper."""
    rows = read(spark, old_connection, subscribe=written, includeHeaders="true").collect()
    assert sorted(int(r.value) for r in rows) == list(range(60))
    assert all([tuple(h) for h in r.headers] == [("id", bytes(r.value))] for r in rows)
    assert all(r.timestamp.timestamp() * 1000 == pytest.approx(T0 + int(r.value)) for r in rows)
    assert len({(bytes(r.key), r.partition) for r in rows}) == 6


def test_transports(old_cluster: LocalCluster) -> None:
    """Every transport reads the same records, compressed with each codec or written in transactions."""
    records = [{"key": b"%d" % n, "value": b"v" * n, "headers": [("h", b"x")]} for n in range(200)]
    for codec in ("none", "gzip", "snappy", "lz4"):
        old_cluster.create_topic(f"codec-{codec}")
        old_cluster.produce(f"codec-{codec}", records, {"compression.type": codec})
        assert Read(old_cluster)(f"codec-{codec}", 200).num_rows == 200
    old_cluster.create_topic("transactions")
    commit(old_cluster, "transactions", b"a")
    abort(old_cluster, "transactions", b"b")
    for level, values in (("read_committed", [b"a"]), ("read_uncommitted", [b"a", b"b"])):
        found = Read(old_cluster)("transactions", 4, columns=VALUE, kafka={"isolation.level": level})
        assert found.column("value").to_pylist() == values


@pytest.mark.parametrize("transport", BOTH)
def test_writes_of_each_transport(old_cluster: LocalCluster, transport: Transport) -> None:
    """Each transport writes with every codec that the broker supports."""
    batch = frame(key=[b"k", None] * 500, value=[b"v" * (n % 300) for n in range(1000)])
    for codec in ("none", "gzip", "snappy", "lz4"):
        topic = f"by-{transport}-{codec}"
        old_cluster.create_topic(topic, partitions=2, config=KEPT)
        sent = send(old_cluster.bootstrap_servers, {"compression.type": codec}, transport, topic, [(batch, [0, 1] * 500)])
        assert sent == 1000
        found = arrived(old_cluster.bootstrap_servers, topic, 2)
        assert [row[2] for row in found[0]] == batch.column("value").to_pylist()[::2]


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
def test_old_message_formats(old_cluster: LocalCluster, version: str) -> None:
    """Both transports read the same messages of formats 0 and 1, compressed with each codec."""
    records = [{"key": b"%d" % n if n % 3 else None, "value": b"v" * n if n % 5 else None} for n in range(200)]
    for codec in ("none", "gzip", "snappy", "lz4"):
        topic = f"format-{version}-{codec}"
        old_cluster.create_topic(topic, config={**KEPT, "message.format.version": version})
        old_cluster.produce(topic, records, {"compression.type": codec})
        found = Read(old_cluster)(topic, 200)
        assert found.column("value").to_pylist() == [record["value"] for record in records]
        assert set(found.column("timestampType").to_pylist()) == {-1 if version == "0.9.0" else 0}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_fetches_of_old_brokers(old_cluster: LocalCluster, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are read with the fetch versions of brokers 0.10 and 0.11, which need converted messages."""
    topic, servers = f"fetch-{version}", old_cluster.bootstrap_servers
    old_cluster.create_topic(topic, config=KEPT)
    old_cluster.produce(topic, [{"value": b"%d" % n} for n in range(100)], {"compression.type": "lz4"})
    split = Split(TopicPartition(topic, 0), 0, 100, 0, 0, (0,), (servers,))
    with (
        DirectClient(settings_of({"bootstrap.servers": servers})) as client,
        DirectConsumer(client, split, pa.schema([("value", pa.binary())])) as consumer,
    ):
        monkeypatch.setattr(consumer._fetcher, "_fetch_version", lambda connection: connection.version(FETCH, version))
        (table,) = SplitReader(split, consumer, ReadPolicy(), lambda: "same").batches()
    assert table.column("value").to_pylist() == [b"%d" % n for n in range(100)]


def test_log_of_two_formats(old_cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Records of an old message format after those of a newer one are read once each."""
    options = {"zookeeper.connect": old_cluster.zookeeper_connect, "subscribe": "two-formats", "transport": "direct"}
    old_cluster.create_topic("two-formats", config=KEPT)
    old_cluster.produce("two-formats", [{"value": b"new"}] * 10)
    # Not incremental, which this broker does not support.
    resource = ConfigResource(ResourceType.TOPIC, "two-formats", set_config={**KEPT, "message.format.version": "0.9.0"})
    with (
        AdminClient({"bootstrap.servers": old_cluster.bootstrap_servers}) as admin,
        pytest.warns(DeprecationWarning, match="alter_configs"),
    ):
        admin.alter_configs([resource])[resource].result(30)
    columns = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("timestampType", pa.int32())])

    def rows() -> list[dict[str, Any]] | None:
        """Append ten records, and return all rows once the broker stores them in the old format, which has no times."""
        old_cluster.produce("two-formats", [{"value": b"old"}] * 10)
        plan, reader = plan_batch(parse_read(options)), ZKafkaReader(parse_read(options), columns)
        found = [r for b in reader.read(SplitPartition(plan.splits, plan.bootstrap_servers)) for r in b.to_pylist()]
        return found if found[-1]["timestampType"] == -1 else None

    found = eventually(rows, 30)
    assert [(row["offset"], row["value"]) for row in found] == [
        (n, b"new" if n < 10 else b"old") for n in range(len(found))
    ]
    assert "librdkafka continues" not in caplog.text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": str(T0 + 50)}, range(50, 60)),
        ({"endingTimestamp": str(T0 + 7)}, range(7)),
        ({"startingTimestamp": str(T0 + 10), "endingTimestamp": str(T0 + 20)}, range(10, 20)),
        ({"startingTimestamp": str(T0 + 1000), "startingOffsetsByTimestampStrategy": "latest"}, ()),
    ],
)
def test_timestamps(
    spark: SparkSession, old_connection: dict[str, str], written: str, options: dict[str, str], expected: range
) -> None:
    """Starts and ends by timestamp select the right records."""
    found = sorted(int(r.value) for r in read(spark, old_connection, subscribe=written, **options).collect())
    assert found == list(expected)


def test_plan(old_cluster: LocalCluster, written: str) -> None:
    """A plan has ends, leaders and the znode's identity, but no topic ids."""
    plan = plan_batch(parse_read({"zookeeper.connect": old_cluster.zookeeper_connect, "subscribe": written}))
    assert sum(split.size for split in plan.splits) == 60
    assert {split.topic_id for split in plan.splits} == {None}
    assert all(split.czxid and split.leader == 0 and split.leader_epoch == 0 for split in plan.splits)


@pytest.mark.parametrize("records", [20, *seldom(5, 10)])
def test_created_again(old_cluster: LocalCluster, records: int) -> None:
    """A topic deleted and created again is recognised by its znode, whatever its number of records."""
    topic = f"replaced-{records}"
    old_cluster.create_topic(topic)
    old_cluster.produce(topic, [{"value": b"old"}] * 10)
    options = parse_read({"zookeeper.connect": old_cluster.zookeeper_connect, "subscribe": topic})
    plan = plan_batch(options)
    reader = ZKafkaReader(options, pa.schema([("offset", pa.int64())]))
    old_cluster.delete_topic(topic)
    old_cluster.create_topic(topic)
    old_cluster.produce(topic, [{"value": b"new"}] * records)
    (split,) = plan.splits
    with pytest.raises(DataLoss, match=f"topic {topic} was created again"):
        list(reader.read(SplitPartition((split,), plan.bootstrap_servers)))


def test_sessions_of_tasks(spark: SparkSession, old_cluster: LocalCluster) -> None:
    """Tasks compare topics by their znodes in one session of their worker, however many tasks and topics there are."""
    topics = [f"compared-{n}" for n in range(10)]
    for topic in topics:
        old_cluster.create_topic(topic, partitions=2)
        old_cluster.produce(topic, [{"value": b"v", "partition": p} for p in range(2)])
    with Wire(old_cluster.port("zookeeper")) as wire:
        raw = {"zookeeper.connect": f"{wire.address}/{old_cluster.zookeeper_connect.partition('/')[2]}".rstrip("/")}
        raw |= {"kafka.bootstrap.servers": old_cluster.bootstrap_servers, "subscribe": ",".join(topics)}
        assert read(spark, raw).count() == 20
        # Of the plan, and of each worker: Spark starts another worker if no idle one is back yet.
        assert len(wire.greetings) <= 10
        plan, before = plan_batch(parse_read(raw)), len(wire.greetings)
        reader = ZKafkaReader(parse_read(raw), pa.schema([("offset", pa.int64())]))
        one_task = SplitPartition(plan.splits, plan.bootstrap_servers)
        tasks = [SplitPartition((split,), plan.bootstrap_servers) for split in plan.splits]
        for task in (one_task, *tasks):
            list(reader.read(task))
        assert len(wire.greetings) == before + 1


def test_created_again_between_tasks(old_cluster: LocalCluster) -> None:
    """A task recognises a topic that was created again since another task of its worker has compared it."""
    old_cluster.create_topic("between", partitions=2)
    old_cluster.produce("between", [{"value": b"old", "partition": p} for p in range(2)])
    options = parse_read({"zookeeper.connect": old_cluster.zookeeper_connect, "subscribe": "between"})
    plan, reader = plan_batch(options), ZKafkaReader(options, pa.schema([("offset", pa.int64())]))
    first, second = (SplitPartition((split,), plan.bootstrap_servers) for split in plan.splits)
    assert sum(batch.num_rows for batch in reader.read(first)) == 1
    old_cluster.delete_topic("between")
    old_cluster.create_topic("between", partitions=2)
    old_cluster.produce("between", [{"value": b"new", "partition": p} for p in range(2)])
    with pytest.raises(DataLoss, match="topic between was created again"):
        list(reader.read(second))
