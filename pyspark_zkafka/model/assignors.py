"""Assignors: the partitions that each thread of a consumer group reads.

There is no coordinator: all members compute the same assignment from the same znodes. The owner of a partition is a thread,
``<consumer>-<n>``.

==================  ===================================================================  ==============================
strategy            assignment                                                           the same as
==================  ===================================================================  ==============================
``range``           by topic: consecutive partitions; the first threads get one more     Kafka 0.8 to 1.1
``roundrobin``      partitions of all topics in turn, by the hash of ``topic-3``         Kafka 1.0 and 1.1
``roundrobin-0.8``  the same, by the hash of ``[topic,3]``                               Kafka 0.8.2 to 0.11
``sticky``          threads keep their partitions while the counts stay even             none; only in this package
``legacy-range``    by topic: consecutive partitions; equal shares, rounded up           none; described in articles
==================  ===================================================================  ==============================

JVM consumers do not register the name of their strategy. Set all members of a group to the same strategy.

References
----------
kafka.consumer.RangeAssignor, kafka.consumer.RoundRobinAssignor, kafka.consumer.AssignmentContext (Kafka 0.8.2.2, 1.1.1);
KAFKA-5822; ``docs/groups-zookeeper.md``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, cycle, repeat
from typing import TypeAlias

from pyspark_zkafka.conditions import BAD_FILTER, UNKNOWN_ASSIGNOR
from pyspark_zkafka.model.java_patterns import FilterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.topic_names import topic_filter
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, normalise_filter, thread_id

Owners: TypeAlias = dict[TopicPartition, str]


def balance(
    threads: Sequence[str], partitions: Sequence[TopicPartition], owners: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str]:
    """Return the owner of each partition by the sticky assignor. The counts of any two threads differ by at most 1.

    There is at least one thread. The order of the threads breaks ties. `partitions` are ascending and include all topics
    that exactly these threads read. `owners` are the current owners. Other threads and partitions in `owners` are ignored.

    Each thread has a quota: the number of partitions divided by the number of threads, rounded down (the lower quota) or up
    (the higher quota).

    1. The higher quotas go first to the threads that own more than the lower quota, then to the other threads, in order.
    2. A thread keeps its first partitions, up to its quota.
    3. The remaining partitions fill the threads below their quotas, both in order.

    No assignment with even counts keeps more partitions. A higher quota saves a partition only for a thread that owns more
    than the lower quota.

    Members read the owners at different moments, while other members release and claim, and must compute the same target.
    In any state, let an owner release a partition that it must release, or let the new owner claim a free partition. The
    target stays the same:

    - Quotas: a thread with a higher quota that owned more than the lower quota still does. A thread with a lower quota
      never comes to own more. Of the threads above the lower quota, a release can remove one with a lower quota, and a
      claim can add one with a higher quota. In both cases the same threads rank first. (Ranking by the number of owned
      partitions would fail: a claim could rank a thread with a lower quota before one with a higher quota.)
    - Kept partitions: a thread above its quota releases only partitions after its kept partitions, and no thread claims
      beyond its quota.
    - Remaining partitions: a release does not change their list. A claim removes one partition from the list, and one free
      position of the thread that this partition was assigned to.

    >>> partitions = [TopicPartition("t", n) for n in range(4)]
    >>> owners = dict(zip(partitions, ["a", "b", "b", "b"]))
    >>> [owner for _, owner in sorted(balance(["a", "b"], partitions, owners).items())]
    ['a', 'b', 'b', 'a']
    """
    owned: dict[str, list[TopicPartition]] = {thread: [] for thread in threads}
    for tp in partitions:
        if owners.get(tp) in owned:
            owned[owners[tp]].append(tp)
    lower, higher = divmod(len(partitions), len(owned))
    ranked = sorted(owned, key=lambda thread: len(owned[thread]) <= lower)
    quotas = {thread: lower + (rank < higher) for rank, thread in enumerate(ranked)}
    kept = {tp: thread for thread, found in owned.items() for tp in found[: quotas[thread]]}
    free = chain.from_iterable(repeat(thread, quotas[thread] - len(found)) for thread, found in owned.items())
    return kept | dict(zip((tp for tp in partitions if tp not in kept), free, strict=True))


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The input of an assignor.

    `threads` has the ids of the threads that read each topic, in Java's order of strings. `partitions` has the ascending
    partitions of each topic that exists. `owners` has the threads that own partitions now, if the strategy needs them.
    """

    threads: Mapping[str, tuple[str, ...]]
    partitions: Mapping[str, tuple[int, ...]]
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)


