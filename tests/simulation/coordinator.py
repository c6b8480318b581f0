"""In-memory group coordinators that behave like brokers: members with generations or epochs, and offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark_zkafka.model.nouns import TopicPartition
from tests.simulation.cluster import Cluster

SESSION_S = 6.0
REBALANCE_S = 20.0
"""Time in which members may join again, as set by `max.poll.interval.ms`."""

Answer = Literal["ok", "unknown member", "stale", "rebalance"]
Partitions = frozenset[TopicPartition]
NONE: Partitions = frozenset()


@dataclass
class Enrolled:
    """A member as its coordinator knows it; `client` is only compared.

    `epoch` is its generation or its member epoch. With the classic protocol, `has_joined` is True from the join request
    until the generation starts, and `claimed` has the partitions that the member reports as owned. With KIP-848,
    `releasing` has revoked partitions that are still owned; a member that does not know its epoch yet may prolong its
    session with the previous one. `instance` names a static member.
    """

    client: Any
    topics: tuple[str, ...]
    seen_at: float
    epoch: int = -1
    previous_epoch: int = -1
    assigned: Partitions = NONE
    claimed: Partitions = NONE
    has_joined: bool = False
    releasing: Partitions = NONE
    instance: str = ""


@dataclass
class Coordinator(ABC):
    """A group's coordinator; `on_commit` is called with each commit that it accepts."""

    clock: Callable[[], float]
    cluster: Cluster
    on_commit: Callable[[Any, Mapping[TopicPartition, int], bool], None]
    members: dict[str, Enrolled] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    epoch: int = 0
    away_until: float = -1.0

    @property
    def is_available(self) -> bool:
        """False while the coordinator moves to another broker."""
        return self.clock() >= self.away_until

    def move(self, for_s: float) -> None:
        """Leave the group without a coordinator for a while; then sessions start anew."""
        self.away_until = self.clock() + for_s
        for member in self.members.values():
            member.seen_at = self.away_until

    def commit(
        self, client: Any, member_id: str, epoch: int, offsets: Mapping[TopicPartition, int], *, is_start: bool
    ) -> Answer:
        """Commit offsets of a current member, whoever owns the partitions, or of a client while there are no members."""
        self.pass_time()
        member = self.members.get(member_id)
        if member is None and (epoch >= 0 or self.members):
            return "unknown member"
        if member is not None and member.epoch != epoch:
            return "stale"
        self.offsets.update(offsets)
        self.on_commit(client, offsets, is_start)
        return "ok"

    def leave(self, member_id: str) -> None:
        """Remove a member."""
        if member_id in self.members:
            del self.members[member_id]
            self._shrunk()

    def pass_time(self) -> None:
        """Expel members whose sessions have expired."""
        if self.is_available:
            for member_id in [name for name, member in self.members.items() if self._has_expired(member)]:
                self.leave(member_id)

    def is_member(self, client: Any) -> bool:
        """Return True if the client still is the member that it believes it is."""
        member = self.members.get(client.member_id)
        return member is not None and member.client is client

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """True if the coordinator knows of no rebalance in progress."""

    @abstractmethod
    def described(self) -> dict[str, Partitions]:
        """Return the partitions of each member, including partitions that it will get."""

    @abstractmethod
    def _shrunk(self) -> None: ...

    def _has_expired(self, member: Enrolled) -> bool:
        return self.clock() - member.seen_at > SESSION_S

    def _partitions(self) -> list[TopicPartition]:
        topics = {name for member in self.members.values() for name in member.topics}
        return [tp for tp in self.cluster.partitions() if tp.topic in topics]


