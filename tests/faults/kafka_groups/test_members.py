"""Members in Kafka groups that halt, die and return, and their commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.kafka_members import KafkaMemberProcess
from tests.support.members import numbers, settled
from tests.support.memberships import SESSION_MS, MemberGroup
from tests.support.topic_group import halted

pytestmark = pytest.mark.long

NewProcess = Callable[..., KafkaMemberProcess]
# Members by "range" release all of their partitions in each rebalance.
with_range = pytest.mark.parametrize("group", ["cooperative-sticky", "range", "consumer"], indirect=True)
ALL = [0, 1, 2, 3]


@with_range
def test_zombie(group: MemberGroup, new_process: NewProcess) -> None:
    """A member halted for longer than its session commits none of its former partitions, and joins again."""
    zombie = new_process()
    assert zombie.settle() == ALL
    assert zombie.commit(5, *ALL) == []
    member = group.member()
    with halted(zombie.pid):
        eventually(lambda: settled([member], 4), timeout_s=30)
        store = group.offsets(member)
        assert not store.commit(group.places(dict.fromkeys(ALL, 9)), member.owner).lost
    assert zombie.commit(12, *ALL) == ALL
    eventually(lambda: len(member.owned()) == 2 == len(zombie.owned()), timeout_s=30)
    assert went_back(commit_history(group.cluster, group.name)) == {}
    found = store.committed(group.places(dict.fromkeys(ALL, 0)))
    assert {stored.offset for stored in found.values()} == {9}


def test_killed(group: MemberGroup, new_process: NewProcess) -> None:
    """A killed member's partitions are taken over when its session has expired."""
    member, process = group.member(), new_process()
    assert process.settle() is not None
    eventually(lambda: len(member.owned()) == 2, timeout_s=30)
    process.kill()
    eventually(lambda: settled([member], 4), timeout_s=30)


@with_range
def test_static_member(group: MemberGroup, new_process: NewProcess) -> None:
    """A static member that returns within its session gets its partitions back; no other member had them meanwhile.

    Under KIP-848, the coordinator refuses the successor of a killed member until the killed member's session has expired.
    """
    member, process = group.member(), new_process(instance_id="one")
    eventually(lambda: len(member.owned()) == 2 == len(process.owned()), timeout_s=30)
    mine, kept = process.owned(), dict(member.owned())
    if group.kind == "consumer":
        process.stop()
    else:
        process.kill()
    again, seen = new_process(instance_id="one"), set[int]()
    with ThreadPoolExecutor() as threads:
        back = threads.submit(eventually, lambda: again.owned() == mine, 60)
        eventually(lambda: seen.update(numbers(member)) or back.done(), timeout_s=90)
    back.result()
    assert member.owned().keys() == kept.keys()
    if group.kind != "range":
        assert not seen & set(mine)
        assert member.owned() == kept


def test_static_member_too_late(group: MemberGroup, new_process: NewProcess) -> None:
    """A static member that returns after its session has lost its partitions, and gets a share again."""
    member, process = group.member(), new_process(instance_id="one")
    assert process.settle() is not None
    process.kill()
    eventually(lambda: settled([member], 4), timeout_s=30)
    again = new_process(instance_id="one")
    eventually(lambda: len(again.owned()) == 2 == len(member.owned()), timeout_s=30)


def test_instance_id_taken(group: MemberGroup, new_process: NewProcess) -> None:
    """When two members use one group.instance.id, one of them fails with INSTANCE_ID_TAKEN."""
    first = group.member(instance_id="one")
    eventually(lambda: settled([first], 4), timeout_s=30)
    second = group.member(instance_id="one")
    with pytest.raises(GroupError, match="INSTANCE_ID_TAKEN"):
        eventually(lambda: not [first.rebalance(), second.rebalance()], timeout_s=30)


def test_poll_interval_exceeded(group: MemberGroup) -> None:
    """A hold longer than the poll interval is cut short, so a busy member is never expelled."""
    first = group.member(hold_ms=60_000, max_poll_interval_ms=SESSION_MS + 2000)
    assert first.wait_settled(30)
    first.rebalance()
    before = first.owner
    second = group.member()
    eventually(lambda: settled([first, second], 4), timeout_s=40)
    assert first.owner == before


def test_reset_under_a_live_member(group: MemberGroup) -> None:
    """Brokers refuse to reset or delete the offsets of a group with a live member, and its commits still succeed."""
    member = group.member()
    assert member.wait_settled(30)
    with GroupAdmin(group.cluster.bootstrap_servers, {}) as admin:
        with pytest.raises(GroupError, match="GROUP_ACTIVE"):
            admin.alter_offsets(group.name, {TopicPartition(group.topic, 0): 1})
        with pytest.raises(GroupError, match="GROUP_ACTIVE"):
            admin.delete_groups([group.name])
    assert not group.offsets(member).commit(group.places({0: 3}), member.owner).lost


def test_reset_while_expelled(group: MemberGroup, new_process: NewProcess) -> None:
    """A reset while the only member is halted stays in effect: the member's late commit is lost."""
    zombie = new_process()
    assert zombie.settle() == ALL
    assert zombie.commit(5, *ALL) == []
    with halted(zombie.pid), GroupAdmin(group.cluster.bootstrap_servers, {}) as admin:
        eventually(lambda: not admin.group_states([group.name])[group.name].is_active, timeout_s=30)
        assert admin.alter_offsets(group.name, {TopicPartition(group.topic, 0): 1}) == {}
    assert zombie.commit(12, *ALL) == ALL
    with GroupAdmin(group.cluster.bootstrap_servers, {}) as admin:
        assert admin.committed(group.name)[TopicPartition(group.topic, 0)] == 1


def test_thousands_of_partitions(group: MemberGroup) -> None:
    """Two members share 3,000 partitions and commit all of them; the last member takes over the rest."""
    topic = f"{group.topic}-wide"
    group.cluster.create_topic(topic, partitions=3000)
    from pyspark_zkafka.model.planning import Subscribe

    members = [group.member(Subscribe((topic,))) for _ in range(2)]
    eventually(lambda: settled(members, 3000), timeout_s=90)
    for member in members:
        begin = time.monotonic()
        done = group.offsets(member).commit(dict.fromkeys(member.owned(), 4), member.owner)
        assert len(done.written) == 1500
        assert done.lost == set()
        assert time.monotonic() - begin < 20
    members[1].leave()
    eventually(lambda: len(numbers(members[0])) == 3000, timeout_s=60)
