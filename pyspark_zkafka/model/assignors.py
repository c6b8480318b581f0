"""Assignors: the partitions that each thread of a consumer group reads.

All members compute the same assignment from the same znodes; there is no coordinator. The unit is the thread,
``<consumer>-<n>``.

==================  ===================================================================  ==============================
strategy            assignment                                                           the same as
==================  ===================================================================  ==============================
``range``           by topic: neighbouring partitions, the first threads one more        Kafka 0.8 to 1.1
``roundrobin``      threads take turns over all topics, by the hash of ``topic-3``       Kafka 1.0 and 1.1
``roundrobin-0.8``  the same, by the hash of ``[topic,3]``                               Kafka 0.8.2 to 0.11
``sticky``          threads keep their partitions as far as the counts stay even         none: members of this package
``legacy-range``    by topic: neighbouring partitions, each thread as many, rounded up   none: what articles describe
==================  ===================================================================  ==============================

A member's registration does not name its strategy: all members of a group must use the same.

References
----------
kafka.consumer.RangeAssignor, kafka.consumer.RoundRobinAssignor, kafka.consumer.AssignmentContext (Kafka 0.8.2.2, 1.1.1);
KAFKA-5822; ``docs/groups.md``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, cycle, repeat
from typing import TypeAlias

from pyspark_zkafka.conditions import BAD_FILTER, UNKNOWN_ASSIGNOR
from pyspark_zkafka.model.java_patterns import FilterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.topic_names import TopicFilter, topic_filter
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, normalise_filter, thread_id


def balance(
    threads: Sequence[str], partitions: Sequence[TopicPartition], owners: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str]:
    """The owner of each partition by the sticky assignor; the counts of any two threads differ by 1 at most.

    There is at least one thread; their order breaks ties. `partitions` are ascending, of all topics that just these threads
    read. Of `owners`, the current ones, those that are not among the threads are ignored, as are other partitions.

    Each thread has a quota: partitions by threads, rounded down (the lower quota) or up (the higher one).

    1. The higher quotas go to the threads that own more than the lower quota, then to the others; within each of the two,
       to the first threads.
    2. A thread keeps what it owns; one that owns more than its quota keeps its first partitions.
    3. The partitions that no thread keeps are assigned, in order, to the threads under quota, in order: to each all that it
       lacks.

    No assignment with even counts keeps more: a higher quota saves one partition for a thread that owns more than the lower
    quota, and none for any other.

    Members read the owners at different moments, while others release and claim, and still compute the same target. Take
    any state and one move toward its target: a partition that its owner must release becomes free, or its new owner claims
    a free one. Then

    - the quotas stay. A thread with a higher quota that owned more than the lower one still does, and a thread with a lower
      quota never comes to own more than that. So a release can take a thread with a lower quota out of those above it, and
      a claim can bring one with a higher quota in; either way, the same threads come first again. (To rank by the number of
      owned partitions would not do: a claim could put a thread with a lower quota ahead of one with a higher.)
    - what is kept stays: a thread over its quota releases only partitions that come after those that it keeps, and no
      thread claims beyond its quota.
    - what is assigned stays: a release leaves the list of these partitions as it is, and a claim removes a partition from
      the list, and a place from those of the very thread that this partition was assigned to.

    Examples
    --------
    >>> partitions = [TopicPartition("t", n) for n in range(4)]
    >>> owners = dict(zip(partitions, ["a", "b", "b", "b"]))
    >>> [owner for _, owner in sorted(balance(["a", "b"], partitions, owners).items())]
    ['a', 'b', 'b', 'a']
    """
    owned: dict[str, list[TopicPartition]] = {thread: [] for thread in threads}
    for tp in partitions:
        if owners.get(tp) in owned:
            owned[owners[tp]].append(tp)
    quotas = _quotas({thread: len(found) for thread, found in owned.items()}, len(partitions))
    kept = {tp: thread for thread, found in owned.items() for tp in found[: quotas[thread]]}
    places = chain.from_iterable(repeat(thread, quotas[thread] - len(found)) for thread, found in owned.items())
    return kept | dict(zip((tp for tp in partitions if tp not in kept), places, strict=True))


def _quotas(counts: Mapping[str, int], partitions: int) -> dict[str, int]:
    lower, higher = divmod(partitions, len(counts))
    ranked = sorted(counts, key=lambda thread: counts[thread] <= lower)
    return {thread: lower + (rank < higher) for rank, thread in enumerate(ranked)}


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The input of an assignor.

    `threads` are the ids of the threads that read a topic, in Java's order of strings; `partitions` a topic's partitions,
    ascending, without the topics that do not exist; `owners` the threads that own a partition now, for sticky alone.
    """

    threads: Mapping[str, tuple[str, ...]]
    partitions: Mapping[str, tuple[int, ...]]
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)


Owners: TypeAlias = dict[TopicPartition, str]


