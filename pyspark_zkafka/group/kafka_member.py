"""A member of a consumer group that Kafka coordinates, next to Java consumers and other queries."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from typing import Any

from pyspark_zkafka.brokers.group_consumer import Assigned, CommitAnswer, GroupConsumer, GroupEvent, Revoked
from pyspark_zkafka.brokers.groups import commit_requests
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, NOT_A_MEMBER
from pyspark_zkafka.errors import GroupError, UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.group.kafka_state import COMMIT_S, Admission, Commit, CommitQueue, MemberState, Step, hold_s
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.model.planning import Subscribe, Subscription, requested_topics
from pyspark_zkafka.options.values import GroupOptions
from pyspark_zkafka.retries import Timing

_log = logging.getLogger(__name__)

Owned = Mapping[TopicPartition, Claim]

FinalityCheck = Callable[[str, Collection[TopicPartition], Collection[str]], bool]
"""Asks whether the coordinator has nothing more to assign, given a member's id, what it owns, and its topics."""

_TICK_S = 0.02
_LOOKUP_S = 5.0
_FINISH_S = 2.0
_CLOSE_S = 4.0
_LOOK_S = 0.5
_MARGIN_S = 15.0
_POLL_S = 0.2
_STALL_S = 10.0  # the leader of a group notices added partitions sooner
_SHOWN = 8


