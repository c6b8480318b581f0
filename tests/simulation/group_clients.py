"""In-memory clients of a group coordinator, like librdkafka: callbacks in `poll`, heartbeats in the background."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.brokers.group_consumer import CommitAnswer, Expelled, PartitionsAssigned
from pyspark_zkafka.errors import BrokersUnavailable, GroupError, ZKafkaError
from pyspark_zkafka.group.kafka_loop import MemberLoop
from pyspark_zkafka.model.nouns import TopicPartition
from tests.simulation.coordinator import (
    NONE,
    REBALANCE_S,
    SESSION_S,
    Answer,
    ClassicCoordinator,
    ConsumerCoordinator,
    Coordinator,
    Partitions,
)

AWAY = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moves")
STALE = GroupError("REFUSED", "another generation, or epoch")


@dataclass
class Request:
    """A commit in flight, with the generation or epoch when it was sent; None if there was no coordinator then."""

    offsets: dict[TopicPartition, int]
    epoch: int | None
    is_start: bool
    member_id: str


@dataclass
class Client(ABC):
    """A client whose revocations do not block: `revoking` has the partitions that the member has not released yet.

    Attributes
    ----------
    owned : frozenset of TopicPartition
        Partitions that the member was assigned and has not released.
    is_void : bool
        True if the coordinator has expelled the member, and the member does not know it yet.
    """

    coordinator: Coordinator
    member: MemberLoop
    new_id: Callable[[], str]
    chance: random.Random
    is_calm: Callable[[], bool]
    on_assign: Callable[[Client, Partitions], None]
    instance: str = ""
    member_id: str = ""
    epoch: int = -1
    topics: tuple[str, ...] = ()
    owned: Partitions = NONE
    revoking: Partitions | None = None
    is_open: bool = False
    is_void: bool = False
    polled_at: float = 0.0
    heard_at: float = 0.0
    events: deque[tuple[str, Partitions]] = field(default_factory=deque)
    answers: deque[CommitAnswer] = field(default_factory=deque)
    outgoing: list[Request] = field(default_factory=list)

    # --- for the member

    def open(self) -> None:
        self.is_open, self.polled_at = True, self._now

    def close(self) -> None:
        self.is_open = False
        if self.coordinator.is_available and not self._is_joining:
            self._leave()

    def discard(self) -> None:
        self.close()

    def subscribe(self, topics: Collection[str]) -> None:
        self.topics = tuple(sorted(topics))
        if not topics:
            self.coordinator.leave(self.member_id)  # also a static member
            self._void()

    def _leave(self) -> None:
        """Leave the group, unless the member is static."""
        if not self.instance:
            self.coordinator.leave(self.member_id)

    def poll(self) -> ZKafkaError | None:
        """Make pending callbacks, up to a revocation, which `released` ends."""
        self.polled_at = self._now
        self.poll_within()
        while self.events and self.revoking is None:
            kind, partitions = self.events.popleft()
            if kind == "assign":
                self.owned |= partitions
                self.on_assign(self, partitions)
                self.member.handle(PartitionsAssigned(partitions))
            elif kind == "lost":
                self.owned = NONE
                self.member.handle(Expelled())
            else:
                self.revoking = partitions
                self.member.ownership.begin_revocation(partitions)
        return None

    def poll_within(self) -> None:
        while self.answers:
            self.member.handle(self.answers.popleft())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self.is_calm() and self.chance.random() < 0.05:
            self.coordinator.move(self.chance.choice((1.0, SESSION_S + 2)))
        is_start = self.member.ownership.state.commits.waiting[0].of_group
        epoch = self.epoch if self.coordinator.is_available else None
        self.outgoing.append(Request(dict(offsets), epoch, is_start, self.member_id))
        if self.is_calm() or self.chance.random() < 0.7:
            self._transmit()

    def topic_names(self) -> list[str]:
        return sorted(self.coordinator.cluster.announced)

    def released(self) -> None:
        """End a revocation."""
        assert self.revoking is not None
        self.owned, self.revoking = self.owned - self.revoking, None
        self.polled_at = self._now

    # --- in the background

    def beat(self) -> None:
        """Send what is due, and take the coordinator's answer."""
        if not self.is_open:
            return
        self._transmit()
        if self.coordinator.is_available:
            if self._now - self.polled_at > REBALANCE_S and self.revoking is None and self.member_id:
                self._leave()
                self._void()
            else:
                self._beat()
        else:
            self._miss()

    @abstractmethod
    def _beat(self) -> None: ...

    def _miss(self) -> None:
        """Handle an absent coordinator, which KIP-848 members ignore."""
        return

    @property
    def _is_joining(self) -> bool:
        return False

    @property
    def _is_rebalancing(self) -> bool:
        """True until all callbacks that are due have been made."""
        return bool(self.events) or self.revoking is not None

    @property
    def _now(self) -> float:
        return self.coordinator.clock()

    def _void(self) -> None:
        """Note an expulsion; the member learns of it after a revocation in progress."""
        self.epoch, self.is_void = -1, True
        self.events.clear()
        if self.owned:
            self.events.append(("lost", self.owned))

    def _transmit(self) -> None:
        """Send commits; a commit that had no coordinator gets the generation or epoch of the time of sending.

        It is sent as soon as there is a coordinator, but perhaps much later for a member that was expelled meanwhile.
        """
        sent, self.outgoing = self.outgoing, []
        for request in sent:
            if not self.coordinator.is_available:
                request.epoch = None
            is_other = request.epoch is None and (self.is_void or request.member_id != self.member_id)
            is_late = is_other and not self.is_calm() and self.chance.random() < 0.85
            if is_late or not self.coordinator.is_available:
                self.outgoing.append(request)
                continue
            epoch = self.epoch if request.epoch is None else request.epoch
            answer = self.coordinator.commit(self, self.member_id, epoch, request.offsets, is_start=request.is_start)
            self.answers.append(self._answer(answer, request.offsets))

    def _answer(self, answer: Answer, offsets: Mapping[TopicPartition, int]) -> CommitAnswer:
        if not self.is_calm() and self.chance.random() < 0.02:
            return CommitAnswer(offsets, "again", AWAY)  # the coordinator moved before it could answer
        if answer == "ok":
            return CommitAnswer(offsets)
        return CommitAnswer(offsets, "fenced" if answer == "unknown member" else "again", STALE)


