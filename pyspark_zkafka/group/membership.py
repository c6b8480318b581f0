"""What a stream needs of its membership in a consumer group, whoever coordinates the group."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks, jitter and sleep: monotonic seconds, seconds since the epoch, a number in [0, 1), a wait of seconds."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep


class Membership(Protocol):
    """A member of a group, from ``join`` to ``leave``: a `GroupMember` or a `KafkaGroupMember`. Thread-safe."""

    group: str
    consumer: str
    """The member's id."""

    @property
    def expiry_s(self) -> float:
        """The time after which a member that died owns nothing any more, if it has this member's session timeout."""
        ...

    @property
    def rebalances(self) -> int:
        """How often the assignment was computed or received."""
        ...

    @property
    def owner(self) -> ClaimOwner | None:
        """The member as the owner of its partitions; None while it can own none."""
        ...

    @property
    def settled(self) -> bool:
        """True if the member owned exactly what it is assigned after its last rebalance, and no change is pending."""
        ...

    def join(self) -> None:
        """Become a member. The partitions may be assigned later, see `wait_settled`."""
        ...

    def leave(self) -> None:
        """Give up all partitions, and leave the group. Blocks for some seconds at most."""
        ...

    def require_owner(self) -> ClaimOwner:
        """The member as the owner of its partitions; raises a retriable ZKafkaError while it can own none."""
        ...

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns. Each claim has a number that is new whenever the partition is gained."""
        ...

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release revoked partitions between two pieces of work. All partitions then owned count as being read.

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
