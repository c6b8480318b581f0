"""Check of a history: every violation of the invariants I1 to I10.

| | |
|---|---|
| I1 | no acknowledged record is lost |
| I2 | no record is in two completed batches, unless its partition changed owners or was reset, or a disturbance was near |
| I3 | the value at an offset is the value that was sent |
| I4 | a batch has its planned ranges, ascending, without unexplained gaps, and the same records when it is run again |
| I5 | the group's offset is the end of the last completed batch: never ahead, never backward without a reset |
| I6 | a partition has at most one owner, which alone plans it, and exactly one at rest |
| I7 | a dead member's registration and claims end with its session |
| I8 | records are read, and members stop, within a stated time without faults |
| I9 | a failure has a cause and names it, unless its process was killed, and no process ends by itself |
| I10 | after the last fault, the lag returns to 0 |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain

from tests.faults.harness.delivery import delivery_violations, duplicates, missing, sink_violations
from tests.faults.harness.evidence import Evidence, Violation
from tests.faults.harness.history import Fault, Finished, History, Interrupted, Life, Sent, Stored
from tests.faults.harness.membership import membership_violations
from tests.faults.harness.progress import progress_violations, recovery_s

__all__ = ["INVARIANTS", "Figures", "Violation", "check", "figures"]

INVARIANTS = tuple(f"I{number}" for number in range(1, 11))


def check(history: History) -> list[Violation]:
    """Return all violations, in the order of the invariants."""
    evidence = Evidence(history)
    found = chain(
        delivery_violations(evidence),
        sink_violations(evidence),
        progress_violations(evidence),
        membership_violations(evidence),
    )
    return sorted(set(found), key=lambda violation: (INVARIANTS.index(violation.invariant), violation))


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The size of a run, and the cost of its faults.

    `interrupted` is the number of runs that ended with a part of their micro-batch written exactly once.
    """

    faults: dict[str, int]
    acknowledged: int
    unacknowledged: int
    batches: int
    lost: int
    duplicated: int
    runs: int
    failures: int
    recovery_s: float | None
    interrupted: int = 0

    def __add__(self, other: Figures) -> Figures:
        """Return the sums; `recovery_s` is the longer one, or None if either is None."""
        rests = [one.recovery_s for one in (self, other) if one.recovery_s is not None]
        return Figures(
            faults=dict(Counter(self.faults) + Counter(other.faults)),
            acknowledged=self.acknowledged + other.acknowledged,
            unacknowledged=self.unacknowledged + other.unacknowledged,
            batches=self.batches + other.batches,
            lost=self.lost + other.lost,
            duplicated=self.duplicated + other.duplicated,
            runs=self.runs + other.runs,
            failures=self.failures + other.failures,
            recovery_s=max(rests) if len(rests) == 2 else None,
            interrupted=self.interrupted + other.interrupted,
        )


def figures(history: History) -> Figures:
    """Return the figures of a history; for readers, `duplicated` counts only records that may be delivered again."""
    evidence = Evidence(history)
    sent, lives = history.of(Sent), history.of(Life)
    acknowledged = {one.digest for one in sent if one.acknowledged}
    stored = {row: count for found in history.of(Stored) for row, count in found.rows}
    if evidence.terms.reads:
        lost = sum(map(len, missing(evidence).values()))
        duplicated = sum(map(len, duplicates(evidence)[True].values()))
    else:
        lost, duplicated = len(acknowledged - stored.keys()), sum(count > 1 for count in stored.values())
    return Figures(
        faults=dict(Counter(fault.kind for fault in history.of(Fault))),
        acknowledged=len(acknowledged),
        unacknowledged=sum(not one.acknowledged for one in sent),
        batches=len(history.of(Finished)),
        lost=lost,
        duplicated=duplicated,
        runs=sum(life.stage == "started" for life in lives),
        failures=sum(life.stage == "failed" for life in lives),
        recovery_s=recovery_s(evidence),
        interrupted=len(history.of(Interrupted)),
    )
