"""`Holds`: what is read is kept, for so long and no longer."""

from __future__ import annotations

from pyspark_zkafka.group.revocation import Holds
from pyspark_zkafka.protocol.model import TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))


class Time:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_nobody_reads_goes_at_once() -> None:
    """Without readers there is nothing to wait for."""
    holds = Holds(10, Time())
    assert holds.part({A, B}) == ({A, B}, set())
    assert not holds
    assert holds.ends_at == float("inf")


def test_what_is_read_is_kept_until_it_is_not_read_any_more() -> None:
    """Each partition goes as soon as it is done with."""
    holds = Holds(10, Time())
    holds.reading = [A, B]
    assert holds.part({A, B, C}) == ({C}, set())
    assert len(holds) == 2
    assert not holds.have_finished
    holds.reading = [B]
    assert holds.have_finished
    assert holds.part({A, B}) == ({A}, set())
    assert not holds.have_finished


def test_the_time_counts_from_the_first_look() -> None:
    """Looking again does not prolong it; when it is over, the partition goes, and is told of."""
    time = Time()
    holds = Holds(10, time)
    holds.reading = [A]
    holds.part({A})
    time.now = 105
    assert holds.part({A}) == (set(), set())
    assert holds.ends_at == 110
    time.now = 110
    assert holds.part({A}) == ({A}, {A})
    assert holds.ends_at == float("inf")


def test_called_off() -> None:
    """A partition that need not go any more is not kept; should it have to go later, the time begins anew."""
    time = Time()
    holds = Holds(10, time)
    holds.reading = [A]
    holds.part({A})
    time.now = 108
    assert holds.part(set()) == (set(), set())
    assert not holds
    assert holds.part({A}) == (set(), set())
    assert holds.ends_at == 118
