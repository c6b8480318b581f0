"""A clock that only a test moves."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """A clock in seconds. Sleeping moves it ahead."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
