"""Behaviour common to groups in ZooKeeper and groups in Kafka."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.kafka_loop import MemberLoop
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.planning import SubscribePattern
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.eventually import eventually
from tests.support.members import numbers, settled
from tests.support.memberships import BY_KIP_848, MemberGroup
from tests.support.tiers import seldom

ALL = [0, 1, 2, 3]

classic_seldom = pytest.mark.parametrize(
    "group", ["zookeeper", *seldom("cooperative-sticky", "range"), BY_KIP_848], indirect=True
)
"""For behaviour that groups of the classic protocol share with groups of KIP-848."""


def test_alone(group: MemberGroup) -> None:
    """A single member owns all partitions, keeps its claims, and gets added partitions within seconds."""
    member = group.member()
    assert member.wait_settled(20)
    assert numbers(member) == ALL
    claims = dict(member.owned())
    assert member.rebalance() == claims
    assert member.consumer
    assert member.owner is not None
    group.cluster.add_partitions(group.topic, 6)
    eventually(lambda: settled([member], 6), timeout_s=20)


def test_sharing_and_leaving(group: MemberGroup) -> None:
    """Two members share the partitions; when one leaves, the other takes over its partitions with new claims."""
    first = group.member()
    assert first.wait_settled(20)
    before = dict(first.owned())
    second = group.member()
    eventually(lambda: settled([first, second], 4), timeout_s=20)
    moved = set(second.owned())
    assert len(moved) == 2
    second.leave()
    eventually(lambda: settled([first], 4), timeout_s=20)
    assert all(first.owned()[tp].sequence > before[tp].sequence for tp in moved)


def test_failed(group: MemberGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A member that fails while it releases partitions leaves at once: another gets them, long before its session ends.

    All its calls then raise the cause, and its offsets cannot be committed.
    """

    def fail(*given: object) -> None:
        raise RuntimeError("boom")

    sessions = {} if group.kind == "consumer" else {"session_timeout_ms": 60_000}
    first = group.member(**sessions)
    assert first.wait_settled(20)
    store, owner = group.offsets(first), first.owner
    if isinstance(first, GroupMember):
        monkeypatch.setattr(first._claims, "release", fail)
    else:
        assert isinstance(first, KafkaGroupMember)
        monkeypatch.setattr(first._ownership, "begin_revocation", fail)  # within librdkafka's callback
    second = group.member(**sessions)
    eventually(lambda: settled([second], 4), timeout_s=20)
    for call in (first.owned, first.rebalance, lambda: store.commit(group.places({0: 1}), owner)):
        with pytest.raises(ZKafkaError, match=r"\[THREAD_FAILED\] .* has left group .*: RuntimeError: boom"):
            call()
    assert [record.exc_info is not None for record in caplog.records].count(True) == 1


