"""Parts of a batch read's plan without a connection: partitions, ranges and splits."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import DataLoss, GroupError, NoLeader, OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import (
    Broker,
    ClusterSnapshot,
    Endpoint,
    OffsetRange,
    PartitionState,
    Topic,
    TopicPartition,
)
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.model.pushdown import PushedFilters
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.read.batch_planner import (
    BatchPlan,
    plan_batch,
    readable_partitions,
    resolve_ranges,
    task_splits,
)
from pyspark_zkafka.retries import Retry

ONCE = Retry(0, 0.0, lambda s: None)
T = [TopicPartition("t", n) for n in range(4)]


def broker(number: int, rack: str) -> Broker:
    return Broker(number, (Endpoint("PLAINTEXT", "PLAINTEXT", f"broker{number}", 9092),), rack)


CLUSTER = ClusterSnapshot(
    {1: broker(1, "a"), 2: broker(2, "b")},
    {"t": Topic("t", {n: (1 + n // 2, 2 - n // 2) for n in range(4)}, czxid=77)},
    {tp: PartitionState(1 + tp.partition // 2, 5, (1 + tp.partition // 2, 2 - tp.partition // 2)) for tp in T},
)


def options(**given: str) -> ReadOptions:
    return parse_read({"zookeeper.connect": "zk1:2181", "subscribe": "t", **given})


def ranges(*sizes: int) -> list[OffsetRange]:
    """Return ranges of the first partitions, from offset 10 on."""
    return [OffsetRange(tp, 10, 10 + size) for tp, size in zip(T, sizes, strict=False)]


def places(**given: str) -> list[tuple[int, int, int]]:
    """Return partition, start and end of each split of four ranges."""
    return [(s.partition.partition, s.start, s.until) for s in task_splits(ranges(6, 6, 6, 6), options(**given), CLUSTER)]


def test_leaders_that_move() -> None:
    """A job that is run again has the same tasks in the same order, whoever leads: an exactly-once write compares them."""
    moved = {tp: replace(state, leader=1) for tp, state in CLUSTER.states.items()}
    for cluster in (CLUSTER, replace(CLUSTER, states=moved)):
        found = task_splits(ranges(6, 6, 6, 6), options(maxRecordsPerPartition="3"), cluster)
        order = [(split.partition.partition, split.start) for split in found]
        assert order == [(number, start) for start in (10, 13) for number in range(4)]


def test_large_ranges_are_cut() -> None:
    """Ranges are cut to the maximal number of records, each covered once and in order."""
    found = places(maxRecordsPerPartition="3")
    assert len(found) == 8
    for number in range(4):
        assert [place[1:] for place in found if place[0] == number] == [(10, 13), (13, 16)]


def test_least_number_of_tasks() -> None:
    """Ranges are cut into at least minPartitions splits."""
    assert len(places(minPartitions="12")) == 12


def test_empty_ranges() -> None:
    """A range without records yields no split."""
    found = task_splits(ranges(0, 3), options(), CLUSTER)
    assert [split.partition for split in found] == [T[1]]
    assert task_splits(ranges(0), options(), CLUSTER) == ()


@pytest.mark.parametrize(
    ("given", "endpoints"),
    [
        ({}, ("broker1:9092", "broker2:9092")),
        ({"kafka.client.rack": "b"}, ("broker2:9092", "broker1:9092")),
        ({"kafka.client.rack": "c"}, ("broker1:9092", "broker2:9092")),
    ],
)
def test_brokers_of_a_split(given: dict[str, str], endpoints: tuple[str, ...]) -> None:
    """A split has what a task needs: the leader and its epoch, the topic's identity, and the nearest brokers first."""
    (split,) = task_splits(ranges(5), options(**given), CLUSTER)
    assert split.leader == 1
    assert split.leader_epoch == 5
    assert split.isr == (1, 2)
    assert split.czxid == 77
    assert split.endpoints == endpoints


def test_pickle() -> None:
    """A plan survives pickling."""
    plan = BatchPlan(task_splits(ranges(5), options(), CLUSTER), "broker1:9092", CLUSTER)
    assert pickle.loads(pickle.dumps(plan)) == plan


class Logs:
    """Brokers with logs [10, 100), where a record at offset n has the timestamp n, and a group's offset 42.

    No record is in a transaction. Transaction 40 wrote the group's offset.
    """

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {tp: self._offset(position) for tp, position in wanted.items()}

    def _offset(self, position: Position) -> int:
        if isinstance(position, AtTimestamp):
            return max(10, position.timestamp_ms) if position.timestamp_ms < 100 else -1
        return {EARLIEST: 10, LATEST: 100}[position]

    def high_watermarks(self, partitions: Collection[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {}

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, StoredOffset]:
        return {tp: StoredOffset(42, mzxid=40) for tp in partitions}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Any], None]:
    """Has `plan_batch` read this cluster, and ask these brokers, which also store the group's offsets."""

    def patch(cluster: Any, brokers: Any) -> None:
        monkeypatch.setattr("pyspark_zkafka.read.batch_planner.open_cluster", lambda connection: nullcontext(cluster))
        monkeypatch.setattr("pyspark_zkafka.read.batch_planner.open_admin", lambda *connection: nullcontext(brokers))
        monkeypatch.setattr("pyspark_zkafka.group.offsets.GroupOffsets", lambda *connection: nullcontext(brokers))

    return patch


