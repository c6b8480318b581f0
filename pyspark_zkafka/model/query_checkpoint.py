"""Positions in the checkpoint of a query, for sources of this package and Spark's own Kafka source.

A checkpoint's folder has ``offsets/N``, the end of micro-batch N of each source, ``commits/N`` once it is finished, and
``sources/S/0``, where source S of Spark's started.

References
----------
org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog, org.apache.spark.sql.kafka010.KafkaSourceOffset and
KafkaSourceInitialOffsetWriter (Spark 4.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyspark_zkafka.conditions import NOT_A_CHECKPOINT
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition

SourceFormat = Literal["zkafka", "kafka", "other"]
_NOTHING = "-"
_LONG = range(2**63)


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a micro-batch in one source: its positions, and, for a source of this package, where it started.

    `in_group` is true if the source commits offsets for a group.
    """

    format: SourceFormat
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """The positions of one source after the last finished micro-batch, and after the last planned one."""

    source: str
    format: SourceFormat
    committed: Mapping[TopicPartition, int]
    planned: Mapping[TopicPartition, int]
    in_group: bool = False


def parse_offset_log(text: str, name: str) -> dict[str, SourceEnd | None]:
    """Parse a file of ``offsets``: the end of each source, by its number; None if it has no offset yet.

    `name` is the file's, for errors. Raises CheckpointError for a file of another form.
    """
    version, *lines = text.splitlines() or [""]
    if version not in ("v1", "v2") or not lines:
        raise _not_readable(name, "no offset log of version v1 or v2")
    given = lines[1:]
    if version == "v1":
        named = [(str(source), offset) for source, offset in enumerate(given)]
    else:
        named = [(source, offset) for source, _, offset in (line.partition(":") for line in given)]
    return {source: parse_source_end(offset, name) for source, offset in named}


def parse_source_end(offset: str, name: str) -> SourceEnd | None:
    """Parse the offset of one source: of this package, of Spark's Kafka source, or of another source."""
    if offset.strip() in ("", _NOTHING):
        return None
    try:
        found = json.loads(offset)
    except (ValueError, RecursionError):
        raise _not_readable(name, "an offset that is not JSON") from None
    if isinstance(found, dict) and type(found.get("version")) is int and isinstance(found.get("topics"), dict):
        ranges = StreamOffset.from_json(found).ranges
        ends = {tp: planned.until for tp, planned in ranges.items()}
        starts = {tp: planned.start for tp, planned in ranges.items()}
        in_group = any(planned.committed is not None and planned.left is None for planned in ranges.values())
        return SourceEnd("zkafka", ends, starts, in_group)
    positions = _kafka_offsets(found)
    return SourceEnd("other") if positions is None else SourceEnd("kafka", positions)


def parse_initial(text: str, name: str) -> SourceEnd | None:
    """Parse a file ``sources/S/0``: Spark's Kafka source writes a zero byte, a line with the version, and the offsets."""
    _, _, offset = text.lstrip("\0").partition("\n")
    return parse_source_end(offset, name)


def positions(
    planned: Mapping[str, SourceEnd | None],
    committed: Mapping[str, SourceEnd | None] | None,
    initial: Mapping[str, SourceEnd | None],
) -> list[SourcePositions]:
    """Return the positions of each source.

    `planned` has the ends of the last planned micro-batch, and `committed` the ends of the last finished one, which may be
    the same mapping; None if none is finished. `initial` has the starts of sources of Spark's.
    """
    found = []
    for source, end in planned.items():
        finished = initial.get(source) if committed is None else committed.get(source) or initial.get(source)
        after = {} if finished is None else dict(finished.ends)
        if end is not None and committed is not planned:
            # A planned range starts at the end of the last one, at the group's offset, or at the start of a new partition.
            after |= end.starts
        known = end or finished
        found.append(
            SourcePositions(
                source,
                "other" if known is None else known.format,
                after,
                {} if end is None else end.ends,
                known is not None and known.in_group,
            )
        )
    return found


def _kafka_offsets(found: object) -> dict[TopicPartition, int] | None:
    """Return the offsets of ``{"topic":{"0":5}}``; None for another form."""
    if not isinstance(found, dict) or not found or not all(isinstance(given, dict) for given in found.values()):
        return None
    entries = [(topic, number, offset) for topic, given in found.items() for number, offset in given.items()]
    if not all(number.isdecimal() and type(offset) is int and offset in _LONG for _, number, offset in entries):
        return None
    return {TopicPartition(topic, int(number)): offset for topic, number, offset in entries}


def _not_readable(name: str, what: str) -> Exception:
    return NOT_A_CHECKPOINT(f"{name} is {what}; name the checkpointLocation of a streaming query")
