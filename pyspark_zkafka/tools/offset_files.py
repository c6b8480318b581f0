"""Files of groups' offsets: the lines of Kafka's ExportZkOffsets, and the CSV of kafka-consumer-groups.

References
----------
kafka.tools.ExportZkOffsets, kafka.tools.ImportZkOffsets (Kafka 1.1.1); org.apache.kafka.tools.consumer.group.CsvUtils
(Kafka 3.9.1).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pyspark_zkafka.conditions import INVALID_OFFSETS_FILE
from pyspark_zkafka.errors import CodecError, OptionError, listing
from pyspark_zkafka.inspect.groups import Partition
from pyspark_zkafka.inspect.offsets import StoredOffsets, offset_znode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import groups as group_znodes

__all__ = ["GroupOffset", "OffsetsFile", "csv_text", "exported", "parse_offsets_file", "zk_text"]

_SHOWN = 10
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_HEADERS = (["topic", "partition", "offset"], ["group", "topic", "partition", "offset"])


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset of a group: the next one to read."""

    group: str
    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """The content of a file: offsets, and the partitions that it lists without one (below 0)."""

    offsets: tuple[GroupOffset, ...] = ()
    without: tuple[GroupOffset, ...] = ()


@dataclass(slots=True)
class _Reading:
    """The offsets found so far, and the problems of lines."""

    found: dict[tuple[str, Partition], int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, number: int, read: Callable[[], GroupOffset]) -> None:
        try:
            one = read()
        except ValueError as error:
            self.problems.append(f"line {number}: {error}")
            return
        known = self.found.setdefault((one.group, one.partition), one.offset)
        if known != one.offset:
            self.problems.append(f"line {number}: another line has offset {known} for the same partition")


def exported(group: str, stored: StoredOffsets, *, csv: bool = False) -> list[GroupOffset]:
    """The usable offsets of a group in the order of a file; for CSV without those of Kafka 0.7."""
    modern = [GroupOffset(group, tp, offset) for tp, offset in sorted(stored.values.items())]
    return modern + ([] if csv else [GroupOffset(group, lp, offset) for lp, offset in sorted(stored.legacy.items())])


def zk_text(offsets: Iterable[GroupOffset]) -> str:
    """Lines of znodes and offsets, which ImportZkOffsets reads.

    >>> zk_text([GroupOffset("billing", TopicPartition("orders", 3), 17)])
    '/consumers/billing/offsets/orders/3:17\\n'
    """
    return "".join(f"{offset_znode(o.group, o.partition)}:{o.offset}\n" for o in offsets)


def csv_text(offsets: Iterable[GroupOffset], *, with_group: bool) -> str:
    """Lines ``group,topic,partition,offset``, or without the group; partitions of 0.7 cannot be written, and are left out.

    >>> csv_text([GroupOffset("billing", TopicPartition("orders", 3), 17)], with_group=False)
    'orders,3,17\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one in offsets:
        if isinstance(one.partition, TopicPartition):
            writer.writerow([*([one.group] if with_group else []), *one.partition, one.offset])
    return text.getvalue()


def parse_offsets_file(name: str, text: str, group: str | None = None) -> OffsetsFile:
    """The offsets in a file of either form; all of its problems are reported in one error.

    Parameters
    ----------
    name : str
        The file's name, for errors.
    group : str, optional
        The group of lines ``topic,partition,offset``, and the only one that other lines may name.

    Raises
    ------
    OptionError
        Lines that are malformed or contradict each other, a file without a line, or one of three columns and no `group`.
    """
    lines = [(n, line.rstrip("\r")) for n, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1)]
    lines = [(n, line) for n, line in lines if line.strip()]
    reading = _Reading()
    if lines and lines[0][1].startswith(group_znodes.CONSUMERS + "/"):
        for number, line in lines:
            reading.add(number, lambda line=line: _zk_line(line, group))  # type: ignore[misc]
    else:
        for number, line in _without_header(lines):
            reading.add(number, lambda line=line: _csv_row(_cells(line), group))  # type: ignore[misc]
    if not lines:
        reading.problems.append("it is empty")
    if reading.problems:
        raise INVALID_OFFSETS_FILE(
            f"The offsets in {name} cannot be used: {listing(reading.problems, _SHOWN, '; ')}; nothing was changed; "
            "a line is /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, GROUP,TOPIC,PARTITION,OFFSET or "
            "TOPIC,PARTITION,OFFSET",
        )
    found = [GroupOffset(g, partition, offset) for (g, partition), offset in reading.found.items()]
    return OffsetsFile(tuple(o for o in found if o.offset >= 0), tuple(o for o in found if o.offset < 0))


def _without_header(lines: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    cells = [cell.strip(' "').lower() for cell in lines[0][1].split(",")] if lines else []
    return lines[1:] if cells in _HEADERS else lines


def _cells(line: str) -> list[str]:
    """The cells; only group names keep their blanks, as in Kafka's tool."""
    try:
        (row,) = csv.reader([line])
    except csv.Error as error:
        raise ValueError(f"it is not CSV: {error}") from error
    return [*row[:-3], *(cell.strip() for cell in row[-3:])]


def _zk_line(line: str, expected: str | None) -> GroupOffset:
    path, _, offset = line.strip().rpartition(":")
    parts = path.split("/")
    if len(parts) != 6 or parts[:2] != ["", "consumers"] or parts[3] != "offsets":
        raise ValueError(f"{line!r} is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET")
    _, _, group, _, topic, key = parts
    _require_group(group, expected)
    try:
        partition = group_znodes.parse_key(path, topic, key)
    except CodecError as error:
        raise ValueError(f"{key!r} is not a partition") from error
    return _checked(GroupOffset(group, partition, _offset(offset)))


def _csv_row(row: list[str], group: str | None) -> GroupOffset:
    if len(row) == 3 and group is None:
        raise ValueError("it names no group; give --group")
    if len(row) not in (3, 4):
        raise ValueError(f"{len(row)} columns; expected group,topic,partition,offset or topic,partition,offset")
    *named, topic, number, offset = row
    if named:
        _require_group(named[0], group)
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise ValueError(f"{number!r} is not a partition")
    return _checked(GroupOffset(named[0] if named else group or "", TopicPartition(topic, int(number)), _offset(offset)))


def _require_group(group: str, expected: str | None) -> None:
    if expected is not None and group != expected:
        raise ValueError(f"it is of group {group!r}, not {expected!r}")


def _offset(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) >= 2**63:
        raise ValueError(f"{text!r} is not an offset")
    return int(text)


def _checked(one: GroupOffset) -> GroupOffset:
    try:
        group_znodes.group_path(one.group)
    except OptionError as error:
        raise ValueError(f"{one.group!r} cannot be the name of a group") from error
    if not is_topic_name(one.partition.topic):
        raise ValueError(f"{one.partition.topic!r} is not valid for a topic")
    return one
