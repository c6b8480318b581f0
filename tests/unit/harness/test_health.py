"""The assessment of resources."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.harness.health import LIMITS, growths, is_flat
from tests.faults.harness.history import History, Sample


def _samples(*values: float) -> History:
    return History(tuple(Sample(float(n), "planner", (("threads", value),)) for n, value in enumerate(values)))


@given(st.integers(0, 2**32), st.floats(20, 500))
def test_noise_is_flat(seed: int, level: float) -> None:
    """A figure that varies around a level is flat, even with a few outliers."""
    random = Random(seed)
    values = [level * random.uniform(0.97, 1.03) for _ in range(60)]
    values[50] = values[7] = level * 10
    assert is_flat(values, LIMITS["threads"])


@given(st.floats(20, 500), st.floats(0.6, 5))
def test_growth_is_found(level: float, rate: float) -> None:
    """A figure that grows steadily beyond the limit is not flat."""
    assert not is_flat([level * (1 + rate * n / 60) for n in range(60)], LIMITS["threads"])


def test_decrease_is_flat() -> None:
    """A falling figure is flat, and so are few samples."""
    assert is_flat(list(range(100, 40, -1)), LIMITS["threads"])
    assert is_flat([1, 100, 1000], LIMITS["threads"])


def test_growths() -> None:
    """The growth of a figure has its medians at the start and at the end."""
    [growth] = growths(_samples(*[10.0] * 30, *[30.0] * 20))
    assert growth.subject == "planner"
    assert growth.figure == "threads"
    assert growth.first == 10
    assert growth.last == 30
    assert growth.flat is False
    assert growths(_samples()) == []
