"""State of a member of a group that Kafka coordinates: its assignment, a revocation that waits, doubts about both.

Pure: values in, values out. `pyspark_zkafka.group.kafka_turns` acts on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark_zkafka.group.kafka_rebalance import Assignment, Hold
from pyspark_zkafka.protocol.model import Claim, TopicPartition

__all__ = ["MemberState"]

_STOPPED_S = 5.0  # a process that did not run for so long may have been expelled
_DOUBT_S = 2.0  # in which librdkafka notices that


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member between two turns of its thread.

    `is_assigned` is False while the coordinator is to assign partitions or revokes some, `is_member` until the coordinator
    has admitted the member. `rebalances` counts the changes of the assignment, and `hold` is the revocation that waits for
    the running micro-batch. `seen_at` is the time of the last turn; `owned` is empty until `doubted_until`.
    """

    assignment: Assignment = field(default_factory=Assignment)
    is_assigned: bool = False
    is_member: bool = False
    rebalances: int = 0
    hold: Hold | None = None
    seen_at: float = 0.0
    doubted_until: float = 0.0

    def see(self, now: float) -> tuple[MemberState, float]:
        """The state after a turn begins, and the seconds for which the process did not run; 0 if it went on running.

        >>> stopped, for_s = MemberState(seen_at=10.0).see(17.5)
        >>> for_s, stopped.doubted_until, stopped.see(17.6)[1]
        (7.5, 19.5, 0.0)
        """
        stopped_s = self._unseen_s(now)
        doubted_until = now + _DOUBT_S if stopped_s else self.doubted_until
        return replace(self, seen_at=now, doubted_until=doubted_until), stopped_s

    def is_doubtful(self, now: float) -> bool:
        """True after the process was stopped, until librdkafka has noticed what happened meanwhile."""
        return self._unseen_s(now) > 0 or now < self.doubted_until

    def owned(self, now: float) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns; empty while it may have been expelled without knowing it yet."""
        return {} if self.is_doubtful(now) else self.assignment.owned

    def await_assignment(self) -> MemberState:
        """The state of a member that subscribes to other topics."""
        return replace(self, is_assigned=False)

    def admit(self) -> MemberState:
        """The state of a member that is admitted, and has nothing to wait for."""
        return replace(self, is_assigned=True, is_member=True)

    def idle(self) -> MemberState:
        """The state of a member without topics, which waits for no assignment."""
        return replace(self, is_assigned=True)

    def assign(self, partitions: Collection[TopicPartition], consumer: str) -> MemberState:
        """The state with partitions that the coordinator has added."""
        assignment = self.assignment.assign(partitions, consumer)
        return replace(
            self, assignment=assignment, is_assigned=True, is_member=True, rebalances=self.rebalances + 1, hold=None
        )

    def revoke(self, partitions: Collection[TopicPartition], until: float) -> MemberState:
        """The state with a revocation that waits, for what is read, until a time at the most."""
        return replace(self, is_assigned=False, hold=Hold(frozenset(partitions), until))

    def is_holding(self, reading: Collection[TopicPartition], now: float) -> bool:
        """True while a revocation waits for partitions that are being read."""
        return self.hold is not None and bool(self.hold.kept(reading, now))

    def overdue(self, reading: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """The partitions of the revocation that are being read, though it waits no longer."""
        return frozenset() if self.hold is None else self.hold.revoking.intersection(reading)

    def release(self, *, is_assigned: bool) -> MemberState:
        """The state after the revocation; `is_assigned` if no assignment needs to follow."""
        revoking = frozenset[TopicPartition]() if self.hold is None else self.hold.revoking
        assignment = self.assignment.revoke(revoking)
        return replace(self, assignment=assignment, is_assigned=is_assigned, rebalances=self.rebalances + 1, hold=None)

    def expel(self) -> MemberState:
        """The state of a member that the coordinator has expelled; another incarnation of it joins."""
        return replace(
            self,
            assignment=self.assignment.expel(),
            is_assigned=False,
            is_member=False,
            rebalances=self.rebalances + 1,
            hold=None,
            doubted_until=0.0,
        )

    def _unseen_s(self, now: float) -> float:
        unseen_s = now - self.seen_at
        return unseen_s if unseen_s > _STOPPED_S else 0.0
