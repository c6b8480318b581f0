"""Waiting until a condition holds."""

from __future__ import annotations

import pytest

from tests.support.eventually import eventually


def test_first_truthy_result() -> None:
    """False results are ignored, and the first true one is returned."""
    results = iter([None, 0, [], "found", "later"])
    assert eventually(lambda: next(results), poll_s=0) == "found"


def test_message_after_the_time_out() -> None:
    """After the time-out, the message is evaluated and shown."""
    seen: list[int] = []
    with pytest.raises(AssertionError, match=r"after 0 s: \[1\]"):
        eventually(lambda: seen.append(1), timeout_s=0, message=lambda: seen)
