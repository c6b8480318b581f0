"""Groups whose coordinator is killed, or whose brokers are restarted."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import BrokersUnavailable
from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.members import settled
from tests.support.memberships import MemberGroup

pytestmark = pytest.mark.long

ALL = [0, 1, 2, 3]


def commit_all(group: MemberGroup, member: object, offset: int) -> bool:
    """Commit all partitions; returns False if the commit must be retried."""
    try:
        done = group.offsets(member).commit(group.places(dict.fromkeys(ALL, offset)), member.owner)  # type: ignore[arg-type, attr-defined]
    except BrokersUnavailable:
        return False
    return not done.lost


def coordinator(group: MemberGroup) -> int:
    """Return the broker that coordinates the group."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": group.cluster.bootstrap_servers})
    return int(admin.describe_consumer_groups([group.name])[group.name].result(20).coordinator.id)


def test_killed_coordinator(group: MemberGroup) -> None:
    """A member whose coordinator is killed keeps or regains its partitions, and no committed offset decreases."""
    member = group.member(session_timeout_ms=45_000)
    eventually(lambda: settled([member], 4), timeout_s=30)
    assert commit_all(group, member, 1)
    broker = coordinator(group)
    group.cluster.kill(broker)
    try:
        eventually(lambda: commit_all(group, member, 2), timeout_s=90)
        assert settled([member], 4)
    finally:
        group.cluster.restart(broker)
    assert went_back(commit_history(group.cluster, group.name)) == {}


def test_rolling_restart(group: MemberGroup) -> None:
    """Two members survive a rolling restart of the brokers, and share all partitions in the end."""
    members = [group.member(session_timeout_ms=45_000) for _ in range(2)]
    eventually(lambda: settled(members, 4), timeout_s=30)
    for broker in sorted(group.cluster.broker_ids):
        group.cluster.restart(broker)
    eventually(lambda: settled(members, 4), timeout_s=60)
    for offset, member in enumerate(members, 1):
        owned = {tp: offset for tp in member.owned()}
        eventually(lambda m=member, o=owned: not group.offsets(m).commit(o, m.owner).lost, timeout_s=60)  # type: ignore[misc]
    assert went_back(commit_history(group.cluster, group.name)) == {}
