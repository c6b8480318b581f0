"""A member of a consumer group that Kafka coordinates, next to Java consumers and other queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from pyspark_zkafka.brokers.group_consumer import CommitAnswer, GroupConsumer, GroupEvent, PartitionsAssigned, Revoked
from pyspark_zkafka.brokers.group_offsets import commit_requests
from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.group.kafka_requests import MemberRequests, Owned
from pyspark_zkafka.group.kafka_state import COMMIT_S, CommitQueue, MemberState, QueueStep, hold_s, stall_s
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.planning import Subscribe, Subscription, requested_topics
from pyspark_zkafka.options.values import GroupOptions
from pyspark_zkafka.retries import OncePerMinute, Timing
from pyspark_zkafka.threads import start_thread

_log = logging.getLogger(__name__)

_TICK_S = 0.02
_ANSWER_TICK_S = 0.002
_LOOKUP_S = 5.0
_CONFIRM_S = 2.0
_FINISH_S = 2.0
_CLOSE_S = 4.0
_MARGIN_S = 15.0
_JOIN_S = 60.0
_POLL_S = 0.2
_CHECK_S = 1.5
_CHECK_TIMEOUT_S = 4.0  # below the pause after which ownership counts as doubtful
_REFUSALS = 3  # a coordinator may refuse a member at first, and admit it a moment later
_SHOWN = 8
_NOT_FINAL = "the assignment is not final: the group rebalances, or leaves partitions without an owner"
_UNASSIGNED = (
    "no partitions are assigned: the group rebalances, or its coordinator does not answer. If this lasts, check that the "
    "brokers with __consumer_offsets run and are reachable from here"
)


class KafkaGroupMember:
    """A member of a group that Kafka coordinates, from ``join`` to ``leave``.

    One thread owns the client. In each iteration it takes requests of other threads, polls, commits and answers. A
    revocation waits for the running micro-batch, but no longer than `hold_ms`. Meanwhile the thread keeps serving requests:
    the micro-batch is committed with the member's generation or epoch, for partitions that the member still owns. An
    expelled member reads nothing until it has joined again, and never commits what it read before.

    `connect` makes a client that calls back with events. It is called again to replace a client with unanswered commits.
    `is_final` asks the coordinator whether the assignment is final, given the member's id, owned partitions and topics, and
    the time-out of a request in seconds; None if every assignment is final. It blocks, and raises for a member that the
    coordinator does not admit.

    An unexpected error in the thread ends the membership: from then on, all calls raise THREAD_FAILED.

    Thread-safe. Not pickle-safe, and not usable after a fork.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Callable[[Callable[[GroupEvent], None]], GroupConsumer],
        is_final: Callable[..., bool] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.group = options.name
        self.consumer = options.kafka.instance_id or ""
        self.expiry_s = options.kafka.session_timeout_ms / 1000
        self._hold_s = hold_s(options.kafka.hold_ms, options.kafka.max_poll_interval_ms)
        is_capped = self._hold_s < options.kafka.hold_ms / 1000
        self._hold_option = "kafka.max.poll.interval.ms" if is_capped else "rebalance.hold.ms"
        self._is_consumer_protocol = options.kafka.protocol == "consumer"
        self._subscription = subscription
        self._connect = connect
        self._client = connect(self.handle)
        self._is_final = is_final
        self._timing = timing or Timing()
        self._requests = MemberRequests(self.group, self._timing.clock)
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._state = MemberState(commits=CommitQueue(self.group))
        self._reading: frozenset[TopicPartition] = frozenset()
        self._topics: tuple[str, ...] = ()
        self._looked_up: tuple[str, ...] | None = None
        self._lookup_at = 0.0
        self._final_at = -1
        self._error: ZKafkaError | None = None
        self._limit = OncePerMinute(self._timing.clock)
        self._stall_s = self._patience_s = stall_s(options)
        self._unsettled = -1, 0.0
        self._must_rejoin = False
        self._join_due, self._join_patience_s, self._lacks_topics = 0.0, _JOIN_S, False
        self._check_due, self._failed_checks = 0.0, 0

    @property
    def rebalances(self) -> int:
        """How often the assignment has changed."""
        return self._state.rebalances

    @property
    def owner(self) -> ClaimOwner:
        """The member in its present incarnation."""
        return ClaimOwner(self.consumer or self.group, self._state.incarnation)

    def require_owner(self) -> ClaimOwner:
        """The member in its present incarnation; raises GroupError if it has left the group."""
        self._requests.require_open()
        return self.owner

    @property
    def settled(self) -> bool:
        """True if the assignment was final when `wait_settled` last asked, and no revocation is pending."""
        state = self._state
        is_final = state.is_assigned and self._final_at == state.rebalances
        return is_final and not state.is_doubtful(self._timing.clock())

    def join(self) -> None:
        """Start joining, and return. Raises ZKafkaError if librdkafka refuses the properties."""
        self._requests.require_running()
        if self._thread is not None:
            raise RuntimeError("KafkaGroupMember.join is called twice")
        self._client.open()
        now = self._timing.clock()
        self._state = replace(self._state, seen_at=now)
        self._check_due = now + _CHECK_S
        self._requests.open()
        self._start()

    def leave(self) -> None:
        """Leave the group, unless the member is static. Blocks for at most four seconds; the thread continues to leave."""
        self._closing = True
        self._changed.set()
        self._requests.notify()
        self._stop()

    def owned(self) -> Owned:
        """The partitions that the member owns. Empty while the member may have been expelled without notice."""
        self._requests.require_running()
        return self._state.owned(self._timing.clock())

    def rebalance(self) -> Owned:
        """Release revoked partitions between two pieces of work. Blocks for some milliseconds."""
        owned: Owned = self._result(self._requests.add_rebalance(), self._hold_s + _MARGIN_S)
        return owned

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are now being read, which are kept for the hold. Empty when the work is done."""
        self._requests.require_running()
        self._reading = frozenset(partitions)
        self.request_rebalance()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        incarnation: int,
        claims: Owned | None = None,
        *,
        of_group: bool = False,
    ) -> set[TopicPartition]:
        """Commit offsets, whatever is stored. Returns the partitions left out because the member does not own them now.

        With `claims`, also leaves out partitions that were lost and assigned again. With `of_group`, the offsets are the
        group's starts, in partitions of all members; an expelled member leaves out all. GroupContended: the caller may try
        again. Sends a request for every 1,000 partitions, and blocks for up to 30 seconds for each. Raises
        BrokersUnavailable without an answer: the offsets of that request may be committed, later ones were not sent.
        """
        lost: set[TopicPartition] = set()
        for some in commit_requests(offsets):
            lost |= self._result(self._requests.add_commit(some, incarnation, claims, of_group), COMMIT_S + _MARGIN_S)
        return lost

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""
        self._changed.wait(timeout_s)
        self._changed.clear()
        self._requests.require_running()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait for the final assignment, by default until the sessions of dead members have expired.

        Returns False on time-out, or on an error that `rebalance` raises. Requests to the coordinator
        take until the time-out, or 4 s each if that is longer.
        """
        default_s = self.expiry_s + self._hold_s + _MARGIN_S
        deadline = self._timing.clock() + (default_s if timeout_s is None else timeout_s)
        while not (self.settled or self._has_settled(max(deadline - self._timing.clock(), _CHECK_TIMEOUT_S))):
            self._requests.require_running()
            left, error = deadline - self._timing.clock(), self._error
            if left <= 0 and timeout_s is None and error is None:
                self._warn(_NOT_FINAL if self._state.is_assigned else _UNASSIGNED)
            if left <= 0 or self._closing or (error is not None and not error.retriable):
                return False
            self.wait(min(left, _POLL_S))
        return True

    def wait_certain(self) -> None:
        """After a long pause of the process, wait until ownership is known again: two seconds, at most 15."""
        deadline = self._timing.clock() + _MARGIN_S
        while (now := self._timing.clock()) < deadline and self._state.is_doubtful(now) and not self._closing:
            self.wait(_POLL_S)
        self._requests.require_running()

    def request_rebalance(self) -> None:
        """Wake the member's thread."""
        self._requests.notify()

    def _has_settled(self, timeout_s: float) -> bool:
        """Ask the coordinator whether the assignment is final. If it refuses to answer, assume yes.

        A static member joins again if its assignment is not final for too long. Nobody is assigned partitions and topics
        that were added while it restarted: its return causes no rebalance, and its client sees no change of metadata.
        """
        seen, now = self.rebalances, self._timing.clock()
        if not self._state.is_assigned or self._is_final is None:
            return False
        try:
            is_final = self._is_final(self.consumer, self.owned().keys(), self._topics, timeout_s)
        except ZKafkaError as error:
            self._warn("the coordinator does not describe the group", error)
            if error.retriable:
                return False
            is_final = True
        if is_final:
            self._final_at, self._patience_s = seen, self._stall_s
        elif self._unsettled[0] != seen:
            self._unsettled = seen, now
        elif now - self._unsettled[1] >= self._patience_s:
            # Each rejoin rebalances the whole group. A leader with old metadata assigns nothing new for minutes.
            self._unsettled, self._must_rejoin, self._patience_s = (-1, 0.0), True, 4 * self._patience_s
        return self.settled

    def _result(self, answer: Future[Any], timeout_s: float) -> Any:
        """Wait for an answer of the member's thread."""
        return self._requests.result(answer, timeout_s)

    def _start(self) -> None:
        self._thread = start_thread(self._serve, f"zkafka-member-{self.group}", self.end)

    def _stop(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    def _serve(self) -> None:
        while not self._closing:
            self._wait()
            self.begin_iteration()
            self.end_iteration()
        # librdkafka leaves only after a pending join: closing earlier would make the group wait for the session to end.
        deadline = self._timing.clock() + _FINISH_S
        while not self._state.is_assigned and self._error is None and self._topics and self._timing.clock() < deadline:
            self._timing.sleep(_TICK_S)
            self._client.poll()
        self.end()

    def _wait(self) -> None:
        """Wait for a request, or until the next poll: soon, if a commit awaits its answer."""
        self._requests.wait(_ANSWER_TICK_S if self._state.commits.under_way else _TICK_S)

    def begin_iteration(self) -> None:
        """Take requests, and poll. Blocks while a revocation waits."""
        self._serve_requests()
        self._subscribe()
        self._note_error(self._client.poll())

    def end_iteration(self) -> None:
        """Act on the results of the poll, and answer requests."""
        self._check_join()
        self._replace_client()
        self._send_commits()
        if self._requests.has_rebalances:
            owned, error = self.owned(), self._error
            self._reading = frozenset(owned)
            self._requests.answer_rebalances(owned, None if error is None or error.retriable else error)
        self._check_admission()

    def end(self, cause: BaseException | None = None) -> None:
        """Refuse all requests, and leave the group. Blocks for long without a coordinator.

        After an unexpected error, its `cause`, the state may be half changed.
        """
        self._closing = True
        self._state = self._state.expel()
        self._requests.refuse(f"{self._name} has left group {self.group}", cause)
        self._changed.set()
        self._client.close()

    def _serve_requests(self) -> None:
        """Queue commits. A call of `rebalance` means that no partition is being read, and ends a waiting revocation."""
        for commit in self._requests.take():
            if commit is None:
                self._reading = frozenset()
            else:
                self._state = replace(self._state, commits=self._state.commits.add(commit))
        self._state, stopped_s = self._state.see(self._timing.clock())
        if stopped_s:
            _log.warning("%s did not run for %.1f s, and checks whether it is still a member", self._name, stopped_s)

    def _subscribe(self) -> None:
        """Subscribe if the topics have changed. Patterns are resolved here, every few seconds."""
        now = self._timing.clock()
        if now < self._lookup_at and not self._must_rejoin:
            return
        is_named = isinstance(self._subscription, Subscribe)
        self._lookup_at = float("inf") if is_named else now + _LOOKUP_S
        try:
            if self._must_rejoin:
                _log.info("%s rejoins its group, which left partitions without an owner", self._name)
                self._client.subscribe(())
                self._must_rejoin, self._topics = False, ()
            topics = tuple(requested_topics(self._subscription, () if is_named else self._client.topic_names()))
            looked_up, self._looked_up = self._looked_up, topics
            if not is_named and topics != looked_up and (not topics or not {*topics}.issuperset(self._topics)):
                self._lookup_at = now + _CONFIRM_S  # a broker that has just started may know no topic
                return
            if topics != self._topics:
                self._topics = topics
                self._change(replace(self._state, is_assigned=False))
                self._client.subscribe(topics)
            if not topics:
                self._state = replace(self._state, is_assigned=True)
                self._final_at = self._state.rebalances
        except ZKafkaError as error:
            self._note_error(error)

    def _note_error(self, error: ZKafkaError | None) -> None:
        if error is None or isinstance(error, UnknownTopic):  # the stream logs missing topics
            return
        self._error = error
        if error.retriable:
            self._warn("retrying", error)
        self._changed.set()

    def _check_join(self) -> None:
        """Replace a client without an assignment: librdkafka waits for a lost answer for max.poll.interval.ms.

        Other members may need as long to rejoin. Each client therefore gets twice the time of the last one. A client
        joins once one of its topics exists, and a failed one is not replaced: a static one would fence its successor.
        """
        now = self._timing.clock()
        if self._state.is_assigned or not self._topics or self._is_consumer_protocol:
            self._join_patience_s, self._lacks_topics = _JOIN_S, False
        elif now >= self._join_due and (self._error is None or self._error.retriable):
            lacked, self._lacks_topics = self._lacks_topics, not self._has_topic()
            if lacked or self._lacks_topics:
                self._join_due = now + self._join_patience_s
                return
            self._warn("joining takes long; a new client joins, since an answer of the coordinator may be lost")
            self._join_patience_s *= 2
            self._change(replace(self._state.expel(), must_replace_client=True))

    def _has_topic(self) -> bool:
        """False if no subscribed topic exists. Blocks for a request, for at most a second."""
        try:
            return not set(self._topics).isdisjoint(self._client.topic_names())
        except ZKafkaError:
            return True

    def _replace_client(self) -> None:
        """Replace a client that waits for a lost answer, or may send an old commit with the next generation."""
        if not self._state.must_replace_client:
            return
        try:
            client = self._connect(self.handle)
            client.open()
        except ZKafkaError as error:
            self._note_error(error)  # the next iteration tries again
            return
        self._state = replace(self._state, must_replace_client=False)
        self._client.discard()
        self._client = client
        self._topics = ()
        self._lookup_at = 0.0

    def _send_commits(self) -> None:
        self._step(self._state.commits.advance(self._state, self._timing.clock()))

    def _step(self, step: QueueStep) -> None:
        self._state = replace(self._state, commits=step.queue)
        if step.is_fenced:
            self.lost()
        for outcome in step.outcomes:
            self._requests.answer_commit(outcome)
        if step.send is not None:
            self._client.commit(step.send)

    def _check_admission(self) -> None:
        """Without an assignment, check whether the coordinator has admitted the member and assigns it nothing.

        With KIP-848, no callback reports that. Blocks for some seconds without a coordinator: `rebalance` waits longer for
        its answer.
        """
        is_needed = not self._state.is_assigned and self._is_consumer_protocol and bool(self._topics)
        if is_needed and self._timing.clock() < self._check_due:
            return
        if is_needed and self._is_final is not None:
            self.consumer = self._client.member_id
            try:
                if self._is_final(self.consumer, self._state.claims.keys(), self._topics, _CHECK_TIMEOUT_S):
                    self._state = replace(self._state, is_assigned=True, is_member=True)
                    self._final_at = self._state.rebalances
                self._failed_checks = 0
                self._changed.set()
            except ZKafkaError as error:
                self._failed_checks += 1
                if error.retriable or self._failed_checks >= _REFUSALS:
                    self._note_error(error)
        self._check_due = self._timing.clock() + _CHECK_S

    def handle(self, event: GroupEvent) -> None:
        """Handle an event of the client, within its `poll`. Blocks while a revocation waits."""
        match event:
            case PartitionsAssigned(partitions):
                self._assign(partitions)
            case Revoked(partitions):
                self.begin_revocation(partitions)
                while self.is_holding:
                    self._wait()
                    self.serve_while_holding()
                self.end_revocation()
            case CommitAnswer():
                self._step(self._state.commits.answer(event, self._timing.clock()))
            case _:
                self.lost()

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        # librdkafka reports an assignment right after the revocation of the same rebalance, before the client is replaced.
        if self._state.must_replace_client:
            return
        self.consumer = self._client.member_id or self.consumer
        if partitions:
            _log.info("%s is assigned %s", self._name, listing(sorted(partitions), _SHOWN))
        self._error = None
        self._change(self._state.assign(partitions, self.consumer))

    def begin_revocation(self, partitions: Collection[TopicPartition]) -> None:
        self._state = self._state.revoke(partitions, self._timing.clock() + self._hold_s)

    @property
    def is_holding(self) -> bool:
        """True while the revocation waits for a micro-batch, or for the answer to a commit."""
        return self._state.is_holding(self._reading, self._timing.clock()) and not self._closing

    def serve_while_holding(self) -> None:
        """Take requests and commit while a revocation waits."""
        self._serve_requests()
        self._send_commits()
        if self._state.commits.waiting:
            self._client.poll_within()

    def end_revocation(self) -> None:
        overdue, revoking = self._state.overdue(self._reading), self._state.revoking or frozenset()
        if overdue and not self._closing:
            _log.warning(
                "%s released %s after %g s, within a micro-batch: records may be read twice. Raise %s, or make "
                "micro-batches shorter",
                self._name,
                listing(sorted(overdue), _SHOWN),
                self._hold_s,
                self._hold_option,
            )
        if revoking:
            _log.info("%s released %s", self._name, listing(sorted(revoking), _SHOWN))
        # With KIP-848, no assignment follows if no partition is added.
        self._change(self._state.release(is_assigned=self._is_consumer_protocol and self._state.is_member))
        if self._state.has_released_too_early(revoking) and not self._closing:
            self.lost("released partitions before their commit was answered")

    def lost(self, reason: str | None = None) -> None:
        """Own nothing: others may own the partitions. A client that may still commit is replaced after this iteration."""
        if self._state.claims:
            _log.warning(
                "%s %s, and joins again. Records of %s may be read twice",
                self._name,
                reason or f"was expelled from group {self.group}",
                listing(sorted(self._state.claims), _SHOWN),
            )
        self._change(self._state.expel())

    def _change(self, state: MemberState) -> None:
        self._state = state
        self._join_due = self._timing.clock() + self._join_patience_s
        if self._is_final is None:
            self._final_at = state.rebalances
        self._changed.set()

    def _warn(self, subject: str, error: ZKafkaError | None = None) -> None:
        """Log a warning, once a minute for each subject."""
        if self._limit.is_due(subject):
            _log.warning("%s: %s", self._name, subject if error is None else f"{subject}: {error}")

    @property
    def _name(self) -> str:
        return self.consumer or f"a member of group {self.group}"
