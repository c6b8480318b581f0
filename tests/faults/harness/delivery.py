"""Checks of records: none lost (I1), none twice (I2), each with its value (I3), in order and without gaps (I4).

The rows of a sink are checked for I1 to I3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.faults.harness.evidence import Delivery, Evidence, Violation
from tests.faults.harness.history import Fault, Finished, Life, Place, Range, Read, Sent, Stored
from tests.faults.harness.values import UNKNOWN

__all__ = ["delivery_violations", "duplicates", "missing", "sink_violations", "spans"]


def delivery_violations(evidence: Evidence) -> Iterator[Violation]:
    """Yield violations of I1 to I4 by members that journal what they read."""
    if not evidence.terms.reads:
        return
    for place, offsets in missing(evidence).items():
        yield Violation("I1", name(place), f"{len(offsets)} acknowledged records are not read: {spans(offsets)}")
    yield from _repeated(evidence)
    yield from _altered(evidence)
    for attempt in evidence.reads:
        yield from _disordered(evidence, attempt)
    yield from _unplanned(evidence)
    yield from _different(evidence)


def missing(evidence: Evidence) -> dict[Place, list[int]]:
    """Return the offsets of acknowledged records that no completed batch has, by place."""
    found = {}
    for place in sorted(evidence.acknowledged.keys() | evidence.unplaced.keys()):
        read, sent = evidence.delivered.get(place, {}), evidence.expected_offsets(place)
        lost = [offset for offset in sorted(sent) if offset not in read and not evidence.is_gap(place, offset)]
        if lost:
            found[place] = lost
    return found


def duplicates(evidence: Evidence) -> dict[bool, dict[Place, list[int]]]:
    """Return the offsets that were delivered again, by place: explained ones under True, others under False."""
    found: dict[bool, dict[Place, list[int]]] = {True: defaultdict(list), False: defaultdict(list)}
    judged: dict[tuple[object, ...], bool] = {}  # records in the same two batches have the same explanation
    for place, offsets in evidence.delivered.items():
        for offset, deliveries in sorted(offsets.items()):
            explained = []
            for first, second in pairwise(deliveries):
                pair = (place, first.member, first.batch, first.at, second.member, second.batch, second.at)
                if pair not in judged:
                    judged[pair] = _is_explained(evidence, place, first, second)
                explained.append(judged[pair])
            if explained:
                found[all(explained)][place].append(offset)
    return found


def _is_explained(evidence: Evidence, place: Place, first: Delivery, second: Delivery) -> bool:
    """Return whether a group may deliver a record twice: after a change of owner, a reset, or a disturbance."""
    if (first.member, first.batch) == (second.member, second.batch) and first.batch >= 0:
        return False
    if evidence.is_reset(place, evidence.planned_after(first), second.at):
        return True
    if -1 in (first.batch, second.batch):  # a JVM consumer fetches the offset before it claims the partition
        is_handed_over = first.member != second.member and evidence.was_handed_over(place, first, second)
        return is_handed_over or evidence.is_disturbed(first.at, second.at)
    if first.member == second.member and evidence.terms.checkpoint:
        return evidence.passed_through(place, first.member, first.at, second.at)
    if first.member != second.member and any(
        evidence.was_handed_over(place, giver, taker) for giver, taker in ((first, second), (second, first))
    ):
        return True
    return evidence.is_disturbed(first.at, second.at)


def _repeated(evidence: Evidence) -> Iterator[Violation]:
    for place, offsets in duplicates(evidence)[False].items():
        first, *_, last = evidence.delivered[place][offsets[0]]
        who = f"batch {first.batch} of {first.member} and batch {last.batch} of {last.member}"
        text = f"{len(offsets)} records are in two completed batches: {spans(offsets)}, first in {who}"
        yield Violation("I2", name(place), text)


def _altered(evidence: Evidence) -> Iterator[Violation]:
    for place, offsets in evidence.delivered.items():
        sent = evidence.acknowledged.get(place, {})
        unplaced = evidence.unacknowledged | evidence.unplaced.get(place, set())
        for offset, deliveries in offsets.items():
            for found in {delivery.digest for delivery in deliveries} - {UNKNOWN}:
                if offset in sent and sent[offset].digest != found:
                    text = f"offset {offset} has the value {found}, sent was {sent[offset].digest}"
                    yield Violation("I3", name(place), text)
                elif not (offset in sent or found in unplaced or evidence.is_written_twice(place, offset, found)):
                    yield Violation("I3", name(place), f"offset {offset} has the value {found}, which was never sent")


def _disordered(evidence: Evidence, read: Read) -> Iterator[Violation]:
    """Yield an attempt's offsets that do not ascend, and offsets left out that are no gaps."""
    place, where = (read.topic, read.partition), f"batch {read.batch} of {read.member}"
    for before, after in pairwise(read.offsets):
        if after <= before:
            yield Violation("I4", name(place), f"offset {after} follows {before} in {where}")
        elif read.batch >= 0 and (lost := _holes(evidence, place, before + 1, after)):
            yield Violation("I4", name(place), f"offsets {spans(lost)} are left out in {where}")