@classic_seldom
def test_failed_member_of_a_query(group: MemberGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query whose member has failed ends with the cause at its next planning call, and does not wait."""

    def fail(*given: object) -> None:
        raise RuntimeError("boom")

    group.cluster.produce(group.topic, [{"value": b"v"}])
    with closing(StreamDriver(parse_stream(group.options()))) as driver:
        start = driver.initial()
        end = driver.latest(start, limited=False)
        assert driver.splits(end)[0]
        member = driver._session.member
        assert member is not None
        (thread,) = (t for t in threading.enumerate() if t.name.startswith(f"zkafka-member-{group.name}"))
        if group.kind == "zookeeper":
            monkeypatch.setattr(GroupMember, "_serve_once", fail)
        else:
            monkeypatch.setattr(MemberLoop, "begin_iteration", fail)
        member.request_rebalance()
        thread.join(20)
        with pytest.raises(ZKafkaError, match=r"\[THREAD_FAILED\] .*RuntimeError: boom"):
            driver.latest(end, limited=False)
        with pytest.raises(ZKafkaError, match=r"\[THREAD_FAILED\] .*RuntimeError: boom"):
            driver.commit()


@classic_seldom
def test_idle_members(group: MemberGroup) -> None:
    """With more members than partitions some members own nothing, and take over when others leave.

    An idle member also leaves at once: the others need not wait until its session expires.
    """
    is_classic = group.kind not in ("zookeeper", "consumer")  # classic groups rebalance within a second
    members = [group.member(**({"session_timeout_ms": 60_000} if is_classic else {})) for _ in range(6)]
    eventually(lambda: settled(members, 4), timeout_s=30)
    idle = next(member for member in members if not member.owned())
    busy = next(member for member in members if member.owned())
    idle.leave()
    busy.leave()
    rest = [member for member in members if member not in (idle, busy)]
    eventually(lambda: settled(rest, 4), timeout_s=30 if is_classic else 5)


def test_commits(group: MemberGroup) -> None:
    """A member commits only owned partitions, and lowers offsets only after a truncation; other commits are lost."""
    first, second = group.member(), group.member()
    eventually(lambda: settled([first, second], 4), timeout_s=20)
    store = group.offsets(first)
    done = store.commit(group.places(dict.fromkeys(ALL, 7)), first.owner)
    assert sorted(tp.partition for tp in done.written) == numbers(first)
    assert sorted(tp.partition for tp in done.lost) == numbers(second)
    assert {tp.partition: found.offset for tp, found in store.committed(group.places(dict.fromkeys(ALL, 0))).items()} == (
        dict.fromkeys(numbers(first), 7)
    )
    own = numbers(first)[0]
    lower = group.places({own: 5})
    assert store.commit(lower, first.owner).kept == group.places({own: 7})
    assert store.commit(lower, first.owner, lower).written == lower
    assert store.commit(lower, first.owner, lower.keys()).lost == set()


@classic_seldom
def test_hold(group: MemberGroup) -> None:
    """A member keeps and can commit a revoked partition until its work is done.

    The member that is to get the partition is settled only when it owns it.
    """
    first = group.member(hold_ms=60_000)
    assert first.wait_settled(20)
    assert len(first.rebalance()) == 4
    second = group.member()
    eventually(lambda: not first.settled, timeout_s=20)
    store = group.offsets(first)
    assert not store.commit(group.places(dict.fromkeys(ALL, 3)), first.owner).lost
    assert not second.wait_settled(3)
    assert len(first.owned()) == 4
    assert second.owned() == {}
    first.rebalance()
    assert second.wait_settled(20)
    assert len(second.owned()) == 2
    assert first.wait_settled(20)
    assert len(first.owned()) == 2


@classic_seldom
def test_hold_ends(group: MemberGroup, caplog: pytest.LogCaptureFixture) -> None:
    """After rebalance.hold.ms a partition is released with a warning even while it is read, and its commit is lost."""
    first = group.member(hold_ms=300)
    assert first.wait_settled(20)
    first.rebalance()
    second = group.member()
    eventually(lambda: settled([first, second], 4), timeout_s=20)
    assert "released" in caplog.text
    assert "records may be read twice" in caplog.text
    done = group.offsets(first).commit(group.places(dict.fromkeys(numbers(second), 3)), first.owner)
    assert sorted(tp.partition for tp in done.lost) == numbers(second)


@classic_seldom
def test_pattern(group: MemberGroup) -> None:
    """A pattern follows its topics: later ones are assigned, and after the last is deleted the member owns nothing."""
    topic = f"{group.topic}-brief"
    group.cluster.create_topic(topic, partitions=2)
    member = group.member(SubscribePattern(f"{group.topic}-.*"))
    eventually(lambda: settled([member], 2), timeout_s=20)
    group.cluster.delete_topic(topic)
    eventually(lambda: not member.rebalance(), timeout_s=20)
    assert member.wait_settled(20)
    group.cluster.create_topic(f"{group.topic}-later", partitions=3)
    eventually(lambda: settled([member], 3), timeout_s=20)
