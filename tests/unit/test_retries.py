"""How often, and after what, a call is made again."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, UnknownTopic, ZKafkaError
from pyspark_zkafka.retries import Retry


class Flaky:
    """Fails so many times with an error, then returns 7."""

    def __init__(self, failures: int, error: ZKafkaError) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error
        return 7


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_what_fails_in_passing_is_called_again(failures: int) -> None:
    """There is a pause before each further call, none after the last."""
    pauses: list[float] = []
    call = Flaky(failures, BrokersUnavailable("BROKERS_UNAVAILABLE", "not now"))
    assert Retry(3, 0.5, pauses.append)(call) == 7
    assert (call.calls, pauses) == (failures + 1, [0.5] * failures)


def test_the_last_failure_is_raised() -> None:
    """Three retries are four calls."""
    pauses: list[float] = []
    call = Flaky(4, BrokersUnavailable("BROKERS_UNAVAILABLE", "not now"))
    with pytest.raises(BrokersUnavailable, match="not now"):
        Retry(3, 0.5, pauses.append)(call)
    assert (call.calls, pauses) == (4, [0.5] * 3)


def test_what_will_not_pass_is_raised_at_once() -> None:
    """A missing topic is not there the next time either."""
    call = Flaky(1, UnknownTopic("UNKNOWN_TOPIC", "no such topic"))
    with pytest.raises(UnknownTopic):
        Retry(3, 0.5, lambda pause_s: pytest.fail("slept"))(call)
    assert call.calls == 1
