"""Checks of offsets and of time: commits (I5), progress (I8), failures and deaths (I9), and the end of the lag (I10)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from pyspark_zkafka import conditions
from pyspark_zkafka.errors import (
    CheckpointError,
    CodecError,
    Condition,
    DataLoss,
    InvalidRow,
    LedgerError,
    OptionError,
    UnreadableRecord,
)
from pyspark_zkafka.testing import conditions as local
from tests.faults.harness.delivery import name
from tests.faults.harness.evidence import Evidence, Violation
from tests.faults.harness.history import Committed, Fault, Finished, Healed, Life, LogEnd, Place, Reset, Rest

__all__ = ["progress_violations", "recovery_s"]

_CONDITIONS = {
    found.name for module in (conditions, local) for found in vars(module).values() if isinstance(found, Condition)
}
_FOREIGN_CAUSES = (CheckpointError, CodecError, DataLoss, InvalidRow, LedgerError, OptionError, UnreadableRecord)
_LIMITS = {"LAYOUT_CHANGED", "LEDGER_FORGOTTEN"}
"""What an exactly-once query may report after late requests: slots were not verified in time, or a request erased one."""
_FALSE_ALARMS = {
    found.name
    for found in vars(conditions).values()
    if isinstance(found, Condition) and issubclass(found.kind, _FOREIGN_CAUSES) and found.name not in _LIMITS
}
"""Conditions that no fault of the harness causes: it deletes no records or topics, and changes no options or plans."""
_APPLICATION_KILLS = ("driver killed", "planner killed")
_PROCESS_KILLS = (*_APPLICATION_KILLS, "worker killed")
_SUDDEN = {*_PROCESS_KILLS, "worker paused", "broker killed", "broker stopped"}
"""Faults that delay no request for long. They do not excuse `_LIMITS`, since members have as many cores as slots."""
_LATE_S = 120.0
"""How long after the end of any other fault `_LIMITS` are excused: longer than a transaction's time-out."""


def progress_violations(evidence: Evidence) -> Iterator[Violation]:
    """Yield the violations of I5, I8, I9 and I10."""
    commits: dict[Place, list[Committed]] = defaultdict(list)
    for commit in evidence.history.of(Committed):
        commits[commit.topic, commit.partition].append(commit)
    for place, sampled in sorted(commits.items()):
        yield from _backward(evidence, place, sampled)
        yield from _ahead(evidence, place, sampled)
    yield from _at_rest(evidence, commits)
    yield from _late(evidence)
    yield from _unstopped(evidence)
    for life in evidence.history.of(Life):
        if life.stage == "failed":
            yield from _unclear(evidence, life)
        elif life.stage == "killed":
            yield from _unkilled(evidence, life)
    yield from _unfinished(evidence, commits)


def _backward(evidence: Evidence, place: Place, commits: list[Committed]) -> Iterator[Violation]:
    for before, after in pairwise(commits):
        if after.offset < before.offset and not evidence.is_reset(place, before.at, after.at):
            yield Violation("I5", name(place), f"the group's offset goes back from {before.offset} to {after.offset}")


def _ahead(evidence: Evidence, place: Place, commits: list[Committed]) -> Iterator[Violation]:
    """Yield a commit beyond everything finished by then, set by an operator, or at the group's start.

    Members journal a batch before they commit it. The records of a Java consumer are journaled some time after.
    """
    ends = _ends(evidence, place)
    is_shared = any(read.batch < 0 and (read.topic, read.partition) == place for read in evidence.reads)
    delay_s = evidence.terms.slack_s if is_shared else 0.0
    number, reached = 0, min((start for _, start, _ in ends), default=0)
    for commit in commits:
        while number < len(ends) and ends[number][0] <= commit.at + delay_s:
            reached, number = max(reached, ends[number][2]), number + 1
        if commit.offset > reached:
            text = f"offset {commit.offset} is committed while only what is before {reached} is finished"
            yield Violation("I5", name(place), text)
            return


def _ends(evidence: Evidence, place: Place) -> list[tuple[float, int, int]]:
    """Return time, start and end of each range of a place that was finished or set by an operator, in order of time."""
    found = [
        (done.at, start, until)
        for done in evidence.history.of(Finished)
        for topic, partition, start, until in done.ranges
        if (topic, partition) == place
    ]
    found += [
        (read.at, read.offsets[0], read.offsets[-1] + 1)
        for read in evidence.reads
        if read.batch < 0 and (read.topic, read.partition) == place and read.offsets
    ]
    resets = evidence.history.of(Reset)
    return sorted([*found, *((r.at, r.offset, r.offset) for r in resets if (r.topic, r.partition) == place)])


def _at_rest(evidence: Evidence, commits: dict[Place, list[Committed]]) -> Iterator[Violation]:
    """Yield the offsets that differ from the end of the last completed batch when nothing is left to read."""
    for rest in evidence.history.of(Rest)[-1:]:
        for place, sampled in sorted(commits.items()):
            expected = _last_end(evidence, place)
            if sampled[-1].at >= rest.at and expected not in (None, sampled[-1].offset):
                text = f"the group's offset is {sampled[-1].offset} at rest, the last completed batch ends at {expected}"
                yield Violation("I5", name(place), text)


def _last_end(evidence: Evidence, place: Place) -> int | None:
    """Return the greatest end of a completed batch since the last reset; None if there is none.

    A slow member may complete a batch after the next owner has completed later ones.
    """
    resets = [r.at for r in evidence.history.of(Reset) if (r.topic, r.partition) == place]
    return max((until for at, _, until in _ends(evidence, place) if at >= max(resets, default=0.0)), default=None)


