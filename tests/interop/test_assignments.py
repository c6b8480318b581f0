"""Owners that JVM consumers and our members compute alike: by range, by roundrobin, by filters, with many threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from conftest import Group

NewTopic = Callable[..., str]
VERSIONS = ("1.1.1", "0.8.2.2")
ROUNDROBIN = {"1.1.1": "roundrobin", "0.8.2.2": "roundrobin-0.8"}
TOPICS = {"peer-b": 3, "peer.w2": 3, "peer-c": 5}  # the two roundrobins order their partitions differently


@pytest.fixture(scope="module")
def topics(zkafka_cluster: LocalCluster) -> dict[str, int]:
    """Several topics, by name, with their partition counts."""
    for name, partitions in TOPICS.items():
        zkafka_cluster.create_topic(name, partitions)
    return TOPICS


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.1.1", "0.8.2.2"])
def test_roundrobin(group: Group, topics: dict[str, int], version: str) -> None:
    """Our members and JVM consumers compute the same roundrobin assignment, in the order of the JVM's version."""
    strategy = ROUNDROBIN[version]
    ours = {"subscribe": ",".join(topics), "consumer.threads": "2", "partition.assignment.strategy": strategy}
    jvm = {"topics": dict.fromkeys(topics, 2), "strategy": "roundrobin"}
    group.member("m", ours)
    a = group.jvm("a", version, **jvm)
    owners = group.settle("a", "m", strategy=strategy)
    assert len(set(owners.values())) == 4
    assert all(owners != group.computed(other) for other in ("range", *ROUNDROBIN.values()) if other != strategy)
    group.jvm("z", version, **jvm)
    group.settle("a", "m", "z", strategy=strategy)
    a.kill()
    group.settle("m", "z", strategy=strategy)


@pytest.mark.long
def test_roundrobin_with_a_topic_that_only_ours_reads(group: Group, topics: dict[str, int]) -> None:
    """With roundrobin of 1.1.1, threads that do not read a topic lose their turns."""
    mine = {"subscribe": ",".join(topics), "consumer.threads": "2", "partition.assignment.strategy": "roundrobin"}
    member = group.member("m", mine)
    group.jvm("a", topics={"peer-b": 1, "peer.w2": 3}, strategy="roundrobin")
    owners = group.settle("a", "m", strategy="roundrobin")
    assert {tp for tp in owners if tp.topic == "peer-c"} <= member.owned().keys()
    assert len(member.owned()) < len(owners)


def test_many_threads(group: Group, new_topic: NewTopic) -> None:
    """Members sort threads as text, the tenth before the second; surplus threads own nothing until others leave."""
    topic = new_topic(partitions=13)
    ours = group.member("m", {"subscribe": topic, "consumer.threads": "11"})
    a = group.jvm("a", "1.1.1", topics={topic: 3})
    z = group.jvm("z", "0.8.2.2", topics={topic: 2})
    owners = group.settle("a", "m", "z")
    threads = [owner.removeprefix(f"{group.name}_") for _, owner in sorted(owners.items())]
    assert threads == ["a-0", "a-1", "a-2", "m-0", "m-1", "m-10", *(f"m-{n}" for n in range(2, 9))]
    a.stop()
    assert f"{group.name}_z-0" in group.settle("m", "z").values()
    ours.leave()
    assert set(group.settle("z").values()) == {f"{group.name}_z-{n}" for n in range(2)}
    group.member("m", {"subscribe": topic, "consumer.threads": "12"})
    z.kill()
    assert len(set(group.settle("m").values())) == 12


@pytest.mark.parametrize("white_list_of", ["1.1.1", *seldom("0.8.2.2")])
def test_filters(group: Group, zkafka_cluster: LocalCluster, white_list_of: str) -> None:
    """Members with white lists and black lists of all kinds share the matching topics, and a topic created later."""
    prefix = f"filtered-{group.name}"
    first, second, later = (f"{prefix}.{name}" for name in "abc")
    zkafka_cluster.create_topic(first, partitions=2)
    zkafka_cluster.create_topic(second, partitions=5)
    white, black = f"{prefix}[.].*", f"(?!{prefix}[.]).*"
    black_list_of = next(version for version in VERSIONS if version != white_list_of)
    group.jvm("a", white_list_of, white_list=white, streams=2)
    group.jvm("b", black_list_of, black_list=black)
    group.member("o", {"subscribePattern": white})
    group.member("p", {"subscribeExceptPattern": black, "consumer.threads": "2"})
    members = ("a", "b", "o", "p")
    assert len(group.settle(*members)) == 7
    zkafka_cluster.create_topic(later, partitions=6)
    owners = group.settle(*members)
    assert {owners[TopicPartition(later, p)].removeprefix(f"{group.name}_") for p in range(6)} == {
        f"{name}-{n}" for name, threads in (("a", 2), ("b", 1), ("o", 1), ("p", 2)) for n in range(threads)
    }


@pytest.mark.parametrize("version", ["0.8.2.2", *seldom("1.1.1")])
def test_a_topic_grows_and_another_comes_into_being(
    group: Group, new_topic: NewTopic, zkafka_cluster: LocalCluster, version: str
) -> None:
    """Members share added partitions, and a topic that they subscribed to before it existed."""
    topic, missing = new_topic(partitions=2), f"late-{group.name}"
    group.jvm("a", version, topics={topic: 1, missing: 1})
    group.member("m", {"subscribe": f"{topic},{missing}"})
    assert len(group.settle("a", "m")) == 2
    zkafka_cluster.add_partitions(topic, 5)
    assert len(group.settle("a", "m")) == 5
    zkafka_cluster.create_topic(missing, partitions=3)
    assert len(group.settle("a", "m")) == 8


@pytest.mark.parametrize("version", ["1.1.1", *seldom("0.8.2.2")])
def test_what_is_being_read_is_kept_for_a_while(group: Group, new_topic: NewTopic, version: str) -> None:
    """A member releases what it reads after rebalance.hold.ms, before a waiting JVM consumer runs out of retries."""
    topic = new_topic(partitions=2)
    ours = group.member("m", {"subscribe": topic, "rebalance.hold.ms": "700"})
    ours.set_reading(ours.rebalance())
    four_seconds = {"rebalance.backoff.ms": "1000", "rebalance.max.retries": "4"}
    a = group.jvm("a", version, topics={topic: 1}, properties=four_seconds)
    group.settle("a", "m")
    assert a.failures == []
    assert ours.owned().keys() == {TopicPartition(topic, 1)}


@pytest.mark.long
def test_what_is_no_longer_being_read_is_given_away(group: Group, new_topic: NewTopic) -> None:
    """A member keeps what it reads when a JVM consumer joins, and releases it as soon as it reports that it is done."""
    topic = new_topic(partitions=2)
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    ours = group.member("m", {"subscribe": topic, "rebalance.hold.ms": "60000"})
    ours.set_reading(ours.rebalance())
    a = group.jvm("a", topics={topic: 1}, start=False).start(wait=False)
    eventually(lambda: len(group.registrations()) == 2)
    assert ours.owned().keys() == both == group.owners().keys()
    ours.set_reading([TopicPartition(topic, 1)])
    group.settle("a", "m")
    assert ours.owned().keys() == {TopicPartition(topic, 1)}
    a.wait_ready()
    assert a.failures == []
