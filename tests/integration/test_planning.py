"""Requests of planning to ZooKeeper and brokers: as few for many partitions as for few, and none twice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.kept import ClientPool, Keep
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import ZKafkaReader, split_partitions
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.wire.protocol import Request
from pyspark_zkafka.zookeeper.connection import Results, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Operation, Outcome
from tests.support.eventually import eventually
from tests.support.fill import fill

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Planner = Callable[..., StreamDriver]
BROKERS = 3


class Asked:
    """The rounds of requests to ZooKeeper, and the requests to brokers by name, since the last call of `since`."""

    def __init__(self) -> None:
        self.rounds: list[str] = []
        self.requests: Counter[str] = Counter()
        self.admins: list[KafkaAdmin] = []
        self.open: set[KafkaAdmin] = set()

    def since(self) -> tuple[list[str], Counter[str]]:
        found = self.rounds, self.requests
        self.rounds, self.requests = [], Counter()
        return found


def is_planning() -> bool:
    """Return whether this is not a member's own thread, which sends requests whenever its group changes."""
    return threading.current_thread() is threading.main_thread()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Counts the requests of this process."""
    counts = Asked()
    ask, transact = ZooKeeperConnection.ask, ZooKeeperConnection.transact
    enter, leave, encoded = KafkaAdmin.__enter__, KafkaAdmin.__exit__, Request.encoded

    def counted_ask(self: ZooKeeperConnection, *args: Any, **kinds: Any) -> Results:
        given = {kind: list(paths) for kind, paths in kinds.items() if kind != "watch"}
        if any(given.values()) and is_planning():
            counts.rounds.append("ask")
        return ask(self, *args, **{**kinds, **given})

    def counted_transact(self: ZooKeeperConnection, operations: list[Operation]) -> Outcome:
        if operations and is_planning():
            counts.rounds.append("transact")
        return transact(self, operations)

    def counted_enter(self: KafkaAdmin) -> KafkaAdmin:
        counts.admins.append(self)
        counts.open.add(self)
        return enter(self)

    def counted_exit(self: KafkaAdmin, *error: Any) -> None:
        counts.open.discard(self)
        leave(self, *error)

    def counted_encoding(self: Request, *header: Any) -> bytes:
        if is_planning():
            counts.requests[self.api.name] += 1
        return encoded(self, *header)

    monkeypatch.setattr(ZooKeeperConnection, "ask", counted_ask)
    monkeypatch.setattr(ZooKeeperConnection, "transact", counted_transact)
    monkeypatch.setattr(KafkaAdmin, "__enter__", counted_enter)
    monkeypatch.setattr(KafkaAdmin, "__exit__", counted_exit)
    monkeypatch.setattr(Request, "encoded", counted_encoding)
    return counts


@pytest.fixture
def planner(new_driver: Callable[..., StreamDriver]) -> Planner:
    """Makes planners: ``planner(subscribe=topic)``."""
    return lambda **options: new_driver({"startingOffsets": "earliest", **options})


def as_spark_has_it(offset: dict[str, Any]) -> dict[str, Any]:
    """Return the offset after a round trip through Spark's checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def micro_batch(planner: StreamDriver, start: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the end of the next micro-batch and the number of its splits."""
    end = as_spark_has_it(planner.latest(start, limited=False))
    splits, _ = planner.splits(end)
    planner.commit()
    return end, len(splits)


@pytest.mark.parametrize("partitions", [6, 60])
def test_batch(
    asked: Asked, zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic, partitions: int
) -> None:
    """A batch takes one snapshot, and one request per broker for each end of the logs."""
    topic = new_topic(partitions=partitions)
    fill(zkafka_cluster, topic, 1, range(partitions))
    plan = plan_batch(parse_read({**zookeeper, "subscribe": topic}))
    assert len(plan.splits) == partitions
    rounds, requests = asked.since()
    assert rounds == ["ask"] * 3  # whether Kafka is there; brokers and topics; partitions
    assert requests["ListOffsets"] == 2 * BROKERS
    assert len(asked.admins) == 1


