"""Assignment of partitions to a member in ZooKeeper: its view of the group, its next step, and the time of that step."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.conditions import NOT_STICKY
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.group.claims import claim_paths, thread_of
from pyspark_zkafka.model.assignors import STRATEGIES, Subscribers, assign, threads_by_topic, topics_of
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.connection import Watch
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_SWEEP_S = 3.0
_SWEEP_SHARE = 20
_ERROR_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's readable registrations, the errors of `unreadable` ones, and the subscribers of the relevant topics."""

    members: Mapping[str, ConsumerRegistration] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    subscribers: Subscribers = field(default_factory=lambda: Subscribers({}, {}))
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        """The ids of all registered members."""
        return {*self.members, *self.unreadable}


@dataclass(frozen=True, slots=True)
class GroupWatch:
    """Reads a group for one of its members, and sets watches.

    Relevant topics are the topics that the member reads, or all topics of the group if the strategy assigns over all
    topics. `on_change` watches the group's ids, and each relevant topic or its creation. `on_topics` watches the list of
    topics, if a pattern selects from it.
    """

    client: ZooKeeperClient
    group: str
    own: ConsumerRegistration
    strategy: str
    on_change: Watch
    on_topics: Watch

    def read(self) -> GroupView:
        """Read the group. Blocks for four rounds of requests, a fifth for patterns, and another for present owners."""
        found = self.client.group_members(self.group, self.on_change)
        names = self._names(found.readable)
        topics = self._topics(found.readable, names)
        self.client.exists_many(map(znodes.topic_path, topics), self.on_change)
        described = self.client.topics(topics)
        threads = threads_by_topic(found.readable, names)
        subscribers = Subscribers(
            {name: threads[name] for name in topics if name in threads},
            {name: tuple(sorted(topic.partitions)) for name, topic in described.items()},
        )
        return GroupView(found.readable, topics, self._with_owners(subscribers), found.unreadable)

    def assignment(self, view: GroupView, consumer: str) -> dict[TopicPartition, str]:
        """A member's assigned partitions, with the thread of each partition.

        Raises GroupError (NOT_STICKY) if registrations name the strategy, and a member has another one.
        """
        strangers = [name for name, member in view.members.items() if member.assignor != self.own.assignor]
        if STRATEGIES[self.strategy].is_registered and strangers:
            raise NOT_STICKY(
                f"partition.assignment.strategy is {self.strategy}, which all members of {self.group} must have, and "
                f"members have another strategy: {', '.join(strangers)}. Set one strategy for all members: range or "
                "roundrobin next to JVM consumers",
            )
        threads = assign(self.strategy, view.subscribers)
        return {tp: thread for tp, thread in threads.items() if group_znodes.consumer_of_thread(thread) == consumer}

    def is_current(self, view: GroupView) -> bool:
        """Return True if the view has the group's present ids and relevant topics. Blocks for a round trip or two."""
        return self.ids() == view.ids and self._topics(view.members, self._names(view.members)) == view.topics

    def ids(self) -> set[str]:
        """The registered ids. Blocks for a round trip."""
        path = group_znodes.ids_path(self.group)
        return set(self.client.children_many([path]).get(path, []))

    def _names(self, members: Mapping[str, ConsumerRegistration]) -> list[str]:
        """The topics that patterns are matched against."""
        if any(r.pattern != "static" for r in self._counting(members)):
            names = self.client.children_many([znodes.TOPICS], self.on_topics).get(znodes.TOPICS, [])
            return list(filter(is_topic_name, names))
        return topics_of(self.own, ())

    def _topics(self, members: Mapping[str, ConsumerRegistration], names: Iterable[str]) -> tuple[str, ...]:
        """The relevant topics, sorted. Invalid names in other members' registrations are left out."""
        found = {name for r in self._counting(members) for name in topics_of(r, names)}
        return tuple(sorted(filter(is_topic_name, found)))

    def _counting(self, members: Mapping[str, ConsumerRegistration]) -> list[ConsumerRegistration]:
        return [self.own, *(members.values() if STRATEGIES[self.strategy].over_all_topics else ())]

    def _with_owners(self, subscribers: Subscribers) -> Subscribers:
        """Add the present owners, if the strategy needs them."""
        if not STRATEGIES[self.strategy].needs_owners:
            return subscribers
        partitions = (TopicPartition(name, n) for name, numbers in subscribers.partitions.items() for n in numbers)
        paths = claim_paths(self.group, partitions)
        owners = {paths[path]: thread_of(node) for path, node in self.client.get_many(paths).items()}
        return Subscribers(subscribers.threads, subscribers.partitions, owners)


