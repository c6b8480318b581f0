"""Starting positions of a stream, with a fake session."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, DataLoss, NoLeader, OptionError
from pyspark_zkafka.model.checkpoint import LeftOffset, PlannedRange, StreamOffset, TopicIdentity
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, AtTimestamp, Position
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_positions import StreamStarts
from pyspark_zkafka.retries import Retry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REPLACED = StreamState(replaced={"t": TopicIdentity(czxid=50)})


@dataclass
class Session:
    """A session that is also its brokers and its store of offsets; logs span [10, 100).

    `members_since` is the transaction in which the group's member subscribed, or None without a member. Partitions were
    created in transaction 50.
    """

    stored: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    members_since: int | None = None
    latest: int = 100
    retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        self.retry = Retry(3, 1.0, self.elect)

    def elect(self, seconds: float) -> None:
        """Let a new leader learn the log's end."""
        self.latest = 100

    def group_offsets(self) -> Session:
        """Return the store."""
        return self

    @property
    def cluster(self) -> Session:
        """The cluster."""
        return self

    @property
    def brokers(self) -> Session:
        """The brokers."""
        return self

    @property
    def member(self) -> Session | None:
        """The member, if there is one."""
        return None if self.members_since is None else self

    def snapshot(self) -> ClusterSnapshot:
        """Return a cluster with one topic."""
        states = {tp: PartitionState(1, 0, (1,), czxid=50) for tp in (T0, T1)}
        return ClusterSnapshot({}, {"t": Topic("t", {0: (1,), 1: (1,)}, czxid=50)}, states)

    def created_after_subscription(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions created after the member's subscription."""
        return set(partitions) if self.members_since is not None and self.members_since < 50 else set()

    def committed(
        self, partitions: Collection[TopicPartition], *, skip_malformed: bool = False, left: object = None
    ) -> dict[TopicPartition, StoredOffset]:
        """Return the stored offsets."""
        return {tp: self.stored[tp] for tp in partitions if tp in self.stored}

    def begin(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, StoredOffset]:
        """Commit starts of partitions without an offset."""
        self.stored = {**{tp: StoredOffset(offset, 1) for tp, offset in starts.items()}, **self.stored}
        return self.committed(starts)

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float) -> dict[TopicPartition, int]:
        """Return the offset of each position; a record at offset n has the timestamp n."""
        return {tp: self._offset(position) for tp, position in wanted.items()}

    def _offset(self, position: Position) -> int:
        if isinstance(position, AtTimestamp):
            return max(10, position.timestamp_ms) if position.timestamp_ms < 100 else -1
        return 10 if position == EARLIEST else self.latest

    def high_watermarks(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Return nothing: no record is in a transaction."""
        return {}


def starts(session: Any, **options: str) -> StreamStarts:
    """Return the starts of a stream of topic t."""
    given = {"zookeeper.connect": "zk1:2181", "subscribe": "t", **options}
    return StreamStarts(parse_stream(given), session, now_ms=2_050)


def find(session: Any, *known: Any, **options: str) -> int:
    """Return the position of the first partition."""
    return starts(session, **options).find([T0], *known)[T0].position


def checkpoint(span: PlannedRange | None = None, **mark: Any) -> StreamOffset:
    """Return a checkpoint with two known partitions of the topic."""
    spans = {} if span is None else {T0: span}
    return StreamOffset(spans, {"t": TopicIdentity(czxid=50, **{"known": 2, **mark})})


@pytest.mark.parametrize(
    ("options", "position"),
    [
        ({}, 100),
        ({"startingOffsets": "earliest"}, 10),
        ({"startingOffsets": '{"t": {"0": 42, "1": -2}}'}, 42),
        ({"startingTimestamp": "30"}, 30),
        ({"startingTimestamp": "1970-01-01T00:00:00.030Z"}, 30),
        ({"startingTimestamp": "2 seconds ago"}, 50),
        ({"startingOffsets": "latest-30"}, 70),
        ({"startingOffsets": "latest-95"}, 10),
        ({"startingOffsets": "earliest+95"}, 100),
        ({"startingOffsets": '{"t": {"0": "earliest+2", "1": "latest-1"}}'}, 12),
    ],
)
def test_new_query(options: dict[str, str], position: int) -> None:
    """A new query starts where the options say, by default at the end."""
    assert find(Session(), **options) == position


def test_partition_that_is_not_named() -> None:
    """In a group, startingOffsets may omit partitions that the group or `auto.offset.reset` gives a start."""

    def initial(session: Session, **options: str) -> dict[TopicPartition, int]:
        found = starts(session, **{"group.id": "g", "startingOffsets": '{"t": {"0": 42}}', **options})
        snapshot = replace(session.snapshot(), brokers={1: Broker(1, ())})
        assigned = found.initial([T0, T1], snapshot).assigned
        return {tp: progress.position for tp, progress in assigned.items()}

    with pytest.raises(OptionError, match=r"\[OFFSETS_DO_NOT_MATCH\] startingOffsets does not name t-1; name every"):
        initial(Session())
    assert initial(Session({T1: StoredOffset(70, 60)})) == {T0: 42, T1: 70}
    assert initial(Session(members_since=40)) == {T0: 42, T1: 10}
    assert initial(Session(), **{"auto.offset.reset": "earliest"}) == {T0: 42, T1: 10}


def test_checkpoint() -> None:
    """A restarted query continues after its last micro-batch, whatever the options say."""
    assert find(Session(), checkpoint(PlannedRange(10, 20, 10)), startingOffsets="latest") == 20


def test_outdated_offset_of_a_topic_that_was_not_read() -> None:
    """An offset of a deleted topic in a newly assigned partition is data loss if the member has not read it."""
    session = Session({T0: StoredOffset(30, mzxid=40)}, members_since=90)
    for state in StreamState(), REPLACED:
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.*t-0 at 30 are older than the topic"):
            find(session, checkpoint(), state, **{"group.id": "g"})
    own = checkpoint(PlannedRange(10, 30, 10, 40))
    assert find(session, own, REPLACED, **{"group.id": "g"}) == 10


def test_new_partition() -> None:
    """A partition new to the topic or to the query is read from its beginning.

    A member leaves it to the group, since another member may have read it without a commit.
    """
    assert find(Session(), checkpoint(known=0)) == 10
    assert find(Session(), checkpoint(known=2)) == 10
    assert find(Session(), checkpoint(known=2), **{"group.id": "g", "groupMembership": "none"}) == 10
    assert find(Session(members_since=90), checkpoint(known=2), **{"group.id": "g"}) == 100


def test_position_outside_of_the_log() -> None:
    """A position outside the log is data loss, or moves to the start of the log, and the group's offset is reset."""
    span = PlannedRange(3, 5)
    with pytest.raises(DataLoss, match="OFFSET_OUT_OF_RANGE"):
        find(Session(), checkpoint(span))
    found = starts(Session(), failOnDataLoss="false").find([T0], checkpoint(span))
    assert found == {T0: PartitionProgress(10, resets=True)}


def test_low_end_of_a_new_leader() -> None:
    """A new leader's first, too low end is no data loss for a restarted query or a newly assigned partition."""
    assert find(Session(latest=90), checkpoint(PlannedRange(10, 95, 10))) == 95
    assert find(Session({T0: StoredOffset(95, 60)}, latest=90), **{"group.id": "g"}) == 95


def test_replaced_topic() -> None:
    """A topic that was created again is read from its beginning."""
    found = starts(Session()).find([T0], checkpoint(PlannedRange(10, 20)), REPLACED)
    assert found[T0] == PartitionProgress(10, resets=True)


def test_committed_offset() -> None:
    """A group starts at its offset. An offset of a deleted topic of the same name is data loss."""
    assert find(Session({T0: StoredOffset(42, 60)}), **{"group.id": "g"}) == 42
    outdated = Session({T0: StoredOffset(42, 40)})
    with pytest.raises(DataLoss, match="TOPIC_REPLACED"):
        find(outdated, **{"group.id": "g"})
    assert find(outdated, **{"group.id": "g", "failOnDataLoss": "false"}) == 10


def test_moved_offset(caplog: pytest.LogCaptureFixture) -> None:
    """An offset of another client takes precedence over the checkpoint's, and is logged; the query's own is neither."""
    planned = checkpoint(PlannedRange(10, 20, 10, 55))
    with caplog.at_level(logging.WARNING):
        assert find(Session({T0: StoredOffset(10, 55)}), planned, **{"group.id": "g"}) == 20
        assert "continuing" not in caplog.text
        assert find(Session({T0: StoredOffset(42, 60)}), planned, **{"group.id": "g"}) == 42
    assert "continuing at offset 42 of group g instead of " in caplog.text


def test_no_committed_offset() -> None:
    """Without a group's offset, the reset policy applies, including error."""
    assert find(Session(), **{"group.id": "g", "auto.offset.reset": "earliest"}) == 10
    with pytest.raises(ClusterStateError):
        find(Session(), **{"group.id": "g", "auto.offset.reset": "error"})


@pytest.mark.parametrize("options", [{}, {"startingOffsets": "latest"}, {"startingOffsets": "latest-0"}])
@pytest.mark.parametrize(("since", "position"), [(60, 100), (40, 10)])
def test_partition_created_after_the_subscription(options: dict[str, str], since: int, position: int) -> None:
    """A member reads a partition that was created after the group's subscription from its beginning."""
    assert find(Session(members_since=since), **{"group.id": "g", **options}) == position


def offline(*partitions: TopicPartition) -> ClusterSnapshot:
    """Return the cluster with some partitions without a leader; broker 1 leads the others."""
    found = Session().snapshot()
    gone = {tp: PartitionState(-1, 3, (1,), czxid=50) for tp in partitions}
    return ClusterSnapshot({1: Broker(1, ())}, found.topics, {**found.states, **gone})


def test_start_without_a_leader() -> None:
    """A partition that starts at its end needs a leader, unless it is skipped or has an offset."""
    for options in {}, {"group.id": "g"}, {"startingOffsets": "latest-9"}, {"startingTimestamp": "1 s ago"}:
        with pytest.raises(NoLeader, match=r"No live leader for t-1 \(ISR 1\)"):
            starts(Session(members_since=60 if "group.id" in options else None), **options).initial([T0, T1], offline(T1))
    for session, options in (
        (Session(), {"startingOffsets": "earliest"}),
        (Session(), {"startingTimestamp": "30"}),
        (Session(), {"offlinePartitions": "skip"}),
        (Session({T1: StoredOffset(42, 60)}, members_since=60), {"group.id": "g"}),
        (Session(members_since=40), {"group.id": "g"}),
    ):
        assert list(starts(session, **options).initial([T0, T1], offline(T1)).assigned) == [T0]


def test_skipped_partition() -> None:
    """A partition skipped at the start for lack of a leader is read from its beginning."""
    assert find(Session(), checkpoint(), offlinePartitions="skip") == 10
    for start in {"startingOffsets": "latest-9"}, {"startingTimestamp": "2 s ago"}:
        assert find(Session(), checkpoint(), offlinePartitions="skip", **start) == 10


def test_first_member_decides() -> None:
    """The first member commits time-dependent starts, even of others' partitions, and later members adopt them."""
    session: Any = Session(members_since=60)
    found = starts(session, **{"group.id": "g"})
    initial = found.initial([T0], offline())
    assert initial.uncommitted == {T0: 100, T1: 100}
    session.stored = {T0: StoredOffset(90, 1)}
    committed = found.commit_starts(initial)
    assert (committed.assigned[T0].position, committed.uncommitted, session.stored[T1].offset) == (90, {}, 100)


@pytest.mark.parametrize("start", [{"startingOffsets": "latest-30"}, {"startingTimestamp": "2 s ago"}])
def test_first_member_decides_a_relative_start(start: dict[str, str]) -> None:
    """A start relative to the current time is resolved once for the group: later members adopt the committed start."""
    session: Any = Session(members_since=60)
    found = starts(session, **{"group.id": "g", **start})
    initial = found.initial([T0], offline())
    assert initial.uncommitted == dict.fromkeys((T0, T1), 70 if "startingOffsets" in start else 50)
    session.stored = {T0: StoredOffset(45, 1)}
    assert found.commit_starts(initial).assigned[T0].position == 45


@pytest.mark.parametrize(
    "start", [{"auto.offset.reset": "earliest"}, {"startingOffsets": '{"t": {"0": 42, "1": 42}}'}], ids=["beginning", "42"]
)
def test_starts_that_need_no_decision(start: dict[str, str]) -> None:
    """Starts at an offset or at the beginning of the log are not committed, since all members find the same."""
    session: Any = Session(members_since=60)
    found = starts(session, **{"group.id": "g", **start})
    initial = found.initial([T0], offline())
    assert not initial.uncommitted
    assert found.commit_starts(initial) is initial
    assert session.stored == {}


def test_return_to_a_store() -> None:
    """The next commit may lower what the query has left in a store to which it returns, but not what it left in another."""
    left, stored = (LeftOffset("zookeeper", 90, 7, (95,)),), StoredOffset(90, 7)
    known = checkpoint(PlannedRange(20, 30, elsewhere=left))
    alone = {"group.id": "g", "groupMembership": "none"}
    found = starts(Session({T0: stored}), **alone).find([T0], known)
    assert found == {T0: PartitionProgress(30, stored, resets=True, elsewhere=left)}
    kafka = {**alone, "offsets.storage": "kafka", "dual.commit.enabled": "false"}
    found = starts(Session({T0: StoredOffset(95)}), **kafka).find([T0], known)
    assert found == {T0: PartitionProgress(30, StoredOffset(95), elsewhere=left)}
    assert starts(Session()).find([T0], known) == {T0: PartitionProgress(30, elsewhere=left)}
