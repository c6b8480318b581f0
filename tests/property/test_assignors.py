"""Laws of every assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.assignors import STRATEGIES, Subscribers, assign, java_order
from pyspark_zkafka.model.nouns import TopicPartition

Owners = dict[TopicPartition, str]

TOPICS = ["a", "b", "Aa", "BB", "topic.\u00e4"]
THREADS = ["c1-0", "c1-1", "c1-10", "c1-2", "c2-0", "c2-1", "c\U0001f600-0", "c\uff5e-0"]
STRANGERS = ["gone-0", "c1"]
RANGES = ["range", "legacy-range"]


def in_order(threads: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(threads, key=java_order))


def all_partitions(topics: dict[str, tuple[int, ...]]) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for topic, partitions in topics.items() for p in partitions]


def readers() -> st.SearchStrategy[tuple[str, ...]]:
    """Draw the threads of a topic from few sets, so that topics often share one."""
    some = [THREADS, THREADS[:3], THREADS[2:5], THREADS[:1], []]
    return st.sampled_from(some).map(in_order) | st.sets(st.sampled_from(THREADS)).map(in_order)


@st.composite
def groups(draw: st.DrawFn, same_threads: bool = False) -> Subscribers:
    """Draw topics that may be missing, unread or have gaps, and owners that may be current, outdated or unknown."""
    numbers = st.integers(0, 12).map(lambda n: tuple(range(n))) | st.sets(st.integers(0, 15)).map(
        lambda s: tuple(sorted(s))
    )
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), numbers))
    if same_threads:
        threads = dict.fromkeys(TOPICS, in_order(draw(st.sets(st.sampled_from(THREADS), min_size=1))))
    else:
        threads = draw(st.dictionaries(st.sampled_from(TOPICS), readers()))
    owner = st.none() | st.sampled_from(draw(st.sampled_from([THREADS, THREADS[:2], THREADS + STRANGERS])))
    drawn = {tp: draw(owner) for tp in all_partitions(partitions)}
    return Subscribers(threads, partitions, {tp: thread for tp, thread in drawn.items() if thread is not None})


def classes(group: Subscribers) -> dict[tuple[str, ...], list[TopicPartition]]:
    """Group the partitions by the threads that read them."""
    found: dict[tuple[str, ...], list[TopicPartition]] = {}
    for tp in all_partitions(dict(group.partitions)):
        if group.threads.get(tp.topic):
            found.setdefault(group.threads[tp.topic], []).append(tp)
    return found


def counts(owners: Owners, threads: Iterable[str], partitions: Iterable[TopicPartition]) -> list[int]:
    """Count the partitions of each thread, in the order of the threads."""
    owned = Counter(owners.get(tp) for tp in partitions)
    return [owned[thread] for thread in threads]


# Drawing a group takes longer than assigning it, so each group is assigned by all strategies.


@given(groups())
def test_each_partition_has_one_owner_that_reads_it(group: Subscribers) -> None:
    """Each partition that exists and is read has an owner among the threads of its topic; no other partition has one."""
    read = [tp for partitions in classes(group).values() for tp in partitions]
    for strategy in STRATEGIES:
        found = assign(strategy, group)
        assert list(found) == sorted(read), strategy
        assert all(thread in group.threads[tp.topic] for tp, thread in found.items()), strategy


@given(groups(), groups())
def test_only_sticky_looks_at_the_owners(group: Subscribers, other: Subscribers) -> None:
    """Every strategy except sticky ignores the current owners."""
    for strategy in STRATEGIES:
        if strategy != "sticky":
            assert assign(strategy, group) == assign(strategy, replace(group, owners=other.owners)), strategy


@given(groups(), st.data())
def test_the_order_of_topics_makes_no_difference(group: Subscribers, data: st.DataObject) -> None:
    """The order of topics and owners does not change an assignment."""
    fields = [group.threads, group.partitions, group.owners]
    shuffled = Subscribers(*(dict(data.draw(st.permutations(list(f.items())))) for f in fields))
    for strategy in STRATEGIES:
        assert assign(strategy, shuffled) == assign(strategy, group), strategy


@given(groups())
def test_ranges_are_neighbours_in_the_order_of_threads(group: Subscribers) -> None:
    """In each topic, ranges give the partitions in order to the threads in order."""
    for strategy in RANGES:
        found = assign(strategy, group)
        for threads, partitions in classes(group).items():
            for topic in {tp.topic for tp in partitions}:
                ranks = [threads.index(found[tp]) for tp in sorted(partitions) if tp.topic == topic]
                assert ranks == sorted(ranks), strategy


@given(groups())
def test_range_is_even_by_topic(group: Subscribers) -> None:
    """In each topic, range gives the first threads at most one partition more than the others."""
    found = assign("range", group)
    for topic, threads in group.threads.items():
        sizes = counts(found, threads, [TopicPartition(topic, p) for p in group.partitions.get(topic, ())])
        assert max(sizes, default=0) - min(sizes, default=0) <= 1
        assert sizes == sorted(sizes, reverse=True)


@given(groups())
def test_legacy_range_fills_one_thread_after_the_other(group: Subscribers) -> None:
    """In each topic, legacy-range gives all used threads the same number of partitions; the last one has the rest."""
    found = assign("legacy-range", group)
    for topic, threads in group.threads.items():
        sizes = counts(found, threads, [TopicPartition(topic, p) for p in group.partitions.get(topic, ())])
        used = [size for size in sizes if size]
        assert sizes == used + [0] * (len(sizes) - len(used))
        assert all(size == -(-sum(sizes) // len(sizes)) for size in used[:-1])
        assert used == sorted(used, reverse=True)


@given(groups(same_threads=True))
def test_even_over_all_topics(group: Subscribers) -> None:
    """If all threads read the same topics, the strategies for all topics give them counts that differ by at most one."""
    for strategy in ("roundrobin", "roundrobin-0.8", "sticky"):
        found = assign(strategy, group)
        sizes = counts(found, group.threads[TOPICS[0]], found)
        assert max(sizes) - min(sizes) <= 1, strategy


@given(groups())
def test_sticky_is_even_within_a_class(group: Subscribers) -> None:
    """Over topics with the same threads, sticky gives these threads counts that differ by at most one."""
    found = assign("sticky", group)
    for threads, partitions in classes(group).items():
        sizes = counts(found, threads, partitions)
        assert max(sizes) - min(sizes) <= 1


@given(groups())
def test_sticky_keeps_as_many_as_even_counts_allow(group: Subscribers) -> None:
    """The sticky assignor keeps as many partitions as even counts allow."""
    found = assign("sticky", group)
    for threads, partitions in classes(group).items():
        lower, higher = divmod(len(partitions), len(threads))
        owned = counts(dict(group.owners), threads, partitions)
        most = sum(min(size, lower) for size in owned) + min(higher, sum(size > lower for size in owned))
        assert sum(found[tp] == group.owners.get(tp) for tp in partitions) == most


@given(groups(same_threads=True), st.data())
def test_sticky_moves_nothing_of_those_that_stay(group: Subscribers, data: st.DataObject) -> None:
    """When threads leave an even group, the sticky assignor lets the others keep all their partitions."""
    before = assign("sticky", group)
    stay = in_order(data.draw(st.sets(st.sampled_from(group.threads[TOPICS[0]]), min_size=1)))
    after = assign("sticky", Subscribers(dict.fromkeys(TOPICS, stay), group.partitions, before))
    assert all(after[tp] == thread for tp, thread in before.items() if thread in stay)


@given(groups())
def test_sticky_is_settled_once_reached(group: Subscribers) -> None:
    """The sticky assignor does not change its own result."""
    found = assign("sticky", group)
    assert assign("sticky", replace(group, owners=found)) == found


# --- convergence: an example calls the assignor up to a hundred times, which on a busy machine can outlast the deadline


def moves(owners: Owners, target: Owners) -> list[TopicPartition]:
    """Return the partitions that must still be released or claimed to reach `target`."""
    return [tp for tp, thread in target.items() if owners.get(tp) != thread]


def move(owners: Owners, target: Owners, partition: TopicPartition) -> Owners:
    """Release the partition if it is owned, or claim it if it is free."""
    if partition in owners:
        return {tp: thread for tp, thread in owners.items() if tp != partition}
    return owners | {partition: target[partition]}


@given(groups(), st.data())
def test_sticky_converges_after_every_single_move(group: Subscribers, data: st.DataObject) -> None:
    """In every state on the way to the target, every member computes the same sticky target."""
    target = assign("sticky", group)
    owners = dict(group.owners)
    while left := moves(owners, target):
        owners = move(owners, target, data.draw(st.sampled_from(left)))
        assert assign("sticky", replace(group, owners=owners)) == target


@given(groups(), st.data())
def test_sticky_converges_with_members_that_computed_earlier(group: Subscribers, data: st.DataObject) -> None:
    """Members that act on states of different moments reach the same owners, and each partition has one."""
    owners = dict(group.owners)
    plans = {thread: assign("sticky", group) for thread in THREADS + STRANGERS}
    for thread in data.draw(st.lists(st.sampled_from(THREADS + STRANGERS))):
        plans[thread] = assign("sticky", replace(group, owners=owners))
        released = {tp for tp, owner in owners.items() if owner == thread and plans[thread].get(tp) != thread}
        claimed = {tp: thread for tp, owner in plans[thread].items() if owner == thread and tp not in owners}
        owners = {tp: owner for tp, owner in owners.items() if tp not in released} | claimed
    assert all(plan == assign("sticky", replace(group, owners=owners)) for plan in plans.values())
