"""A streaming query: the real planner, called as Spark calls it, on a cluster and an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyspark_zkafka.errors import NoLeader, ZKafkaError
from pyspark_zkafka.group.offset_store import GroupOffsets
from pyspark_zkafka.group.subscription import subscribed_since, younger
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import StreamOffset
from pyspark_zkafka.protocol.model import Claim, ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.stream.driver import StreamDriver
from tests.simulation.cluster import Cluster
from tests.simulation.member import GROUP


class SessionOfValues:
    """What `StreamSession` is to a planner; its view of the cluster may be a while old."""

    def __init__(self, options: StreamOptions, cluster: Cluster, member: Any, is_stale: Callable[[], bool]) -> None:
        self._options = options
        self._cluster = cluster
        self._is_stale = is_stale
        self._seen: ClusterSnapshot | None = None
        self.member = member
        self.brokers = cluster

    def __enter__(self) -> SessionOfValues:
        self.retry(self.member.join)
        return self

    def close(self) -> None:
        """Nothing: a planner that dies does not close."""

    @property
    def offsets(self) -> Any:
        connection = self._options.read.connection
        session: Any = self.member.session
        return GroupOffsets(connection, "", GROUP, ("zookeeper",), session, sleep=lambda s: None)

    def retry(self, call: Callable[[], Any]) -> Any:
        """Try a few times, as `Retry` does."""
        for _ in range(5):
            try:
                return call()
            except ZKafkaError as error:
                if not error.retriable:
                    raise
        return call()

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        if self._seen is None or anew or not self._is_stale():
            self._seen = self._cluster.snapshot()
        return self._seen

    def settled_snapshot(self) -> ClusterSnapshot:
        return self.snapshot()

    def topic_names(self) -> list[str]:
        """None are suggested."""
        return []

    def is_still(self, snapshot: ClusterSnapshot) -> bool:
        return True

    def log_ends(
        self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        found: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ZKafkaError] = {}
        for tp in partitions:
            try:
                found |= self._cluster.list_offsets({tp: LATEST})
            except NoLeader as error:
                failed[tp] = error
        return found, failed

    def first_after_epoch(self, partition: TopicPartition, epoch: int, offsets: range) -> int | None:
        return self._cluster.first_after_epoch(partition, epoch)

    def owned(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        return self.member.owned()

    def servers(self, snapshot: ClusterSnapshot) -> str:
        return "kafka1:9092"

    def younger(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        topics = sorted({tp.topic for tp in partitions})
        by_pattern = not self.member.by_name
        since = subscribed_since(self.member.session, GROUP, topics, by_pattern=by_pattern)  # type: ignore[arg-type]
        return younger(partitions, self.snapshot(), since)


class Query:
    """A checkpoint, and the runs of a query on it, one after the other; each `step` is one of Spark's calls.

    Attributes
    ----------
    offsets : list of dict
        The checkpoint's offset log: the end of each micro-batch that was planned.
    finished : int
        How many of them its commit log has.
    """

    def __init__(
        self,
        options: StreamOptions,
        on_finished: Callable[[StreamOffset], None],
        on_started: Callable[[], None],
        on_planned: Callable[[StreamOffset], None] = lambda end: None,
    ) -> None:
        self._options = options
        self._on_planned = on_planned
        self._on_finished = on_finished
        self._on_started = on_started
        self.offsets: list[dict[str, Any]] = []
        self.finished = 0
        self.member: Any = None
        self._planner: StreamDriver | None = None
        self._start: dict[str, Any] | None = None
        self._is_reading = False

    @property
    def reading(self) -> set[TopicPartition]:
        """The partitions of the micro-batch that this run has planned, and not finished."""
        if not self._is_reading:
            return set()
        return {tp for tp, span in StreamOffset.from_json(self.offsets[-1]).spans.items() if span.size}

    @property
    def is_running(self) -> bool:
        return self._planner is not None

    def start(self, session: SessionOfValues) -> None:
        """Begin another run."""
        self.member, self._start, self._is_reading = session.member, None, False
        self._planner = StreamDriver(self._options, lambda: 0.0, lambda s: None, session)  # type: ignore[arg-type]

    def die(self) -> None:
        """End the run: nothing is closed, the session lives on for a while."""
        self._planner = self.member = None

    def step(self) -> None:
        """The next of Spark's calls: initialOffset, latestOffset, or partitions and the tasks of a micro-batch."""
        if self._planner is None:
            return
        if self._start is None:
            self._start = self.offsets[self.finished - 1] if self.finished else self._planner.initial()
        elif len(self.offsets) > self.finished:
            self._run(self._planner, self.offsets[-1])
        else:
            self._plan(self._planner, self._start)

    def _plan(self, planner: StreamDriver, start: dict[str, Any]) -> None:
        """Spark asks for the start once more when the first micro-batch was planned."""
        end = planner.latest(start, limited=True)
        self._on_started()
        if end != start:
            self._on_planned(StreamOffset.from_json(end))
            self.offsets.append(end)
            self._is_reading = True
            if len(self.offsets) == 1:
                assert planner.initial() == start

    def _run(self, planner: StreamDriver, end: dict[str, Any]) -> None:
        splits, _ = planner.splits(end)
        planned = StreamOffset.from_json(end)
        assert sum(s.until - s.start for s in splits) == sum(span.size for span in planned.spans.values())
        self.finished = len(self.offsets)
        self._start, self._is_reading = end, False
        self._on_finished(planned)