@dataclass
class OneTopic:
    """A cluster with one partition, created in a given transaction."""

    czxid: int

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        state = PartitionState(1, 0, (1,), czxid=self.czxid)
        return ClusterSnapshot({1: broker(1, "a")}, {"t": Topic("t", {0: (1,)}, czxid=self.czxid)}, {T[0]: state})


def test_offsets_of_a_deleted_topic(connect: Callable[[Any, Any], None]) -> None:
    """A group's offset older than the topic is data loss, or with failOnDataLoss=false the topic's beginning."""

    def start(czxid: int, **given: str) -> int:
        connect(OneTopic(czxid), Logs())
        (split,) = plan_batch(options(**{"startingOffsets": "committed", "group.id": "g", **given})).splits
        return split.start

    assert start(czxid=30) == 42
    with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.* t-0 at 42 are older than the topic"):
        start(czxid=50)
    assert start(czxid=50, failOnDataLoss="false") == 10


class Cluster:
    """A cluster with the topics orders and audit, of one partition each, without offsets of any group."""

    def topic_names(self) -> list[str]:
        return ["audit", "orders", "__consumer_offsets"]

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        names = [name for name in ("audit", "orders") if topics is None or name in topics]
        states = {TopicPartition(name, 0): PartitionState(1, 0, (1,)) for name in names}
        return ClusterSnapshot({1: broker(1, "a")}, {name: Topic(name, {0: (1,)}) for name in names}, states)

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        found = {EARLIEST: 0, LATEST: 7}
        return {tp: p.timestamp_ms if isinstance(p, AtTimestamp) else found[p] for tp, p in wanted.items()}

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, StoredOffset]:
        return {}

    def group_names(self) -> list[str]:
        return ["billing", "shipping"]


@pytest.fixture
def plan(connect: Callable[[Any, Any], None]) -> Callable[..., list[str]]:
    """Plans a read of that cluster, and returns the partitions of its splits."""
    connect(Cluster(), Cluster())

    def partitions(**given: str) -> list[str]:
        found = plan_batch(parse_read({"zookeeper.connect": "zk1:2181", **given}))
        return sorted(str(split.partition) for split in found.splits)

    return partitions


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": "order"}, r"\[UNKNOWN_TOPIC\] There is no topic or partition order \(did you mean orders\?\);"),
        ({"subscribe": "audit, Orders,x"}, r"partition Orders \(did you mean orders\?\), x; .* missingTopics"),
        ({"assign": '{"ordres":[0],"audit":[7]}'}, r"partition ordres \(did you mean orders\?\), audit-7;"),
        ({"subscribePattern": "order"}, r"\[NO_TOPIC_MATCHES\] .*subscribePattern 'order'.*audit, orders\."),
        ({"subscribeExceptPattern": ".*"}, r"\[NO_TOPIC_MATCHES\] .*subscribeExceptPattern '\.\*'.*audit, orders\."),
    ],
)
def test_missing_topics(plan: Callable[..., list[str]], given: dict[str, str], says: str) -> None:
    """A missing topic raises an error with the nearest name, a pattern without a match one with the topics."""
    with pytest.raises(UnknownTopic, match=says):
        plan(**given)


