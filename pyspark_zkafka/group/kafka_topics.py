"""Topics that the subscription of a member in Kafka means: brokers get their names, and no pattern."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyspark_zkafka.protocol.planning import Subscribe, Subscription, wanted_topics

__all__ = ["TopicLookup"]

_EVERY_S = 5.0


class TopicLookup:
    """Lookups of a subscription's topics: one of names that are given, and one after the other of a pattern."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._is_named = isinstance(subscription, Subscribe)
        self._next_at = 0.0

    def is_due(self, now: float) -> bool:
        """True if it is time to look."""
        return now >= self._next_at

    def find(self, now: float, names: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """The topics, those of a pattern as far as they exist; `names` is called for these, and may raise."""
        self._next_at = float("inf") if self._is_named else now + _EVERY_S
        return tuple(wanted_topics(self._subscription, () if self._is_named else names()))

    def repeat(self) -> None:
        """Have the next lookup be due."""
        self._next_at = 0.0