@dataclass
class ClassicClient(Client):
    """The classic protocol: all partitions are revoked before a join or, cooperatively, only moving ones after it."""

    is_joining: bool = False
    must_rejoin: bool = False
    added: Partitions | None = None
    seen: tuple[TopicPartition, ...] = ()

    @property
    def _classic(self) -> ClassicCoordinator:
        assert isinstance(self.coordinator, ClassicCoordinator)
        return self.coordinator

    @property
    def _is_joining(self) -> bool:
        return self.is_joining

    def subscribe(self, topics: Collection[str]) -> None:
        super().subscribe(topics)
        self.must_rejoin = bool(topics)

    def released(self) -> None:
        super().released()
        if self.added is not None and not self.is_void:
            added, self.added = self.added, None
            self.events.append(("assign", added))

    def _void(self) -> None:
        super()._void()
        self.member_id, self.is_joining, self.must_rejoin, self.added = "", False, bool(self.topics), None

    def _miss(self) -> None:
        if self.member_id and self.epoch >= 0 and self._now - self.heard_at > SESSION_S:
            self._void()

    def _beat(self) -> None:
        self.is_void = self.is_void and self._is_rebalancing
        if self.is_joining:
            self._take_assignment()
        elif self.member_id:
            self._heartbeat()
        if self.must_rejoin and not self._is_rebalancing and not self.is_joining:
            self._rejoin()

    def _heartbeat(self) -> None:
        answer = self._classic.heartbeat(self.member_id, self.epoch)
        self.heard_at = self._now
        if answer in ("unknown member", "stale"):
            self._void()
        elif answer == "rebalance" or self._has_grown():
            self.must_rejoin = True

    def _has_grown(self) -> bool:
        found = tuple(tp for tp in self.coordinator.cluster.partitions() if tp.topic in self.topics)
        return found != self.seen and (self.is_calm() or self.chance.random() < 0.3)

    def _rejoin(self) -> None:
        """Join, if necessary after a revocation of all partitions."""
        if self.owned and not self._classic.is_cooperative:
            self.events.append(("revoke", self.owned))
            return
        self.member_id = self.member_id or self.new_id()
        self.seen = tuple(tp for tp in self.coordinator.cluster.partitions() if tp.topic in self.topics)
        self.must_rejoin, self.is_joining = False, True
        self._classic.join(self, self.member_id, self.topics, self.owned, self.instance)
        self.heard_at = self._now

    def _take_assignment(self) -> None:
        found = self._classic.assignment(self.member_id)
        self.heard_at = self._now
        if found == "rebalance":
            return
        self.is_joining = False
        if isinstance(found, str):
            self._void()
            return
        self.epoch, assigned = found
        revoked = self.owned - assigned
        if revoked:
            self.events.append(("revoke", revoked))
            self.added, self.must_rejoin = assigned - self.owned, True
        else:
            self.events.append(("assign", assigned - self.owned))


@dataclass
class ConsumerClient(Client):
    """KIP-848: heartbeats report the owned partitions, and answers carry the assigned ones."""

    def open(self) -> None:
        super().open()
        self.member_id, self.epoch = self.new_id(), 0

    def _void(self) -> None:
        super()._void()
        self.epoch = 0

    def _beat(self) -> None:
        assert isinstance(self.coordinator, ConsumerCoordinator)
        self.is_void = self.is_void and self._is_rebalancing
        if self.is_void or not self.topics:
            return
        coming = (partitions for kind, partitions in self.events if kind == "assign")
        owned = self.owned.union(*coming)
        found = self.coordinator.heartbeat(self, self.member_id, self.epoch, self.topics, owned)
        if isinstance(found, str):
            self._void()
            return
        if not self.is_calm() and self.chance.random() < 0.05:
            return  # the answer is lost
        self.epoch, assigned = found
        if self._is_rebalancing:
            return
        if self.owned - assigned:
            self.events.append(("revoke", self.owned - assigned))
        elif assigned - self.owned:
            self.events.append(("assign", assigned - self.owned))
