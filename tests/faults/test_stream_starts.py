"""Starting offsets of partitions that nobody has read yet: no record is skipped, whichever members come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import DataLoss, NoLeader
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

MakeTopic = Callable[..., str]
NewPlanner = Callable[..., StreamDriver]

pytestmark = pytest.mark.usefixtures("all_brokers")


def spans(offset: dict[str, Any], topic: str) -> dict[int, tuple[int, int]]:
    """Return the range of each partition in a micro-batch, ``[from, until)``."""
    return {int(number): tuple(span[:2]) for number, span in offset["topics"][topic]["partitions"].items()}


def plan_until(planner: StreamDriver, start: dict[str, Any], topic: str, partitions: set[int]) -> dict[str, Any]:
    """Plan and finish micro-batches until one covers all partitions."""
    ends = [start]

    def planned() -> dict[str, Any] | None:
        ends.append(planner.latest(ends[-1], limited=True))
        return ends[-1] if partitions <= spans(ends[-1], topic).keys() else None

    return eventually(planned, 30, lambda: f"no micro-batch has {partitions}: {spans(ends[-1], topic)}")


class TestGrowth:
    """Partitions added while a group reads the topic."""

    def test_claimed_by_a_member_that_leaves(
        self, planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic
    ) -> None:
        """A partition that a member claimed but never planned is read from its beginning by the next owner."""
        topic = new_topic(partitions=2)
        options = {"subscribe": topic, "group.id": f"{topic}-group", "consumer.threads": "1"}
        stays, leaves = (planner({**options, "consumer.id": name}) for name in ("c1", "c2"))
        first, second = stays.initial(), leaves.initial()
        first = plan_until(stays, first, topic, {0})
        leaves.latest(second, limited=True)
        zkafka_cluster.add_partitions(topic, 4)
        zkafka_cluster.wait_for_leader(topic, 3)
        fill(zkafka_cluster, topic, 5, (0, 2, 3))
        finished = plan_until(stays, first, topic, {0, 1})
        owners = f"/consumers/{topic}-group/owners/{topic}"
        with zkafka_cluster.zookeeper() as client:
            claims = lambda: [client.get(f"{owners}/{n}")[0] for n in (2, 3) if client.exists(f"{owners}/{n}")]  # noqa: E731
            eventually(lambda: [b"_c2-" in claim for claim in claims()] == [True, True], message=claims)
        leaves.close()
        fill(zkafka_cluster, topic, 5, 0)
        found = plan_until(stays, finished, topic, {0, 1, 2, 3})
        assert spans(found, topic)[2] == (0, 5)
        assert spans(found, topic)[3] == (0, 5)

    @pytest.mark.parametrize("subscription", ["subscribe", *seldom("subscribePattern")])
    def test_gained_by_a_new_query(
        self, planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic, subscription: str
    ) -> None:
        """A new query of a group reads partitions added since the group started from their beginning."""
        topic = new_topic(partitions=1)
        options = {subscription: topic, "group.id": f"{topic}-group"}
        fill(zkafka_cluster, topic, 3, 0)
        before = planner(options)
        start = before.initial()
        assert spans(start, topic) == {0: (3, 3)}
        before.latest(start, limited=True)
        before.close()
        zkafka_cluster.add_partitions(topic, 2)
        zkafka_cluster.wait_for_leader(topic, 1)
        fill(zkafka_cluster, topic, 5, (0, 1))
        assert spans(planner(options).initial(), topic) == {0: (3, 3), 1: (0, 0)}

    def test_start_of_the_group(self, planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
        """The first query of a group fixes the group's starting offsets; a later query starts from the same."""
        topic = new_topic(partitions=2)
        options = {"subscribe": topic, "group.id": f"{topic}-group"}
        fill(zkafka_cluster, topic, 3, (0, 1))
        before = planner(options)
        before.latest(before.initial(), limited=True)
        before.close()
        fill(zkafka_cluster, topic, 4, (0, 1))
        assert spans(planner(options).initial(), topic) == {0: (3, 3), 1: (3, 3)}


