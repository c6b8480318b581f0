"""A stream's snapshot of its cluster: refreshes, and failed refreshes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, ZKafkaError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.cluster_state import ClusterState
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.retries import Retry
from tests.support.planned_stream import Session

LOST = ZooKeeperError("ZOOKEEPER_CONNECTION_LOST", "lost")


def cluster(*topics: str, brokers: Collection[int] = (0,), leader: int = 0, kraft_epoch: int = -1) -> ClusterSnapshot:
    """Return a cluster whose topics have one partition each."""
    found = {n: Broker(n, (Endpoint("PLAINTEXT", "PLAINTEXT", "k", 9092 + n),)) for n in brokers}
    states = {TopicPartition(name, 0): PartitionState(leader, 0, (0,)) for name in topics}
    return ClusterSnapshot(found, {name: Topic(name, {0: (0,)}) for name in topics}, states, kraft_epoch=kraft_epoch)


class ZooKeeper:
    """A ZooKeeper with successive snapshots or errors; the last one stays."""

    def __init__(self, *found: ClusterSnapshot | ZKafkaError) -> None:
        self.found = list(found)
        self.connected = True
        self.refused: ZKafkaError | None = None
        self.reads = 0
        self.report: Callable[[object], None] = lambda event: None

    def children_many(self, paths: Iterable[str], watch: Callable[[object], None]) -> dict[str, list[str]]:
        self.report = watch
        return {path: ["t"] for path in paths}

    def exists_many(self, paths: Iterable[str], watch: Callable[[object], None]) -> None: ...

    def snapshot(self, topics: Collection[str]) -> ClusterSnapshot:
        self.reads += 1
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, ZKafkaError):
            raise found
        return found


class State(ClusterState):
    """The state of a cluster in ZooKeeper; `now` is the time."""

    def __init__(self, zookeeper: ZooKeeper, group: str | None = None) -> None:
        options = parse_stream({"zookeeper.connect": "z:2181", "subscribe": "t,u", "fetchOffset.numRetries": "2"})
        self.now = 100.0
        self.pauses: list[float] = []
        given: Any = zookeeper
        super().__init__(options.read, given, group, lambda: self.now, options.read.retry(self.pauses.append))


def test_last_servers() -> None:
    """Bootstrap servers follow the snapshots. A snapshot without brokers leaves them unchanged."""
    zookeeper = ZooKeeper(cluster("t"), cluster("t", brokers=[1, 2]), cluster("t", brokers=[]))
    state = State(zookeeper)
    assert [(state.snapshot(anew=True), state.last_servers)[1] for _ in range(3)] == ["k:9092", *["k:9093,k:9094"] * 2]


def test_an_admin_client_follows_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The admin client, which is opened with the brokers of the first snapshot, learns of their successors."""
    seen: list[str] = []
    monkeypatch.setattr(KafkaAdmin, "follow", lambda self, servers: seen.append(servers))
    state = State(ZooKeeper(cluster("t", brokers=[1]), cluster("t", brokers=[1]), cluster("t", brokers=[2])))
    assert state.brokers.servers == "k:9093"
    state.snapshot(anew=True)
    state.snapshot(anew=True)
    state.close()
    assert seen == ["k:9093", "k:9094"]


def test_a_snapshot_is_kept() -> None:
    """A snapshot is kept for a minute, until a watch reports a change, or until a new one is requested."""
    zookeeper = ZooKeeper(cluster("t"))
    state = State(zookeeper)
    first = state.snapshot()
    state.now += 59
    assert state.snapshot() is first
    zookeeper.report("a topic was created")
    state.snapshot()
    assert zookeeper.reads == 2
    state.snapshot()
    state.snapshot(anew=True)
    assert zookeeper.reads == 3
    state.now += 61
    state.snapshot()
    assert zookeeper.reads == 4


def test_without_leader() -> None:
    """While a partition has no leader, the cluster is read twice a second."""
    zookeeper = ZooKeeper(cluster("t", leader=-1), cluster("t"))
    state = State(zookeeper)
    state.snapshot()
    state.now += 0.6
    state.snapshot()
    state.now += 0.6
    state.snapshot()
    assert zookeeper.reads == 2