def _unplanned(evidence: Evidence) -> Iterator[Violation]:
    """Yield completed batches that differ from their planned ranges."""
    for done in evidence.history.of(Finished):
        reads = {(r.topic, r.partition): r for r in evidence.completed[done.member, done.batch]}
        where = f"batch {done.batch} of {done.member}"
        planned = {(topic, partition) for topic, partition, *_ in done.ranges}
        for place in sorted(reads.keys() - planned):
            yield Violation("I4", name(place), f"{where} has records of a partition that it does not plan")
        for span in done.ranges:
            yield from _misfit(evidence, span, reads.get(span[:2]), where)


def _misfit(evidence: Evidence, span: Range, read: Read | None, where: str) -> Iterator[Violation]:
    topic, partition, start, until = span
    offsets = () if read is None else read.offsets
    place = (topic, partition)
    outside = [offset for offset in offsets if not start <= offset < until]
    if outside:
        yield Violation("I4", name(place), f"offsets {spans(outside)} are outside [{start}, {until}) in {where}")
    edges = [offsets[0], offsets[-1]] if offsets else [until, until]
    lost = [*_holes(evidence, place, start, edges[0]), *_holes(evidence, place, edges[1] + 1, until)]
    if lost:
        yield Violation("I4", name(place), f"offsets {spans(lost)} are planned and not read in {where}")


def _holes(evidence: Evidence, place: Place, start: int, until: int) -> list[int]:
    return [offset for offset in range(start, until) if not evidence.is_gap(place, offset)]


def _different(evidence: Evidence) -> Iterator[Violation]:
    """Yield batches that were run again and read other records."""
    for (member, batch), runs in evidence.attempts.items():
        seen: dict[Place, Read] = {}
        for run in sorted(runs):
            for read in runs[run]:
                before = seen.setdefault((read.topic, read.partition), read)
                if (before.offsets, before.digests) != (read.offsets, read.digests):
                    text = f"batch {batch} of {member} reads other records in run {run} than in run {before.run}"
                    yield Violation("I4", name((read.topic, read.partition)), text)


def sink_violations(evidence: Evidence) -> Iterator[Violation]:
    """Yield violations of I1 to I3 in sinks: each acknowledged record must be there once, or at least once."""
    sent = {one.digest for one in evidence.history.of(Sent) if one.acknowledged}
    for sink, (exactly_once, rows) in _sinks(evidence).items():
        if lost := sent - rows.keys():
            yield Violation("I1", sink, f"{len(lost)} acknowledged records are not in the sink: {_some(lost)}")
        twice = {row for row, count in rows.items() if count > 1}
        if twice and (exactly_once or not _may_repeat(evidence)):
            yield Violation("I2", sink, f"{len(twice)} rows are in the sink more than once: {_some(twice)}")
        if strange := rows.keys() - sent - evidence.unacknowledged:
            yield Violation("I3", sink, f"{len(strange)} rows of the sink were never sent: {_some(strange)}")


def _may_repeat(evidence: Evidence) -> bool:
    """Return whether Spark may have had a reason to repeat a task or a micro-batch."""
    ends = {"killed", "failed"}
    return bool(evidence.history.of(Fault)) or any(life.stage in ends for life in evidence.history.of(Life))


def _sinks(evidence: Evidence) -> dict[str, tuple[bool, dict[str, int]]]:
    found: dict[str, tuple[bool, dict[str, int]]] = {}
    for stored in evidence.history.of(Stored):
        rows = found.setdefault(stored.sink, (stored.exactly_once, {}))[1]
        rows.update(stored.rows)
    return found


def _some(digests: set[str]) -> str:
    shown = sorted(digests)[:5]
    return ", ".join(shown) + (", ..." if len(digests) > len(shown) else "")


def name(place: Place) -> str:
    """Return a place as Kafka writes it."""
    return f"{place[0]}-{place[1]}"


def spans(offsets: list[int]) -> str:
    """Ascending offsets as text.

    >>> spans([1, 2, 3, 7])
    '1-3, 7'
    """
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in found[:5]]
    return ", ".join(shown) + (", ..." if len(found) > 5 else "")