def topics_of(
    registration: ConsumerRegistration, topic_names: Iterable[str], excluded: Collection[str] = INTERNAL_TOPICS
) -> list[str]:
    """The topics that a member subscribes to, sorted; `topic_names` are those that exist, and only used for a filter.

    No filter matches an excluded topic: neither a white list nor a black list. By default, these are the internal ones; a
    JVM member may have ``exclude.internal.topics=false``, which its registration does not tell.

    Raises
    ------
    GroupError
        ``BAD_FILTER``: the filter's regex, with blanks and quotes dropped, is malformed, or takes unbounded time to match.

    Examples
    --------
    >>> topics_of(ConsumerRegistration({"pay.*, orders": 2}, "white_list"), ["orders", "orders-eu", "payments"])
    ['orders', 'payments']
    """
    if registration.pattern == "static" or not registration.subscription:
        return sorted(registration.subscription)
    candidates = set(topic_names).difference(excluded)
    matching = _filter(next(iter(registration.subscription))).select(candidates)
    return sorted(matching if registration.pattern == "white_list" else candidates - matching)


def threads_by_topic(
    members: Mapping[str, ConsumerRegistration], topic_names: Iterable[str], excluded: Collection[str] = INTERNAL_TOPICS
) -> dict[str, tuple[str, ...]]:
    """The ids of all members' threads by topic, in Java's order of strings: thread 10 comes before thread 2.

    `members` are by the names of their znodes, the rest is as in `topics_of`. A topic that is subscribed to by name is in
    the result whether it exists or not.

    Examples
    --------
    >>> threads_by_topic({"g_c1": ConsumerRegistration({"a": 2}), "g_c2": ConsumerRegistration({"a": 1})}, ["a"])
    {'a': ('g_c1-0', 'g_c1-1', 'g_c2-0')}
    """
    names = frozenset(topic_names)
    readers: dict[str, list[tuple[str, int]]] = {}
    for consumer, registration in members.items():
        for topic in topics_of(registration, names, excluded):
            readers.setdefault(topic, []).append((consumer, _thread_count(registration, topic)))
    threads = cache(_threads)  # mostly, all topics have the same readers
    return {topic: threads(tuple(readers[topic])) for topic in sorted(readers)}


