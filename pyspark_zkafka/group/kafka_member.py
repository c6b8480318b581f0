"""A member of a consumer group that Kafka coordinates, beside Java consumers and other queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.kafka_admission import FinalityCheck
from pyspark_zkafka.group.kafka_commits import COMMIT_S, Commit
from pyspark_zkafka.group.kafka_requests import not_running
from pyspark_zkafka.group.kafka_thread import MemberThread, Runner
from pyspark_zkafka.group.kafka_turns import MemberTurns
from pyspark_zkafka.group.member import Timing
from pyspark_zkafka.kafka.group_client import GroupClient, GroupEvents, commit_requests
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.planning import Subscription

__all__ = ["KafkaGroupMember"]

_MARGIN_S = 15.0
_POLL_S = 0.2


class KafkaGroupMember:
    """A member, from ``join`` to ``leave``; also as a context manager. The face of `GroupMember`, see `Membership`.

    One thread owns the client, and takes the member's turns; all others ask it by a queue. While a revocation waits for the
    running micro-batch, for `hold_ms` at the most, that thread goes on to answer: the micro-batch's commit goes with the
    member's generation, or epoch, and only for partitions that are its own then.

    An expelled member reads nothing more until it has joined again, and commits nothing of what it read before.
    Thread-safe; not pickle-safe, and not to be used after a fork. `connect` makes the client of the member that is passed
    to it. `is_final` gets the member's id, what it owns and its topics, and asks the coordinator whether it has more to
    assign; it blocks, and raises for a member that the coordinator does not admit. None where each assignment is final.
    `expiry_s` is the session timeout.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Callable[[GroupEvents], GroupClient],
        is_final: FinalityCheck | None = None,
        timing: Timing | None = None,
        runner: Callable[[MemberTurns, str, Timing], Runner] = MemberThread,
    ) -> None:
        self.group = options.name
        self._timing = timing or Timing()
        self.expiry_s = options.kafka.session_timeout_ms / 1000
        self._is_final = is_final
        self._has_joined = False
        self._turns = MemberTurns(options, subscription, connect, is_final, self._timing)
        self._thread = runner(self._turns, self.group, self._timing)

    def __enter__(self) -> KafkaGroupMember:
        self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    @property
    def consumer(self) -> str:
        """The member's id, as the coordinator has given it; empty until then, unless the member is static."""
        return self._turns.consumer

    @property
    def rebalances(self) -> int:
        """How often the assignment has changed."""
        return self._turns.state.rebalances

    @property
    def owner(self) -> ClaimOwner:
        """The member in its present incarnation."""
        return ClaimOwner(self.consumer or self.group, self._turns.state.assignment.incarnation)

    def require_owner(self) -> ClaimOwner:
        """The member in its present incarnation; raises GroupError if it has left the group."""
        if self._turns.closing or not self._has_joined:
            raise not_running(self.group)
        return self.owner

    @property
    def settled(self) -> bool:
        """True if the member has been assigned all of its partitions, and no revocation is pending.

        Of incremental rebalances only `wait_settled` finds out, as it asks the coordinator.
        """
        return self._turns.is_settled

    def join(self) -> None:
        """Begin to join, and return; raises ZKafkaError if librdkafka refuses the properties."""
        if self._has_joined:
            raise RuntimeError("KafkaGroupMember.join is called twice")
        self._turns.open()
        self._has_joined = True
        self._thread.start()

    def leave(self) -> None:
        """Leave the group, unless the member is static; blocks for four seconds at the most."""
        self._turns.closing = True
        self._turns.changed.set()
        self._thread.stop()

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns; empty while it may have been expelled without knowing it yet."""
        return self._turns.owned()

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release what is revoked, between two pieces of work; returns what is owned then, all of it as being read.

        Blocks for some milliseconds. Raises the error that keeps the member out of its group, if it is not retriable.
        """
        return self._thread.result(self._turns.requests.rebalance(), self._turns.hold_s + _MARGIN_S)

    def read(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are being read from now on; none when the work is done."""
        self._turns.reading = frozenset(partitions)
        self._turns.requests.wake()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        incarnation: int,
        claims: Mapping[TopicPartition, Claim] | None = None,
    ) -> set[TopicPartition]:
        """Commit offsets, whatever is stored; returns the partitions left out, as the member does not own them any more.

        With `claims`, partitions that were lost and gained again are left out, too. Blocks for a request for every 1,000
        partitions, half a minute at the most for each. Raises BrokersUnavailable without an answer: whether the offsets of
        this request were committed is then unknown, and those of later ones were not.
        """
        return self._commit(offsets, incarnation, claims)

    def begin(self, starts: Mapping[TopicPartition, int], incarnation: int) -> bool:
        """Commit the group's starts, also in partitions of other members; False if the member has been expelled.

        Blocks and raises as `commit`; raises GroupContended if the coordinator refuses it now, or may not have answered.
        """
        return not self._commit(starts, incarnation, of_group=True)

    def wait(self, timeout_s: float) -> None:
        """Wait until the member's ownership may have changed, or the time is over."""
        self._thread.wait(timeout_s)

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member is assigned all of its partitions; by default until members that died have expired.

        Returns False on time-out, and on an error that `rebalance` raises. Asks the coordinator once at least, if it must.
        """
        patience_s = self.expiry_s + self._turns.hold_s + _MARGIN_S
        deadline = self._timing.clock() + (patience_s if timeout_s is None else timeout_s)
        while not (self.settled or self._has_settled()):
            left, error = deadline - self._timing.clock(), self._turns.error
            if left <= 0 and timeout_s is None and self._turns.state.is_assigned and error is None:
                self._turns.warn(
                    "its assignment is not final: the group rebalances, or leaves partitions without an owner, such as "
                    "those added while a static member restarts; they are assigned when any other member joins or leaves"
                )
            if left <= 0 or self._turns.closing or (error is not None and not error.retriable):
                return False
            self.wait(min(left, _POLL_S))
        return True

    def wait_certain(self) -> None:
        """Wait while it is uncertain what the member owns: two seconds after its process stood still, 15 at the most."""
        turns, deadline = self._turns, self._timing.clock() + _MARGIN_S
        while (now := self._timing.clock()) < deadline and turns.state.is_doubtful(now) and not turns.closing:
            self.wait(_POLL_S)

    def request_rebalance(self, event: object = None) -> None:
        """Have the member look at its group soon."""
        self._turns.requests.wake()

    def _has_settled(self) -> bool:
        """Ask the coordinator whether the present assignment is final; on its refusal to say, that is assumed."""
        seen, owned, topics = self.rebalances, self.owned(), self._turns.topics
        if not self._turns.state.is_assigned or self._is_final is None:
            return False
        try:
            is_final = self._is_final(self.consumer, owned.keys(), topics)
        except ZKafkaError as error:
            self._turns.warn(f"its coordinator does not describe the group: {error}")
            is_final = not error.retriable
        if is_final:
            self._turns.note_final(seen)
        return self.settled

    def _commit(
        self,
        offsets: Mapping[TopicPartition, int],
        incarnation: int,
        claims: Mapping[TopicPartition, Claim] | None = None,
        *,
        of_group: bool = False,
    ) -> set[TopicPartition]:
        lost: set[TopicPartition] = set()
        for some in commit_requests(offsets):
            lost |= self._commit_some(some, incarnation, claims, of_group)
        return lost

    def _commit_some(
        self,
        offsets: Mapping[TopicPartition, int],
        incarnation: int,
        claims: Mapping[TopicPartition, Claim] | None,
        of_group: bool,
    ) -> set[TopicPartition]:
        requests, deadline = self._turns.requests, self._timing.clock() + COMMIT_S
        commit = Commit(next(requests.numbers), offsets, incarnation, deadline, claims, of_group)
        return self._thread.result(requests.commit(commit), COMMIT_S + _MARGIN_S)