class KafkaGroupMember:
    """A member, from ``join`` to ``leave``. A `Membership`.

    One thread owns the client, and takes turns: it serves the requests of other threads, polls, commits and answers. A
    revocation waits for the running micro-batch, for `hold_ms` at most. Meanwhile the thread keeps serving: the commit of
    the micro-batch carries the member's generation, or epoch, and contains only partitions that the member owns then.

    An expelled member reads nothing more until it has joined again, and commits nothing of what it read before.
    Thread-safe; not pickle-safe, and not to be used after a fork.

    Parameters
    ----------
    connect : callable
        Makes a client that calls back with events. A client with unanswered commits is replaced by another one.
    is_final : callable, optional
        Asks the coordinator whether it has more to assign. Blocks, and raises for a member that the coordinator does not
        admit. None where each assignment is final.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Callable[[Callable[[GroupEvent], None]], GroupConsumer],
        is_final: FinalityCheck | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.group = options.name
        self.consumer = options.kafka.instance_id or ""
        self.expiry_s = options.kafka.session_timeout_ms / 1000
        self._hold_s = hold_s(options.hold_ms, options.kafka.max_poll_interval_ms)
        self._is_consumer_protocol = options.kafka.protocol == "consumer"
        self._subscription = subscription
        self._connect = connect
        self._client = connect(self.handle)
        self._is_final = is_final
        self._timing = timing or Timing()
        self._requests: deque[tuple[Commit | None, Future[Any]]] = deque()
        self._has_requests = threading.Event()
        self._numbers = itertools.count()
        self._committing: dict[int, Future[set[TopicPartition]]] = {}
        self._rebalancing: list[Future[Owned]] = []
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._state = MemberState(commits=CommitQueue(self.group))
        self._reading: frozenset[TopicPartition] = frozenset()
        self._topics: tuple[str, ...] = ()
        self._lookup_at = 0.0
        self._final_at = -1
        self._has_joined = False
        self._error: ZKafkaError | None = None
        self._warned: set[str] = set()
        # While an incremental rebalance waits for a member to release partitions, nobody is assigned them, either.
        stall_s = _STALL_S + self._hold_s * options.kafka.is_incremental
        is_static = options.kafka.instance_id is not None and not self._is_consumer_protocol
        self._stall_s = stall_s if is_static else math.inf
        self._unsettled = -1, 0.0
        self._must_rejoin = False

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
        if self._closing or not self._has_joined:
            raise not_running(self.group)
        return self.owner

    @property
    def settled(self) -> bool:
        """True if the present assignment is final, and no revocation is pending.

        Only `wait_settled` detects the end of an incremental rebalance, as it asks the coordinator.
        """
        state = self._state
        is_final = state.is_assigned and self._final_at == state.rebalances
        return is_final and not state.is_doubtful(self._timing.clock())

    def join(self) -> None:
        """Start to join, and return. Raises ZKafkaError if librdkafka refuses the properties."""
        if self._has_joined:
            raise RuntimeError("KafkaGroupMember.join is called twice")
        self._client.open()
        now = self._timing.clock()
        self._state = replace(self._state, seen_at=now, admission=Admission().postpone(now))
        self._has_joined = True
        self._start()

    def leave(self) -> None:
        """Leave the group, unless the member is static. Blocks for at most four seconds; the thread continues to leave."""
        self._closing = True
        self._changed.set()
        self._has_requests.set()
        self._stop()

    def owned(self) -> Owned:
        """The partitions that the member owns; empty while it may have been expelled without knowing it yet."""
        return self._state.owned(self._timing.clock())

    def rebalance(self) -> Owned:
        """Release revoked partitions between two pieces of work. All partitions then owned count as being read.

        Blocks for some milliseconds. Raises the error that keeps the member out of its group, if it is not retriable.
        """
        owned: Owned = self._request(None, self._hold_s + _MARGIN_S)
        return owned

    def read(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are being read from now on; none when the work is done."""
        self._reading = frozenset(partitions)
        self._has_requests.set()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        incarnation: int,
        claims: Owned | None = None,
        *,
        of_group: bool = False,
    ) -> set[TopicPartition]:
        """Commit offsets, whatever is stored. Returns the partitions left out because the member does not own them now.

        With `claims`, partitions that were lost and gained again are left out, too. With `of_group`, the offsets are the
        group's starts, also in partitions of others: none is left out, or all for a member that has been expelled. Raises
        GroupContended if the coordinator refuses these now.
        Blocks for a request for every 1,000 partitions, each for at most half a minute. Raises BrokersUnavailable without
        an answer: it is then unknown whether the offsets of this request were committed. Those of later requests were not.
        """
        lost: set[TopicPartition] = set()
        for some in commit_requests(offsets):
            deadline = self._timing.clock() + COMMIT_S
            commit = Commit(next(self._numbers), some, incarnation, deadline, claims, of_group)
            lost |= self._request(commit, COMMIT_S + _MARGIN_S)
        return lost

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time is over."""
        self._changed.wait(timeout_s)
        self._changed.clear()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member is assigned all of its partitions; by default until members that died have expired.

        Returns False on time-out, and on an error that `rebalance` raises. Asks the coordinator at least once, if it must.
        """
        patience_s = self.expiry_s + self._hold_s + _MARGIN_S
        deadline = self._timing.clock() + (patience_s if timeout_s is None else timeout_s)
        while not (self.settled or self._has_settled()):
            left, error = deadline - self._timing.clock(), self._error
            if left <= 0 and timeout_s is None and self._state.is_assigned and error is None:
                self._warn("its assignment is not final: the group rebalances, or leaves partitions without an owner")
            if left <= 0 or self._closing or (error is not None and not error.retriable):
                return False
            self.wait(min(left, _POLL_S))
        return True

    def wait_certain(self) -> None:
        """Wait while it is uncertain what the member owns: two seconds after its process stood still, at most 15."""
        deadline = self._timing.clock() + _MARGIN_S
        while (now := self._timing.clock()) < deadline and self._state.is_doubtful(now) and not self._closing:
            self.wait(_POLL_S)

    def request_rebalance(self, event: object = None) -> None:
        """Have the member check its group soon."""
        self._has_requests.set()

    def _has_settled(self) -> bool:
        """Ask the coordinator whether the present assignment is final; assume so if it refuses to answer.

        A static member whose assignment is not final for too long joins again. Partitions and topics that were added while
        it restarted are assigned to nobody: the coordinator does not rebalance the group for it, and its client starts with
        the new metadata and sees no change later.
        """
        seen, now = self.rebalances, self._timing.clock()
        if not self._state.is_assigned or self._is_final is None:
            return False
        try:
            is_final = self._is_final(self.consumer, self.owned().keys(), self._topics)
        except ZKafkaError as error:
            self._warn(f"its coordinator does not describe the group: {error}")
            if error.retriable:
                return False
            is_final = True
        if is_final:
            self._final_at = seen
        elif self._unsettled[0] != seen:
            self._unsettled = seen, now
        elif now - self._unsettled[1] >= self._stall_s:
            self._unsettled, self._must_rejoin = (-1, 0.0), True
        return self.settled

    def _request(self, commit: Commit | None, timeout_s: float) -> Any:
        """Ask the member's thread for a commit, or, without one, for a rebalance; returns its answer."""
        answer: Future[Any] = Future()
        self._requests.append((commit, answer))
        self._has_requests.set()
        return self._result(answer, timeout_s)

    def _result(self, answer: Future[Any], timeout_s: float) -> Any:
        """Wait for an answer; raises GroupError if the thread has ended, and BrokersUnavailable on time-out."""
        deadline = self._timing.clock() + timeout_s
        while True:
            try:
                return answer.result(_LOOK_S)
            except FutureTimeoutError:
                if self._thread is None or not self._thread.is_alive():
                    raise not_running(self.group) from None
                if self._timing.clock() > deadline:
                    raise BROKERS_UNAVAILABLE(
                        f"The member of group {self.group} did not answer within {timeout_s:g} s; check that the brokers "
                        "with __consumer_offsets run and are reachable from here",
                    ) from None

    # --- the member's thread

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name=f"zkafka-member-{self.group}", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._await_request()
                self.begin_turn()
                self.end_turn()
            # A request to leave waits behind one to join: without its answer, the group would wait for the session to end.
            deadline = self._timing.clock() + _FINISH_S
            while not self._state.is_assigned and self._error is None and self._topics and self._timing.clock() < deadline:
                self._timing.sleep(_TICK_S)
                self._client.poll()
        finally:
            self.end()

    def begin_turn(self) -> None:
        """Serve the requests, and poll. Blocks for as long as a revocation waits."""
        self._serve_requests()
        self._subscribe()
        self._note_error(self._client.poll())

    def end_turn(self) -> None:
        """Act on what the poll has found, and answer."""
        self._replace_client()
        self._send_commits()
        self._check_admission()
        if self._rebalancing:
            owned, error = self.owned(), self._error
            self._reading = frozenset(owned)
            answers, self._rebalancing = self._rebalancing, []
            for answer in answers:
                _answer(answer, owned, None if error is None or error.retriable else error)

    def end(self) -> None:
        """Leave the group, own nothing, and refuse all requests. Blocks for long without a coordinator."""
        self._closing = True
        self._client.close()
        self._state = self._state.expel()
        self._serve_requests()
        pending: list[Future[Any]] = [*self._rebalancing, *self._committing.values()]
        for answer in pending:
            answer.set_exception(not_running(self.group))
        self._rebalancing, self._committing = [], {}

    def _await_request(self) -> None:
        self._has_requests.wait(_TICK_S)
        self._has_requests.clear()

    def _serve_requests(self) -> None:
        """Queue commits. A caller that rebalances reads nothing, which ends a revocation that waits."""
        while self._requests:
            commit, answer = self._requests.popleft()
            if commit is None:
                self._rebalancing.append(answer)
                self._reading = frozenset()
            else:
                self._committing[commit.number] = answer
                self._state = replace(self._state, commits=self._state.commits.add(commit))
        self._state, stopped_s = self._state.see(self._timing.clock())
        if stopped_s:
            _log.warning("%s did not run for %.1f s; it checks whether it is still a member", self._name, stopped_s)

    def _subscribe(self) -> None:
        """Subscribe to the topics, if they are others now. Brokers get names: patterns are looked up every few seconds."""
        now = self._timing.clock()
        if now < self._lookup_at and not self._must_rejoin:
            return
        if self._must_rejoin:
            self._must_rejoin, self._topics = False, ()
            _log.info("%s leaves its group, which has left partitions without an owner, and joins again", self._name)
            self._client.subscribe(())
        is_named = isinstance(self._subscription, Subscribe)
        self._lookup_at = float("inf") if is_named else now + _LOOKUP_S
        try:
            topics = tuple(requested_topics(self._subscription, () if is_named else self._client.topic_names()))
            if topics != self._topics:
                self._topics = topics
                self._state = replace(self._state, is_assigned=False)
                self._client.subscribe(topics)
            if not topics:
                self._state = replace(self._state, is_assigned=True)
                self._final_at = self._state.rebalances
        except ZKafkaError as error:
            self._note_error(error)

    def _note_error(self, error: ZKafkaError | None) -> None:
        if error is None or isinstance(error, UnknownTopic):  # the stream warns of topics that do not exist
            return
        self._error = error
        if error.retriable:
            self._warn(str(error))
        self._changed.set()

    def _replace_client(self) -> None:
        """Continue with another client after an expulsion, or a release, with a commit under way.

        librdkafka keeps a commit for a coordinator that it cannot reach, and would send it as the next generation's.
        """
        if not self._state.has_stray_commit:
            return
        client = self._connect(self.handle)
        try:
            client.open()
        except ZKafkaError as error:
            self._note_error(error)  # the next turn tries again
            return
        self._state = replace(self._state, has_stray_commit=False)
        self._client.discard()
        self._client = client
        self._topics = ()
        self._lookup_at = 0.0

    def _send_commits(self) -> None:
        self._step(self._state.commits.advance(self._state, self._timing.clock()))

    def _step(self, step: Step) -> None:
        self._state = replace(self._state, commits=step.queue)
        if step.is_fenced:
            self.lost()
        for outcome in step.outcomes:
            _answer(self._committing.pop(outcome.number), set(outcome.lost), outcome.error)
        if step.send is not None:
            self._client.commit(step.send)

    def _check_admission(self) -> None:
        """Check without an assignment whether the coordinator has admitted the member, and has any (KIP-848)."""
        now, before = self._timing.clock(), self._state.admission
        is_needed = not self._state.is_assigned and self._is_consumer_protocol
        if is_needed and now < before.check_at:
            return
        self._state = replace(self._state, admission=before.postpone(now))
        if not is_needed or self._is_final is None:
            return
        self.consumer = self._client.member_id
        try:
            if self._is_final(self.consumer, self._state.claims.keys(), self._topics):
                self._state = replace(self._state, is_assigned=True, is_member=True)
                self._final_at = self._state.rebalances
        except ZKafkaError as error:
            admission, is_reported = self._state.admission.fail(error)
            self._state = replace(self._state, admission=admission)
            if is_reported:
                self._note_error(error)
        else:
            self._state = replace(self._state, admission=replace(self._state.admission, failures=0))
            self._changed.set()

    # --- events of the client, within its `poll`

    def handle(self, event: GroupEvent) -> None:
        """Act on what the coordinator has done. Blocks for as long as a revocation waits."""
        match event:
            case Assigned(partitions):
                self.assigned(partitions)
            case Revoked(partitions):
                self.revoked(partitions)
            case CommitAnswer():
                self.answered(event)
            case _:
                self.lost()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Add what the coordinator has assigned, unless the client is about to be replaced.

        librdkafka reports an assignment right after a revocation of the same rebalance.
        """
        if self._state.has_stray_commit:
            return
        self.consumer = self._client.member_id or self.consumer
        if partitions:
            _log.info("%s is assigned %s", self._name, listing(sorted(partitions), _SHOWN))
        self._error = None
        self._change(self._state.assign(partitions, self.consumer))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions when the running micro-batch is done, or after the hold."""
        self.begin_revocation(partitions)
        while self.is_holding:
            self._await_request()
            self.turn_within()
        self.end_revocation()

    def begin_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Note which partitions are to be released, and until when they may be kept."""
        self._state = self._state.revoke(partitions, self._timing.clock() + self._hold_s)

    @property
    def is_holding(self) -> bool:
        """True while the revocation waits for what is read, or for the answer to a commit."""
        return self._state.is_holding(self._reading, self._timing.clock()) and not self._closing

    def turn_within(self) -> None:
        """Serve and commit while a revocation waits."""
        self._serve_requests()
        self._send_commits()
        if self._state.commits.waiting:
            self._client.poll_within()

    def end_revocation(self) -> None:
        """Release the partitions."""
        overdue, revoking = self._state.overdue(self._reading), self._state.revoking or frozenset()
        if overdue and not self._closing:
            _log.warning(
                "%s released %s after rebalance.hold.ms, while a micro-batch is reading: records may be read twice",
                self._name,
                listing(sorted(overdue), _SHOWN),
            )
        if revoking:
            _log.info("%s released %s", self._name, listing(sorted(revoking), _SHOWN))
        # With KIP-848, no assignment follows where nothing is added.
        self._change(self._state.release(is_assigned=self._is_consumer_protocol and self._state.is_member))
        if self._state.has_released_too_early(revoking) and not self._closing:
            self._give_up("released partitions of which a commit is unanswered")

    def lost(self) -> None:
        """Give up everything: other members may own the partitions already."""
        self._give_up(f"was expelled from group {self.group}")

    def answered(self, answer: CommitAnswer) -> None:
        """Take the answer to a commit."""
        self._step(self._state.commits.answer(answer, self._timing.clock()))

    def _give_up(self, reason: str) -> None:
        """Own nothing any more. A client that may still send a commit is replaced at the end of this turn."""
        if self._state.claims:
            _log.warning(
                "%s %s, and joins again; others may own %s already: records may be read twice",
                self._name,
                reason,
                listing(sorted(self._state.claims), _SHOWN),
            )
        self._change(self._state.expel())

    def _change(self, state: MemberState) -> None:
        self._state = state
        if self._is_final is None:
            self._final_at = state.rebalances
        self._changed.set()

    def _warn(self, text: str) -> None:
        """Log a warning, each text once."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s: %s", self._name, text)

    @property
    def _name(self) -> str:
        return self.consumer or f"a member of group {self.group}"


def not_running(group: str) -> GroupError:
    """The error for a request to a member that has left, or has not joined."""
    return NOT_A_MEMBER(f"The member of group {group} has left it, or has not joined yet; join first")


def _answer(request: Future[Any], result: object, error: ZKafkaError | None) -> None:
    if error is None:
        request.set_result(result)
    else:
        request.set_exception(error)
