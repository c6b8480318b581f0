"""A history arranged for its checks: completed batches, their records, and the time without faults."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf

from tests.faults.harness.history import (
    Fault,
    Finished,
    Gap,
    History,
    Life,
    LogEnd,
    Owners,
    Place,
    Read,
    Ready,
    Reset,
    Sent,
)

__all__ = ["Calm", "Delivery", "Evidence", "Violation"]

_DISTURBING = {"started", "stopping", "stopped", "killed", "failed", "fenced"}


@dataclass(frozen=True, order=True)
class Violation:
    """A violated invariant, and its place."""

    invariant: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record in a completed batch."""

    at: float
    member: str
    batch: int
    digest: str


@dataclass(frozen=True)
class Calm:
    """Measures the time without faults between two times."""

    disturbed: Sequence[tuple[float, float]]
    """Disjoint intervals, in order."""

    @classmethod
    def outside(cls, faults: Iterable[tuple[float, float]]) -> Calm:
        """Return the time outside the given intervals, which may overlap."""
        joined: list[tuple[float, float]] = []
        for begin, end in sorted(faults):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        return cls(joined)

    def between(self, begin: float, end: float) -> float:
        """The seconds without a fault between two times.

        >>> Calm.outside([(10, 20), (15, 25), (40, 50)]).between(5, 45)
        20.0
        """
        return self._until(end) - self._until(begin)

    @cached_property
    def _begins(self) -> list[float]:
        return [begin for begin, _ in self.disturbed]

    @cached_property
    def _lost(self) -> list[float]:
        """The disturbed seconds before each interval."""
        lost, found = 0.0, []
        for begin, end in self.disturbed:
            found.append(lost)
            lost += end - begin
        return found

    def _until(self, time: float) -> float:
        number = bisect_right(self._begins, time) - 1
        if number < 0:
            return time
        begin, end = self.disturbed[number]
        return time - self._lost[number] - (min(time, end) - begin)


