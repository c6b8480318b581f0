"""Waits for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pyspark_zkafka.errors import LocalClusterError

__all__ = ["SETTLE_TIMEOUT_S", "Deadline", "settle", "unsettled"]

SETTLE_TIMEOUT_S = 60.0

_Found = TypeVar("_Found")


class Deadline:
    """A moment in the future, on the monotonic clock."""

    def __init__(
        self,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        poll_s: float = 0.05,
    ) -> None:
        self._clock, self._sleep, self._poll_s = clock, sleep, poll_s
        self._end = clock() + timeout_s
        self.timeout_s = timeout_s

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 once it has passed."""
        return max(0.0, self._end - self._clock())

    def until(self, look: Callable[[], _Found | None]) -> _Found | None:
        """The first result of `look` that is not None, or None after the deadline; looks at least once."""
        while True:
            found = look()
            if found is not None:
                return found
            if self.left_s == 0:
                return None
            self._sleep(min(self._poll_s, self.left_s))


def settle(done: Callable[[], bool], lack: str, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
    """Return when a condition of a cluster is true; raises `NOT_SETTLED` when it is not in time."""
    if Deadline(timeout_s).until(lambda: done() or None) is None:
        raise unsettled(lack)


def unsettled(lack: str) -> LocalClusterError:
    """The error of a cluster that has not reached a state in time."""
    return LocalClusterError("NOT_SETTLED", f"The local cluster has not settled: {lack}")
