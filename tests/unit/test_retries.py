"""Retries of transient failures."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, UnknownTopic, ZKafkaError
from pyspark_zkafka.retries import OncePerMinute, Retry


class Flaky:
    """A call that fails with an error a number of times, then returns 7."""

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
def test_transient_failures(failures: int) -> None:
    """A call is retried after a pause until it succeeds."""
    pauses: list[float] = []
    call = Flaky(failures, BrokersUnavailable("BROKERS_UNAVAILABLE", "not now"))
    assert Retry(3, 0.5, pauses.append)(call) == 7
    assert call.calls == failures + 1
    assert pauses == [0.5] * failures


def test_the_last_failure_is_raised() -> None:
    """After three retries, the last failure is raised."""
    pauses: list[float] = []
    call = Flaky(4, BrokersUnavailable("BROKERS_UNAVAILABLE", "not now"))
    with pytest.raises(BrokersUnavailable, match="not now"):
        Retry(3, 0.5, pauses.append)(call)
    assert call.calls == 4
    assert pauses == [0.5] * 3


def test_permanent_failures() -> None:
    """An error that is not retriable is raised at once."""
    call = Flaky(1, UnknownTopic("UNKNOWN_TOPIC", "no such topic"))
    with pytest.raises(UnknownTopic):
        Retry(3, 0.5, lambda pause_s: pytest.fail("slept"))(call)
    assert call.calls == 1


def test_results_that_are_not_final() -> None:
    """A call is repeated until its result is final or the retries are used up."""
    pauses: list[float] = []
    counted = iter(range(9))
    assert Retry(3, 0.5, pauses.append).until(lambda n: n == 2, lambda: next(counted)) == 2
    assert Retry(3, 0.5, pauses.append).until(lambda n: n == 2, lambda: next(counted)) == 6
    assert pauses == [0.5] * 5


def test_answers_in_doubt_are_asked_for_again() -> None:
    """Only doubtful answers are requested again after a pause, and keys missing from a new answer are dropped."""
    pauses: list[float] = []
    answers = iter([{"b": 2, "c": 1}, {"c": 9}])
    asked: list[list[str]] = []

    def ask(keys: Collection[str]) -> dict[str, int]:
        asked.append(list(keys))
        return next(answers)

    found = Retry(3, 0.5, pauses.append).ask_again({"a": 9, "b": 1, "c": 1, "d": 1}, lambda _, answer: answer < 9, ask)
    assert asked == [["b", "c", "d"], ["b", "c"]]
    assert found == {"a": 9, "c": 9}
    assert pauses == [0.5] * 2


def test_answers_that_stay_in_doubt() -> None:
    """After three retries, the last answer counts."""
    pauses: list[float] = []
    assert Retry(3, 0.5, pauses.append).ask_again({"a": 1}, lambda *_: True, lambda keys: {"a": 2}) == {"a": 2}
    assert pauses == [0.5] * 3


def test_limit_of_warnings() -> None:
    """A subject is due once a minute. Subjects that were due more than two minutes ago are forgotten."""
    now = 0.0
    limit = OncePerMinute(lambda: now)
    assert [limit.is_due(subject) for subject in "aab"] == [True, False, True]
    for number in range(1000):
        now += 1
        assert limit.is_due(f"offset {number}")
    assert limit.is_due("a")
    assert len(limit._logged) <= 121
