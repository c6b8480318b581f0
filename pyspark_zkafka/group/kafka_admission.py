"""Admission of a member by KIP-848: when to look whether the coordinator has admitted it, and when to believe a refusal.

Pure: values in, values out. `pyspark_zkafka.group.kafka_turns` asks the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["Admission", "FinalityCheck"]

FinalityCheck = Callable[[str, Collection[TopicPartition], Collection[str]], bool]
"""Tells of a member's id, of what it owns, and of its topics whether its coordinator has nothing more to assign."""

_CHECK_S = 1.5
_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Admission:
    """Looks at the group without an assignment: the time of the next one, and how many have failed since the last answer.

    A member by KIP-848 is called back neither when it is admitted nor if there is nothing to assign.

    >>> looked = Admission().postpone(now=10.0)
    >>> looked.is_due(11.0), looked.is_due(11.5)
    (False, True)
    """

    check_at: float = 0.0
    failures: int = 0

    def is_due(self, now: float) -> bool:
        """True if it is time to look."""
        return now >= self.check_at

    def postpone(self, now: float) -> Admission:
        """The state after a look, or while none is needed."""
        return replace(self, check_at=now + _CHECK_S)

    def answer(self) -> Admission:
        """The state after a look that the coordinator has answered."""
        return replace(self, failures=0)

    def fail(self, error: ZKafkaError) -> tuple[Admission, bool]:
        """The state after a look that failed, and True if the error is to be reported.

        A coordinator may not know a member at first that it admits a moment later.
        """
        failures = self.failures + 1
        return replace(self, failures=failures), error.retriable or failures >= _REFUSALS