@dataclass
class ClassicCoordinator(Coordinator):
    """Generations: all members join, then get partitions by the range or the cooperative sticky assignor."""

    is_cooperative: bool = False
    is_joining: bool = False
    joining_since: float = 0.0

    def join(self, client: Any, member_id: str, topics: tuple[str, ...], claimed: Partitions, instance: str = "") -> None:
        """Join the next generation, which starts when all members have joined or the time is over.

        In a stable generation, a static member replaces its predecessor and keeps its partitions.
        """
        self.pass_time()
        former = [name for name, member in self.members.items() if instance and member.instance == instance]
        for name in set(former) - {member_id}:
            member = self.members[member_id] = self.members.pop(name)
            member.client, member.seen_at = client, self.clock()
            if not self.is_joining and member.topics == topics:
                return
        member = self.members.setdefault(member_id, Enrolled(client, topics, self.clock(), instance=instance))
        member.topics, member.claimed, member.has_joined, member.seen_at = topics, claimed, True, self.clock()
        self._prepare()
        self._begin()

    def heartbeat(self, member_id: str, generation: int) -> Answer:
        """Prolong a session."""
        self.pass_time()
        member = self.members.get(member_id)
        if member is None:
            return "unknown member"
        member.seen_at = self.clock()
        if member.epoch != generation:
            return "stale"
        return "rebalance" if self.is_joining else "ok"

    def assignment(self, member_id: str) -> tuple[int, Partitions] | Answer:
        """Return the generation that a member joined and its partitions there; `rebalance` before the generation starts."""
        self.pass_time()
        member = self.members.get(member_id)
        if member is None:
            return "unknown member"
        if member.has_joined:
            return "rebalance"
        member.seen_at = self.clock()
        return member.epoch, member.assigned

    def pass_time(self) -> None:
        super().pass_time()
        if self.is_available:
            self._begin()

    @property
    def is_stable(self) -> bool:
        return not self.is_joining

    def described(self) -> dict[str, Partitions]:
        return {name: member.assigned for name, member in self.members.items()}

    def _shrunk(self) -> None:
        if self.members:
            self._prepare()
        else:
            self.is_joining = False

    def _has_expired(self, member: Enrolled) -> bool:
        return not member.has_joined and super()._has_expired(member)

    def _prepare(self) -> None:
        if not self.is_joining:
            self.is_joining, self.joining_since = True, self.clock()

    def _begin(self) -> None:
        """Start a generation when it is due, without members that have not joined."""
        is_late = self.clock() > self.joining_since + REBALANCE_S
        if not self.is_joining or not (is_late or all(member.has_joined for member in self.members.values())):
            return
        self.members = {name: member for name, member in self.members.items() if member.has_joined}
        self.is_joining, self.epoch = False, self.epoch + 1
        assigned = self._cooperative() if self.is_cooperative else by_range(sorted(self.members), self._partitions())
        for name, member in self.members.items():
            member.epoch, member.has_joined, member.seen_at = self.epoch, False, self.clock()
            member.assigned = frozenset(assigned[name])

    def _cooperative(self) -> dict[str, set[TopicPartition]]:
        """Return balanced assignments, without partitions that another member must release first."""
        claimed = {name: member.claimed for name, member in self.members.items()}
        found = sticky(claimed, self._partitions())
        owners = {tp: name for name, partitions in claimed.items() for tp in partitions}
        return {name: {tp for tp in mine if owners.get(tp, name) == name} for name, mine in found.items()}


@dataclass
class ConsumerCoordinator(Coordinator):
    """KIP-848: each member moves to its target at its own pace, and gets partitions that others have released."""

    targets: dict[str, set[TopicPartition]] = field(default_factory=dict)
    seen: tuple[TopicPartition, ...] = ()

    def heartbeat(
        self, client: Any, member_id: str, epoch: int, topics: tuple[str, ...], owned: Partitions
    ) -> tuple[int, Partitions] | Answer:
        """Prolong a session, or join with epoch 0; returns the member's epoch and its current assignment."""
        self.pass_time()
        if epoch == 0:
            self.leave(member_id)
            self.members[member_id] = Enrolled(client, topics, self.clock(), 0)
            self._retarget()
        member = self.members.get(member_id)
        if member is None or epoch not in (member.epoch, member.previous_epoch):
            return "unknown member"
        member.seen_at = self.clock()
        if member.topics != topics or self.seen != tuple(self._partitions()):
            member.topics = topics
            self._retarget()
        return self._reconcile(member_id, member, owned)

    @property
    def is_stable(self) -> bool:
        return all(
            m.epoch == self.epoch and m.assigned == self.targets[name] and not m.releasing
            for name, m in self.members.items()
        )

    def described(self) -> dict[str, Partitions]:
        return {name: member.assigned | self.targets[name] for name, member in self.members.items()}

    def _shrunk(self) -> None:
        self._retarget()

    def _retarget(self) -> None:
        self.epoch, self.seen = self.epoch + 1, tuple(self._partitions())
        self.targets = sticky({name: member.assigned for name, member in self.members.items()}, list(self.seen))

    def _reconcile(self, member_id: str, member: Enrolled, owned: Partitions) -> tuple[int, Partitions]:
        target = self.targets[member_id]
        member.releasing &= owned
        if not member.releasing:
            member.releasing = (member.assigned - target) & owned
            member.assigned &= target
        if not member.releasing:
            others = [other for name, other in self.members.items() if name != member_id]
            taken = NONE.union(*(other.assigned | other.releasing for other in others))
            member.assigned |= target - taken
            if member.epoch != self.epoch:
                member.previous_epoch, member.epoch = member.epoch, self.epoch
        return member.epoch, member.assigned


def by_range(members: list[str], partitions: Collection[TopicPartition]) -> dict[str, set[TopicPartition]]:
    """Return consecutive partitions of each topic for each member."""
    found: dict[str, set[TopicPartition]] = {name: set() for name in members}
    for topic in {tp.topic for tp in partitions}:
        mine = sorted(tp for tp in partitions if tp.topic == topic)
        for n, tp in enumerate(mine):
            found[members[n * len(members) // len(mine)]].add(tp)
    return found


def sticky(
    owned: Mapping[str, Collection[TopicPartition]], partitions: Collection[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Return even shares in which members keep as much as possible of what they own."""
    if not owned:
        return {}
    least, rest = divmod(len(partitions), len(owned))
    free, found = set(partitions), dict[str, set[TopicPartition]]()
    for name in sorted(owned, key=lambda one: (-len(owned[one]), one)):
        share = least + (rest > 0)
        found[name] = set(sorted(free.intersection(owned[name]))[:share])
        rest -= len(found[name]) > least
        free -= found[name]
    for tp in sorted(free):
        found[min(sorted(found), key=lambda one: len(found[one]))].add(tp)
    return found
