"""Limited waits."""

from __future__ import annotations

import pytest

from pyspark_zkafka.testing.processes import Wait


class Time:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_deadline_looks_until_found() -> None:
    """The awaited result is returned as soon as it exists."""
    time = Time()
    deadline = Wait(1, lambda: time.now, time.sleep)
    assert deadline.until(lambda: "there" if time.now >= 0.2 else None) == "there"
    assert 0.2 <= time.now < 0.3


def test_deadline_passes() -> None:
    """After the deadline, the result is None, but an expired deadline still allows one check."""
    time = Time()
    deadline = Wait(1, lambda: time.now, time.sleep)
    assert deadline.until(lambda: None) is None
    assert time.now == pytest.approx(1)
    assert deadline.until(lambda: "there") == "there"