def _threads(readers: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    named = (thread_id(consumer, n) for consumer, count in readers for n in range(count))
    return tuple(sorted(named, key=java_order))


def java_order(text: str) -> bytes:
    """A key to sort by as Java's ``String.compareTo`` does, by units of UTF-16.

    >>> sorted(["c1-2", "c1-10", "c1-1"], key=java_order)
    ['c1-1', 'c1-10', 'c1-2']
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: 32 bits, signed, over units of UTF-16.

    >>> java_hash("orders-0"), java_hash("[orders,0]")
    (1234322248, -1093576615)
    """
    units = java_order(text)
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed - (hashed >> 31 << 32)


def _filter(regex: str) -> TopicFilter:
    normal = normalise_filter(regex)
    try:
        return topic_filter(normal)
    except FilterError as exc:
        text = f"The topic filter of a member cannot be used: {exc}; found {normal!r}; correct that member's filter"
        raise BAD_FILTER(text, regex=regex) from exc


def _thread_count(registration: ConsumerRegistration, topic: str) -> int:
    counts = registration.subscription
    return counts[topic] if registration.pattern == "static" else next(iter(counts.values()))


def assign_range(subscribers: Subscribers) -> Owners:
    """Assignment by topic: each thread gets consecutive partitions, and the first threads get one more than the others.

    Examples
    --------
    >>> orders = Subscribers({"orders": ("c1-0", "c2-0", "c3-0")}, {"orders": (0, 1, 2, 3)})
    >>> [owner for _, owner in sorted(assign_range(orders).items())]
    ['c1-0', 'c1-0', 'c2-0', 'c3-0']
    """
    owners: Owners = {}
    for threads, partitions in _topics(subscribers):
        share, more = divmod(len(partitions), len(threads))
        owners |= _deal(partitions, {thread: share + (n < more) for n, thread in enumerate(threads)})
    return owners


def assign_legacy_range(subscribers: Subscribers) -> Owners:
    """Assignment by topic as many articles describe it: to each thread consecutive partitions, the quotient rounded up.

    Kafka's consumers do what `assign_range` does. The two differ where the quotient is not an integer: here, the last
    threads get fewer, or none.

    Examples
    --------
    >>> orders = Subscribers({"orders": ("c1-0", "c2-0", "c3-0")}, {"orders": (0, 1, 2, 3)})
    >>> [owner for _, owner in sorted(assign_legacy_range(orders).items())]
    ['c1-0', 'c1-0', 'c2-0', 'c2-0']
    """
    owners: Owners = {}
    for threads, partitions in _topics(subscribers):
        owners |= _deal(partitions, dict.fromkeys(threads, -(-len(partitions) // len(threads))))
    return owners


def assign_roundrobin(subscribers: Subscribers) -> Owners:
    """Assignment over all topics: partitions in order of the hash of ``topic-partition``, to all threads in turn.

    A thread that does not read the partition's topic is skipped. Partitions with equal hashes are ordered by topic and
    number; in Kafka their order is that of a Scala hash map, which cannot be reproduced.

    Examples
    --------
    >>> both = Subscribers({"a": ("c1-0", "c2-0"), "b2": ("c1-0", "c2-0")}, {"a": (0, 1), "b2": (0, 1, 2)})
    >>> [owner for _, owner in sorted(assign_roundrobin(both).items())]
    ['c1-0', 'c2-0', 'c1-0', 'c2-0', 'c1-0']
    """
    return _take_turns(subscribers, str)


def assign_roundrobin_0_8(subscribers: Subscribers) -> Owners:
    """Assignment as by `assign_roundrobin`, but with partitions in order of the hash of ``[topic,partition]``.

    Examples
    --------
    >>> both = Subscribers({"a": ("c1-0", "c2-0"), "b2": ("c1-0", "c2-0")}, {"a": (0, 1), "b2": (0, 1, 2)})
    >>> [owner for _, owner in sorted(assign_roundrobin_0_8(both).items())]
    ['c2-0', 'c1-0', 'c1-0', 'c2-0', 'c1-0']
    """
    return _take_turns(subscribers, lambda tp: f"[{tp.topic},{tp.partition}]")


def assign_sticky(subscribers: Subscribers) -> Owners:
    """Assignment that keeps the most of the current one, while the counts of a topic's threads stay even.

    Topics that the same threads read form a class, which is balanced by itself. `balance` describes the algorithm,
    and why members that read the owners at different moments get the same result. Owners that do not read the topic are
    ignored.

    Examples
    --------
    >>> before = {TopicPartition("orders", n): "c1-0" for n in range(5)}
    >>> orders = Subscribers({"orders": ("c1-0", "c2-0")}, {"orders": (0, 1, 2, 3, 4)}, before)
    >>> [owner for _, owner in sorted(assign_sticky(orders).items())]
    ['c1-0', 'c1-0', 'c1-0', 'c2-0', 'c2-0']
    """
    classes: dict[tuple[str, ...], list[TopicPartition]] = {}
    for threads, partitions in _topics(subscribers):
        classes.setdefault(threads, []).extend(partitions)
    owners: Owners = {}
    for threads, partitions in classes.items():
        owners |= balance(threads, sorted(partitions), subscribers.owners)
    return owners


STRATEGIES: Mapping[str, Callable[[Subscribers], Owners]] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "roundrobin-0.8": assign_roundrobin_0_8,
    "sticky": assign_sticky,
    "legacy-range": assign_legacy_range,
}


def assign(strategy: str, subscribers: Subscribers) -> Owners:
    """The owner of each partition that exists and has a subscriber, ordered by topic and number.

    Raises
    ------
    OptionError
        ``UNKNOWN_ASSIGNOR``.

    Examples
    --------
    >>> assign("range", Subscribers({"a": ("c1-0",), "gone": ("c1-0",)}, {"a": (0,), "unread": (0,)}))
    {TopicPartition(topic='a', partition=0): 'c1-0'}
    """
    if strategy not in STRATEGIES:
        text = f"There is no assignor {strategy!r}; choose one of {', '.join(STRATEGIES)}"
        raise UNKNOWN_ASSIGNOR(text, strategy=strategy)
    return dict(sorted(STRATEGIES[strategy](subscribers).items()))


def _topics(subscribers: Subscribers) -> Iterator[tuple[tuple[str, ...], list[TopicPartition]]]:
    """Threads and partitions of each topic that has threads."""
    for topic, threads in subscribers.threads.items():
        if threads:
            yield threads, [TopicPartition(topic, p) for p in subscribers.partitions.get(topic, ())]


def _deal(partitions: Iterable[TopicPartition], shares: Mapping[str, int]) -> Owners:
    """The owners of the partitions, in order: each thread owns as many in a row as its share."""
    places = chain.from_iterable(repeat(thread, share) for thread, share in shares.items())
    return dict(zip(partitions, places, strict=False))


def _take_turns(subscribers: Subscribers, hashed: Callable[[TopicPartition], str]) -> Owners:
    readers = {topic: frozenset(threads) for topic, threads in subscribers.threads.items()}
    partitions = [tp for _, found in _topics(subscribers) for tp in found]
    circle = cycle(sorted(frozenset().union(*readers.values()), key=java_order))
    return {
        tp: next(thread for thread in circle if thread in readers[tp.topic])
        for tp in sorted(partitions, key=lambda tp: (java_hash(hashed(tp)), tp))
    }