def topics_of(
    registration: ConsumerRegistration, topic_names: Iterable[str], excluded: Collection[str] = INTERNAL_TOPICS
) -> list[str]:
    """Return the topics that a member subscribes to, sorted. A filter selects from the existing topics, `topic_names`.

    No filter selects an excluded topic, by default the internal ones. A JVM member may have
    ``exclude.internal.topics=false``, which its registration does not show.

    Raises GroupError (``BAD_FILTER``) if the filter's regex is malformed, or takes unbounded time to match.

    >>> topics_of(ConsumerRegistration({"pay.*, orders": 2}, "white_list"), ["orders", "orders-eu", "payments"])
    ['orders', 'payments']
    """
    if registration.pattern == "static" or not registration.subscription:
        return sorted(registration.subscription)
    candidates = set(topic_names).difference(excluded)
    regex = next(iter(registration.subscription))
    normal = normalise_filter(regex)
    try:
        matching = topic_filter(normal).select(candidates)
    except FilterError as exc:
        text = f"The topic filter of a member cannot be used: {exc}; found {normal!r}. Correct that member's filter"
        raise BAD_FILTER(text, regex=regex) from exc
    return sorted(matching if registration.pattern == "white_list" else candidates - matching)


def threads_by_topic(
    members: Mapping[str, ConsumerRegistration], topic_names: Iterable[str], excluded: Collection[str] = INTERNAL_TOPICS
) -> dict[str, tuple[str, ...]]:
    """Return the ids of all members' threads by topic, in Java's order of strings: thread 10 comes before thread 2.

    The keys of `members` are the names of their znodes. For the other arguments, see `topics_of`. A topic that is
    subscribed to by name is in the result even if it does not exist.

    >>> threads_by_topic({"g_c1": ConsumerRegistration({"a": 2}), "g_c2": ConsumerRegistration({"a": 1})}, ["a"])
    {'a': ('g_c1-0', 'g_c1-1', 'g_c2-0')}
    """
    names = frozenset(topic_names)
    readers: dict[str, list[tuple[str, int]]] = {}
    for consumer, registration in members.items():
        counts = registration.subscription
        for topic in topics_of(registration, names, excluded):
            count = counts[topic] if registration.pattern == "static" else next(iter(counts.values()))
            readers.setdefault(topic, []).append((consumer, count))

    @cache  # usually, all topics have the same readers
    def threads(of_topic: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        ids = (thread_id(consumer, n) for consumer, count in of_topic for n in range(count))
        return tuple(sorted(ids, key=java_order))

    return {topic: threads(tuple(readers[topic])) for topic in sorted(readers)}


def java_order(text: str) -> bytes:
    """Return a sort key for the order of Java's ``String.compareTo``, by units of UTF-16.

    >>> sorted(["c1-2", "c1-10", "c1-1"], key=java_order)
    ['c1-1', 'c1-10', 'c1-2']
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: 32 bits, signed, over units of UTF-16.

    >>> java_hash("orders-0"), java_hash("[orders,0]")
    (1234322248, -1093576615)
    """
    units = java_order(text)
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed - (hashed >> 31 << 32)


def _range(subscribers: Subscribers) -> Owners:
    """Assign by topic. The first threads get one more partition if there is a remainder.

    >>> orders = Subscribers({"orders": ("c1-0", "c2-0", "c3-0")}, {"orders": (0, 1, 2, 3)})
    >>> [owner for _, owner in sorted(_range(orders).items())]
    ['c1-0', 'c1-0', 'c2-0', 'c3-0']
    """
    owners: Owners = {}
    for threads, partitions in _topics(subscribers):
        share, more = divmod(len(partitions), len(threads))
        owners |= _deal(partitions, {thread: share + (n < more) for n, thread in enumerate(threads)})
    return owners


def _legacy_range(subscribers: Subscribers) -> Owners:
    """Assign by topic, with the share of each thread rounded up. The last threads may get fewer partitions, or none at all.

    >>> orders = Subscribers({"orders": ("c1-0", "c2-0", "c3-0")}, {"orders": (0, 1, 2, 3)})
    >>> [owner for _, owner in sorted(_legacy_range(orders).items())]
    ['c1-0', 'c1-0', 'c2-0', 'c2-0']
    """
    owners: Owners = {}
    for threads, partitions in _topics(subscribers):
        owners |= _deal(partitions, dict.fromkeys(threads, -(-len(partitions) // len(threads))))
    return owners


def _roundrobin(subscribers: Subscribers, hashed: Callable[[TopicPartition], str]) -> Owners:
    """Assign over all topics, in the order of the hash of a partition's text. Threads that do not read a topic are skipped.

    Partitions with equal hashes are ordered by topic and number. Kafka leaves them in the order of a Scala hash map, which
    cannot be reproduced.
    """
    readers = {topic: frozenset(threads) for topic, threads in subscribers.threads.items()}
    partitions = [tp for _, found in _topics(subscribers) for tp in found]
    circle = cycle(sorted(frozenset().union(*readers.values()), key=java_order))
    return {
        tp: next(thread for thread in circle if thread in readers[tp.topic])
        for tp in sorted(partitions, key=lambda tp: (java_hash(hashed(tp)), tp))
    }


def _sticky(subscribers: Subscribers) -> Owners:
    """Balance topics with the same readers together. Owners that do not read the topic are ignored."""
    classes: dict[tuple[str, ...], list[TopicPartition]] = {}
    for threads, partitions in _topics(subscribers):
        classes.setdefault(threads, []).extend(partitions)
    owners: Owners = {}
    for threads, partitions in classes.items():
        owners |= balance(threads, sorted(partitions), subscribers.owners)
    return owners


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy of assignment.

    Attributes
    ----------
    owners : callable
        Computes the owner of each partition.
    over_all_topics : bool
        The owners of a topic's partitions depend on the group's other topics, also on topics that a member does not read.
    needs_owners : bool
        The assignment depends on the present owners.
    is_registered : bool
        Registrations name the strategy, and its members refuse a member with another one. JVM consumers name none.
    """

    owners: Callable[[Subscribers], Owners]
    over_all_topics: bool = False
    needs_owners: bool = False
    is_registered: bool = False


STRATEGIES: Mapping[str, Strategy] = {
    "range": Strategy(_range),
    "roundrobin": Strategy(partial(_roundrobin, hashed=str), over_all_topics=True),
    "roundrobin-0.8": Strategy(
        partial(_roundrobin, hashed=lambda tp: f"[{tp.topic},{tp.partition}]"), over_all_topics=True
    ),
    "sticky": Strategy(_sticky, needs_owners=True, is_registered=True),
    "legacy-range": Strategy(_legacy_range),
}


def assign(strategy: str, subscribers: Subscribers) -> Owners:
    """Return the owner of each partition that exists and has a subscriber, ordered by topic and number.

    Raises OptionError (``UNKNOWN_ASSIGNOR``) for an unknown strategy.

    >>> assign("range", Subscribers({"a": ("c1-0",), "gone": ("c1-0",)}, {"a": (0,), "unread": (0,)}))
    {TopicPartition(topic='a', partition=0): 'c1-0'}
    """
    if strategy not in STRATEGIES:
        text = f"There is no assignor {strategy!r}; choose one of {', '.join(STRATEGIES)}"
        raise UNKNOWN_ASSIGNOR(text, strategy=strategy)
    return dict(sorted(STRATEGIES[strategy].owners(subscribers).items()))


def _topics(subscribers: Subscribers) -> Iterator[tuple[tuple[str, ...], list[TopicPartition]]]:
    """Yield threads and partitions of each topic that has threads."""
    for topic, threads in subscribers.threads.items():
        if threads:
            yield threads, [TopicPartition(topic, p) for p in subscribers.partitions.get(topic, ())]


def _deal(partitions: Iterable[TopicPartition], shares: Mapping[str, int]) -> Owners:
    """Assign the partitions in order. Each thread gets as many consecutive partitions as its share."""
    owners = chain.from_iterable(repeat(thread, share) for thread, share in shares.items())
    return dict(zip(partitions, owners, strict=False))
