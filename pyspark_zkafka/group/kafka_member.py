"""A member of a consumer group that Kafka coordinates, beside Java consumers and other queries."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pyspark_zkafka.errors import BrokersUnavailable, GroupError, UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.group.kafka_rebalance import Assignment, Hold, hold_s
from pyspark_zkafka.group.member import Timing
from pyspark_zkafka.kafka.group_consumer import CommitAnswer, GroupEvents
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.planning import Subscribe, Subscription, wanted_topics

__all__ = ["GroupClient", "KafkaGroupMember"]

T = TypeVar("T")
FinalityCheck = Callable[[str, Collection[TopicPartition], Collection[str]], bool]
_log = logging.getLogger(__name__)

_TICK_S = 0.02
_TOPICS_EVERY_S = 5.0
_COMMIT_S = 30.0
_RETRY_S = 0.1
_MARGIN_S = 15.0
_CLOSE_S = 4.0
_FINISH_S = 2.0
_CHECK_S = 1.5
_LOOK_S = 0.2
_REFUSALS = 3
_STOPPED_S = 5.0  # a process that did not run for so long may have been expelled
_DOUBT_S = 2.0  # in which librdkafka notices that
_SHOWN = 8


class GroupClient(Protocol):
    """A connection to the group's coordinator, which `GroupConsumer` implements."""

    def open(self) -> None: ...
    def close(self) -> None: ...
    def subscribe(self, topics: Collection[str]) -> None: ...
    def poll(self) -> ZKafkaError | None: ...
    def poll_within(self) -> None: ...
    def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...
    def topic_names(self) -> list[str]: ...
    @property
    def member_id(self) -> str: ...


@dataclass
class _Commit:
    """A commit that is to be sent, or was; `sent` are the offsets whose answer is awaited.

    One `of_group` is not limited to the member's own partitions.
    """

    offsets: Mapping[TopicPartition, int]
    incarnation: int
    deadline: float
    of_group: bool = False
    next_at: float = 0.0
    sent: Mapping[TopicPartition, int] | None = None
    error: ZKafkaError | None = None
    lost: Future[set[TopicPartition]] = field(default_factory=Future)