@dataclass(frozen=True, slots=True)
class RebalanceStep:
    """A member's next step: first release, then claim.

    `release` has the claims to delete now. Some of these claims are `overdue`: their partitions are still being read after
    the hold. `claim` has the partitions to claim, with the thread of each partition. `revoking` has the partitions to
    release that are still being read, with the time until which they are kept.
    """

    release: frozenset[TopicPartition] = frozenset()
    overdue: frozenset[TopicPartition] = frozenset()
    claim: Mapping[TopicPartition, str] = field(default_factory=dict)
    revoking: Mapping[TopicPartition, float] = field(default_factory=dict)


def step(
    target: Mapping[TopicPartition, str],
    claims: Mapping[TopicPartition, Claim],
    reading: Collection[TopicPartition],
    revoking: Mapping[TopicPartition, float],
    now: float,
    hold_s: float,
) -> RebalanceStep:
    """Decide a member's next step from its claims towards its assignment (`target`).

    Partitions that the running micro-batch is `reading` are kept for at most `hold_s`. The hold starts at the first step
    that must release a partition, and starts again if a later step lets it stay. `revoking` comes from the previous step.

    >>> t0, t1, t2 = (TopicPartition("t", n) for n in range(3))
    >>> found = step({t0: "c-0"}, {t1: Claim("c-0", 1), t2: Claim("c-0", 1)}, [t2], {}, now=100.0, hold_s=4.0)
    >>> found.release == {t1}, found.claim == {t0: "c-0"}, found.revoking == {t2: 104.0}
    (True, True, True)
    """
    leaving = claims.keys() - target.keys()
    kept = {tp: revoking.get(tp, now + hold_s) for tp in leaving.intersection(reading)}
    overdue = frozenset(tp for tp, until in kept.items() if until <= now)
    revoking = {tp: until for tp, until in kept.items() if tp not in overdue}
    claim = {tp: thread for tp, thread in target.items() if tp not in claims or claims[tp].thread != thread}
    return RebalanceStep(frozenset(leaving - revoking.keys()), overdue, claim, revoking)


class RebalanceSchedule:
    """When a member rebalances next, and when it checks its group, since watches may be lost. Not thread-safe.

    `jitter` returns a number in [0, 1).
    """

    def __init__(self, backoff_s: float, jitter: Callable[[], float]) -> None:
        self._backoff_s = backoff_s
        self._jitter = jitter
        self._rebalance_at = self._sweep_at = 0.0
        self._tries, self._next_try_at = 0, 0.0

    def due_s(self, now: float) -> float:
        """Seconds until the next rebalance or check; 0 if it is overdue."""
        return max(0.0, min(self._rebalance_at, self._sweep_at) - now)

    def must_rebalance(self, now: float) -> bool:
        """True if a rebalance is due."""
        return now >= self._rebalance_at

    def must_sweep(self, now: float) -> bool:
        """True if a check of the group is due."""
        return now >= self._sweep_at

    def start_rebalance(self, now: float) -> None:
        """Have an interrupted rebalance repeated after a pause."""
        self._rebalance_at = now + _ERROR_PAUSE_S

    def fail(self, now: float) -> None:
        """Have a failed rebalance or check repeated after a pause."""
        self._rebalance_at = self._sweep_at = now + _ERROR_PAUSE_S

    def end_sweep(self, started: float, ended: float) -> None:
        """Check again after a pause. Checks of large groups take at most a twentieth of the time."""
        self._sweep_at = ended + max(_SWEEP_S, _SWEEP_SHARE * (ended - started))

    def end_rebalance(self, now: float, holds: Collection[float], *, is_blocked: bool) -> int:
        """Rebalance again at the end of the first hold, and after the back-off if other owners block claims.

        Returns the number of tries to claim if this was one, else 0. Rebalances within the back-off, after events, do not
        count as tries.

        >>> schedule = RebalanceSchedule(2.0, lambda: 0.5)
        >>> [schedule.end_rebalance(now, [], is_blocked=True) for now in (100.0, 101.0, 102.0)], schedule.due_s(102.0)
        ([1, 0, 2], 2.0)
        >>> schedule.end_rebalance(103.0, [104.5], is_blocked=False), schedule.due_s(103.0)
        (0, 1.5)
        """
        self._sweep_at = now + _SWEEP_S
        self._rebalance_at = min(holds, default=math.inf)
        if not is_blocked:
            self._tries, self._next_try_at = 0, 0.0
            return 0
        is_try = now >= self._next_try_at
        if is_try:
            self._tries += 1
            self._next_try_at = now + self._backoff_s * (0.5 + self._jitter())
        self._rebalance_at = min(self._rebalance_at, self._next_try_at)
        return self._tries if is_try else 0
