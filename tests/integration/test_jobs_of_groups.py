"""Plans and tasks of batch jobs that commit a group's offsets, without Spark: dead jobs and their successors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import LedgerError, OptionError
from pyspark_zkafka.group.offsets import GroupOffsets
from pyspark_zkafka.model.ledger import QueryName
from pyspark_zkafka.model.nouns import ClaimOwner
from pyspark_zkafka.tools.ledger import delete_ledger, read_ledgers
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import SlotJob, once, open_entry

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.server

DUAL = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}


class Group:
    """A group whose jobs read a topic of two partitions and write to another topic."""

    def __init__(self, cluster: LocalCluster, source: str, sink: str) -> None:
        self._cluster = cluster
        self.name = f"jobs-{source}"
        self._source = source
        self._options = {"zookeeper.connect": cluster.zookeeper_connect, "group.id": self.name, "topic": sink}
        self._sink = sink

    def job(self, *ends: int, **more: str) -> SlotJob:
        """Return a job that commits an end for each of the first partitions."""
        offsets = json.dumps({self._source: dict(enumerate(ends))})
        return SlotJob({**self._options, "commitOffsets": offsets, **more})

    def grow(self, partitions: int) -> None:
        """Add partitions to the topic that is read."""
        self._cluster.add_partitions(self._source, partitions)

    def written(self) -> dict[int, int]:
        """Return how often a reader of committed records finds each row."""
        return numbers(self._cluster.bootstrap_servers, self._sink)

    def reset(self) -> None:
        """Delete the group's offsets and its ledger."""
        with self._cluster.zookeeper() as client:
            client.delete(f"/consumers/{self.name}", recursive=True)
        with GroupAdmin(self._cluster.bootstrap_servers, {}) as brokers:
            for ledger in read_ledgers(brokers, [f"zkafka-group.{self.name}"]).values():
                delete_ledger(brokers, ledger, force=True)


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Group:
    """A group without jobs."""
    return Group(zkafka_cluster, new_topic(partitions=2), new_topic(partitions=2))


def test_second_store(group: Group) -> None:
    """A job that also commits to Kafka can follow one that committed only to ZooKeeper."""
    first = group.job(5)
    first.write(range(5))
    first.commit()
    second = group.job(8, **DUAL)
    second.write(range(5, 8))
    second.commit()
    assert group.written() == once(range(8))


def test_died_between_two_stores(group: Group) -> None:
    """After a job that died between its commits to two stores, the next job starts at the larger offset."""
    died = group.job(5, **DUAL)
    died.write(range(5))
    commit, connection = died.options.commit, died.options.connection
    assert commit is not None
    assert connection.zookeeper is not None
    with ZooKeeperClient(connection.zookeeper) as client:
        place = connection, died.plan.bootstrap_servers, group.name, commit.stores[:1], client
        with GroupOffsets(*place) as offsets:
            offsets.commit(commit.offsets)
    following = group.job(8, **DUAL)
    following.write(range(5, 8))
    following.commit()
    assert group.written() == once(range(8))


def test_died_in_a_transaction(group: Group) -> None:
    """A job after one with an open transaction is planned within seconds, and its tasks end that transaction."""
    died = group.job(5)
    assert died.plan.ledger is not None
    assert died.plan.ledger.job is not None
    name = QueryName("zkafka", died.plan.ledger.job.query)
    with open_entry(died.options, name, slot=1, width=2):
        again = group.job(5)
        again.write(range(3, 5), slot=1)
        again.write(range(3))
        again.commit()
    assert group.written() == once(range(5))


def test_ledger_deleted(group: Group) -> None:
    """A job of a group whose offsets and ledger were deleted is written again, even by the same worker."""
    for _ in range(2):
        job = group.job(5)
        job.write(range(5))
        job.commit()
        group.reset()
    assert group.written() == dict.fromkeys(range(5), 2)


def test_job_of_a_member_that_is_gone(group: Group) -> None:
    """A job without a member can finish a dead member's job for the same partitions, as the error suggests."""
    owner = str(ClaimOwner("member", 1))
    group.job(5, commitOwner=owner).write(range(5))
    for member in ({"commitOwner": owner}, {}):
        with pytest.raises(LedgerError, match="UNFINISHED_JOB"):
            group.job(8, **member)
    again = group.job(5)
    assert again.write(range(5)).repeated == 5
    again.commit()
    assert group.written() == once(range(5))


def test_planned_at_the_same_time(group: Group) -> None:
    """Of two jobs planned at the same time, the first to write continues, and the other is refused."""
    first, second = group.job(5, 0), group.job(5, 3)
    first.write(range(5))
    first.commit()
    for slot, found in enumerate((range(5), range(100, 103))):
        with pytest.raises(LedgerError, match=r"UNFINISHED_JOB.*at the same time"):
            second.write(found, slot=slot)
    group.job(5, 3).write(range(100, 103), slot=1)
    assert group.written() == once([*range(5), *range(100, 103)])


def test_too_many_offsets(group: Group) -> None:
    """A job with too many offsets for an entry is also refused after an unfinished job."""
    group.job(5).write(range(5))
    group.grow(150)
    with pytest.raises(LedgerError, match="UNFINISHED_JOB"):
        group.job(*range(10**18, 10**18 + 150))


@pytest.mark.parametrize("option", ["transactionalIdPrefix", "writerName", "ledgerTopic", "topic"])
def test_job_that_moved(group: Group, new_topic: Callable[..., str], option: str) -> None:
    """A job under another name or topic is refused after an unfinished one, before it writes."""
    for _ in range(2):  # the second run waits until the first one's entry is complete
        group.job(5).write(range(5))
    moved = {option: new_topic()}
    for end in (5, 8):
        with pytest.raises(LedgerError, match=rf"LEDGER_MOVED.*zkafka-group.{group.name} "):
            group.job(end, **moved)
    again = group.job(5)
    assert again.write(range(5)).repeated == 5
    again.commit()
    group.job(8, **moved)
    assert group.written() == once(range(5))


def test_committed_job(group: Group) -> None:
    """A job whose offsets are already committed is refused if it has rows, which may have been written before."""
    first, second = group.job(5), group.job(5)
    first.write(range(5))
    first.commit()
    again = group.job(5)
    assert not again.write([]).rows
    again.commit()
    with pytest.raises(OptionError, match=r"UNNAMED_WRITE.*committed all of commitOffsets"):
        again.write(range(5))
    assert second.write(range(5)).repeated == 5  # planned before the commit
    assert group.written() == once(range(5))
