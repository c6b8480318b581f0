"""Resets of a group's offsets: the scenarios of ``kafka-consumer-groups --reset-offsets``, resolved to new offsets.

References
----------
org.apache.kafka.tools.consumer.group.ConsumerGroupCommand, org.apache.kafka.tools.OffsetsUtils (Kafka 3.9.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Protocol

from pyspark_zkafka.conditions import INVALID_OPTION, NO_COMMITTED_OFFSET
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position

__all__ = [
    "FromFile",
    "Logs",
    "ResetPlan",
    "Scenario",
    "ShiftBy",
    "ToCurrent",
    "ToOffset",
    "ToPosition",
    "clamp",
    "parse_datetime_ms",
    "parse_iso_duration_ms",
    "plan_reset",
]

_SHOWN = 10
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]{1,12})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]{1,12})H)?(?:(?P<minutes>[-+]?[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,12}(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_DATETIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})T(?P<time>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[-+]\d{2}(?::?\d{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Logs(Protocol):
    """The facts about logs that a reset needs."""

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position: `EARLIEST`, `LATEST` or `AtTimestamp` (-1 where no record is that late)."""
        ...


@dataclass(frozen=True, slots=True)
class ToPosition:
    """To the earliest or the latest offset, or to the first record at a time."""

    position: Position


@dataclass(frozen=True, slots=True)
class ToOffset:
    """To one offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """By a number of offsets, negative for back."""

    by: int


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """To the committed offset; to the latest where there is none."""


@dataclass(frozen=True, slots=True)
class FromFile:
    """To the offsets that a file lists."""

    offsets: Mapping[TopicPartition, int]


Scenario = ToPosition | ToOffset | ShiftBy | ToCurrent | FromFile


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The new offset of each partition, and warnings where it is not the requested one."""

    offsets: Mapping[TopicPartition, int]
    warnings: tuple[str, ...] = ()


def plan_reset(
    scenario: Scenario, partitions: Collection[TopicPartition], current: Mapping[TopicPartition, int], logs: Logs
) -> ResetPlan:
    """The new offsets of the partitions, each between the ends of its log; those of a file for the partitions in it.

    Parameters
    ----------
    current : mapping
        The committed offsets; partitions without one are absent.

    Raises
    ------
    ClusterStateError
        A partition has no committed offset to shift.
    """
    match scenario:
        case ToPosition(position=AtTimestamp() as time):
            return _at_time(time, partitions, logs)
        case ToPosition(position=position):
            return ResetPlan(logs.list_offsets(dict.fromkeys(partitions, position)))
        case ToOffset(offset=offset):
            return clamp(dict.fromkeys(partitions, offset), logs)
        case ShiftBy(by=by):
            _require_current(partitions, current)
            return clamp({tp: current[tp] + by for tp in partitions}, logs)
        case FromFile(offsets=offsets):
            return clamp(offsets, logs)
        case ToCurrent():
            return _to_current(partitions, current, logs)


def clamp(wanted: Mapping[TopicPartition, int], logs: Logs) -> ResetPlan:
    """The wanted offsets, each moved to the nearer end of its log where it lies outside, with Kafka's warning."""
    earliest = logs.list_offsets(dict.fromkeys(wanted, EARLIEST))
    latest = logs.list_offsets(dict.fromkeys(wanted, LATEST))
    offsets = {tp: max(earliest[tp], min(offset, latest[tp])) for tp, offset in wanted.items()}
    warnings = [_outside(tp, offset, offsets[tp]) for tp, offset in wanted.items() if offset != offsets[tp]]
    return ResetPlan(offsets, tuple(warnings))


def _outside(partition: TopicPartition, wanted: int, offset: int) -> str:
    side = "higher than latest" if wanted > offset else "lower than earliest"
    return f"New offset ({wanted}) is {side} offset for topic partition {partition}. Value will be set to {offset}"


def _at_time(time: AtTimestamp, partitions: Collection[TopicPartition], logs: Logs) -> ResetPlan:
    found = logs.list_offsets(dict.fromkeys(partitions, time))
    late = [tp for tp in partitions if found[tp] < 0]
    latest = logs.list_offsets(dict.fromkeys(late, LATEST)) if late else {}
    warnings = [_late(tp) for tp in late]
    return ResetPlan({tp: latest.get(tp, found[tp]) for tp in partitions}, tuple(warnings))


def _late(partition: TopicPartition) -> str:
    """Kafka's words, but for "is empty": such a partition may have records."""
    place = f"Partition {partition.partition} from topic {partition.topic}"
    return f"{place} has no record at or after that time. Falling back to latest known offset."


def _to_current(partitions: Collection[TopicPartition], current: Mapping[TopicPartition, int], logs: Logs) -> ResetPlan:
    missing = [tp for tp in partitions if tp not in current]
    latest = logs.list_offsets(dict.fromkeys(missing, LATEST)) if missing else {}
    return ResetPlan({tp: current[tp] if tp in current else latest[tp] for tp in partitions})


def _require_current(partitions: Iterable[TopicPartition], current: Mapping[TopicPartition, int]) -> None:
    missing = [tp for tp in partitions if tp not in current]
    if missing:
        raise NO_COMMITTED_OFFSET(
            f"The offsets of {listing(missing, _SHOWN)} cannot be shifted, since there is no current committed offset; "
            "leave these partitions out, or use --to-earliest, --to-latest or --to-offset for them",
            partitions=missing,
        )


# --- times -------------------------------------------------------------------------------------------------------------


def parse_iso_duration_ms(text: str) -> int:
    """A duration of ISO 8601, ``PnDTnHnMn.nS`` as Java's Duration reads it, in milliseconds.

    >>> parse_iso_duration_ms("P1DT2H"), parse_iso_duration_ms("PT0.5S"), parse_iso_duration_ms("-PT1M")
    (93600000, 500, -60000)
    """
    match = _DURATION.fullmatch(text.strip())
    parts = {} if match is None else {name: match[name] for name in ("days", "hours", "minutes", "seconds") if match[name]}
    if match is None or not parts or (match["time"] or "").upper() == "T":
        raise INVALID_OPTION(f"--by-duration {text!r} is not a duration; write PnDTnHnMnS, such as P7D or PT1H30M")
    try:
        length = timedelta(**{name: float(number.replace(",", ".")) for name, number in parts.items()})
    except OverflowError as error:
        raise INVALID_OPTION(f"--by-duration {text!r} is too long") from error
    return (length // timedelta(milliseconds=1)) * (-1 if match["sign"] == "-" else 1)


def parse_datetime_ms(text: str) -> int:
    """A time of ISO 8601 in milliseconds since the epoch, in UTC where it has no zone, as Kafka's tools read it.

    >>> parse_datetime_ms("2026-11-22T14:00:00.000"), parse_datetime_ms("2026-11-22T15:00:00+01:00")
    (1795356000000, 1795356000000)
    """
    match = _DATETIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        time = match["time"] if len(match["time"]) > 5 else f"{match['time']}:00"
        found = datetime.fromisoformat(f"{match['day']}T{time}{_zone(match['zone'])}")
        ms = (found - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise INVALID_OPTION(
            f"--to-datetime {text!r} is not a time; write YYYY-MM-DDTHH:mm:SS.sss, in UTC, or with a zone such as +01:00",
        ) from error
    return ms + int((match["fraction"] or "0").ljust(3, "0")[:3])


def _zone(text: str | None) -> str:
    digits = (text or "Z").replace("Z", "+").replace(":", "").ljust(5, "0")
    return f"{digits[:3]}:{digits[3:]}"
