"""Spark's planning calls on a fake cluster, without a group and with a member."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.errors import (
    BrokersUnavailable,
    CheckpointError,
    DataLoss,
    GroupContended,
    NoLeader,
    OptionError,
    UnknownTopic,
    ZKafkaError,
    ZooKeeperError,
)
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.planned_stream import T0, T1, T2, U0, Member, Session, driver
from tests.support.stream_offsets import positions

UNREACHABLE = BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")


@pytest.fixture
def session() -> Session:
    """A session with two partitions."""
    return Session()


def planned(found: StreamDriver, start: dict[str, Any], *, limited: bool = True) -> list[tuple[int, int, int]]:
    """Return partition, start and end of each split of the next micro-batch."""
    splits, _ = found.splits(found.latest(start, limited=limited))
    return [(split.partition.partition, split.start, split.until) for split in splits]


def first_batch(session: Session, **options: str) -> tuple[StreamDriver, dict[str, Any]]:
    """Plan the first micro-batch of a new query, and return the driver and the end."""
    found = driver(session, **options)
    return found, found.latest(found.initial(), limited=True)


def test_nothing_is_opened_before_it_is_needed(session: Session) -> None:
    """The first call opens the session once, and closing ends it."""
    found = driver(session)
    assert session.opened == 0
    found.initial()
    found.latest(found.initial(), limited=True)
    found.close()
    assert session.opened == 1
    assert session.closed == 1


@pytest.mark.parametrize(("given", "start"), [("earliest", 10), ("latest", 100), ('{"t": {"0": 50, "1": 50}}', 50)])
def test_start_of_a_new_query(session: Session, given: str, start: int) -> None:
    """The start follows the options, and every call returns the same one, even if the logs grow."""
    found = driver(session, startingOffsets=given)
    first = found.initial()
    assert positions(first, "t") == {"0": start, "1": start}
    end = found.latest(first, limited=True)
    session.logs[T0] = 200
    assert found.initial() == first
    assert positions(end, "t") == {"0": 100, "1": 100}


def test_micro_batches_follow_each_other(session: Session) -> None:
    """Each micro-batch starts at the end of the one before. Without records, the end is the start."""
    found = driver(session)
    start = found.initial()
    assert planned(found, start) == [(0, 10, 100), (1, 10, 100)]
    end = found.latest(start, limited=True)
    assert found.latest(end, limited=True) == end
    session.logs[T1] = 105
    assert planned(found, end) == [(1, 100, 105)]


def test_servers_of_a_micro_batch(session: Session) -> None:
    """A micro-batch has the bootstrap servers of the cluster, and the endpoint of each partition's leader."""
    found = driver(session)
    splits, servers = found.splits(found.latest(found.initial(), limited=True))
    assert servers == "broker1:9092"
    assert {split.endpoints for split in splits} == {("broker1:9092",)}


def test_repeated_micro_batch(session: Session) -> None:
    """A run that repeats another run's last micro-batch plans the same splits, without requests for ends of logs."""
    first, end = first_batch(session)
    session.logs = {T0: 500, T1: 500}
    again = driver(session)
    assert again.splits(end) == first.splits(end)
    assert again.report() is None
    assert planned(again, end) == [(0, 100, 500), (1, 100, 500)]


def test_order_of_splits(session: Session) -> None:
    """A repeated micro-batch has its splits in the same order, whichever leaders are alive."""
    session.logs[T2] = 30
    found, end = first_batch(session, maxRecordsPerPartition="40")
    before = [split[:3] for split in found.splits(end)[0]]
    session.offline = {T0}
    assert [split[:3] for split in found.splits(end)[0]] == before


def test_limit(session: Session) -> None:
    """Limits apply only if Spark requests a limited micro-batch."""
    found = driver(session, maxOffsetsPerTrigger="20")
    start = found.initial()
    assert sum(until - first for _, first, until in planned(found, start)) == 20
    assert planned(driver(session, maxOffsetsPerTrigger="20"), start, limited=False) == [(0, 10, 100), (1, 10, 100)]


def test_fixed_ends(session: Session) -> None:
    """Fixed ends exclude later records and added partitions."""
    found = driver(session)
    found.fix_bounds()
    session.logs = {T0: 150, T1: 100, T2: 20}
    start = found.initial()
    assert planned(found, start) == [(0, 10, 100), (1, 10, 100)]
    end = found.latest(start, limited=True)
    assert found.latest(end, limited=True) == end


def test_ends_cannot_be_fixed_without_a_leader(session: Session) -> None:
    """A partition without a leader has no known end. It is an error, or skipped if the options say so."""
    session.offline = {T1}
    with pytest.raises(NoLeader, match="t-1"):
        driver(session).fix_bounds()
    found = driver(session, offlinePartitions="skip")
    found.fix_bounds()
    assert planned(found, found.initial()) == [(0, 10, 100)]