def test_a_broker_that_has_just_started(connect: Callable[[Any, Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that a broker does not know is requested again, up to the number of retries in the options."""
    answers = iter([ClusterSnapshot({}), Cluster().snapshot(), ClusterSnapshot({}), ClusterSnapshot({})])
    starting = KafkaAdmin("broker1:9092", {})
    monkeypatch.setattr(starting, "snapshot", lambda topics: next(answers))
    monkeypatch.setattr(starting, "topic_names", lambda: ["orders"])
    connect(starting, Cluster())
    pauses: list[float] = []
    read = parse_read({"kafka.bootstrap.servers": "broker1:9092", "subscribe": "orders", "fetchOffset.numRetries": "1"})
    assert len(plan_batch(read, sleep=pauses.append).splits) == 1
    with pytest.raises(UnknownTopic):
        plan_batch(read, sleep=pauses.append)
    assert pauses == [1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "audit,order"}, ["audit-0"]),
        ({"assign": '{"order":[0],"audit":[0,7]}'}, ["audit-0"]),
        ({"subscribePattern": "order"}, []),
    ],
)
def test_reading_without_missing_topics(
    plan: Callable[..., list[str]], caplog: pytest.LogCaptureFixture, given: dict[str, str], expected: list[str]
) -> None:
    """With missingTopics=wait a batch reads the existing topics, and logs the missing ones."""
    assert plan(**given, missingTopics="wait") == expected
    assert "order" in caplog.text
    assert caplog.records[0].levelname == "WARNING"


@pytest.mark.parametrize(
    "option",
    [
        {"startingOffsets": '{"audit":{"0":3},"order":{"0":3}}'},
        {"startingOffsets": '{"audit":"earliest","order":"earliest"}'},
        {"startingOffsetsByTimestamp": '{"audit":{"0":3},"order":{"0":3}}'},
        {"endingOffsets": '{"audit":{"0":3},"order":{"0":3}}'},
        {"endingOffsetsByTimestamp": '{"audit":{"0":3},"order":{"0":3}}'},
    ],
)
def test_positions_in_missing_topics(plan: Callable[..., list[str]], option: dict[str, str]) -> None:
    """With missingTopics=wait, starts and ends may name missing topics of the subscription, but no other topics."""
    assert plan(subscribe="audit,order", missingTopics="wait", **option) == ["audit-0"]
    all_missing = {name: text.replace("audit", "x") for name, text in option.items()}
    assert plan(subscribe="order,x", missingTopics="wait", **all_missing) == []
    with pytest.raises(OptionError, match=r"OFFSETS_DO_NOT_MATCH.* names order(-0)?, which this read does not contain"):
        plan(subscribe="audit,ordres", missingTopics="wait", **option)


def test_positions_of_skipped_partitions(plan: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """With offlinePartitions=skip, starts may name a partition without a leader."""
    offline = {TopicPartition("audit", 0): PartitionState(-1, 0, (1,))}
    led = Cluster().snapshot()
    monkeypatch.setattr(Cluster, "snapshot", lambda self, topics: replace(led, states={**led.states, **offline}))
    given = {"subscribe": "audit,orders", "startingOffsets": '{"audit":{"0":3},"orders":{"0":3}}'}
    assert plan(**given, offlinePartitions="skip") == ["orders-0"]


def test_group_without_offsets(plan: Callable[..., list[str]]) -> None:
    """startingOffsets=committed with a group without offsets raises an error with the nearest group."""
    given = {"subscribe": "orders,audit", "startingOffsets": "committed", "group.id": "biling"}
    with pytest.raises(GroupError, match=r"\[NO_GROUP_OFFSETS\] Group biling has no offset in .*did you mean billing\?"):
        plan(**given)
    assert plan(**given, **{"auto.offset.reset": "earliest"}) == ["audit-0", "orders-0"]
    assert plan(**given, **{"auto.offset.reset": "latest"}) == []


def cluster(leader_of_1: int) -> ClusterSnapshot:
    """Return a cluster with only broker 1, and a given leader of the second partition."""
    states = {T[0]: PartitionState(1, 0, (1,)), T[1]: PartitionState(leader_of_1, 0, (leader_of_1,))}
    return ClusterSnapshot({1: Broker(1, ())}, {"t": Topic("t", {0: (1,), 1: (leader_of_1,)})}, states)


def test_all_led() -> None:
    """All subscribed partitions are read if each has a leader."""
    assert readable_partitions(Subscribe(("t",)), cluster(1), skip_offline=False) == [T[0], T[1]]


def test_offline(caplog: pytest.LogCaptureFixture) -> None:
    """A partition whose leader is not registered raises an error, or is skipped with a warning."""
    with pytest.raises(NoLeader, match="t-1"):
        readable_partitions(Subscribe(("t",)), cluster(2), skip_offline=False)
    with caplog.at_level(logging.WARNING):
        assert readable_partitions(Subscribe(("t",)), cluster(2), skip_offline=True) == [T[0]]
    assert "Reading the other partitions, because offlinePartitions is skip" in caplog.text


def test_ranges() -> None:
    """By default a batch reads whole logs."""
    assert resolve_ranges(options(), [T[0]], Logs(), {}, ONCE) == [OffsetRange(T[0], 10, 100)]


def test_offsets_outside(caplog: pytest.LogCaptureFixture) -> None:
    """Offsets outside a log are data loss, or with failOnDataLoss=false are moved into the log."""
    start = {"startingOffsets": '{"t": {"0": 5}}'}
    with pytest.raises(DataLoss, match=r"t-0.*correct the offsets, or set failOnDataLoss to false"):
        resolve_ranges(options(**start), [T[0]], Logs(), {}, ONCE)
    with caplog.at_level(logging.WARNING):
        found = resolve_ranges(options(**start, failOnDataLoss="false"), [T[0]], Logs(), {}, ONCE)
    assert found == [OffsetRange(T[0], 10, 100)]
    assert "Reading what is there" in caplog.text


def test_pushed_filters() -> None:
    """Filters on offsets narrow each range."""
    pushed = PushedFilters(from_offset=20, until_offset=30)
    assert resolve_ranges(options(), [T[0]], Logs(), {}, ONCE, pushed) == [OffsetRange(T[0], 20, 30)]