@pytest.mark.parametrize("partitions", [6, 60])
def test_stream(
    asked: Asked,
    planner: Planner,
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    partitions: int,
) -> None:
    """Without changes, planning asks ZooKeeper nothing, and each broker once for the ends of the logs."""
    topic = new_topic(partitions=partitions)
    fill(zkafka_cluster, topic, 1, range(partitions))
    stream = planner(subscribe=topic)
    end, count = micro_batch(stream, as_spark_has_it(stream.initial()))
    assert count == partitions
    asked.since()
    for _ in range(3):
        fill(zkafka_cluster, topic, 1, range(partitions))
        end, count = micro_batch(stream, end)
        assert count == partitions
        assert asked.since() == ([], {"ListOffsets": BROKERS})
    assert stream.latest(end, limited=False) is end
    assert asked.since() == ([], {"ListOffsets": BROKERS})


@pytest.mark.parametrize("membership", ["zookeeper", "none"])
def test_stream_with_a_group(
    asked: Asked,
    planner: Planner,
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    membership: str,
) -> None:
    """A micro-batch's commit takes two rounds: one reads offsets and owners, the other is the transaction."""
    topic = new_topic(partitions=6)
    fill(zkafka_cluster, topic, 1, range(6))
    stream = planner(subscribe=topic, **{"group.id": f"planning-{membership}-{topic}", "groupMembership": membership})
    end, _ = micro_batch(stream, as_spark_has_it(stream.initial()))
    asked.since()
    for _ in range(3):
        fill(zkafka_cluster, topic, 1, range(6))
        end, count = micro_batch(stream, end)
        assert count == 6
        assert asked.since() == (["ask", "transact"], {"ListOffsets": BROKERS})
    assert stream.latest(end, limited=False) == end
    assert asked.since() == (["ask", "transact"], {"ListOffsets": BROKERS})


