"""A member's steps: partitions that are read are kept, for so long and no longer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark_zkafka.group.rebalance import Attempts, Step, step
from pyspark_zkafka.protocol.model import Claim, TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))
CLAIMS = {tp: Claim("c-0", 1) for tp in (A, B, C)}


def leaving(
    partitions: Collection[TopicPartition],
    reading: Collection[TopicPartition],
    now: float,
    revoking: Mapping[TopicPartition, float] | None = None,
) -> Step:
    """The step of a member that must release the partitions, and keeps each for 10 s."""
    target = {tp: claim.thread for tp, claim in CLAIMS.items() if tp not in partitions}
    return step(target, CLAIMS, reading, revoking or {}, now, 10)


def test_claims() -> None:
    """What is assigned and not claimed, or claimed for another thread, is to be claimed."""
    assert step({A: "c-0", B: "c-1"}, {B: Claim("c-0", 1)}, [], {}, 0, 10).claim == {A: "c-0", B: "c-1"}
    assert step({A: "c-0"}, {A: Claim("c-0", 1)}, [A], {}, 0, 10) == Step()


def test_what_nobody_reads_goes_at_once() -> None:
    """Without readers there is nothing to wait for."""
    found = leaving({A, B}, [], 100)
    assert (found.release, found.overdue, found.revoking) == ({A, B}, set(), {})
    assert found.wait_until == float("inf")


def test_what_is_read_is_kept_until_it_is_not_read_any_more() -> None:
    """Each partition is released as soon as it is not read."""
    found = leaving({A, B, C}, [A, B], 100)
    assert (found.release, found.revoking) == ({C}, {A: 110, B: 110})
    found = leaving({A, B}, [B], 101, found.revoking)
    assert (found.release, found.overdue, found.revoking) == ({A}, set(), {B: 110})


def test_the_time_counts_from_the_first_step() -> None:
    """Another step does not prolong it; when it is over, the partition is released, and named as overdue."""
    found = leaving({A}, [A], 105, leaving({A}, [A], 100).revoking)
    assert (found.release, found.wait_until) == (set(), 110)
    found = leaving({A}, [A], 110, found.revoking)
    assert (found.release, found.overdue, found.revoking) == ({A}, {A}, {})


def test_called_off() -> None:
    """A partition that need not be released any more is not kept; should it have to later, the time begins anew."""
    first = leaving({A}, [A], 100)
    second = leaving(set(), [A], 108, first.revoking)
    assert (second.release, second.revoking) == (set(), {})
    assert leaving({A}, [A], 108, second.revoking).wait_until == 118


def test_attempts() -> None:
    """Attempts count once a pause."""
    assert Attempts(3, 50).fail(49, 2) == Attempts(3, 50)
    assert Attempts(3, 50).fail(50, 2) == Attempts(4, 52)
