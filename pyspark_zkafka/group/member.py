"""A member of a consumer group in ZooKeeper: registered, and claiming its share beside JVM consumers."""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import TracebackType

from pyspark_zkafka.clients.zookeeper import ZooKeeperClient
from pyspark_zkafka.clients.zookeeper_connection import SessionState
from pyspark_zkafka.errors import ConsumerIdTaken, GroupError, ZKafkaError, ZooKeeperError
from pyspark_zkafka.group.claims import Blocker, Claim, Claims
from pyspark_zkafka.group.registration import Registration
from pyspark_zkafka.group.view import GroupView, look, registered_ids
from pyspark_zkafka.option_values import GroupOptions, ZooKeeperConfig
from pyspark_zkafka.protocol import group_znodes
from pyspark_zkafka.protocol.assignors import assign
from pyspark_zkafka.protocol.group_znodes import ConsumerRegistration
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.planning import Assign, SubscribeExcept, SubscribePattern, Subscription

__all__ = ["GroupMember", "Timing", "registration_of"]

_log = logging.getLogger(__name__)

_COALESCE_S = 0.02
_SWEEP_S = 3.0
_SWEEP_SHARE = 20
_ERROR_PAUSE_S = 0.5
_SUSPENDED_PAUSE_S = 0.1
_CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and chance of a member: monotonic seconds, seconds since the epoch, a number in [0, 1), a wait of seconds."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep


class GroupMember:
    """A member, from ``join`` to ``leave``; also as a context manager.

    A watch only raises a flag. A thread of the member's own answers the flag, and `rebalance` does so for a caller that is
    between two pieces of work: both release what the member must give away, and claim what it is given. Partitions that the
    caller is reading (`read`) are kept until it is done with them, or `hold_ms` have passed.

    Unlike a JVM consumer, a member keeps what it owns and goes on owning while others move, deletes no claim but its own,
    and never stops trying. Safe for threads; not to be pickled, nor used after a fork.

    Parameters
    ----------
    zookeeper : ZooKeeperConfig
    options : GroupOptions
        With `join` set.
    subscription : Subscription
        Not `Assign`.
    """

    def __init__(
        self, zookeeper: ZooKeeperConfig, options: GroupOptions, subscription: Subscription, timing: Timing | None = None
    ) -> None:
        self._timing = timing or Timing()
        self._options = options
        self._registration = Registration(
            options.name, _consumer_id(options, self._timing), registration_of(options, subscription), self._timing.now
        )
        self.client = ZooKeeperClient(zookeeper, clock=self._timing.clock, on_state=self._on_state)
        self._claims = Claims(self.client, options.name)
        self._lock = threading.RLock()
        self._flag = threading.Event()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._session: int | None = None
        self._suspended_at: float | None = None
        self._reading: frozenset[TopicPartition] = frozenset()
        self._hold_until: dict[TopicPartition, float] = {}
        self._tries = 0
        self._due = 0.0
        self._sweep_at = 0.0
        self._settled = False
        self._failure: ZKafkaError | None = None
        self._ids: set[str] = set()
        self._reported: set[str] = set()

    @property
    def consumer(self) -> str:
        """The id under which the member is registered."""
        return self._registration.consumer

    @property
    def owner(self) -> ClaimOwner | None:
        """Who the member's claims belong to; None while it has no session."""
        session = self._session
        return None if session is None else ClaimOwner(self.consumer, session)

    @property
    def settled(self) -> bool:
        """Whether the member owned all that it was given, and nothing else, when it last looked."""
        return self._settled and not self._flag.is_set()

    def __enter__(self) -> GroupMember:
        self.join()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    def join(self) -> None:
        """Connect, register and try to claim; blocks for a few round trips.

        Where the member's id is still registered, by a session of its own that has not expired yet, it waits for that,
        twice the session's timeout at the most.

        Raises
        ------
        ConsumerIdTaken
            Somebody else is registered by the same id.
        GroupError
            The sticky assignor was chosen, and other members do not know it.
        ZooKeeperError, ZooKeeperRefused
            ZooKeeper cannot be reached, or forbids it.
        """
        self.client.__enter__()
        try:
            with self._lock:
                self._register_patiently()
                self._rebalance()
        except BaseException:
            self.client.close()
            raise
        self._thread = threading.Thread(target=self._serve, name=f"zkafka-member-{self.consumer}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """End the session: registration and claims go with it at once. Blocks for four seconds at the most."""
        self._closing = True
        self._flag.set()
        self._changed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        self.client.close()
        self._session = None

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """What the member owns; nothing from the moment that its session is known to be lost, or may well be."""
        suspended = self._suspended_at
        timeout_s = self.client.config.session_timeout_ms / 1000
        cut_off = suspended is not None and self._timing.clock() - suspended > timeout_s
        return {} if self._session is None or cut_off else self._claims.held

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Between two pieces of work: give away and claim what is due now; what the member owns then.

        All of it is kept as if it were being read, until the next call of `read` says what is. Costs nothing when nothing
        has changed; errors that pass are logged, and tried again.

        Raises
        ------
        ZKafkaError
            What made the member's own thread give up, or an error that does not pass.
        """
        with self._lock:
            self._reading = frozenset()
            if self._hold_until:
                self._flag.set()
            self._serve_once()
            if self._failure is not None:
                raise self._failure
            owned = self.owned()
            self._reading = frozenset(owned)
            return owned

    def read(self, partitions: Collection[TopicPartition]) -> None:
        """Say which partitions are being read from now on; none when the work is done."""
        with self._lock:
            self._reading = frozenset(partitions)
            if self._hold_until and not self._reading & self._hold_until.keys():
                self._flag.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the member's ownership may have changed; False when the time is over."""
        changed = self._changed.wait(timeout_s)
        self._changed.clear()
        return changed

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until the member owns all that it is given; False when the time is over."""
        deadline = self._timing.clock() + timeout_s
        while not (self.settled or self._closing):
            left = deadline - self._timing.clock()
            if left <= 0:
                return False
            self.wait(min(left, 0.2))
        return True

    def look_again(self) -> None:
        """Have the claims verified soon: somebody found one that is not there."""
        self._flag.set()

    # --- the member's own thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closing:
            due_s = min(self._due, self._sweep_at) - self._timing.clock()
            if self._suspended_at is not None:
                self._timing.sleep(_SUSPENDED_PAUSE_S)
            elif self._flag.wait(max(0.0, due_s)) and not self._closing:
                self._timing.sleep(_COALESCE_S * (0.5 + self._timing.jitter()))  # a burst of events makes one rebalance
            with self._lock:
                if not self._closing:
                    self._serve_once()

    def _serve_once(self) -> None:
        """Do what is due, if there is a connection; errors that do not pass are kept for the caller."""
        if self._suspended_at is not None:
            return
        now = self._timing.clock()
        try:
            if self._flag.is_set() or now >= self._due:
                self._rebalance()
            elif now >= self._sweep_at:
                self._sweep()
        except ZKafkaError as error:
            self._due = self._sweep_at = now + _ERROR_PAUSE_S
            self._settled = False
            if error.retriable:
                _log.warning("%s could not follow its group, and tries again: %s", self.consumer, error)
                self._flag.clear()
            elif not self._closing:
                self._failure = error

    def _on_state(self, state: SessionState) -> None:
        """On kazoo's thread: void the assignment of a session that is lost, and raise the flag."""
        if state == "LOST":
            self._session = None
            self._settled = False
        if state == "CONNECTED":
            self._suspended_at = None
            self._flag.set()
        elif self._suspended_at is None:
            self._suspended_at = self._timing.clock()
        self._changed.set()

    def _on_event(self, event: object) -> None:
        """On kazoo's thread."""
        self._flag.set()

    # --- registration --------------------------------------------------------------------------------------------------

    def _register_patiently(self) -> None:
        deadline = self._timing.clock() + 2 * self.client.config.session_timeout_ms / 1000 + 1
        while True:
            try:
                self._register()
                return
            except ConsumerIdTaken as error:
                if self._timing.clock() >= deadline:
                    raise
                self._warn(f"waiting for it to expire: {error}")
                self._timing.sleep(_SUSPENDED_PAUSE_S)

    def _register(self) -> None:
        """Be registered by the present session; another one than last time has no claims."""
        session = self.client.session_id
        if session is None:
            return
        if session != self._session:
            self._claims.forget()
            self._registration.write(self.client, session)
            self._session = session
            _log.info("%s is registered, session 0x%x", self.consumer, session)
        elif not self._registration.is_there(self.client, session):
            _log.warning("%s: somebody has deleted my registration; registering again", self.consumer)
            self._registration.write(self.client, session)

    # --- rebalancing ---------------------------------------------------------------------------------------------------

    def _rebalance(self) -> None:
        """Look, release, claim: once. What cannot be done now is due later."""
        self._flag.clear()
        self._register()
        owner = self.owner
        if owner is None:
            raise ZooKeeperError("NO_SESSION", "The member has no session with ZooKeeper now; it will try again")
        self._report_lost(self._claims.verify(owner))
        view = self._look()
        target = self._target(view)
        self._give_away(target, owner)
        missing = {tp: thread for tp, thread in target.items() if self._thread_of(tp) != thread}
        blockers = self._claims.take(missing, owner) if missing else []
        self._schedule(blockers)
        self._ids = view.ids
        if registered_ids(self.client, self._options.name) != view.ids:
            self._flag.set()
        self._changed.set()

    def _look(self) -> GroupView:
        own, sticky = self._registration.content, self._options.strategy == "sticky"
        view = look(self.client, self._options.name, own, self._on_event, with_owners=sticky)
        for error in view.unreadable.values():
            self._warn(f"left out of the assignment, which stops JVM consumers altogether: {error}")
        if view.missing:
            self._warn(f"subscribed topics that do not exist yet: {', '.join(view.missing)}")
        return view

    def _target(self, view: GroupView) -> dict[TopicPartition, str]:
        """What the member is to own, by thread."""
        strangers = [name for name, m in view.members.items() if m.assignor != self._registration.content.assignor]
        if self._options.strategy == "sticky" and strangers:
            raise GroupError(
                "NOT_STICKY",
                f"partition.assignment.strategy is sticky, which all members of {self._options.name} must have; found "
                f"{', '.join(strangers)} without it; set range or roundrobin, as JVM consumers have it, for all members",
            )
        everyones = assign(self._options.strategy, view.subscribers)
        return {tp: t for tp, t in everyones.items() if group_znodes.consumer_of_thread(t) == self.consumer}

    def _thread_of(self, partition: TopicPartition) -> str | None:
        claim = self._claims.held.get(partition)
        return None if claim is None else claim.thread

    def _give_away(self, target: Mapping[TopicPartition, str], owner: ClaimOwner) -> None:
        """Release what is not in the target, but not yet what is being read."""
        now = self._timing.clock()
        leaving = self._claims.held.keys() - target.keys()
        held = leaving & self._reading
        self._hold_until = {tp: self._hold_until.get(tp, now + self._options.hold_ms / 1000) for tp in held}
        overdue = sorted(tp for tp, until in self._hold_until.items() if until <= now)
        if overdue:
            _log.warning(
                "%s gave away %s after rebalance.hold.ms, while a micro-batch is reading: its records may be read twice",
                self.consumer,
                _names(overdue),
            )
        for tp in overdue:
            del self._hold_until[tp]
        free = leaving - self._hold_until.keys()
        if free:
            self._claims.release(free, owner)
            _log.info("%s released %s", self.consumer, _names(sorted(free)))

    def _schedule(self, blockers: list[Blocker]) -> None:
        """When to look next: at once when a blocking claim goes, else after the back-off, or when a hold ends."""
        now = self._timing.clock()
        self._sweep_at = now + _SWEEP_S
        self._due = min(self._hold_until.values(), default=float("inf"))
        self._settled = not blockers and not self._hold_until
        if not blockers:
            self._tries = 0
            return
        self._tries += 1
        self._due = min(self._due, now + self._options.backoff_ms / 1000 * (0.5 + self._timing.jitter()))
        if self._tries % self._options.max_retries == 0:
            shown = "; ".join(map(str, blockers[:3])) + (f"; and {len(blockers) - 3} more" if len(blockers) > 3 else "")
            _log.warning(
                "%s cannot claim its partitions after %d tries, and goes on trying: %s; a member that is stuck, or has "
                "another partition.assignment.strategy, must be stopped",
                self.consumer,
                self._tries,
                shown,
            )
        paths = [group_znodes.owner_path(self._options.name, b.partition) for b in blockers]
        if len(self.client.exists_many(paths, self._on_event)) < len(paths):
            self._flag.set()

    def _sweep(self) -> None:
        """Look whether registration, claims and the set of members are what they were: watches may be lost."""
        begin = self._timing.clock()
        owner = self.owner
        if (
            owner is None
            or not self._registration.is_there(self.client, owner.session)
            or self._claims.verify(owner)
            or registered_ids(self.client, self._options.name) != self._ids
        ):
            self._flag.set()
        elapsed = self._timing.clock() - begin
        self._sweep_at = self._timing.clock() + max(_SWEEP_S, _SWEEP_SHARE * elapsed)

    def _report_lost(self, lost: Collection[TopicPartition]) -> None:
        if lost:
            _log.warning("%s: somebody has deleted my claims on %s; claiming again", self.consumer, _names(sorted(lost)))

    def _warn(self, text: str) -> None:
        """Log a warning, each once."""
        if text not in self._reported:
            self._reported.add(text)
            _log.warning("%s: %s", self.consumer, text)


def registration_of(options: GroupOptions, subscription: Subscription) -> ConsumerRegistration:
    """What a member with these options and subscription registers."""
    assignor = "sticky" if options.strategy == "sticky" else None
    if isinstance(subscription, (SubscribePattern, SubscribeExcept)):
        regex = group_znodes.normalise_filter(subscription.pattern)
        pattern: group_znodes.Pattern = "white_list" if isinstance(subscription, SubscribePattern) else "black_list"
        return ConsumerRegistration({regex: options.threads}, pattern, assignor=assignor)
    if isinstance(subscription, Assign):
        raise GroupError("ASSIGN_IN_GROUP", "assign leaves nothing for a group to share out; use subscribe")
    return ConsumerRegistration(dict.fromkeys(subscription.topics, options.threads), assignor=assignor)


def _consumer_id(options: GroupOptions, timing: Timing) -> str:
    if options.consumer_id is not None:
        return group_znodes.consumer_id(options.name, options.consumer_id)
    upper_half = uuid.uuid4().int >> 64
    return group_znodes.generated_consumer_id(options.name, socket.gethostname(), int(timing.now() * 1000), upper_half)


def _names(partitions: list[TopicPartition], most: int = 8) -> str:
    more = f" and {len(partitions) - most} more" if len(partitions) > most else ""
    return ", ".join(map(str, partitions[:most])) + more