def test_a_connection_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Without a connection the last snapshot is used, with one warning. A new one is read soon after a reconnection."""
    zookeeper = ZooKeeper(cluster("t"), LOST, LOST, cluster("t", "u"))
    state = State(zookeeper)
    first = state.snapshot()
    assert state.snapshot(anew=True) is first
    zookeeper.connected = False
    assert state.snapshot(anew=True) is first
    zookeeper.connected = True
    assert state.snapshot(anew=True) is first
    assert caplog.text.count("The last snapshot of the cluster is used") == 1
    state.now += 0.6
    assert state.snapshot().topics.keys() == {"t", "u"}


def test_a_permanent_error_is_raised() -> None:
    """An error that is not retriable is raised, even if there is a snapshot."""
    state = State(ZooKeeper(cluster("t"), ZooKeeperRefused("ZOOKEEPER_REFUSED", "no")))
    state.snapshot()
    with pytest.raises(ZooKeeperRefused):
        state.snapshot(anew=True)


def test_the_first_snapshot() -> None:
    """Reading the first snapshot is retried up to the number of retries in the options."""
    assert State(ZooKeeper(LOST, LOST, cluster("t"))).snapshot().topics.keys() == {"t"}
    state = State(ZooKeeper(LOST))
    with pytest.raises(ZooKeeperError):
        state.snapshot()
    assert len(state.pauses) == 2


def test_a_deletion_is_confirmed() -> None:
    """A second read confirms that a topic is missing; afterwards its deletion is known."""
    zookeeper = ZooKeeper(cluster("t", "u"), cluster("t"), cluster("t", "u"), cluster("t"))
    state = State(zookeeper)
    state.snapshot()
    state.snapshot(anew=True)
    assert state.snapshot(expected=["t", "u"]).topics.keys() == {"t", "u"}
    state.snapshot(anew=True)
    assert state.snapshot(expected=["t", "u"]).topics.keys() == {"t"}
    reads = zookeeper.reads
    state.snapshot(expected=["t", "u"])
    assert zookeeper.reads == reads


def test_settled() -> None:
    """The state waits for a leader that is not registered, up to the number of retries in the options."""
    zookeeper = ZooKeeper(cluster("t", leader=7), cluster("t", leader=7), cluster("t"))
    state = State(zookeeper)
    assert state.settled_snapshot().states[TopicPartition("t", 0)].leader == 0
    assert len(state.pauses) == 2
    state = State(ZooKeeper(cluster("t", leader=7)))
    assert state.settled_snapshot().states[TopicPartition("t", 0)].leader == 7
    assert len(state.pauses) == 2


def test_servers() -> None:
    """Bootstrap servers are the registered brokers, or, without any, the last known ones."""
    state = State(ZooKeeper(cluster("t", brokers=[0, 1])))
    assert state.servers(state.snapshot()) == "k:9092,k:9093"
    assert state.servers(cluster("t", brokers=[])) == "k:9092,k:9093"


def test_brokers_that_have_left() -> None:
    """A group in ZooKeeper continues for half a minute without brokers, which may restart. Then it ends with an error."""
    zookeeper = ZooKeeper(cluster("t", kraft_epoch=1), cluster("t", brokers=[], kraft_epoch=1))
    state = State(zookeeper, group="g")
    first = state.snapshot()
    assert state.snapshot(anew=True) is first
    state.now += 29
    assert state.snapshot(anew=True) is first
    state.now += 2
    with pytest.raises(ClusterStateError, match="MIGRATED_TO_KRAFT"):
        state.snapshot(anew=True)


def test_brokers_that_come_back() -> None:
    """Brokers that return end the half minute. Without brokers at the start, the error is immediate."""
    gone = cluster("t", brokers=[], kraft_epoch=1)
    zookeeper = ZooKeeper(cluster("t", kraft_epoch=1), gone, cluster("t", kraft_epoch=1), gone)
    state = State(zookeeper, group="g")
    for _ in range(4):
        state.snapshot(anew=True)
        state.now += 20
    with pytest.raises(ClusterStateError, match="MIGRATED_TO_KRAFT") as error:
        State(ZooKeeper(gone), group="g").snapshot()
    assert not isinstance(error.value, BrokersUnavailable)


def test_other_topics_are_confirmed() -> None:
    """A topic outside the subscription is requested again from brokers, since one that has just started knows none."""
    state = State(ZooKeeper(cluster("t")))
    state._is_polled = True
    brokers = ZooKeeper(cluster(), cluster(), cluster("u"))
    state._zookeeper = brokers  # type: ignore[assignment]
    assert state.snapshot_of(["u"]).topics.keys() == {"u"}
    assert brokers.reads == 3


def test_a_pattern_asked_of_a_broker_that_has_just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with an end asks again if the first broker lists no topic, so that no topic counts as missing."""

    class Starting:
        listings = 0

        def topic_names(self) -> list[str]:
            self.listings += 1
            return ["t"] if self.listings > 1 else []

        def snapshot(self, topics: Collection[str]) -> ClusterSnapshot:
            return cluster(*topics)

        def list_offsets(self, positions: Iterable[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
            return dict.fromkeys(positions, 5)

    options = parse_stream({"kafka.bootstrap.servers": "b:9092", "startingOffsets": "earliest", "subscribePattern": "t"})
    session = Session()
    state = ClusterState(options.read, None, None, lambda: session.now, options.read.retry(session.sleep))
    monkeypatch.setattr(state, "_brokers", Starting())
    monkeypatch.setattr(Session, "cluster", state, raising=False)
    driver = StreamDriver(options, lambda: session.now, session.sleep, session)
    driver.fix_bounds()
    assert driver._state.bounds == {TopicPartition("t", 0): 5}


DOWN = BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")


def polled(*found: ClusterSnapshot | ZKafkaError, retries: int = 2) -> State:
    """Return the state of a cluster without ZooKeeper, whose brokers give these answers."""
    state = State(ZooKeeper())
    state._zookeeper, state._retry = None, Retry(retries, 1.0, state.pauses.append)
    brokers: Any = ZooKeeper(*found)
    state._brokers = brokers
    return state


def test_a_deletion_that_no_broker_confirms() -> None:
    """A broker that knows no topic, followed by no answer, confirms nothing: the topics stay as they were."""
    state = polled(cluster("t"), cluster(), DOWN)
    first = state.snapshot()
    assert state.snapshot(anew=True, expected=["t"]) is first
    assert state.snapshot() is first
    with pytest.raises(BrokersUnavailable, match="Whether t exist is unknown"):
        polled(cluster(), DOWN).snapshot(expected=["t"])


def test_a_deletion_without_retries() -> None:
    """Another read confirms a deletion even if failed requests are not repeated."""
    state = polled(cluster("t"), cluster(), cluster("t"), retries=0)
    state.snapshot()
    assert state.snapshot(anew=True, expected=["t"]).topics.keys() == {"t"}


def test_a_broker_that_has_not_caught_up() -> None:
    """A topic does not lose partitions: metadata without added ones is not used."""

    def topic(partitions: int, topic_id: str) -> ClusterSnapshot:
        return ClusterSnapshot({}, {"t": Topic("t", dict.fromkeys(range(partitions), (0,)), topic_id)})

    state = polled(topic(2, "id"), topic(1, "id"), topic(3, "id"), topic(1, "another"))
    sizes = [len(state.snapshot(anew=True).topics["t"].partitions) for _ in range(4)]
    assert sizes == [2, 2, 3, 1]


def test_a_deletion_that_a_look_without_expectations_finds() -> None:
    """Without ZooKeeper, every snapshot confirms that topics are missing, so that none is dropped by an empty answer."""
    state = polled(cluster("t"), cluster(), DOWN)
    first = state.snapshot()
    assert not state.has_same_topics_as(cluster("t", "u"))
    assert state.snapshot(anew=True) is first
    assert polled(cluster("t"), cluster()).snapshot(expected=["t"]).topics.keys() == {"t"}
    gone = polled(cluster("t"), *(cluster() for _ in range(4)))
    gone.snapshot()
    assert gone.snapshot(anew=True).topics == {}


def test_brokers_that_disagree() -> None:
    """A topic that one of the confirming answers has is not deleted, and partitions are not lost meanwhile."""
    state = polled(cluster("t", "u"), cluster(), cluster("t"), cluster())
    first = state.snapshot()
    assert state.snapshot(anew=True) is first

    def sized(**partitions: int) -> ClusterSnapshot:
        topics = {name: Topic(name, dict.fromkeys(range(count), (0,)), name) for name, count in partitions.items()}
        return ClusterSnapshot({}, topics)

    state = polled(sized(t=3, u=3), sized(t=3), sized(t=3, u=2), sized(t=3, u=2))
    first = state.snapshot()
    assert state.snapshot(anew=True) is first
