"""Deadlines, retries of transient failures, clocks for waiting, and limits of warnings that repeat."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark_zkafka.errors import UnknownTopic, ZKafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")
K = TypeVar("K")

_REPEAT_S = 60.0
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_s() -> float:
    """Return monotonic seconds. On Linux, they also count while the machine sleeps, because sessions expire meanwhile."""
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)


def may_succeed_later(error: ZKafkaError) -> bool:
    """Return True for a retriable error, and for a missing topic.

    Brokers learn of new topics and partitions after ZooKeeper has them. A topic may also have been deleted after the
    snapshot was read.
    """
    return error.retriable or isinstance(error, UnknownTopic)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after a failure, which doubles from `first_s` to `most_s`."""

    first_s: float
    most_s: float

    def wait_s(self, failures: int) -> float:
        """The wait after this many failures in a row.

        >>> [Backoff(0.02, 1.0).wait_s(n) for n in (1, 2, 3, 10)]
        [0.02, 0.04, 0.08, 1.0]
        """
        return min(self.first_s * float(2 ** min(failures - 1, 30)), self.most_s)


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks, jitter and sleep: monotonic seconds, seconds since the epoch, a number in [0, 1), a wait of seconds."""

    clock: Callable[[], float] = elapsed_s
    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry a call after a retriable error, at most `retries` times, with a pause of `interval_s` before each retry."""

    retries: int
    interval_s: float
    sleep: Callable[[float], None]

    def __call__(self, call: Callable[[], T]) -> T:
        for attempt in range(self.retries):
            try:
                return call()
            except ZKafkaError as error:
                if not error.retriable:
                    raise
                _log.warning("Attempt %d of %d failed, retrying: %s", attempt + 1, self.retries + 1, error)
                self.sleep(self.interval_s)
        return call()

    def until(self, is_final: Callable[[T], bool], call: Callable[[], T]) -> T:
        """Call until the result is final, repeating at most `retries` times, with pauses. Retries errors in each call."""
        found = self(call)
        for _ in range(self.retries):
            if is_final(found):
                break
            self.sleep(self.interval_s)
            found = self(call)
        return found

    def ask_again(
        self,
        found: Mapping[K, T],
        is_doubtful: Callable[[K, T], bool],
        ask: Callable[[Collection[K]], Mapping[K, T]],
    ) -> dict[K, T]:
        """Request doubtful answers again, at most `retries` times, each time after `interval_s`. Return all answers.

        An answer that is still doubtful after the last try is accepted. A key is left out if `ask` does not return it.
        """
        answers = dict(found)
        for _ in range(self.retries):
            doubtful = [key for key, answer in answers.items() if is_doubtful(key, answer)]
            if not doubtful:
                break
            self.sleep(self.interval_s)
            for key in doubtful:
                del answers[key]
            answers |= ask(doubtful)
        return answers


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time on a monotonic clock by which something must be done."""

    at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline this many seconds from now."""
        return cls(clock() + seconds, clock)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 once it has passed."""
        return max(self.at - self.clock(), 0.0)

    @property
    def has_passed(self) -> bool:
        """True at the deadline and after it."""
        return self.clock() >= self.at

    def or_sooner(self, other: Deadline) -> Deadline:
        """The earlier of two deadlines."""
        return self if self.at <= other.at else other


class OncePerMinute:
    """Limit of one warning a minute for each subject. `clock` is monotonic. Two threads may log a subject at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        self._swept_at = float("-inf")

    def is_due(self, subject: str) -> bool:
        """Return True if the subject was not due within the last minute."""
        now = self._clock()
        if now - self._swept_at > _REPEAT_S:
            kept = {known: at for known, at in list(self._logged.items()) if now - at <= _REPEAT_S}
            self._logged, self._swept_at = kept, now
        if subject in self._logged and now - self._logged[subject] <= _REPEAT_S:
            return False
        self._logged[subject] = now
        return True
