"""A member of a consumer group in ZooKeeper, next to JVM consumers and other queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial

from pyspark_zkafka.errors import ConsumerIdTaken, ZKafkaError, listing
from pyspark_zkafka.group.assignment import GroupView, GroupWatch, RebalanceSchedule, RebalanceStep, step
from pyspark_zkafka.group.claims import Blocker, Claims
from pyspark_zkafka.group.registration import (
    RegisteredSession,
    Registration,
    consumer_id_of,
    create_owner_znodes,
    no_session,
    registration_of,
)
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.model.planning import Subscription
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.options.values import GroupOptions, ZooKeeperConfig
from pyspark_zkafka.retries import Timing
from pyspark_zkafka.threads import start_thread, thread_failed
from pyspark_zkafka.zookeeper.connection import SessionState
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)

_COALESCE_S = 0.02
_SUSPENDED_PAUSE_S = 0.1
_CLOSE_S = 2.0


class GroupMember:
    """A member, from ``join`` to ``leave``, or for a ``with`` block: a `Membership`.

    Watches only set a flag. The member's thread then releases revoked partitions and claims assigned partitions. So does
    `rebalance`, which a caller runs between two pieces of work. Partitions that the caller is reading (`set_reading`) are
    kept until they are read, but no longer than `hold_ms`.

    Unlike a JVM consumer, a member keeps partitions that stay assigned to it, deletes only its own claims, and retries
    without limit. Thread-safe. Not pickle-safe, and not usable after a fork.

    An unexpected error ends the session, and with it registration and claims. From then on, all calls but `leave` raise
    THREAD_FAILED, as do requests of `client`.

    `consumer` is the registered id. `rebalances` counts the computed assignments.
    """

    def __init__(
        self, zookeeper: ZooKeeperConfig, options: GroupOptions, subscription: Subscription, timing: Timing | None = None
    ) -> None:
        self._timing = timing = timing or Timing()
        self._options = options
        self.group = options.name
        self.consumer = consumer_id_of(options, timing.now)
        self.client = ZooKeeperClient(zookeeper, clock=timing.clock, on_state=self._on_state)
        self.rebalances = 0
        own = registration_of(options, subscription)
        self._registration = Registration(self.group, self.consumer, own, timing.now)
        self._claims = Claims(self.client, self.group)
        self._watch = GroupWatch(
            self.client, self.group, own, options.strategy, self.request_rebalance, self._request_topic_check
        )
        self._lock = threading.RLock()
        self._requested = threading.Event()
        self._topics_changed = threading.Event()
        self._wake = threading.Event()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Callable[[], ZKafkaError] | None = None
        self._closing = False
        self._session = RegisteredSession()
        self._reading: frozenset[TopicPartition] = frozenset()
        self._step = RebalanceStep()
        self._schedule = RebalanceSchedule(options.backoff_ms / 1000, timing.jitter)
        self._settled = False
        self._error: ZKafkaError | None = None
        self._view = GroupView()
        self._warned: set[str] = set()

    @property
    def owner(self) -> ClaimOwner | None:
        """The owner in the member's claims, or None without a session."""
        return self._session.owner

    def require_owner(self) -> ClaimOwner:
        """The owner in the member's claims. Raises ZooKeeperError (NO_SESSION, retriable) without a session."""
        self._require_running()
        if (owner := self.owner) is None:
            raise no_session()
        return owner

    @property
    def expiry_s(self) -> float:
        """The time after which ZooKeeper has deleted the claims of a dead member with the same session timeout.

        ZooKeeper rounds the end of a session up to its next tick, and a session lasts two ticks or more.
        """
        return 1.5 * self.client.session_timeout_ms / 1000

    @property
    def settled(self) -> bool:
        """True if the member owned exactly what it is assigned after its last rebalance, and no change is pending."""
        is_changing = self._requested.is_set() or self._topics_changed.is_set()
        return self._settled and self.owner is not None and not is_changing

    def __enter__(self) -> GroupMember:
        self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def join(self) -> None:
        """Connect, register and try to claim. Blocks for a few round trips.

        If another session has registered the member's id, waits for its expiry, for a second longer than twice the session
        timeout, and then raises ConsumerIdTaken. Raises GroupError if the assignor is sticky and a member has another
        assignor, GroupContended if other clients keep changing the group, and the errors of `ZooKeeperClient`.
        """
        self._require_running()
        self._closing = False
        self.client.__enter__()
        try:
            with self._lock:
                self._await_registration()
                own = self._registration.content
                create_owner_znodes(self.client, self.group, own.subscription if own.pattern == "static" else ())
                self._rebalance()
            self._thread = start_thread(self._serve, f"zkafka-member-{self.consumer}", self._fail)
        except BaseException:
            self.client.close()
            raise

    def leave(self) -> None:
        """End the session, and with it registration and claims. Blocks for at most four seconds."""
        self._closing = True
        self._wake.set()
        self._changed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        self.client.close()
        self._session.end()

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns. Empty if its session is lost, or may have expired."""
        self._require_running()
        may_have_expired = self._timing.clock() >= self.client.session_ends_at
        return {} if self.owner is None or may_have_expired else self._claims.owned

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release and claim partitions between two pieces of work. Returns the partitions then owned.

        These partitions count as being read until the next call of `set_reading`. Sends no request if nothing has changed,
        unless the regular check is due. Logs and retries retriable errors and ConsumerIdTaken, and raises other errors.
        """
        with self._lock:
            self.set_reading(())
            try:
                self._serve_once()
            except Exception as cause:  # noqa: BLE001 - raised below
                _log.exception("%s failed", self.consumer)
                self._fail(cause)
            self._require_running()
            error = self._error
            if error is not None and not error.retriable and not isinstance(error, ConsumerIdTaken):  # it may expire
                raise error
            owned = self.owned()
            self._reading = frozenset(owned)
            return owned

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are now being read, which are kept for the hold. Empty when the work is done."""
        self._require_running()
        with self._lock:
            self._reading = frozenset(partitions)
            if self._step.revoking.keys() - self._reading:
                self.request_rebalance()

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""
        self._changed.wait(timeout_s)
        self._changed.clear()
        self._require_running()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member owns its assigned partitions, by default for all retries. False on time-out or `leave`."""
        retrying_s = self._options.max_retries * self._options.backoff_ms / 1000
        deadline = self._timing.clock() + (retrying_s if timeout_s is None else timeout_s)
        while not self.settled:
            self._require_running()
            left = deadline - self._timing.clock()
            if left <= 0 or self._closing:
                return False
            self.wait(min(left, 0.2))
        return True

    def request_rebalance(self, event: object = None) -> None:
        """Have the member's thread verify its claims and rebalance. Also called as a watch, on kazoo's thread."""
        self._requested.set()
        self._wake.set()

    def _serve(self) -> None:
        while not self._closing:
            if self._session.is_suspended:
                self._timing.sleep(_SUSPENDED_PAUSE_S)
            elif self._wake.wait(self._schedule.due_s(self._timing.clock())) and not self._closing:
                self._timing.sleep(_COALESCE_S * (0.5 + self._timing.jitter()))  # coalesce events into one rebalance
            with self._lock:
                if not self._closing:
                    self._serve_once()

    def _serve_once(self) -> None:
        """Rebalance or check the group, if due and connected. Keeps an error for the next caller of `rebalance`."""
        if self._session.is_suspended:
            self._error = self.client.refused or self._error
            return
        self._wake.clear()
        now = self._timing.clock()
        try:
            if self._requested.is_set() or self._schedule.must_rebalance(now):
                self._rebalance()
                self._error = None
            elif self._topics_changed.is_set() or self._schedule.must_sweep(now):
                self._sweep()
        except ZKafkaError as error:
            self._schedule.fail(now)
            self._settled = False
            if not self._closing:
                if str(error) != str(self._error):
                    _log.warning("%s could not follow its group, retrying: %s", self.consumer, error)
                self._error = error

    def _fail(self, cause: BaseException) -> None:
        """End the session after an unexpected error, which may have left the member's state half changed."""
        self._closing = True
        self._failure = self._failure or partial(thread_failed, f"{self.consumer} has left group {self.group}", cause)
        self._session.end()
        self._wake.set()
        self._changed.set()
        self.client.close(self._failure)

    def _require_running(self) -> None:
        if self._failure is not None:
            raise self._failure()

    def _on_state(self, state: SessionState) -> None:
        """Own nothing without a session, and rebalance in a new one. Called on kazoo's thread."""
        self._session.note_state(state)
        if state == "CONNECTED":
            self.request_rebalance()
        self._changed.set()

    def _request_topic_check(self, event: object) -> None:
        """Request a check of the topics: a new topic may be irrelevant. Called on kazoo's thread."""
        self._topics_changed.set()
        self._wake.set()

    def _await_registration(self) -> None:
        deadline = self._timing.clock() + 2 * self.client.session_timeout_ms / 1000 + 1
        while True:
            try:
                self._register()
                return
            except ConsumerIdTaken as error:
                if self._timing.clock() >= deadline:
                    raise
                self._warn(f"waiting for the other session to expire: {error}")
                self._timing.sleep(_SUSPENDED_PAUSE_S)

    def _register(self) -> ClaimOwner:
        """Ensure that the present session is registered, and forget claims that are gone. Returns the owner."""
        losses, session = self._session.losses, self.client.session_id
        if session is None:
            raise no_session()
        owner = ClaimOwner(self.consumer, session)
        if owner != self.owner:
            self._claims.forget()
            self._registration.write(self.client, session)
            self._session.register(owner, losses)
            granted_ms = self.client.session_timeout_ms
            _log.info("%s is registered in session %s of %d ms", self.consumer, session_text(session), granted_ms)
            self._claims.verify(owner)
            return owner
        self._verify(owner)  # first: registering fails if another session has the id, and perhaps the claims
        registered = self._registration.session(self.client)
        self._session.require(owner)
        if registered != session:
            _log.warning("%s: another client has deleted the registration. Registering again", self.consumer)
            self._registration.write(self.client, session)
        return owner

    def _rebalance(self) -> None:
        """Read the group, release and claim, once. Schedules the next rebalance."""
        self._settled = False
        self._schedule.start_rebalance(self._timing.clock())  # Ctrl-C may interrupt this
        self._requested.clear()
        self._topics_changed.clear()
        owner = self._register()
        self._view = self._watch.read()
        for error in self._view.unreadable.values():
            self._warn(f"a malformed registration is left out of the assignment, and stops JVM consumers: {error}")
        self.rebalances += 1
        if self.consumer not in self._view.ids:
            self.request_rebalance()  # deleted meanwhile: no member can compute our assignment from this view
            return
        target = self._watch.assignment(self._view, self.consumer)
        self._session.require(owner)
        revoking, hold_s = self._step.revoking, self._options.hold_ms / 1000
        self._step = step(target, self._claims.owned, self._reading, revoking, self._timing.clock(), hold_s)
        self._release(owner)
        blockers = self._claim(self._step.claim, owner)
        if self._step.claim and not blockers:
            _log.info("%s claimed %s", self.consumer, listing(sorted(self._step.claim), 8))
        self._end_rebalance(blockers)
        if self._watch.ids() != self._view.ids:
            self.request_rebalance()
        self._changed.set()

    def _claim(self, threads: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        """Claim all or nothing, except partitions of members with an unreadable registration."""
        skipped: dict[TopicPartition, Blocker] = {}
        while True:
            blockers = self._claims.claim({tp: threads[tp] for tp in threads if tp not in skipped}, owner)
            unreadable = self._view.unreadable
            found = {b.partition: b for b in blockers if group_znodes.consumer_of_thread(b.thread) in unreadable}
            if not found:
                return [*skipped.values(), *blockers]
            skipped |= found

    def _release(self, owner: ClaimOwner) -> None:
        overdue, release = self._step.overdue, self._step.release
        if overdue:
            _log.warning(
                "%s released %s after rebalance.hold.ms, within a micro-batch: records may be read twice. Raise "
                "rebalance.hold.ms, or make micro-batches shorter",
                self.consumer,
                listing(sorted(overdue), 8),
            )
        if release:
            self._claims.release(release, owner)
            _log.info("%s released %s", self.consumer, listing(sorted(release), 8))

    def _end_rebalance(self, blockers: list[Blocker]) -> None:
        """Schedule the next rebalance: when a blocking claim is deleted, after the back-off, or after the hold."""
        revoking = self._step.revoking.values()
        self._settled = not blockers and not revoking
        tries = self._schedule.end_rebalance(self._timing.clock(), revoking, is_blocked=bool(blockers))
        if not blockers:
            return
        if tries and tries % self._options.max_retries == 0:
            _log.warning(
                "%s cannot claim its partitions after %d tries, and continues to try: %s. Stop members that are stuck, "
                "or that use another partition.assignment.strategy",
                self.consumer,
                tries,
                listing(blockers, 3, "; "),
            )
        paths = [group_znodes.owner_path(self.group, b.partition) for b in blockers]
        if len(self.client.exists_many(paths, self.request_rebalance)) < len(paths):
            self.request_rebalance()

    def _sweep(self) -> None:
        """Check claims, registration, members and topics for changes: watches may be lost."""
        self._topics_changed.clear()
        started, owner = self._timing.clock(), self.owner
        if (
            owner is None
            or self._verify(owner)
            or self._registration.session(self.client) != owner.session
            or not self._watch.is_current(self._view)
        ):
            self.request_rebalance()
        self._schedule.end_sweep(started, self._timing.clock())

    def _verify(self, owner: ClaimOwner) -> bool:
        """Forget and log claims whose znodes are gone. Returns True if there were such claims."""
        lost = self._claims.verify(owner)
        self._session.require(owner)
        if lost:
            self._settled = False
            _log.warning(
                "%s: another client has deleted the claims on %s. Claiming again", self.consumer, listing(sorted(lost), 8)
            )
        return bool(lost)

    def _warn(self, text: str) -> None:
        """Log each text once."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s: %s", self.consumer, text)