def test_offsets_are_what_their_texts_say(planner: Planner, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """The planner that made an offset plans the same splits from it as a planner that only knows its text."""
    topic = new_topic(partitions=6)
    stream, other = planner(subscribe=topic), planner(subscribe=topic)
    end = as_spark_has_it(stream.initial())
    for _ in range(2):
        fill(zkafka_cluster, topic, 1, range(6))
        end = as_spark_has_it(stream.latest(end, limited=False))
        assert stream.splits(end) == other.splits(end)


def test_marks_of_commits(planner: Planner, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A checkpoint stores the transaction that wrote the group's offset, from the first commit on."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, 1, range(2))
    group = f"marks-{topic}"
    stream = planner(subscribe=topic, **{"group.id": group})
    end = as_spark_has_it(stream.initial())
    for _ in range(3):
        fill(zkafka_cluster, topic, 1, range(2))
        end, _ = micro_batch(stream, end)
        with zkafka_cluster.zookeeper() as other:
            stats = [other.get(f"/consumers/{group}/offsets/{topic}/{p}")[1] for p in range(2)]
        assert [span[3] for span in end["topics"][topic]["partitions"].values()] == [stat.mzxid for stat in stats]


def test_more_partitions_than_go_in_a_request(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets of many partitions are looked up in several requests, each partition once and at its own position."""
    monkeypatch.setattr("pyspark_zkafka.brokers.admin._MOST_PARTITIONS", 3)
    topic = new_topic(partitions=8)
    fill(zkafka_cluster, topic, 1, range(8))
    partitions = [TopicPartition(topic, p) for p in range(8)]
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        wanted = {tp: LATEST if tp.partition % 2 else EARLIEST for tp in partitions}
        assert client.list_offsets(wanted) == {tp: tp.partition % 2 for tp in partitions}
        found, failed = client.list_offsets_each({**wanted, TopicPartition(topic, 99): LATEST})
    assert found == {tp: tp.partition % 2 for tp in partitions}
    assert list(failed) == [TopicPartition(topic, 99)]


class TestIdentity:
    """A task's final check that its topic is the planned one."""

    @pytest.fixture
    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([pa.field("value", pa.binary())])

    def read(self, options: dict[str, str], schema: pa.Schema) -> int:
        """Return the number of rows of a batch read in this process."""
        plan, reader = plan_batch(parse_read(options)), ZKafkaReader(parse_read(options), schema)
        parts = split_partitions(parse_read(options), plan.splits, plan.bootstrap_servers)
        return sum(batch.num_rows for part in parts for batch in reader.read(part))

    @pytest.fixture
    def options(self, zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic) -> dict[str, str]:
        """Options for a topic with one record in each of four partitions, with a unique client id."""
        topic = new_topic(partitions=4)
        fill(zkafka_cluster, topic, 1, range(4))
        return {**zookeeper, "subscribe": topic, "kafka.client.id": topic}

    def test_one_client_for_many_tasks(self, asked: Asked, options: dict[str, str], schema: pa.Schema) -> None:
        """Consecutive tasks of a process share one admin client; other settings get another client."""
        options["transport"] = "librdkafka"  # its fetches are by name
        assert self.read(options, schema) == self.read(options, schema) == 4
        assert len(asked.admins) == 3  # two for planning, one for eight tasks
        assert self.read({**options, "kafka.client.id": "another"}, schema) == 4
        assert len(asked.admins) == 5

    def test_no_client_where_brokers_compare(self, asked: Asked, options: dict[str, str], schema: pa.Schema) -> None:
        """Tasks whose fetches carry the topic's id do not look it up."""
        assert self.read({**options, "transport": "direct"}, schema) == 4
        assert len(asked.admins) == 1  # for planning

    def test_every_task_asks(
        self, asked: Asked, zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic, schema: pa.Schema
    ) -> None:
        """A leased client that is used again looks the topic up again."""
        topic = new_topic(partitions=1)
        fill(zkafka_cluster, topic, 1, range(1))
        options = parse_read({**zookeeper, "subscribe": topic, "kafka.client.id": topic})
        plan, reader = plan_batch(options), ZKafkaReader(options, schema)
        (task,) = split_partitions(options, plan.splits, plan.bootstrap_servers)
        assert sum(batch.num_rows for batch in reader.read(task)) == 1
        zkafka_cluster.delete_topic(topic)
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.* was deleted"):
            list(reader.read(task))
        zkafka_cluster.create_topic(topic, partitions=1)
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.* was created again"):
            list(reader.read(task))
        assert len(asked.admins) == 2  # one for planning

    def test_idle_clients_end(self, asked: Asked, zkafka_cluster: LocalCluster) -> None:
        """An idle client ends by itself."""
        pool: ClientPool[KafkaAdmin] = ClientPool(Keep(max_idle_s=0.2))
        with pool.lease("a", lambda: KafkaAdmin(zkafka_cluster.bootstrap_servers, {})) as client:
            assert client.topic_ids(["no-such-topic"]) == {}
            assert asked.open == {client}
        eventually(lambda: not asked.open)

    def test_exit(self, zkafka_cluster: LocalCluster) -> None:
        """A process with an idle client ends at once, and so does its fork, which has its own client."""
        # Since Python 3.12, a fork next to other threads causes a warning.
        started = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", EXIT, zkafka_cluster.bootstrap_servers]
        done = subprocess.run(started, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout.split() == ["{}", "{}", "0"]
        assert done.stderr == ""


EXIT = """
import os, sys
from pyspark_zkafka.brokers.admin import lease_admin

def ask():
    with lease_admin(sys.argv[1], {}) as client:
        print(client.topic_ids(["no-such-topic"]), flush=True)

ask()
child = os.fork()
if child == 0:
    ask()
    sys.exit(0)
print(os.waitpid(child, 0)[1])
"""
