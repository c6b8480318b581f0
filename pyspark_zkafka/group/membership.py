"""A stream's membership in a consumer group and the offsets of that group, whoever coordinates it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from pyspark_zkafka.group.commits import CommitResult
from pyspark_zkafka.protocol.model import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset

__all__ = ["Membership", "OffsetStore"]


class Membership(Protocol):
    """A member of a group, from ``join`` to ``leave``; implemented by `GroupMember` and `KafkaGroupMember`.

    `owner` identifies it as the owner of its partitions, and is None while it is none. Thread-safe.
    """

    group: str

    @property
    def consumer(self) -> str:
        """The member's id."""
        ...

    @property
    def rebalances(self) -> int:
        """How often its assignment was computed or received."""
        ...

    @property
    def owner(self) -> ClaimOwner | None:
        """The owner that the member is."""
        ...

    @property
    def expiry_s(self) -> float:
        """The time after which a member that died owns nothing any more, if it has this one's session timeout."""
        ...

    @property
    def settled(self) -> bool:
        """True if the member owned exactly what it is assigned after its last rebalance, and no change is pending."""
        ...

    def join(self) -> None:
        """Become a member; the partitions may be assigned later, see `wait_settled`."""
        ...

    def leave(self) -> None:
        """Give up all partitions, and leave the group; blocks for some seconds at the most."""
        ...

    def require_owner(self) -> ClaimOwner:
        """The owner that the member is; raises a retriable ZKafkaError while it is none."""
        ...

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns; each claim has a number that is new whenever the partition is gained."""
        ...

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release partitions that are revoked, between two pieces of work; returns those owned, all of them as being read.

        Raises the error that prevents the member from rebalancing, if it is not retriable.
        """
        ...

    def read(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are being read from now on, which are kept for a while; none when the work is done."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until the member's ownership may have changed, or the time is over."""
        ...

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member owns all that it is assigned; False on time-out."""
        ...

    def request_rebalance(self, event: object = None) -> None:
        """Request a check of the ownership soon."""
        ...


class OffsetStore(Protocol):
    """A group's offsets; implemented by `GroupOffsets` and `KafkaMemberOffsets`."""

    def committed(
        self, partitions: Collection[TopicPartition], *, skip_malformed: bool = False
    ) -> dict[TopicPartition, StoredOffset]:
        """The next offsets to read; partitions without one are absent."""
        ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None = None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        """Move offsets forward, in `resets` also back; those that the owner does not own are lost."""
        ...

    def begin(
        self, starts: Mapping[TopicPartition, int], waiting: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, StoredOffset]:
        """Commit the group's starts where it has no offset yet; returns the offsets then stored."""
        ...

    def begun_at(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The times, in ms, at which the group began with partitions that had no leader then, and still have no offset."""
        ...
