"""Starting positions of a stream, with a fake session."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, DataLoss, NoLeader, OptionError
from pyspark_zkafka.model.checkpoint import LeftOffset, PlannedRange, StreamOffset, TopicIdentity
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_positions import StreamStarts
from tests.support import planned_stream
from tests.support.planned_stream import T0, T1, Member

REPLACED = StreamState(replaced={"t": TopicIdentity(czxid=50)})


class Session(planned_stream.Session):
    """A session with logs that span [10, 100), of partitions that were created in transaction 50.

    `members_since` is the transaction in which the group's member subscribed, or None without a member.
    """

    def __init__(self, stored: dict[TopicPartition, StoredOffset] | None = None, members_since: int | None = None) -> None:
        super().__init__(None if members_since is None else Member())
        self.czxid = 50
        self.stored = stored or {}
        self._members_since = members_since

    def created_after_subscription(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return set(partitions) if self._members_since is not None and self._members_since < 50 else set()


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
        assigned = found.initial([T0, T1], session.snapshot()).assigned
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


def test_start_without_a_leader() -> None:
    """A partition that starts at its end needs a leader, unless it is skipped or has an offset."""

    def initial(session: Session, **options: str) -> list[TopicPartition]:
        session.offline = {T1}
        return list(starts(session, **options).initial([T0, T1], session.snapshot()).assigned)

    for options in {}, {"group.id": "g"}, {"startingOffsets": "latest-9"}, {"startingTimestamp": "1 s ago"}:
        with pytest.raises(NoLeader, match=r"No live leader for t-1 \(ISR 1\)"):
            initial(Session(members_since=60 if "group.id" in options else None), **options)
    for session, options in (
        (Session(), {"startingOffsets": "earliest"}),
        (Session(), {"startingTimestamp": "30"}),
        (Session(), {"offlinePartitions": "skip"}),
        (Session({T1: StoredOffset(42, 60)}, members_since=60), {"group.id": "g"}),
        (Session(members_since=40), {"group.id": "g"}),
    ):
        assert initial(session, **options) == [T0]


def test_skipped_partition() -> None:
    """A partition skipped at the start for lack of a leader is read from its beginning."""
    assert find(Session(), checkpoint(), offlinePartitions="skip") == 10
    for start in {"startingOffsets": "latest-9"}, {"startingTimestamp": "2 s ago"}:
        assert find(Session(), checkpoint(), offlinePartitions="skip", **start) == 10


def test_first_member_decides() -> None:
    """The first member commits time-dependent starts, even of others' partitions, and later members adopt them."""
    session = Session(members_since=60)
    found = starts(session, **{"group.id": "g"})
    initial = found.initial([T0], session.snapshot())
    assert initial.uncommitted == {T0: 100, T1: 100}
    session.stored = {T0: StoredOffset(90, 1)}
    committed = found.commit_starts(initial)
    assert committed.assigned[T0].position == 90
    assert committed.uncommitted == {}
    assert session.stored[T1].offset == 100


@pytest.mark.parametrize("start", [{"startingOffsets": "latest-30"}, {"startingTimestamp": "2 s ago"}])
def test_first_member_decides_a_relative_start(start: dict[str, str]) -> None:
    """A start relative to the current time is resolved once for the group: later members adopt the committed start."""
    session = Session(members_since=60)
    found = starts(session, **{"group.id": "g", **start})
    initial = found.initial([T0], session.snapshot())
    assert initial.uncommitted == dict.fromkeys((T0, T1), 70 if "startingOffsets" in start else 50)
    session.stored = {T0: StoredOffset(45, 1)}
    assert found.commit_starts(initial).assigned[T0].position == 45


@pytest.mark.parametrize(
    "start", [{"auto.offset.reset": "earliest"}, {"startingOffsets": '{"t": {"0": 42, "1": 42}}'}], ids=["beginning", "42"]
)
def test_starts_that_need_no_decision(start: dict[str, str]) -> None:
    """Starts at an offset or at the beginning of the log are not committed, since all members find the same."""
    session = Session(members_since=60)
    found = starts(session, **{"group.id": "g", **start})
    initial = found.initial([T0], session.snapshot())
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