@pytest.mark.parametrize("way", ["zookeeper", *seldom("bootstrap", "group")])
def test_without_leader(
    planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic, zookeeper: dict[str, str], way: str
) -> None:
    """A query that starts at latest fails on a partition without a leader, or skips it and reads all of it later."""
    topic = new_topic(assignment={0: [0], 1: [1]})
    connection = zookeeper if way != "bootstrap" else {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}
    options = {"subscribe": topic, **({"group.id": f"{topic}-group"} if way == "group" else {})}
    fill(zkafka_cluster, topic, 9, (0, 1))
    zkafka_cluster.stop(1)
    refused = planner(options, connection)
    with pytest.raises(NoLeader, match=f"No live leader for {topic}-1"):
        refused.initial()
    refused.close()
    driver = planner({**options, "offlinePartitions": "skip"}, connection)
    start = driver.initial()
    assert spans(start, topic) == {0: (9, 9)}
    assert driver.latest(start, limited=True) == start
    zkafka_cluster.restart(1)
    zkafka_cluster.wait_for_leader(topic, 1)
    begin = 9 if way == "group" else 0  # auto.offset.reset decides in a group
    if way == "group":
        eventually(lambda: driver.latest(start, limited=True) == start and len(driver._state.assigned) == 2, 30)
        fill(zkafka_cluster, topic, 5, 1)
    found = plan_until(driver, start, topic, {0, 1})
    assert spans(found, topic) == {0: (9, 9), 1: (begin, begin + 5 if begin else 9)}


def test_asked_for_the_start_again(planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """Asking again for the starting offsets while the first micro-batch is planned changes nothing."""
    topic = new_topic(partitions=1)
    driver = planner({"subscribe": topic})
    start = driver.initial()
    fill(zkafka_cluster, topic, 5, 0)
    first = driver.latest(start, limited=True)
    zkafka_cluster.add_partitions(topic, 2)
    zkafka_cluster.wait_for_leader(topic, 1)
    fill(zkafka_cluster, topic, 5, 1)
    assert driver.initial() == start
    assert spans(plan_until(driver, first, topic, {1}), topic)[1] == (0, 5)


def test_offsets_of_a_deleted_topic(planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """A group's offset from a deleted topic of the same name is data loss, or the new topic is read from its beginning."""
    topic = new_topic(partitions=1)
    options = {"subscribe": topic, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    fill(zkafka_cluster, topic, 5, 0)
    before = planner(options)
    start = before.initial()
    before.latest(before.latest(start, limited=True), limited=True)
    before.close()
    zkafka_cluster.delete_topic(topic)
    zkafka_cluster.create_topic(topic, partitions=1)
    fill(zkafka_cluster, topic, 9, 0)
    strict = planner(options)
    with pytest.raises(DataLoss, match=rf"TOPIC_REPLACED.*{topic}-0 at 5.* are older than the topic"):
        strict.latest(strict.initial(), limited=True)
    strict.close()
    named = planner({**options, "startingOffsets": "earliest", "groupMembership": "none"})
    assert spans(named.initial(), topic) == {0: (0, 0)}
    lenient = planner({**options, "failOnDataLoss": "false"})
    start = lenient.initial()
    end = lenient.latest(start, limited=True)
    assert spans(end, topic) == {0: (0, 9)}
    lenient.close()
    fill(zkafka_cluster, topic, 3, 0)
    again = planner({**options, "failOnDataLoss": "false"})
    assert spans(again.latest(end, limited=True), topic) == {0: (9, 12)}


@pytest.mark.spark(4, 2)
def test_reset_while_the_query_runs(planner: NewPlanner, zkafka_cluster: LocalCluster, new_topic: MakeTopic) -> None:
    """An operator's forward reset of the group's offset takes effect when the query is restarted."""
    topic = new_topic(partitions=1)
    options = {"subscribe": topic, "group.id": f"{topic}-group", "maxOffsetsPerTrigger": "5"}
    running = planner(options)
    start = running.initial()
    fill(zkafka_cluster, topic, 50, 0)
    first = running.latest(start, limited=True)
    second = running.latest(first, limited=True)
    with zkafka_cluster.zookeeper() as client:
        client.set(f"/consumers/{topic}-group/offsets/{topic}/0", b"40")
    third = running.latest(second, limited=True)
    assert spans(third, topic) == {0: (10, 15)}
    running.close()
    assert spans(planner(options).latest(third, limited=True), topic) == {0: (40, 45)}