def _late(evidence: Evidence) -> Iterator[Violation]:
    """Yield the records that waited too long, without a fault, until a batch had read them."""
    limit = evidence.terms.stall_s
    for place, sent in evidence.acknowledged.items():
        arrivals = _arrivals(evidence, place)
        waits = {o: evidence.calm.between(sent[o].at, arrivals[o]) for o in sent if o in arrivals}
        late = [offset for offset, wait in waits.items() if wait > limit]
        if late:
            worst = max(late, key=waits.__getitem__)
            text = (
                f"{len(late)} records waited longer than {limit:g} s, offset {worst} {waits[worst]:.1f} s without a fault"
            )
            yield Violation("I8", name(place), text)


def _arrivals(evidence: Evidence, place: Place) -> dict[int, float]:
    """Return the time at which each offset was first finished."""
    found: dict[int, float] = {}
    for at, start, until in _ends(evidence, place):
        for offset in range(start, until):
            found.setdefault(offset, at)
    return found


def _unstopped(evidence: Evidence) -> Iterator[Violation]:
    """Yield the members that did not stop in time when told to; a fault may delay them."""
    lives = evidence.history.of(Life)
    for told in (life for life in lives if life.stage == "stopping"):
        ends = [o.at for o in lives if (o.member, o.run) == (told.member, told.run) and o.at >= told.at and o is not told]
        took = evidence.calm.between(told.at, min(ends, default=float("inf")))
        if took > evidence.terms.stall_s:
            text = f"run {told.run} was told to stop, and went on for {took:g} s without a fault"
            yield Violation("I8", told.member, text)


def _unclear(evidence: Evidence, life: Life) -> Iterator[Violation]:
    """Yield a failure without any fault, a false alarm, or a failure without a condition unless its process was killed."""
    since = life.at - evidence.terms.settle_s
    faults = [f for f in evidence.history.of(Fault) if f.at <= life.at + evidence.terms.slack_s and f.end >= since]
    if not faults:
        yield Violation("I9", life.member, f"run {life.run} failed without a fault: {life.text[:300]}")
    named = _CONDITIONS.intersection(re.findall(r"\[([A-Z][A-Z0-9_]+)\]", life.text))
    if wrong := ", ".join(sorted(named & (_FALSE_ALARMS if _may_be_late(evidence, life) else _FALSE_ALARMS | _LIMITS))):
        yield Violation("I9", life.member, f"run {life.run} reports {wrong}, which no fault causes: {life.text[:300]}")
    killed = any(fault.target == life.member and fault.kind in _PROCESS_KILLS for fault in faults)
    if not named and not killed and not _has_dead_planner(evidence, life):
        yield Violation("I9", life.member, f"run {life.run} failed without naming the cause: {life.text[:300]}")


def _may_be_late(evidence: Evidence, life: Life) -> bool:
    """Return whether a fault before the end of a run may have delayed its requests."""
    faults = (fault for fault in evidence.history.of(Fault) if fault.kind not in _SUDDEN)
    return any(fault.at <= life.at and fault.end >= life.at - _LATE_S for fault in faults)


def _unkilled(evidence: Evidence, life: Life) -> Iterator[Violation]:
    """Yield the end of a process that reported none and was not killed. A batch job's planner is its driver.

    After the death of a driver, its JVM ends some seconds later.
    """
    begin, end = life.at - evidence.terms.settle_s, life.at + evidence.terms.slack_s
    kills = (f for f in evidence.history.of(Fault) if f.kind in _APPLICATION_KILLS and f.target == life.member)
    if not any(fault.at <= end and fault.end >= begin for fault in kills):
        yield Violation("I9", life.member, f"the process of run {life.run} ended by itself")


def _has_dead_planner(evidence: Evidence, life: Life) -> bool:
    """Return True if the planner of this run was killed, and at most one batch was finished since.

    Spark calls the planner between micro-batches, and notices its death only then.
    """
    starts = [o.at for o in evidence.history.of(Life) if (o.member, o.run, o.stage) == (life.member, life.run, "started")]
    kills = [
        fault.at
        for fault in evidence.history.of(Fault)
        if fault.kind == "planner killed"
        and fault.target == life.member
        and max(starts, default=0.0) <= fault.at <= life.at
    ]
    finished = [done.at for done in evidence.history.of(Finished) if done.member == life.member and done.at <= life.at]
    return bool(kills) and sum(at > kills[-1] for at in finished) < 2


def recovery_s(evidence: Evidence) -> float | None:
    """Return the time from the end of the last fault until nothing was left to read; None if something was."""
    healed, rest = evidence.history.of(Healed), evidence.history.of(Rest)
    return rest[-1].at - healed[-1].at if healed and rest else None


def _unfinished(evidence: Evidence, commits: dict[Place, list[Committed]]) -> Iterator[Violation]:
    took, limit = recovery_s(evidence), evidence.terms.recovery_s
    if took is None:
        yield Violation("I10", "lag", "there was something left to read until the end")
    elif took > limit:
        yield Violation(
            "I10", "lag", f"it took {took:.1f} s after the last fault until nothing was left, {limit:g} s allowed"
        )
    for end in evidence.history.of(LogEnd):
        sampled = commits.get((end.topic, end.partition))
        if commits and end.latest > 0 and (not sampled or sampled[-1].offset != end.latest):
            found = sampled[-1].offset if sampled else None
            text = f"the group's offset is {found}, the log ends at {end.latest}"
            yield Violation("I10", name((end.topic, end.partition)), text)
