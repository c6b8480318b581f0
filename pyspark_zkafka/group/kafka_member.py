"""A member of a consumer group that Kafka coordinates, next to Java consumers and other queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark_zkafka.brokers.group_offsets import commit_requests
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.kafka_checks import CHECK_TIMEOUT_S, FinalAssignment, IsFinal, Pauses
from pyspark_zkafka.group.kafka_loop import LoopRunner, LoopThread, MemberLoop
from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.group.kafka_requests import MemberRequests, Owned
from pyspark_zkafka.group.kafka_state import COMMIT_S, stall_s
from pyspark_zkafka.group.kafka_supervisor import ClientSupervisor, Connect
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.planning import Subscription
from pyspark_zkafka.options.values import GroupOptions
from pyspark_zkafka.retries import Timing

_POLL_S = 0.2
_NOT_FINAL = "the assignment is not final: the group rebalances, or leaves partitions without an owner"
_UNASSIGNED = (
    "no partitions are assigned: the group rebalances, or its coordinator does not answer. If this lasts, check that the "
    "brokers with __consumer_offsets run and are reachable from here"
)


class KafkaGroupMember:
    """A member of a group that Kafka coordinates, from ``join`` to ``leave``: a `Membership`.

    The methods are for other threads than the member's. The member's thread runs a `MemberLoop`, which owns the client; the
    methods read its `Ownership`, and send it requests.

    A revocation waits for the running micro-batch, but no longer than `hold_ms`. An expelled member reads nothing until it
    has joined again, and never commits what it read before.

    `connect` makes a client, and is called again to replace a client with unanswered commits. `is_final` asks the
    coordinator whether the assignment is final; None if every assignment is final. `run` chooses how the loop runs.

    An unexpected error in the thread ends the membership: from then on, all calls raise THREAD_FAILED.

    Thread-safe. Not pickle-safe, and not usable after a fork.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Connect,
        is_final: IsFinal | None = None,
        timing: Timing | None = None,
        pauses: Pauses | None = None,
        run: Callable[[MemberLoop], LoopRunner] = LoopThread,
    ) -> None:
        self._timing = timing = timing or Timing()
        self._pauses = pauses = pauses or Pauses()
        self.group = options.name
        self.expiry_s = options.kafka.session_timeout_ms / 1000
        self._ownership = Ownership(options, timing.clock)
        self._requests = MemberRequests(self.group, timing.clock)
        self._final = FinalAssignment(is_final, stall_s(options))
        self._supervisor = ClientSupervisor(
            connect,
            subscription,
            self._ownership,
            self._final,
            timing.clock,
            is_consumer_protocol=options.kafka.protocol == "consumer",
            pauses=pauses,
        )
        self._loop = MemberLoop(self._ownership, self._requests, self._supervisor, timing, pauses.finish_s)
        self._runner = run(self._loop)
        self._has_joined = False

    @property
    def consumer(self) -> str:
        """The member's id, which the coordinator chooses; the `group.instance.id` or an empty text until then."""
        return self._ownership.consumer

    @property
    def rebalances(self) -> int:
        """How often the assignment has changed."""
        return self._ownership.state.rebalances

    @property
    def owner(self) -> ClaimOwner:
        """The member in its present incarnation."""
        return ClaimOwner(self.consumer or self.group, self._ownership.state.incarnation)

    def require_owner(self) -> ClaimOwner:
        """The member in its present incarnation; raises GroupError if it has left the group."""
        self._requests.require_open()
        return self.owner

    @property
    def settled(self) -> bool:
        """True if the assignment was final when `wait_settled` last asked, and no revocation is pending."""
        return self._final.covers(self._ownership.state) and not self._ownership.is_doubtful

    def join(self) -> None:
        """Start joining, and return. Raises ZKafkaError if librdkafka refuses the properties."""
        self._requests.require_running()
        if self._has_joined:
            raise RuntimeError("KafkaGroupMember.join is called twice")
        self._loop.open()
        self._runner.start()
        self._has_joined = True

    def leave(self) -> None:
        """Leave the group, unless the member is static. Blocks for at most four seconds; the thread continues to leave."""
        self._ownership.is_leaving = True
        self._ownership.changed.set()
        self._requests.notify()
        self._runner.stop()

    def owned(self) -> Owned:
        """The partitions that the member owns. Empty while the coordinator may have expelled the member without notice."""
        self._requests.require_running()
        return self._ownership.owned()

    def rebalance(self) -> Owned:
        """Release revoked partitions between two pieces of work. Returns the owned partitions.

        Blocks for some milliseconds, or, without a coordinator, for some seconds.
        """
        answer = self._requests.add_rebalance()
        owned: Owned = self._runner.result(answer, self._ownership.hold_s + self._pauses.margin_s)
        return owned

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are now being read, which are kept for the hold. Empty when the work is done."""
        self._requests.require_running()
        self._ownership.reading = frozenset(partitions)
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
        group's starts, in partitions of all members; an expelled member leaves out all partitions.

        Sends a request for every 1,000 partitions, and blocks for up to 30 seconds for each request. Raises GroupContended
        if the group rebalances: the caller may try again. Raises BrokersUnavailable without an answer: the offsets of that
        request may be committed, and later requests were not sent.
        """
        lost: set[TopicPartition] = set()
        for some in commit_requests(offsets):
            answer = self._requests.add_commit(some, incarnation, claims, of_group)
            lost |= self._runner.result(answer, COMMIT_S + self._pauses.margin_s)
        return lost

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""
        self._runner.wait(timeout_s)
        self._requests.require_running()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait for the final assignment, by default until the sessions of dead members have expired.

        Returns False on time-out, or on an error that `rebalance` raises. Requests to the coordinator take until the
        time-out, or 4 s each if that is longer.
        """
        own = self._ownership
        default_s = self.expiry_s + own.hold_s + self._pauses.margin_s
        deadline = self._timing.clock() + (default_s if timeout_s is None else timeout_s)
        while not (self.settled or self._ask_if_settled(max(deadline - self._timing.clock(), CHECK_TIMEOUT_S))):
            self._requests.require_running()
            left, error = deadline - self._timing.clock(), own.error
            if left <= 0 and timeout_s is None and error is None:
                own.warn(_NOT_FINAL if own.state.is_assigned else _UNASSIGNED)
            if left <= 0 or own.is_leaving or (error is not None and not error.retriable):
                return False
            self.wait(min(left, _POLL_S))
        return True

    def wait_certain(self) -> None:
        """After a long pause of the process, wait until ownership is known again: two seconds, at most 15."""
        deadline = self._timing.clock() + self._pauses.margin_s
        while self._timing.clock() < deadline and self._ownership.is_doubtful and not self._ownership.is_leaving:
            self.wait(_POLL_S)
        self._requests.require_running()

    def request_rebalance(self) -> None:
        """Wake the member's thread."""
        self._requests.notify()

    def _ask_if_settled(self, timeout_s: float) -> bool:
        """Ask the coordinator whether the assignment is final. If it refuses to answer, assume yes."""
        own, ask = self._ownership, self._final.ask
        seen, now = self.rebalances, self._timing.clock()
        if not own.state.is_assigned or ask is None:
            return False
        try:
            is_final = ask(self.consumer, self.owned().keys(), self._supervisor.topics, timeout_s)
        except ZKafkaError as error:
            own.warn("the coordinator does not describe the group", error)
            if error.retriable:
                return False
            is_final = True
        if self._final.judge(seen, now, is_final=is_final):
            self._supervisor.request_rejoin()
        return self.settled