class Evidence:
    """Views of a history for the checks."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.terms = history.terms

    @cached_property
    def acknowledged(self) -> dict[Place, dict[int, Sent]]:
        """The acknowledged records of known offset, by place and offset."""
        found: dict[Place, dict[int, Sent]] = defaultdict(dict)
        for sent in self.history.of(Sent):
            if sent.acknowledged and sent.offset >= 0:
                found[sent.topic, sent.partition][sent.offset] = sent
        return dict(found)

    @cached_property
    def unplaced(self) -> dict[Place, set[str]]:
        """The digests of acknowledged records of unknown offset: a broker that has a record already may not report it."""
        found: dict[Place, set[str]] = defaultdict(set)
        for sent in self.history.of(Sent):
            if sent.acknowledged and sent.offset < 0:
                found[sent.topic, sent.partition].add(sent.digest)
        return dict(found)

    def expected_offsets(self, place: Place) -> set[int]:
        """Return the offsets of acknowledged records; of the whole log, if some of them are `unplaced`."""
        found = set(self.acknowledged.get(place, {}))
        if place in self.unplaced:
            ends = (end for end in self.history.of(LogEnd) if (end.topic, end.partition) == place)
            found.update(*(range(end.earliest, end.latest) for end in ends))
        return found

    @cached_property
    def unacknowledged(self) -> set[str]:
        """The digests of records that may or may not be in the log."""
        return {sent.digest for sent in self.history.of(Sent) if not sent.acknowledged}

    def is_written_twice(self, place: Place, offset: int, digest: str) -> bool:
        """Return whether a fault made the producer write a record twice, and this is the first of the two.

        librdkafka's idempotent producer does this when brokers are killed that stored a record without acknowledging it
        (see `Records`); it learns the offset of the second one. Readers find both.
        """
        again = self._acknowledged_offsets.get(place, {}).get(digest)
        if again is None or again.offset <= offset or not any(fault.at < again.at for fault in self.history.of(Fault)):
            return False
        return any(found.digest == digest for found in self.delivered.get(place, {}).get(again.offset, ()))

    @cached_property
    def _acknowledged_offsets(self) -> dict[Place, dict[str, Sent]]:
        return {place: {one.digest: one for one in sent.values()} for place, sent in self.acknowledged.items()}

    @cached_property
    def attempts(self) -> dict[tuple[str, int], dict[int, list[Read]]]:
        """The reads of each batch of each member, by run."""
        found: dict[tuple[str, int], dict[int, list[Read]]] = defaultdict(lambda: defaultdict(list))
        for read in self.history.of(Read):
            if read.batch >= 0:
                found[read.member, read.batch][read.run].append(read)
        return found

    @cached_property
    def completed(self) -> dict[tuple[str, int], list[Read]]:
        """The reads of each completed batch, from its last attempt."""
        found = {}
        for done in self.history.of(Finished):
            runs = self.attempts.get((done.member, done.batch), {})
            before = [run for run, reads in runs.items() if reads[0].at <= done.at + self.terms.slack_s]
            found[done.member, done.batch] = runs[max(before)] if before else []
        return found

    @cached_property
    def reads(self) -> list[Read]:
        """The reads of completed batches, and of members without batches."""
        foreign = (read for read in self.history.of(Read) if read.batch < 0)
        return sorted(chain(foreign, *self.completed.values()), key=lambda read: read.at)

    @cached_property
    def delivered(self) -> dict[Place, dict[int, list[Delivery]]]:
        """The deliveries of each offset, in the order of their times."""
        found: dict[Place, dict[int, list[Delivery]]] = defaultdict(lambda: defaultdict(list))
        for read in self.reads:
            offsets = found[read.topic, read.partition]
            for offset, digest in zip(read.offsets, read.digests, strict=True):
                offsets[offset].append(Delivery(read.at, read.member, read.batch, digest))
        return found

    @cached_property
    def gaps(self) -> dict[Place, list[Gap]]:
        """The offsets without a readable record."""
        found: dict[Place, list[Gap]] = defaultdict(list)
        for gap in self.history.of(Gap):
            found[gap.topic, gap.partition].append(gap)
        return found

    def is_gap(self, place: Place, offset: int) -> bool:
        """Return whether an offset is known to have no readable record."""
        return any(gap.start <= offset < gap.until for gap in self.gaps.get(place, ()))

    @cached_property
    def calm(self) -> Calm:
        """The time once all members are ready, except faults, starts and ends of processes, and `settle_s` after each."""
        ends = (life.at for life in self.history.of(Life) if life.stage != "fenced")
        start = ((0.0, ready.at) for ready in self.history.of(Ready))
        faults = chain(start, ((f.at, f.end) for f in self.history.of(Fault)), ((at, at) for at in ends))
        return Calm.outside((begin, end + self.terms.settle_s) for begin, end in faults)

    @cached_property
    def _disturbances(self) -> list[tuple[float, float]]:
        lives = ((life.at, life.at) for life in self.history.of(Life) if life.stage in _DISTURBING)
        return sorted(chain(lives, ((fault.at, fault.end) for fault in self.history.of(Fault))))

    def is_disturbed(self, begin: float, end: float) -> bool:
        """Return whether members came or went, or a fault or its consequences lasted, between two times."""
        after = self.terms.session_s + self.terms.slack_s
        return any(at <= end + self.terms.slack_s and until + after >= begin for at, until in self._disturbances)

    def is_reset(self, place: Place, begin: float, end: float) -> bool:
        """Return whether an operator reset a place's offset between two times."""
        slack = self.terms.slack_s
        found = (reset for reset in self.history.of(Reset) if (reset.topic, reset.partition) == place)
        return any(begin - slack <= reset.at <= end + slack for reset in found)

    def planned_after(self, delivery: Delivery) -> float:
        """Return a batch's earliest possible planning: the end of its member's last batch, also of an earlier run.

        A restarted member repeats a batch that was planned before. Without an earlier batch, returns the delivery's time.
        """
        earlier = (d for d in self.history.of(Finished) if d.member == delivery.member and d.batch < delivery.batch)
        return max((done.at for done in earlier), default=delivery.at)

    def passed_through(self, place: Place, member: str, begin: float, end: float) -> bool:
        """Return whether another member owned or read a place between two times."""
        return any(begin <= at <= end and other != member for at, other in self._holders.get(place, ()))

    def was_handed_over(self, place: Place, giver: Delivery, taker: Delivery) -> bool:
        """Return whether a place passed between members after the giver's batch began, and before the taker's delivery."""
        begun, slack = self._began(giver), self.terms.slack_s
        owned = [(at, member) for at, member in self._owners.get(place, ()) if begun - slack <= at <= taker.at + slack]
        given = min((at for at, member in owned if member == giver.member and at <= giver.at), default=inf)
        return any(member == taker.member and at > given for at, member in owned)

    def _began(self, delivery: Delivery) -> float:
        """Return a batch's earliest possible start: the end of its member's last batch, or the member's start."""
        times = self._steps.get(delivery.member, [])
        number = bisect_left(times, delivery.at)
        return times[number - 1] if number else 0.0

    @cached_property
    def _steps(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for done in self.history.of(Finished):
            found[done.member].append(done.at)
        for life in self.history.of(Life):
            if life.stage == "started":
                found[life.member].append(life.at)
        return {member: sorted(times) for member, times in found.items()}

    @cached_property
    def _owners(self) -> dict[Place, list[tuple[float, str]]]:
        found: dict[Place, list[tuple[float, str]]] = defaultdict(list)
        for sample in self.history.of(Owners):
            for topic, partition, member in sample.owners:
                found[topic, partition].append((sample.at, member))
        return found

    @cached_property
    def _holders(self) -> dict[Place, list[tuple[float, str]]]:
        found = {place: list(owners) for place, owners in self._owners.items()}
        for read in self.history.of(Read):
            found.setdefault((read.topic, read.partition), []).append((read.at, read.member))
        return found