def test_partition_without_a_leader(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A partition without a leader waits, with one warning, while the others are read."""
    session.offline = {T1}
    found = driver(session)
    start = found.initial()
    assert planned(found, start) == [(0, 10, 100)]
    end = found.latest(start, limited=True)
    assert [text for text in caplog.messages if "Waiting for a leader" in text] == [
        "No live leader for t-1 (ISR 1). Waiting for a leader, and reading the other partitions"
    ]
    session.offline = set()
    assert planned(found, end) == [(1, 10, 100)]


def test_leader_that_is_silent_at_a_restart(session: Session) -> None:
    """After a restart, partitions are read while the leader of another one does not answer."""
    first = driver(session)
    end = first.latest(first.initial(), limited=False)
    session.logs = {T0: 120, T1: 120}
    session.silent = session.mute = {T1}
    again = driver(session)
    end = again.latest(end, limited=False)
    assert {tp: r.until for tp, r in StreamOffset.from_json(end).ranges.items()} == {T0: 120, T1: 100}
    session.silent = session.mute = set()
    assert planned(again, end, limited=False) == [(1, 100, 120)]


def test_start_of_a_missing_topic(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A warning names topics of startingOffsets that do not exist, such as those deleted before a takeover."""
    starts = '{"t": {"0": 10, "1": 10}, "u": {"0": 5}}'
    driver(session, subscribePattern="[tu]", startingOffsets=starts).initial()
    assert [text for text in caplog.messages if "u-0" in text] == [
        "startingOffsets names partitions that do not exist: u-0. They start there if they are created before a restart"
    ]


def test_added_partition(session: Session) -> None:
    """An added partition is read from its beginning, even by a query that started at the end."""
    found = driver(session, startingOffsets="latest")
    start = found.initial()
    assert found.latest(start, limited=True) == start
    session.logs[T2], session.firsts[T2] = 30, 0
    assert planned(found, start) == [(2, 0, 30)]


@pytest.mark.parametrize("in_group", [True, False])
def test_added_partition_with_deletions(in_group: bool) -> None:
    """The deletion of an added partition's first records is a data loss, as in Spark's own source."""
    session = Session(Member(T0, T1) if in_group else None)
    found = driver(session)
    start = found.initial()
    session.logs[T2] = 30
    if session.member is not None:
        session.member.claims[T2] = Claim("c-0", 2)
    expected = r"t-2: starting offset 0 is outside the log, which spans \[10, 30\); records may be lost; set failOnDataLoss"
    with pytest.raises(DataLoss, match=expected):
        found.latest(start, limited=True)
    assert (2, 10, 30) in planned(driver(session, failOnDataLoss="false"), start)


def test_added_topic_without_a_leader(session: Session) -> None:
    """A topic that another subscription adds starts at its first records, also where it has no leader at first."""
    start = driver(session).initial()
    u1 = TopicPartition("u", 1)
    session.logs |= {U0: 30, u1: 30}
    session.offline = {u1}
    found = driver(session, subscribe="t,u")
    end = found.latest(start, limited=True)
    session.offline = set()
    assert (1, 10, 30) in planned(found, end)


def test_group_that_is_left_by_a_query_that_saw_a_topic_grow() -> None:
    """Without its group, a query reads partitions that other members have read, from the first record that is left."""
    session = Session(Member(T0, T1))
    found, start = first_batch(session)
    session.logs |= {T2: 30, TopicPartition("t", 3): 30}
    session.member.claims[T2] = Claim("c-0", 2)
    session.firsts[T2] = 0
    start = found.latest(start, limited=True)
    session.member = None
    assert (3, 10, 30) in planned(driver(session), start)


@pytest.mark.parametrize("given", [{"assign": '{"t": [0, 1, 2]}'}, {"subscribe": "t,u"}])
def test_added_to_the_subscription(session: Session, given: dict[str, str]) -> None:
    """What another subscription adds starts at its first record, wherever that is."""
    session.assigned = {T0, T1}
    start = driver(session, subscribe="", assign='{"t": [0, 1]}').initial()
    added = T2 if "assign" in given else U0
    session.logs[added], session.assigned = 30, {T0, T1, added}
    assert (added.partition, 10, 30) in planned(driver(session, **{"subscribe": "", **given}), start)


@pytest.mark.parametrize("later", [{"assign": '{"t": [0, 1]}'}, {"subscribe": "t"}, {"subscribePattern": "t"}])
def test_other_subscription(session: Session, later: dict[str, str]) -> None:
    """Partitions that another subscription adds to a checkpoint are read from their beginning, as in Spark's own source."""
    session.assigned = {T1}
    first = driver(session, subscribe="", assign='{"t": [1]}', startingOffsets="latest")
    start = first.initial()
    session.assigned = {T0, T1}
    session.logs = {T0: 100, T1: 110}
    assert planned(driver(session, **{"subscribe": "", **later}, startingOffsets="latest"), start) == [
        (0, 10, 100),
        (1, 100, 110),
    ]


@pytest.mark.parametrize(
    ("options", "start"),
    [({}, 10), ({"group.id": "g", "groupMembership": "none", "offsets.storage": "kafka"}, 60)],
)
def test_group_that_is_left(options: dict[str, str], start: int) -> None:
    """Without membership, a query reads other members' partitions from their beginning, or from the group's offset."""
    session = Session(Member(T0))
    session.stored = {T1: StoredOffset(60)}
    _, end = first_batch(session, startingOffsets="latest")
    session.member = None
    assert planned(driver(session, startingOffsets="latest", **options), end) == [(1, start, 100)]


@pytest.mark.parametrize("mzxid", [40, None])
@pytest.mark.parametrize("commits", [True, False])
def test_offset_of_a_group_that_is_left(mzxid: int | None, commits: bool) -> None:
    """A query that leaves its group keeps the group's offset in the checkpoint, and later resumes at its own end.

    The group's offset may be the start of its last micro-batch in the group, or its end if the query has committed it.
    """
    member = Member(T0)
    session = Session(member)
    session.logs = {T0: 20}
    session.stored[T0] = StoredOffset(10, mzxid=mzxid)
    _, end = first_batch(session, startingOffsets="committed")
    if commits:
        session.stored[T0] = StoredOffset(20, mzxid=None if mzxid is None else mzxid + 5)
    alone = Session()
    for size in 30, 40, 50:
        alone.logs = {T0: size}
        end = driver(alone).latest(end, limited=True)
    session.logs = {T0: 60}
    assert planned(driver(session, startingOffsets="committed"), end) == [(0, 50, 60)]
    session.stored[T0] = StoredOffset(25, mzxid=None if mzxid is None else mzxid + 9)
    assert planned(driver(session, startingOffsets="committed"), end) == [(0, 25, 60)]  # another member's commit


def test_report(session: Session) -> None:
    """The report has the last fetched ends of logs, by topic and partition."""
    found = driver(session, maxOffsetsPerTrigger="20")
    start = found.initial()
    assert found.report() is None
    found.latest(start, limited=True)
    session.logs[T0] = 500
    assert found.report() == {"t": {"0": 100, "1": 100}}


def test_error_of_a_new_query(session: Session) -> None:
    """An unknown start is an error when the first micro-batch is planned, since a restart also requests the start."""
    session.logs.clear()
    found = driver(session)
    start = found.initial()
    assert start == StreamOffset().to_json()
    with pytest.raises(UnknownTopic, match="There is no topic or partition t"):
        found.latest(start, limited=True)


def test_brokers_out_of_reach(session: Session) -> None:
    """A retriable error is raised at once, and the next call tries again."""
    found = driver(session)
    session.error = UNREACHABLE
    with pytest.raises(BrokersUnavailable):
        found.initial()
    session.error = None
    assert positions(found.initial(), "t") == {"0": 10, "1": 10}


def test_checkpoint_of_another_source(session: Session) -> None:
    """An offset of another source is refused."""
    with pytest.raises(CheckpointError):
        driver(session).latest({"version": 99}, limited=True)


@pytest.mark.parametrize(
    ("change", "condition", "text"),
    [
        (lambda session: session.logs.clear(), "PARTITIONS_GONE", "no longer exist"),
        (lambda session: setattr(session, "czxid", 8), "TOPIC_REPLACED", "created again"),
        (lambda session: session.logs.update({T0: 50}), "OFFSET_WENT_BACK", "the log ends at 50"),
    ],
)
def test_data_loss(
    session: Session, change: Callable[[Session], None], condition: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Data loss ends the query, or is logged if the options say so."""
    for fails in ("true", "false"):
        session.logs, session.czxid = {T0: 100, T1: 100}, 7
        found, end = first_batch(session, failOnDataLoss=fails)
        change(session)
        if fails == "true":
            with pytest.raises(DataLoss, match=condition):
                found.latest(end, limited=True)
            assert text not in caplog.text
        else:
            found.latest(end, limited=True)
            assert text in caplog.text


def test_topic_created_again_while_it_is_planned(session: Session) -> None:
    """If a topic is created again during planning, its new log is read from the beginning."""

    def create_again() -> None:
        session.logs, session.czxid = {T0: 150, T1: 150}, 99

    found, end = first_batch(session, failOnDataLoss="false")
    session.while_asking = create_again
    assert planned(found, end) == [(0, 10, 150), (1, 10, 150)]


@pytest.mark.parametrize("has_end", [False, True])
def test_brokers_that_disagree_on_a_topic(session: Session, caplog: pytest.LogCaptureFixture, has_end: bool) -> None:
    """While the identity of a topic changes with each answer, the query waits, with a warning, and reads it later."""
    found = driver(session, failOnDataLoss="false", startingOffsets="latest")
    start = found.initial()
    if has_end:
        found.fix_bounds()
    session.logs = {T0: 150, T1: 150}
    session.while_asking = lambda: setattr(session, "czxid", 106 - session.czxid)
    if has_end:
        with pytest.raises(BrokersUnavailable, match="t-0, t-1: not read to the end"):
            found.latest(start, limited=True)
        return
    assert found.latest(start, limited=True) == start
    assert "Brokers disagree on the identity of topic t" in caplog.text
    assert session.now > 0
    session.while_asking = lambda: None
    assert planned(found, start) == [(0, 10, 150), (1, 10, 150)]


def test_partition_that_is_gone_when_it_is_to_be_read(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A partition of a planned micro-batch that no longer exists is data loss, or left out."""
    session.logs[U0] = 100
    _, end = first_batch(session, subscribe="t,u")
    del session.logs[U0]
    with pytest.raises(DataLoss, match=r"PARTITIONS_GONE.*u-0 of the micro-batch no longer exist"):
        driver(session, subscribe="t,u").splits(end)
    splits, _ = driver(session, subscribe="t,u", failOnDataLoss="false").splits(end)
    assert [split.partition for split in splits] == [T0, T1]
    assert "u-0 of the micro-batch no longer exist; some records may be lost" in caplog.text


def test_partition_of_a_topic_without_ids_is_gone(session: Session) -> None:
    """If the checkpoint has no id of the topic, a missing partition may belong to an earlier topic: it is data loss."""
    _, end = first_batch(session)
    del end["topics"]["t"]["czxid"], session.logs[T1]
    with pytest.raises(DataLoss, match=r"PARTITIONS_GONE.*t-1 of the micro-batch no longer exist"):
        driver(session).splits(end)


def test_server_that_does_not_know_a_planned_partition_yet(session: Session) -> None:
    """If metadata lack a planned partition, they are requested again. It is no loss: topics never lose partitions."""
    _, end = first_batch(session)
    del session.logs[T1]
    with pytest.raises(BrokersUnavailable, match="t-1 of the micro-batch are missing in the metadata"):
        driver(session, failOnDataLoss="false").splits(end)
    session.while_waiting = lambda: session.logs.update({T1: 100})
    splits, _ = driver(session, failOnDataLoss="false").splits(end)
    assert [split.partition for split in splits] == [T0, T1]


def test_accepted_loss_on_a_quiet_topic(session: Session) -> None:
    """A loss that was accepted is recorded by a micro-batch without records, and is not reported again after a restart."""
    _, end = first_batch(session)
    session.firsts, session.logs = {T0: 120}, {T0: 120, T1: 100}
    with pytest.raises(DataLoss, match="OFFSET_OUT_OF_RANGE"):
        driver(session).latest(end, limited=True)
    accepting = driver(session, failOnDataLoss="false")
    accepted = accepting.latest(end, limited=True)
    assert positions(accepted, "t") == {"0": 120, "1": 100}
    assert accepting.splits(accepted)[0] == ()
    assert accepting.latest(accepted, limited=True) == accepted
    assert driver(session).latest(accepted, limited=True) == accepted


@pytest.mark.parametrize("member", [None, Member(T0)])
def test_accepted_loss_of_an_empty_topic(member: Member | None) -> None:
    """The loss of a topic that was created again, and is still empty, is recorded like any other."""
    session = Session(member)
    session.logs = {T0: 10}
    _, start = first_batch(session)
    session.czxid = 99
    with pytest.raises(DataLoss, match="TOPIC_REPLACED"):
        driver(session).latest(start, limited=True)
    accepting = driver(session, failOnDataLoss="false")
    accepted = accepting.latest(start, limited=True)
    assert accepted != start
    assert accepting.latest(accepted, limited=True) == accepted
    assert driver(session).latest(accepted, limited=True) == accepted


def test_query_that_leaves_and_joins_its_group_by_turns() -> None:
    """A query recognizes its own commit of a run without records: no other client has moved the group's offset."""
    session = Session()
    session.logs = {T0: 20}
    read: list[tuple[int, int]] = []
    with_group: dict[str, str] = {"zookeeper.connect": "zk1:2181", "group.id": "g", "groupMembership": "none"}

    def run(end: dict[str, Any], **options: str) -> dict[str, Any]:
        """Run the query until it has nothing to read, and return the end of its last micro-batch."""
        found = driver(session, **options)
        while (after := found.latest(end, limited=True)) != end:
            read.extend((split.start, split.until) for split in found.splits(after)[0])
            end = after
        return end

    end = run(driver(session, **with_group).initial(), **with_group)
    session.logs[T0] = 30
    end = run(end)
    end = run(end, **with_group)
    assert session.stored[T0].offset == 30
    for log_end in 40, 50:
        session.logs[T0] = log_end
        end = run(end)
    run(end, **with_group)
    assert read == [(10, 20), (20, 30), (30, 40), (40, 50)]
    assert session.stored[T0].offset == 50


@pytest.mark.parametrize("fails", ["true", "false"])
def test_topic_created_again_after_the_plan(session: Session, fails: str) -> None:
    """A planned micro-batch reads nothing of a topic created again. The next one reads the new topic from its beginning."""
    found, end = first_batch(session, failOnDataLoss=fails)
    session.logs, session.czxid = {T0: 150, T1: 150}, 99
    if fails == "true":
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.*t-0, t-1 of the micro-batch"):
            found.splits(end)
    else:
        assert found.splits(end)[0] == ()
        assert planned(found, end) == [(0, 10, 150), (1, 10, 150)]


def test_planned_topics_are_confirmed(session: Session) -> None:
    """A repeated micro-batch confirms that its topics exist, since a starting broker knows none."""
    session.logs = {T0: 100, U0: 100}
    _, end = first_batch(session, subscribe="t,u")
    session.unsubscribed, session.expected = {"u"}, set()
    driver(session).splits(end)
    assert session.expected == {"t"}


@pytest.mark.parametrize("fails", ["true", "false"])
def test_fixed_ends_of_a_topic_created_again(session: Session, fails: str) -> None:
    """The fixed ends of a topic that the checkpoint lacks do not apply to a later topic of the same name."""
    start = driver(session).initial()
    session.logs[U0] = 30
    found = driver(session, subscribe="t,u", failOnDataLoss=fails)
    found.fix_bounds()
    session.czxids["u"] = 99
    if fails == "true":
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.*topic u was deleted and created again"):
            found.latest(start, limited=True)
    else:
        assert positions(found.latest(start, limited=True), "u") == {"0": 30}


def test_member_reads_what_it_owns() -> None:
    """A member reads and keeps its own partitions, and commits each micro-batch when the next one is planned."""
    session = Session(member := Member(T0))
    found = driver(session)
    start = found.initial()
    assert planned(found, start) == [(0, 10, 100)]
    assert member.reading == [T0]
    end = found.latest(start, limited=True)
    found.latest(end, limited=True)
    assert session.stored == {T0: StoredOffset(100)}
    assert member.reading == []


def test_topic_deleted_before_a_restart() -> None:
    """A deleted topic fails a member and its next run. With failOnDataLoss=false the next run continues."""
    session = Session(Member(T0))
    first, end = first_batch(session)
    session.logs.clear()
    for run in first, driver(session):
        with pytest.raises(DataLoss, match="PARTITIONS_GONE"):
            run.latest(end, limited=True)
    assert driver(session, failOnDataLoss="false").latest(end, limited=True) == end


@pytest.mark.parametrize("fails", ["true", "false"])
def test_topic_created_again_that_the_group_follows(fails: str) -> None:
    """A member with the checkpoint of a deleted topic continues at the group's offset in the new one, and keeps it."""
    session = Session(Member(T0))
    _, end = first_batch(session)
    session.czxid, session.logs = 50, {T0: 80, T1: 80}
    session.stored = {T0: StoredOffset(70, 60)}
    found = driver(session, failOnDataLoss=fails)
    assert planned(found, end) == [(0, 70, 80)]
    found.latest(found.latest(end, limited=True), limited=True)
    assert session.stored[T0].offset == 80


def test_topic_created_again_that_the_group_has_not_read() -> None:
    """A group's own commit to a deleted topic does not count for the topic created again, which is data loss."""
    session = Session(Member(T0))
    first, end = first_batch(session)
    first.latest(end, limited=True)
    session.czxid, session.logs = 50, {T0: 120, T1: 80}
    with pytest.raises(DataLoss, match="TOPIC_REPLACED"):
        driver(session).latest(end, limited=True)
    assert planned(driver(session, failOnDataLoss="false"), end) == [(0, 10, 120)]


def test_topic_that_is_missed_for_a_moment() -> None:
    """A topic that is missing for a moment continues at its position."""
    session = Session(Member(T0))
    found, end = first_batch(session, failOnDataLoss="false")
    logs, session.logs = session.logs, {}
    assert found.latest(end, limited=True) == end
    session.logs = {**logs, T0: 120}
    assert planned(found, end) == [(0, 100, 120)]


def test_topic_created_again_before_its_first_record() -> None:
    """Data loss is reported if a newly assigned partition's topic was created again before its first record was read."""
    session = Session(member := Member())
    session.stored = {T1: StoredOffset(100, 8)}
    found = driver(session)
    start = found.initial()
    member.claims = {T1: Claim("c-0", 5)}
    assert found.latest(start, limited=True) == start
    session.czxid, session.logs, session.stored = 50, {T0: 10, T1: 150}, {}
    with pytest.raises(DataLoss, match="TOPIC_REPLACED"):
        found.latest(start, limited=True)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_newly_assigned_topic_created_again_between_two_snapshots(fails: str) -> None:
    """A topic not in any micro-batch yet is compared with its identity at the assignment."""
    session = Session(member := Member(T0))
    found, end = first_batch(session, subscribe="t,u", missingTopics="wait", failOnDataLoss=fails)
    session.logs[U0], session.stored = 100, {U0: StoredOffset(100, 8)}
    member.claims[U0] = Claim("c-0", 9)
    assert found.latest(end, limited=True) == end
    session.logs[U0], session.czxids["u"], session.stored = 150, 50, {}
    if fails == "true":
        with pytest.raises(DataLoss, match=r"TOPIC_REPLACED.*topic u was deleted and created again"):
            found.latest(end, limited=True)
    else:
        assert planned(found, end) == [(0, 10, 150)]


def test_topic_that_comes_and_goes_between_two_micro_batches() -> None:
    """A topic deleted before its first record was read leaves no position for a later topic of the same name."""
    session = Session(member := Member(T0))
    found, end = first_batch(session, subscribe="t,u", missingTopics="wait")
    session.logs[U0], session.stored = 10, {U0: StoredOffset(10, 8)}
    member.claims[U0] = Claim("c-0", 9)
    assert found.latest(end, limited=True) == end
    del session.logs[U0]
    session.stored, session.logs[T0] = {}, 120
    end = found.latest(end, limited=True)
    assert "u" not in end["topics"]
    session.logs[U0], session.czxids["u"] = 30, 50
    assert planned(found, end) == [(0, 10, 30)]


def test_repeated_micro_batch_before_the_group_settles() -> None:
    """After a repeated micro-batch, a member does not keep its partitions while it waits for the group to settle."""
    session = Session(Member(T0))
    found, end = first_batch(session)
    session = Session(member := Member(T0))
    found, read = driver(session), []
    found.splits(end)
    assert member.reading == [T0]
    member.settled, session.while_waiting = False, lambda: read.append(member.reading)
    found.latest(end, limited=True)
    assert read
    assert not any(read)


def test_fixed_ends_and_an_offset_of_a_deleted_topic() -> None:
    """An offset of a deleted topic does not count as progress in the current one."""
    session = Session(member := Member(T0))
    session.czxid, session.stored = 50, {T1: StoredOffset(1000, 8)}
    session.while_waiting = lambda: member.claims.update({T1: Claim("c-0", 9)}) if session.now > 3 else None
    found = driver(session, failOnDataLoss="false")
    found.fix_bounds()
    end = found.latest(found.initial(), limited=True)
    assert planned(found, end) == [(1, 10, 100)]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_fixed_ends_of_a_deleted_partition(fails: str) -> None:
    """Data loss is reported for a partition that is deleted before any member has read it to its fixed end."""
    session = Session(Member(T0))
    session.while_waiting = lambda: session.logs.pop(T1, None)  # type: ignore[assignment]
    found = driver(session, failOnDataLoss=fails)
    found.fix_bounds()
    end = found.latest(found.initial(), limited=True)
    if fails == "true":
        with pytest.raises(DataLoss, match=r"PARTITIONS_GONE.*t-1 were deleted before"):
            found.latest(end, limited=True)
    else:
        assert found.latest(end, limited=True) == end


def test_fixed_ends_of_empty_logs() -> None:
    """An empty partition counts as read to its end, even without an owner."""
    session = Session(Member(T0))
    session.logs[T1] = 10
    found = driver(session)
    found.fix_bounds()
    end = found.latest(found.initial(), limited=True)
    assert found.latest(end, limited=True) == end
    assert session.now < 5


@pytest.mark.parametrize("is_silent", [False, True])
def test_fixed_ends_and_a_truncated_log(is_silent: bool) -> None:
    """A log that was truncated to nothing is a loss, and never counts as read while its leader is silent."""
    session = Session(Member(T0))
    first, end = first_batch(session)
    first.latest(end, limited=True)
    session.logs = {T0: 10}
    found = driver(session)
    found.fix_bounds()
    session.mute = {T0} if is_silent else set()
    expected: tuple[type[ZKafkaError], str] = (
        (BrokersUnavailable, "t-0: not read to") if is_silent else (DataLoss, "outside")
    )
    with pytest.raises(expected[0], match=expected[1]):
        found.latest(end, limited=True)


def test_fixed_ends_and_a_silent_partition_added_later() -> None:
    """A partition without a fixed end does not keep the query from ending while its leader is silent."""
    session = Session(Member(T0))
    session.logs.pop(T1)
    found = driver(session)
    found.fix_bounds()
    end = found.latest(found.initial(), limited=True)
    session.logs[T1], session.mute = 100, {T1}
    session.member.claims[T1] = Claim("c-0", 9)
    assert found.latest(end, limited=True) == end
    assert session.now < 20


def test_fixed_ends_and_a_topic_created_again() -> None:
    """The loss of a topic that was created again is reported although the group's offsets cannot be read at first."""
    session = Session(Member(T0, T1))
    first, end = first_batch(session)
    first.latest(end, limited=True)
    session.logs, session.czxid = {T0: 10, T1: 10}, 50
    found = driver(session)
    found.fix_bounds()
    failures = [UNREACHABLE]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    session.while_reading_offsets = fail_once
    with pytest.raises(DataLoss, match="TOPIC_REPLACED"):
        found.latest(end, limited=True)


def test_fixed_ends_and_an_unreadable_group() -> None:
    """A query waits for the other members, also if the group's offsets cannot be read now and then."""
    session, succeeds = with_another()
    calls = iter(range(1_000))

    def fail_at_times() -> None:
        if session.now > 1 and next(calls) % 3 == 2:
            raise UNREACHABLE

    session.while_reading_offsets = fail_at_times
    session.while_waiting = lambda: session.stored.update({T1: StoredOffset(10 + int(session.now))})
    assert succeeds()
    assert session.stored[T1] == StoredOffset(100)


def with_another(member: Member | None = None, **options: str) -> tuple[Session, Callable[[], bool]]:
    """A session in which another member owns t-1, and a function that runs a query to its fixed ends.

    The function returns True if the query ends with success, and False after ENDS_NOT_REACHED.
    """
    session = Session(member or Member(T0))
    session.others = {T1: "other"}
    session.stored = {T1: StoredOffset(10)}
    found = driver(session, **options)

    def succeeds() -> bool:
        found.fix_bounds()
        end = found.latest(found.initial(), limited=True)
        try:
            while (after := found.latest(end, limited=True)) != end:
                end = after
        except GroupContended as error:
            return error.condition != "ENDS_NOT_REACHED"
        return True

    return session, succeeds


def test_fixed_ends_of_a_member_that_commits() -> None:
    """A query with fixed ends waits until a slow member has read its partitions, while the group's offset moves."""
    session, succeeds = with_another()
    session.while_waiting = lambda: session.stored.update({T1: StoredOffset(10 + 30 * (int(session.now) // 100))})
    assert succeeds()
    assert 300 <= session.now < 303


def test_fixed_ends_of_a_silent_member() -> None:
    """A member that does not commit may be dead: the query fails, and names it."""
    session, succeeds = with_another()
    assert not succeeds()
    assert 126 <= session.now < 128
    assert session.lookups <= session.now / Member.expiry_s


def test_fixed_ends_of_a_dead_member() -> None:
    """A query waits for a dead member whose session is longer than the query's own, and reads its partitions."""
    session, succeeds = with_another(member := Member(T0))

    def expire() -> None:
        if session.now > 3:
            session.stored.setdefault(T1, StoredOffset(20))  # its last commit
        if session.now > 60:
            session.others, member.claims = {}, {T0: Claim("c-0", 0), T1: Claim("c-0", 9)}

    session.stored, session.while_waiting = {}, expire
    assert succeeds()
    assert session.stored[T1] == StoredOffset(100)


@pytest.mark.parametrize("leaves", [True, False])
def test_fixed_ends_of_a_member_that_stops_early(leaves: bool) -> None:
    """A member that commits may stop before the fixed ends. The query reads the rest, or fails if it does not get it."""
    session, succeeds = with_another(member := Member(T0))

    def stop() -> None:
        session.stored.setdefault(T1, StoredOffset(10))
        if 5 < session.now < 20:
            session.stored[T1] = StoredOffset(20)
        elif session.now > 20 and leaves:
            session.others, member.claims = {}, {T0: Claim("c-0", 0), T1: Claim("c-0", 9)}

    session.while_waiting = stop
    assert succeeds() is leaves
    assert session.stored[T1] == StoredOffset(100 if leaves else 20)
    assert leaves or 131 <= session.now < 134


def test_start_that_is_no_progress() -> None:
    """The first offset of a partition may be the group's start, which any member commits: it does not prolong the wait."""
    session, succeeds = with_another()

    def start() -> None:
        if session.now > 60:
            session.stored[T1] = StoredOffset(10)

    session.stored, session.while_waiting = {}, start
    assert not succeeds()
    assert session.now < 128


def test_owner_with_nothing_left_to_read() -> None:
    """A query does not wait where only markers of transactions are left before the fixed end."""
    session, succeeds = with_another()
    session.recordless, session.stored = {T1}, {T1: StoredOffset(99)}
    assert succeeds()
    assert session.now < 2 * Member.expiry_s


def test_member_that_gains_and_loses_partitions() -> None:
    """A revoked partition is no longer read, and a newly assigned one is read from the group's offset."""
    session = Session(member := Member(T0))
    session.stored = {T1: StoredOffset(60)}
    found, end = first_batch(session)
    member.claims = {T1: Claim("c-0", 9)}
    session.logs = {T0: 200, T1: 100}
    assert planned(found, end) == [(1, 60, 100)]


def test_start_of_a_group() -> None:
    """The start of a new group at the end of the logs is committed, including other members' partitions."""
    session = Session(Member(T0))
    found = driver(session, startingOffsets="latest")
    found.latest(found.initial(), limited=True)
    assert session.stored == {T0: StoredOffset(100), T1: StoredOffset(100)}


def test_start_of_a_group_in_a_deleted_topic() -> None:
    """A start is not committed if its topic was created again: it would skip records of the new topic."""
    session = Session(Member(T0))
    found = driver(session, startingOffsets="latest", failOnDataLoss="false")
    start = found.initial()
    session.czxid, session.logs = 50, {T0: 30, T1: 30}
    assert planned(found, start) == [(0, 10, 30)]
    assert session.stored == {T0: StoredOffset(10)}


@pytest.mark.parametrize("given", ['{"t": {"7": 5}}', '{"u": "earliest"}'])
def test_unknown_start_of_a_group(given: str) -> None:
    """A start with an unknown partition or topic is refused, as without a group."""
    found = driver(Session(Member(T0)), startingOffsets=given)
    with pytest.raises(OptionError, match=r"OFFSETS_DO_NOT_MATCH.*startingOffsets names (t-7|u), which"):
        found.latest(found.initial(), limited=True)


def test_member_without_partitions() -> None:
    """A member without partitions waits a moment in each planning call."""
    session = Session(member := Member())
    found = driver(session)
    start = found.initial()
    assert found.latest(start, limited=True) == start
    assert found.latest(start, limited=True) == start
    assert member.waits == 2


def test_two_stores_of_offsets() -> None:
    """Offsets of newly assigned partitions are copied to the lagging store, at the start and later."""
    member = Member(T0)
    session = Session(member)
    found, end = first_batch(session, **{"offsets.storage": "kafka", "dual.commit.enabled": "true"})
    assert session.leveled == [T0]
    member.claims[T1] = Claim("c-0", 1)
    found.latest(end, limited=True)
    assert session.leveled == [T0, T1]


def test_left_offset_that_cannot_be_lowered_yet() -> None:
    """The offset that a query has left in one of two stores is not copied to the other before it is lowered."""
    session = Session(Member(T0))
    session.stored = {T0: StoredOffset(50, 7)}
    both = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
    known = driver(session, **both).initial()
    known["stores"] = ["kafka"]
    known["topics"]["t"] |= {"partitions": {"0": [20, 30, 20]}, "left": {"zookeeper": {"0": [50, 7, 60]}}}
    session.commit_error = ZooKeeperError("ZOOKEEPER_UNAVAILABLE", "no answer")
    found = driver(session, **both)
    end = found.latest(known, limited=True)
    session.commit_error = None
    assert positions(end, "t") == {"0": 100}
    assert session.leveled == []
    assert end["topics"]["t"]["left"] == known["topics"]["t"]["left"]
    found.latest(end, limited=True)
    assert session.stored == {T0: StoredOffset(100)}


def test_offsets_that_brokers_forget() -> None:
    """Offsets in Kafka are committed again every ten minutes, although they have not changed."""
    session = Session(Member(T0))
    found, end = first_batch(session, **{"offsets.storage": "kafka", "dual.commit.enabled": "false"})
    found.latest(end, limited=True)
    assert session.stored == {T0: StoredOffset(100)}
    session.stored = {}
    session.now += 590
    found.latest(end, limited=True)
    assert session.stored == {}
    session.now += 20
    found.latest(end, limited=True)
    assert session.stored == {T0: StoredOffset(100)}


def test_offsets_that_one_of_two_stores_forgets() -> None:
    """With two stores, offsets are copied every ten minutes to a store that lacks them."""
    session = Session(Member(T0))
    found, end = first_batch(session, **{"offsets.storage": "kafka", "dual.commit.enabled": "true"})
    session.now += 590
    found.latest(end, limited=True)
    assert session.leveled == [T0]
    session.now += 20
    found.latest(end, limited=True)
    found.latest(end, limited=True)
    assert session.leveled == [T0, T0]


@pytest.mark.parametrize(
    ("given", "is_member", "says"),
    [
        ({"subscribe": "t,order"}, True, r"[UNKNOWN_TOPIC] There is no topic or partition order (did you mean orders?);"),
        ({"subscribe": "t,order", "missingTopics": "wait"}, False, "order (did you mean orders?);"),
        ({"assign": '{"t":[0],"order":[0]}', "missingTopics": "wait"}, False, "order (did you mean orders?);"),
    ],
)
def test_waiting_for_topics(given: dict[str, str], is_member: bool, says: str, caplog: pytest.LogCaptureFixture) -> None:
    """A missing topic is reported at once and once a minute, while the others are read."""
    session = Session(Member(T0) if is_member else None)
    found = driver(session, **given)
    start = found.initial()
    warned = [record for record in caplog.records if says in record.message]
    assert [(record.levelname, record.name.partition(".")[0]) for record in warned] == [("WARNING", "pyspark_zkafka")]
    end = found.latest(start, limited=True)
    assert positions(end, "t")["0"] == 100
    session.now += 61
    found.latest(end, limited=True)
    assert caplog.text.count(says) == 2


AWAITED = {
    "startingOffsets": ('{"t": {"0": 50, "1": 50}, "u": {"0": 20}}', 20),
    "earliest by partition": ('{"t": {"0": 50, "1": 50}, "u": {"0": -2}}', 10),
    "earliest by topic": ('{"t": {"0": 50, "1": 50}, "u": "earliest"}', 10),
    "latest": ('{"t": {"0": 50, "1": 50}, "u": {"0": -1}}', 10),
    "startingOffsetsByTimestamp": ('{"t": {"0": 50, "1": 50}, "u": {"0": 30}}', 30),
    "no record at the timestamp": ('{"t": {"0": 50, "1": 50}, "u": {"0": 70}}', 50),
}


@pytest.mark.parametrize(
    ("form", "subscription"), [(f, s) for f in AWAITED for s in ({"subscribe": "t,u"}, {"subscribePattern": "[tu]"})]
)
def test_start_in_a_topic_that_appears(form: str, subscription: dict[str, str]) -> None:
    """With missingTopics=wait, a start that names a missing topic applies when the topic is created."""
    option = "startingOffsetsByTimestamp" if "imestamp" in form else "startingOffsets"
    given, start = AWAITED[form]
    for member in None, Member(T0, T1):
        session = Session(member)
        found, end = first_batch(session, missingTopics="wait", **{**subscription, "startingOffsets": "", option: given})
        assert positions(end, "t") == {"0": 100, "1": 100}
        session.logs[U0] = 50
        if member is not None:
            member.claims[U0] = Claim("c-0", 9)
        session.logs[T0] = 110
        end = found.latest(end, limited=True)
        assert StreamOffset.from_json(end).ranges[U0][:2] == (start, 50)


def test_waiting_for_a_pattern(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A pattern without a match waits, with a warning that lists the topics, and reads topics created later."""
    session.logs = {}
    found = driver(session, subscribePattern="t.?")
    start = found.initial()
    assert "[NO_TOPIC_MATCHES] subscribePattern 't.?' matches no topic" in caplog.text
    assert "the cluster has orders, t." in caplog.text
    assert found.latest(start, limited=True) == start
    session.logs = {T0: 100}
    assert planned(found, start) == [(0, 10, 100)]


@pytest.mark.parametrize("is_member", [True, False])
def test_failing_without_topics(is_member: bool) -> None:
    """With missingTopics=fail, a new query fails if a topic is missing, even as a member or with a pattern."""
    session = Session(Member() if is_member else None)
    found = driver(session, subscribe="order", missingTopics="fail")
    with pytest.raises(UnknownTopic, match="did you mean orders"):
        found.latest(found.initial(), limited=True)
    session.logs = {}
    found = driver(session, subscribePattern="t.*", missingTopics="fail")
    with pytest.raises(UnknownTopic, match="NO_TOPIC_MATCHES"):
        found.latest(found.initial(), limited=True)


@pytest.mark.parametrize(
    ("given", "is_member", "says"),
    [
        ({"subscribe": "t,order"}, True, "UNKNOWN_TOPIC.*did you mean orders"),
        ({"subscribe": "t,order"}, False, "UNKNOWN_TOPIC.*did you mean orders"),
        ({"assign": '{"t": [0, 7]}'}, False, "UNKNOWN_TOPIC.*t-7;"),
        ({"subscribePattern": "order"}, True, "NO_TOPIC_MATCHES.*'order' matches no topic"),
        ({"subscribePattern": "order"}, False, "NO_TOPIC_MATCHES.*'order' matches no topic"),
    ],
)
def test_fixed_ends_without_topics(
    given: dict[str, str], is_member: bool, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A query with fixed ends fails if a topic is missing; with missingTopics=wait it reads the other topics."""
    session = Session(Member(T0) if is_member else None)
    with pytest.raises(UnknownTopic, match=says):
        driver(session, **given).fix_bounds()
    caplog.clear()
    found = driver(session, missingTopics="wait", **given)
    found.fix_bounds()
    assert re.search(rf"left out: .*{says}", caplog.text)
    if "subscribePattern" not in given:
        start = found.initial()
        session.now += 61
        assert positions(found.latest(start, limited=True), "t")["0"] == 100
        assert "Waiting for topics" not in caplog.text


def test_group_without_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """A group without offsets is reported at once, unless the options confirm its start."""
    session = Session(Member(T0))
    driver(session, startingOffsets="committed").initial()
    assert "Group g has no offset in t" in caplog.text
    caplog.clear()
    driver(session, startingOffsets="committed", **{"auto.offset.reset": "latest"}).initial()
    driver(session, startingOffsets="latest").initial()
    session.stored = {T1: StoredOffset(60)}
    driver(session, startingOffsets="committed").initial()
    assert "no offset" not in caplog.text


@pytest.mark.parametrize("later", [{"subscribe": "t"}, {"subscribePattern": "t.*"}, {"assign": '{"t": [0, 1]}'}])
def test_topic_that_is_no_longer_subscribed(
    session: Session, later: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A topic removed from the subscription is no data loss, and continues at its position when subscribed again."""
    session.logs[U0] = 50
    _, end = first_batch(session, subscribe="t,u")
    session.unsubscribed, session.logs = {"u"}, {T0: 120, T1: 100, U0: 70}
    without = driver(session, **later)
    assert [split.partition for split in without.splits(end)[0]] == [T0, U0, T1]
    assert planned(without, end) == [(0, 100, 120)]
    assert "no longer subscribes to u, and does not read it" in caplog.text
    later_end = without.latest(end, limited=True)
    session.unsubscribed = set()
    splits, _ = (again := driver(session, subscribe="t,u")).splits(again.latest(later_end, limited=True))
    assert [(str(split.partition), split.start, split.until) for split in splits] == [("u-0", 50, 70)]
    session.logs = {T0: 120, T1: 100}
    with pytest.raises(DataLoss, match=r"PARTITIONS_GONE.*u-0"):
        driver(session, subscribe="t,u").latest(later_end, limited=True)


@pytest.mark.parametrize(("stored", "level"), [(70, "INFO"), (60, "WARNING")])
def test_partition_that_comes_back(stored: int, level: str, caplog: pytest.LogCaptureFixture) -> None:
    """A group's offset ahead of the query's is another member's progress; one before it is a reset."""
    session = Session(member := Member(T0))
    session.logs = {T0: 65}
    found, end = first_batch(session)
    member.claims = {}
    found.latest(end, limited=True)
    session.logs, session.stored, member.claims = {T0: 80}, {T0: StoredOffset(stored)}, {T0: Claim("c-0", 9)}
    with caplog.at_level("INFO"):
        assert planned(found, end) == [(0, stored, 80)]
    (record,) = [record for record in caplog.records if "continuing at" in record.message]
    assert record.levelname == level
