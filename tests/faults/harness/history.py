"""History of a run: records, batches, commits, owners and faults, as frozen values and lines of JSON.

A history covers one workload: the records of its topics, the group that reads them, and the contents of its sink. Times are
seconds since the epoch, by the clock of one machine. Each process of a run appends to its own journal; `merged` makes one
history of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

__all__ = [
    "Committed",
    "Event",
    "Fault",
    "Finished",
    "Gap",
    "Healed",
    "History",
    "Interrupted",
    "Life",
    "LogEnd",
    "Owners",
    "Place",
    "Range",
    "Read",
    "Ready",
    "Reset",
    "Rest",
    "Sample",
    "Sent",
    "Stored",
    "Terms",
    "line",
    "merged",
    "parse",
]

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

Range: TypeAlias = tuple[str, int, int, int]
"""Topic, partition, first offset, and the offset after the last."""

Stage: TypeAlias = Literal["started", "stopping", "stopped", "killed", "failed", "fenced"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms by which a run is judged.

    Parameters
    ----------
    reads : bool
        The members journal what they read; False if a sink receives it.
    checkpoint : bool
        A member continues at its own checkpoint; False if it starts from the group's offsets each time.
    session_s : float
        The session timeout of members.
    slack_s : float
        The tolerance between events of different processes.
    settle_s : float
        The time after a fault that counts as disturbed.
    stall_s : float
        The longest time without a fault that a record may wait to be read, or a member may run after it was told to stop.
    recovery_s : float
        The longest time from the end of the last fault until nothing is left to read.
    """

    at: float = 0.0
    reads: bool = True
    checkpoint: bool = True
    session_s: float = 6.0
    slack_s: float = 2.0
    settle_s: float = 30.0
    stall_s: float = 30.0
    recovery_s: float = 180.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the producer sent.

    Its offset is -1 without an acknowledgement, or if the broker acknowledged it as a duplicate without its offset.
    """

    at: float
    topic: str
    partition: int
    offset: int
    key: str
    digest: str
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A partition's records in one attempt of a batch, in the order of their arrival.

    An attempt is a batch in one run of its member. A member without batches, such as a JVM consumer, has batch -1.
    """

    at: float
    member: str
    run: int
    batch: int
    topic: str
    partition: int
    offsets: tuple[int, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A completed batch, with the planned range of each partition."""

    at: float
    member: str
    batch: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A sample of the group's offset of a partition."""

    at: float
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Reset:
    """An offset set by an operator."""

    at: float
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Owners:
    """A sample of the owners of partitions, ``(topic, partition, member)``, and of the registered members.

    In ZooKeeper, `claims` has the transaction that created each owner's claim. A claim made again has another one.
    """

    at: float
    owners: tuple[tuple[str, int, str], ...]
    members: tuple[str, ...]
    claims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """A stage in the life of a member's process; `text` is the error of a failure.

    A member is `fenced` if a commit was refused; it continues.
    """

    at: float
    member: str
    run: int
    stage: Stage
    text: str = ""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The end of a run in a micro-batch that is not complete, but whose rows of some slots are committed.

    The next run repeats the micro-batch, and must not write these rows again.
    """

    at: float
    member: str
    run: int
    slots: int


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault, from `at` to `end`."""

    at: float
    end: float
    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The moment from which all members have completed a batch; before it, JVMs start."""

    at: float


@dataclass(frozen=True, slots=True)
class Healed:
    """The end of the last fault."""

    at: float


@dataclass(frozen=True, slots=True)
class Rest:
    """The moment from which nothing is left to read, with all members still alive."""

    at: float


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The bounds of a log at the end of a run."""

    at: float
    topic: str
    partition: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a readable record, ``[start, until)``: compaction, retention, markers or a forward reset."""

    at: float
    topic: str
    partition: int
    start: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows in a sink, each with its number of copies for a committed reader, minus extra copies in the source."""

    at: float
    sink: str
    exactly_once: bool
    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of a process or server, by name."""

    at: float
    subject: str
    figures: tuple[tuple[str, float], ...]


Event: TypeAlias = (
    Terms
    | Sent
    | Read
    | Finished
    | Committed
    | Reset
    | Owners
    | Life
    | Interrupted
    | Fault
    | Ready
    | Healed
    | Rest
    | LogEnd
    | Gap
    | Stored
    | Sample
)
_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Terms, Sent, Read, Finished, Committed, Reset, Owners, Life),
        *(Interrupted, Fault, Ready, Healed, Rest, LogEnd, Gap, Stored, Sample),
    )
}
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class History:
    """Events in the order of their times."""

    events: tuple[Event, ...] = ()
    _by_kind: dict[type[Any], tuple[Any, ...]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        """Return the events of a kind."""
        if kind not in self._by_kind:
            self._by_kind[kind] = tuple(event for event in self.events if type(event) is kind)
        return self._by_kind[kind]

    @cached_property
    def terms(self) -> Terms:
        """The terms of the run."""
        return next(iter(self.of(Terms)), Terms())


def line(event: Event) -> str:
    """Return an event as a line of JSON: an array of its kind and its fields.

    >>> line(Committed(1.5, "orders", 0, 7))
    '["committed", 1.5, "orders", 0, 7]'
    """
    values = [getattr(event, f.name) for f in fields(event)]
    return json.dumps([type(event).__name__.lower(), *values])


def parse(text: str) -> Event:
    """Return the event that `line` wrote; raises ValueError for any other text.

    >>> parse('["committed", 1.5, "orders", 0, 7]')
    Committed(at=1.5, topic='orders', partition=0, offset=7)
    """
    found = json.loads(text)
    if not isinstance(found, list) or not found or found[0] not in _KINDS:
        raise ValueError(f"no event of a history: {text[:100]}")
    kind, values = _KINDS[found[0]], found[1:]
    if len(values) != len(fields(kind)):
        raise ValueError(f"an event with {len(values)} fields, {len(fields(kind))} expected: {text[:100]}")
    return kind(*map(_frozen, values))  # type: ignore[no-any-return]


def merged(journals: Iterable[Path]) -> History:
    """Return the history in several journals, without the torn last line of a killed process."""
    events = [event for journal in journals for event in _events(journal)]
    return History(tuple(sorted(events, key=lambda event: event.at)))


def _events(journal: Path) -> Iterator[Event]:
    with journal.open(encoding="utf-8") as lines:
        for text in lines:
            if text.endswith("\n"):
                yield parse(text)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