class KafkaGroupMember:
    """A member, from ``join`` to ``leave``; also as a context manager. The face of `GroupMember`, see `Membership`.

    One thread owns the client; all others ask it by a queue. While a revocation waits for the running micro-batch, for
    `hold_ms` at the most, that thread goes on to answer: the micro-batch's commit goes with the member's generation, or
    epoch, and only for partitions that are its own then.

    An expelled member reads nothing more until it has joined again, and commits nothing of what it read before.
    Thread-safe; not pickle-safe, and not to be used after a fork. `connect` makes the client of the member that is passed
    to it. `is_final` gets the member's id, what it owns and its topics, and asks the coordinator whether it has more to
    assign; it blocks, and raises for a member that the coordinator does not admit. None where each assignment is final.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Callable[[GroupEvents], GroupClient],
        is_final: FinalityCheck | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.group = options.name
        self.consumer = options.kafka.instance_id or ""
        self.rebalances = 0
        self._options = options
        self._subscription = subscription
        self._is_final = is_final
        self._timing = timing or Timing()
        self._hold_s = hold_s(options.hold_ms, options.kafka.max_poll_interval_ms)
        self._connect = connect
        self._client = connect(self)
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._assignment = Assignment()
        self._reading: frozenset[TopicPartition] = frozenset()
        self._is_assigned = False
        self._final_at = -1
        self._is_member = False
        self._rebalancing: list[Future[Mapping[TopicPartition, Claim]]] = []
        self._commits: deque[_Commit] = deque()
        self._topics: tuple[str, ...] = ()
        self._topics_at = 0.0
        self._seen_at = 0.0
        self._doubted_until = 0.0
        self._check_at = 0.0
        self._refusals = 0
        self._unanswered = 0
        self._has_stray_commit = False
        self._error: ZKafkaError | None = None
        self._warned: set[str] = set()

    def __enter__(self) -> KafkaGroupMember:
        self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    @property
    def owner(self) -> ClaimOwner:
        """The member in its present incarnation."""
        return ClaimOwner(self.consumer or self.group, self._assignment.incarnation)

    def require_owner(self) -> ClaimOwner:
        """The member in its present incarnation; raises GroupError if it has left the group."""
        if self._closing or self._thread is None:
            raise _not_running(self.group)
        return self.owner

    @property
    def settled(self) -> bool:
        """True if the member has been assigned all of its partitions, and no revocation is pending.

        Of incremental rebalances only `wait_settled` finds out, as it asks the coordinator.
        """
        return self._is_assigned and self._final_at == self.rebalances and not self._is_doubtful()

    def join(self) -> None:
        """Begin to join, and return; raises ZKafkaError if librdkafka refuses the properties."""
        if self._thread is not None:
            raise RuntimeError("KafkaGroupMember.join is called twice")
        self._client.open()
        self._seen_at = self._timing.clock()
        self._check_at = self._seen_at + _CHECK_S
        self._thread = threading.Thread(target=self._serve, name=f"zkafka-member-{self.group}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Leave the group, unless the member is static; blocks for four seconds at the most."""
        self._closing = True
        self._wake()
        self._changed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns; empty while it may have been expelled without knowing it yet."""
        return {} if self._is_doubtful() else self._assignment.owned

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release what is revoked, between two pieces of work; returns what is owned then, all of it as being read.

        Blocks for some milliseconds. Raises the error that keeps the member out of its group, if it is not retriable.
        """
        owned: Future[Mapping[TopicPartition, Claim]] = Future()
        self._requests.put(lambda: self._begin_rebalance(owned))
        return self._result(owned, self._hold_s + _MARGIN_S)

    def read(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are being read from now on; none when the work is done."""
        self._reading = frozenset(partitions)
        self._wake()

    def commit(self, offsets: Mapping[TopicPartition, int], incarnation: int) -> set[TopicPartition]:
        """Commit offsets, whatever is stored; returns the partitions left out, as the member does not own them any more.

        Blocks for a request, half a minute at the most. Raises BrokersUnavailable without an answer: whether the offsets
        were committed is then unknown.
        """
        return self._commit(_Commit(offsets, incarnation, self._timing.clock() + _COMMIT_S))

    def begin(self, starts: Mapping[TopicPartition, int], incarnation: int) -> bool:
        """Commit the group's starts, also in partitions of other members; False if the member has been expelled.

        Blocks and raises as `commit`.
        """
        deadline = self._timing.clock() + _COMMIT_S
        return not self._commit(_Commit(starts, incarnation, deadline, of_group=True))

    def wait(self, timeout_s: float) -> None:
        """Wait until the member's ownership may have changed, or the time is over."""
        self._changed.wait(timeout_s)
        self._changed.clear()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member is assigned all of its partitions; by default until members that died have expired.

        Returns False on time-out, and on an error that `rebalance` raises. Asks the coordinator once at least, if it must.
        """
        patience_s = self._options.kafka.session_timeout_ms / 1000 + self._hold_s + _MARGIN_S
        deadline = self._timing.clock() + (patience_s if timeout_s is None else timeout_s)
        while not (self.settled or self._has_settled()):
            left = deadline - self._timing.clock()
            if left <= 0 or self._closing or (self._error is not None and not self._error.retriable):
                return False
            self.wait(min(left, _LOOK_S))
        return True

    def request_rebalance(self, event: object = None) -> None:
        """Have the member look at its group soon."""
        self._wake()

    # --- for other threads

    def _has_settled(self) -> bool:
        """Ask the coordinator whether the present assignment is final; on its refusal to say, that is assumed."""
        seen, owned, topics = self.rebalances, self.owned(), self._topics
        if not self._is_assigned or self._is_final is None:
            return False
        try:
            is_final = self._is_final(self.consumer, owned.keys(), topics)
        except ZKafkaError as error:
            self._warn(f"its coordinator does not describe the group: {error}")
            is_final = not error.retriable
        if is_final:
            self._final_at = seen
        return self.settled

    def _commit(self, commit: _Commit) -> set[TopicPartition]:
        self._requests.put(lambda: self._commits.append(commit))
        return self._result(commit.lost, _COMMIT_S + _MARGIN_S)

    def _wake(self) -> None:
        self._requests.put(_nothing)

    def _result(self, answer: Future[T], timeout_s: float) -> T:
        """The answer of the member's thread."""
        deadline = self._timing.clock() + timeout_s
        while True:
            try:
                return answer.result(0.5)
            except FutureTimeoutError:
                if self._thread is None or not self._thread.is_alive():
                    raise _not_running(self.group) from None
                if self._timing.clock() > deadline:
                    raise BrokersUnavailable(
                        "BROKERS_UNAVAILABLE",
                        f"The member of group {self.group} did not answer within {timeout_s:g} s; check that the brokers "
                        "with __consumer_offsets run and are reachable from here",
                    ) from None

    def _is_doubtful(self) -> bool:
        """True after the process was stopped, until librdkafka has noticed what happened meanwhile."""
        now = self._timing.clock()
        return now - self._seen_at > _STOPPED_S or now < self._doubted_until

    # --- on the member's own thread

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._take_requests()
                self._note_time()
                self._subscribe()
                self._note_error(self._client.poll())
                self._replace_client()
                self._send_commits()
                self._check_admission()
                self._finish_rebalances()
            self._finish_joining()
        finally:
            self._closing = True
            self._client.close()
            self._assignment = self._assignment.expel()
            for answer in self._rebalancing:
                answer.set_exception(_not_running(self.group))
            for commit in self._commits:
                if not commit.lost.done():
                    commit.lost.set_exception(_not_running(self.group))

    def _replace_client(self) -> None:
        """Go on with another client after an expulsion with a commit under way.

        librdkafka keeps a commit for a coordinator that it cannot reach, and would send it as the next generation's.
        """
        if not self._has_stray_commit:
            return
        self._has_stray_commit = False
        threading.Thread(target=self._client.close, name=f"zkafka-closing-{self.group}", daemon=True).start()
        self._client = self._connect(self)
        self._client.open()
        self._topics, self._topics_at = (), 0.0

    def _finish_joining(self) -> None:
        """Go on for a moment if a rebalance is under way: a request to leave it waits behind the one to join.

        The group would wait for a member that is gone until its session expires.
        """
        deadline = self._timing.clock() + _FINISH_S
        while not self._is_assigned and self._error is None and self._topics and self._timing.clock() < deadline:
            self._timing.sleep(_TICK_S)
            self._client.poll()

    def _take_requests(self) -> None:
        """Serve what has been asked; waits for a moment if nothing has."""
        try:
            self._requests.get(timeout=_TICK_S)()
            while True:
                self._requests.get_nowait()()
        except queue.Empty:
            return

    def _note_time(self) -> None:
        now = self._timing.clock()
        if now - self._seen_at > _STOPPED_S:
            self._doubted_until = now + _DOUBT_S
            _log.warning(
                "%s did not run for %.1f s; it looks whether it is still a member", self._name, now - self._seen_at
            )
        self._seen_at = now

    def _subscribe(self) -> None:
        """Subscribe to the topics, those of a pattern as far as they exist."""
        now = self._timing.clock()
        if now < self._topics_at:
            return
        self._topics_at = now + (_TOPICS_EVERY_S if not isinstance(self._subscription, Subscribe) else float("inf"))
        try:
            topics = tuple(wanted_topics(self._subscription, self._names()))
            if topics != self._topics:
                self._topics, self._is_assigned = topics, False
                self._client.subscribe(topics)
            if not topics:
                self._is_assigned, self._final_at = True, self.rebalances
        except ZKafkaError as error:
            self._note_error(error)

    def _names(self) -> list[str]:
        return [] if isinstance(self._subscription, Subscribe) else self._client.topic_names()

    def _note_error(self, error: ZKafkaError | None) -> None:
        if error is None:
            return
        if isinstance(error, UnknownTopic):
            self._warn(f"subscribed topics that do not exist yet: {error.message}")
            return
        self._error = error
        if error.retriable:
            self._warn(str(error))
        self._changed.set()

    def _begin_rebalance(self, owned: Future[Mapping[TopicPartition, Claim]]) -> None:
        """Read nothing, so that a revocation that waits is done; the answer follows after the next poll."""
        self._reading = frozenset()
        self._rebalancing.append(owned)

    def _finish_rebalances(self) -> None:
        answers, self._rebalancing = self._rebalancing, []
        if not answers:
            return
        owned, error = self.owned(), self._error
        self._reading = frozenset(owned)
        for answer in answers:
            if error is None or error.retriable:
                answer.set_result(owned)
            else:
                answer.set_exception(error)

    def _check_admission(self) -> None:
        """Look, without an assignment, whether the coordinator has admitted the member, and has something to assign.

        Members by KIP-848 alone are called back neither for that nor if it has nothing.
        """
        now = self._timing.clock()
        if self._is_assigned or self._is_final is None or self._options.kafka.protocol != "consumer":
            self._check_at = now + _CHECK_S
        elif now >= self._check_at:
            self._check_at = now + _CHECK_S
            self.consumer = self._client.member_id
            try:
                if self._is_final(self.consumer, (), self._topics):
                    self._is_member = self._is_assigned = True
                    self._final_at = self.rebalances
            except ZKafkaError as error:
                self._refusals += 1
                if error.retriable or self._refusals >= _REFUSALS:
                    self._note_error(error)
            else:
                self._refusals = 0
                self._changed.set()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Add what the coordinator has assigned; see `GroupEvents`."""
        self.consumer = self._client.member_id or self.consumer
        if partitions:
            _log.info("%s is assigned %s", self._name, listing(sorted(partitions), _SHOWN))
        self._assignment = self._assignment.assign(partitions, self.consumer)
        self._error = None
        self._is_member = True
        self._change(is_assigned=True)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions when the running micro-batch is done, or after the hold; see `GroupEvents`."""
        self._is_assigned = False
        hold = Hold(frozenset(partitions), self._timing.clock() + self._hold_s)
        while hold.kept(self._reading, self._timing.clock()) and not self._closing:
            self._take_requests()
            self._note_time()
            self._send_commits()
            if self._commits:
                self._client.poll_within()
        overdue = hold.revoking & self._reading
        if overdue and not self._closing:
            _log.warning(
                "%s released %s after rebalance.hold.ms, while a micro-batch is reading: records may be read twice",
                self._name,
                listing(sorted(overdue), _SHOWN),
            )
        if partitions:
            _log.info("%s released %s", self._name, listing(sorted(partitions), _SHOWN))
        self._assignment = self._assignment.revoke(partitions)
        # With KIP-848, no assignment follows where nothing is added.
        self._change(is_assigned=self._options.kafka.protocol == "consumer")

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give up everything; see `GroupEvents`."""
        if self._assignment.owned:
            _log.warning(
                "%s was expelled from group %s, and joins again; others may own %s already: records may be read twice",
                self._name,
                self.group,
                listing(sorted(self._assignment.owned), _SHOWN),
            )
        self._assignment = self._assignment.expel()
        self._has_stray_commit = self._unanswered > 0 or any(commit.sent is not None for commit in self._commits)
        self._unanswered = 0
        for commit in self._commits:
            commit.sent = None  # nothing that this incarnation has read is committed any more
        self._doubted_until = 0.0
        self._is_member = False
        self._change(is_assigned=False)

    def _change(self, *, is_assigned: bool) -> None:
        self.rebalances += 1
        self._is_assigned = is_assigned
        if self._is_final is None:
            self._final_at = self.rebalances
        self._changed.set()

    def _send_commits(self) -> None:
        """Send the first commit that waits, if it is due; give it up when its time is over."""
        now = self._timing.clock()
        while self._commits:
            commit = self._commits[0]
            if not commit.lost.done() and now >= commit.deadline:
                self._unanswered += commit.sent is not None
                commit.lost.set_exception(commit.error or _unanswered(self.group))
            if not commit.lost.done() and commit.sent is None and now >= commit.next_at:
                self._send(commit)
            if not commit.lost.done():
                return
            self._commits.popleft()

    def _send(self, commit: _Commit) -> None:
        now = self._assignment
        ours = now.committable(commit.offsets, commit.incarnation)
        if commit.of_group and commit.incarnation == now.incarnation and self._is_member:
            ours = dict(commit.offsets)
        if ours:
            commit.sent = ours
            self._client.commit(ours)
        else:
            commit.lost.set_result(set(commit.offsets))

    def answered(self, answer: CommitAnswer) -> None:
        """Take the answer to the commit that was sent last; see `GroupEvents`."""
        commit = self._commits[0] if self._commits else None
        if commit is None or commit.sent != answer.offsets or commit.lost.done():
            self._unanswered = max(0, self._unanswered - 1)  # one that was given up
            return
        sent, commit.sent, commit.error = commit.sent, None, answer.error
        if answer.standing == "fenced":
            self.lost(())
            commit.lost.set_result(set(commit.offsets))
        elif answer.standing == "again":
            commit.next_at = self._timing.clock() + _RETRY_S
        elif answer.error is not None:
            commit.lost.set_exception(answer.error)
        else:
            commit.lost.set_result(commit.offsets.keys() - sent.keys())

    @property
    def _name(self) -> str:
        return self.consumer or f"a member of group {self.group}"

    def _warn(self, text: str) -> None:
        """Log a warning, each text once."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s: %s", self._name, text)


def _nothing() -> None:
    """A request that only wakes the member's thread."""


def _unanswered(group: str) -> BrokersUnavailable:
    return BrokersUnavailable(
        "BROKERS_UNAVAILABLE",
        f"committing the offsets of group {group}: no answer within {_COMMIT_S:g} s; the group has no coordinator now, or "
        "it does not answer; check that the brokers with __consumer_offsets run and are reachable from here",
    )


def _not_running(group: str) -> GroupError:
    return GroupError("NOT_A_MEMBER", f"The member of group {group} has left it, or has not joined yet; join first")
