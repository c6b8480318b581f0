"""A streaming query: the real planner, called as Spark calls it, on an in-memory cluster and ensemble."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyspark_zkafka.errors import DataLoss, NoLeader, UnknownTopic, ZKafkaError
from pyspark_zkafka.group.offsets import GroupOffsets
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.options.values import StreamOptions
from pyspark_zkafka.read.cluster_state import has_same_topics
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.read.stream_session import StreamSession
from pyspark_zkafka.retries import Retry
from tests.simulation.cluster import Cluster
from tests.simulation.member import GROUP


class KafkaStore:
    """The offsets of a group in Kafka; brokers forget the offsets of a deleted topic at once or later.

    Attributes
    ----------
    outdated : set of TopicPartition
        Partitions whose offset is of a deleted topic.
    """

    def __init__(
        self,
        cluster: Cluster,
        turn: Callable[[], None],
        on_commit: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self._cluster = cluster
        self.offsets: dict[TopicPartition, int] = {}
        self.outdated: set[TopicPartition] = set()
        self._turn = turn
        self._on_commit = on_commit

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._turn()
        return {tp: self.offsets[tp] for tp in partitions if tp in self.offsets}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        due: Callable[[Collection[TopicPartition]], Collection[TopicPartition]],
    ) -> None:
        """Commit; the brokers refuse partitions that do not exist."""
        offsets = {tp: offsets[tp] for tp in due(offsets)}
        self._turn()
        there = {tp: offset for tp, offset in offsets.items() if tp in self._cluster.ends}
        self.offsets.update(there)
        self.outdated.difference_update(there)
        self._on_commit(there)
        if len(there) < len(offsets):
            raise UnknownTopic("UNKNOWN_TOPIC", "a partition does not exist")

    def delete(self, topic: str, kept: Collection[TopicPartition]) -> None:
        """Delete a topic's offsets, except those that are kept for a while."""
        self.offsets = {tp: offset for tp, offset in self.offsets.items() if tp.topic != topic or tp in kept}
        self.outdated.update(kept)

    def forget(self) -> None:
        """Forget the offsets of deleted topics."""
        self.offsets = {tp: offset for tp, offset in self.offsets.items() if tp not in self.outdated}
        self.outdated = set()


class SessionOfValues:
    """In-memory stand-in for `StreamSession`, whose view of the cluster may be outdated.

    A recreated topic is visible at once, because a watch is faster than the creation. Without a `member`, the stream reads
    all partitions, and commits to the group, if there is one, by `zookeeper`.
    """

    subscribed = StreamSession.subscribed
    set_reading = StreamSession.set_reading
    created_after_subscription = StreamSession.created_after_subscription
    _without_start = StreamSession._without_start
    _subscribed = None
    _member_offsets: Any = None

    def __init__(
        self,
        options: StreamOptions,
        cluster: Cluster,
        member: Any,
        is_stale: Callable[[], bool],
        zookeeper: Any = None,
        kafka: Any = None,
    ) -> None:
        self.retry = Retry(5, 0.0, lambda s: None)
        self._options = options
        self._subscription = self.subscription = options.read.require_subscription()
        self._is_stale = is_stale
        self._seen: ClusterSnapshot | None = None
        self._own_zookeeper = zookeeper
        self._kafka = kafka
        self.kafka_cluster = cluster
        self._is_open = False
        self.member = member
        self.brokers = cluster

    @property
    def cluster(self) -> SessionOfValues:
        return self

    def open(self) -> None:
        if self.member is not None and not self._is_open:
            self.retry(self.member.join)
        self._is_open = True

    def close(self) -> None:
        """Do nothing: a planner that dies does not close."""

    @property
    def has_group(self) -> bool:
        return self._options.group is not None

    @property
    def _zookeeper(self) -> Any:
        return self._own_zookeeper if self.member is None else self.member.session

    @property
    def stores(self) -> Any:
        return self._options.read.stores

    def group_offsets(self) -> Any:
        found = GroupOffsets(self._options.read.connection, "", GROUP, self.stores, self._zookeeper, sleep=lambda s: None)
        found._kafka = self._kafka
        return found

    def copy_to_lagging_store(self, partitions: Collection[TopicPartition], owner: Any) -> None:
        self.group_offsets().copy_to_lagging_store(partitions, owner)

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        if self._seen is None or anew or self._has_been_replaced(self._seen) or not self._is_stale():
            self._seen = self.kafka_cluster.snapshot(self._subscription)
        return self._seen

    def _has_been_replaced(self, seen: ClusterSnapshot) -> bool:
        return any(self.kafka_cluster.created(name) not in (topic.czxid, None) for name, topic in seen.topics.items())

    def snapshot_of(self, topics: Collection[str]) -> ClusterSnapshot:
        return self.kafka_cluster.snapshot(Subscribe(tuple(topics)))

    def settled_snapshot(self) -> ClusterSnapshot:
        return self.snapshot()

    def topic_names(self) -> list[str]:
        """Return no names to suggest."""
        return []

    def has_same_topics_as(self, snapshot: ClusterSnapshot) -> bool:
        return has_same_topics(snapshot, self.snapshot())

    def log_ends(
        self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        found: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ZKafkaError] = {}
        for tp in partitions:
            try:
                found |= self.kafka_cluster.list_offsets({tp: LATEST})
            except (NoLeader, UnknownTopic) as error:
                failed[tp] = error
        return found, failed

    def servers(self, snapshot: ClusterSnapshot) -> str:
        return "kafka1:9092"


