"""Rates and the time to catch up."""

from __future__ import annotations

from pyspark_zkafka.operations.catching_up import Observation, Progress, progress, total
from pyspark_zkafka.operations.group_state import PartitionDescription
from tests.support.cases import each


def seen(time_s: float, *offsets: tuple[int | None, int | None]) -> Observation:
    """An observation of a topic's partitions by their current offsets and the ends of their logs."""
    return Observation(time_s, tuple(PartitionDescription("g", "t", n, *found) for n, found in enumerate(offsets)))


def test_rates() -> None:
    """Rates are differences of offsets over the time between two observations."""
    (found,) = progress(seen(10.0, (100, 400)), seen(12.0, (180, 420)))
    assert found == Progress(240, 40.0, 10.0)
    assert found.catch_up_s == 8.0


def test_first_observation() -> None:
    """There are no rates in the first observation, for a new partition, or without an offset before."""
    assert progress(seen(10.0, (1, 3)), seen(10.0, (1, 3))) == [Progress(2)]
    assert progress(seen(10.0, (None, 3)), seen(11.0, (1, 3), (0, 0))) == [Progress(2, None, 0.0), Progress(0)]


@each(
    ("found", "seconds"),
    [
        (Progress(0), 0.0),
        (Progress(-3, 0.0, 0.0), 0.0),
        (Progress(10, 5.0, 5.0), None),
        (Progress(10, 5.0, 5.0 - 1e-12), None),
        (Progress(10, -5.0, 0.0), None),
        (Progress(10, 5.0, None), None),
        (Progress(None, 5.0, 1.0), None),
        (Progress(10, 6.0, 1.0), 2.0),
    ],
)
def test_time_to_catch_up(found: Progress, seconds: float | None) -> None:
    """It is known if the group consumes faster than the log grows, and 0 if there is no lag."""
    assert found.catch_up_s == seconds


def test_totals() -> None:
    """Totals are sums, and unknown where a part is."""
    assert total([Progress(10, 1.0, 2.0), Progress(5, None, 3.0)]) == Progress(15, None, 5.0)
    assert total([Progress()]) == Progress()