class Query:
    """A checkpoint, and the runs of a query on it, one after another; each `step` is one of Spark's calls.

    Attributes
    ----------
    offsets : list of dict
        The checkpoint's offset log: the end of each planned micro-batch.
    finished : int
        The number of micro-batches in its commit log.
    """

    def __init__(
        self,
        on_finished: Callable[[Mapping[TopicPartition, range]], None],
        on_started: Callable[[], None],
        on_planned: Callable[[StreamOffset, StreamOffset], None] = lambda start, end: None,
    ) -> None:
        self._on_planned = on_planned
        self._on_finished = on_finished
        self._on_started = on_started
        self.offsets: list[dict[str, Any]] = []
        self.finished = 0
        self.session: Any = None
        self.fails_on_loss = True
        self._planner: StreamDriver | None = None
        self._start: dict[str, Any] | None = None
        self._is_reading = False

    @property
    def member(self) -> Any:
        """The member of this run, if it runs and has one."""
        return None if self.session is None else self.session.member

    @property
    def reading(self) -> set[TopicPartition]:
        """The partitions of the micro-batch that this run has planned and not finished."""
        if not self._is_reading:
            return set()
        return {tp for tp, span in StreamOffset.from_json(self.offsets[-1]).ranges.items() if span.size}

    @property
    def is_running(self) -> bool:
        return self._planner is not None

    @property
    def is_idle(self) -> bool:
        """True if this run has finished everything that it planned."""
        return len(self.offsets) == self.finished and self._start is not None

    def start(self, options: StreamOptions, session: SessionOfValues) -> None:
        """Start another run."""
        self.session, self._start, self._is_reading, self._has_planned = session, None, False, False
        self.fails_on_loss = options.read.fail_on_data_loss
        self._planner = StreamDriver(options, lambda: 0.0, lambda s: None, session)  # type: ignore[arg-type]

    def die(self) -> None:
        """End the run without closing anything; the session lives on for a while."""
        self._planner = self.session = None

    def step(self) -> None:
        """Make Spark's next call: initialOffset, latestOffset, or partitions and the tasks of a micro-batch."""
        if self._planner is None:
            return
        if self._start is None:
            self._start = self.offsets[self.finished - 1] if self.finished else self._planner.initial()
        elif len(self.offsets) > self.finished:
            self._run(self._planner, self.offsets[-1])
        else:
            self._plan(self._planner, self._start)

    def _plan(self, planner: StreamDriver, start: dict[str, Any]) -> None:
        """Plan a micro-batch; then ask for the start again after the first one, and commit after others, as Spark does."""
        end = planner.latest(start, limited=True)
        if not self._has_planned:
            self._on_started()
        self._has_planned = True
        if end != start:
            self._on_planned(StreamOffset.from_json(start), StreamOffset.from_json(end))
            self.offsets.append(end)
            self._is_reading = True
            if len(self.offsets) == 1:
                assert planner.initial() == start
            else:
                planner.commit()

    def _run(self, planner: StreamDriver, end: dict[str, Any]) -> None:
        """Read the planned records of topics that are still the same; the others are lost."""
        splits, _ = planner.splits(end)
        planned = StreamOffset.from_json(end)
        cluster: Cluster = self.session.kafka_cluster
        spans = {tp: span for tp, span in planned.ranges.items() if span.size}
        there = {tp for tp in spans if planned.topics[tp.topic].czxid == cluster.created(tp.topic)}
        read = {split.partition: range(split.start, split.until) for split in splits if split.partition in there}
        assert read == {tp: range(spans[tp].start, spans[tp].until) for tp in there}, "another micro-batch is repeated"
        if self.fails_on_loss and there != spans.keys():
            raise DataLoss("TOPIC_REPLACED", f"a task did not find {', '.join(map(str, sorted(spans.keys() - there)))}")
        self.finished = len(self.offsets)
        self._start, self._is_reading = end, False
        self._on_finished(read)
