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
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_zkafka.conditions import INVALID_OFFSETS_FILE
from pyspark_zkafka.errors import CodecError, OptionError, listing
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import Partition, partition_key

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_HEADERS = (["topic", "partition", "offset"], ["group", "topic", "partition", "offset"])


@dataclass(frozen=True, slots=True)
class OffsetLine:
    """A line of a file of offsets: the next offset that a group reads of a partition."""

    group: str
    partition: Partition
    offset: int


def zk_text(offsets: Iterable[OffsetLine]) -> str:
    """Return lines of znodes and offsets, which ImportZkOffsets reads.

    >>> zk_text([OffsetLine("billing", TopicPartition("orders", 3), 17)])
    '/consumers/billing/offsets/orders/3:17\\n'
    """
    return "".join(f"{group_znodes.offset_path(o.group, o.partition)}:{o.offset}\n" for o in offsets)


def csv_text(offsets: Iterable[OffsetLine], *, with_group: bool) -> str:
    """Return lines ``group,topic,partition,offset``, or without the group; CSV cannot name partitions of Kafka 0.7.

    >>> csv_text([OffsetLine("billing", TopicPartition("orders", 3), 17)], with_group=False)
    'orders,3,17\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one in offsets:
        place = [one.partition.topic, partition_key(one.partition), one.offset]
        writer.writerow([one.group, *place] if with_group else place)
    return text.getvalue()


def parse_offsets_file(name: str, text: str, group: str | None = None) -> list[OffsetLine]:
    """Return the offsets in a file of either form; an offset below 0 stands for none. `name` is for errors.

    Lines ``topic,partition,offset`` are offsets of `group`. Lines that name a group must name this one. One OptionError
    has the first ten problems: lines that are malformed or contradict each other, an empty file, or three columns without
    `group`.
    """
    lines = [(n, line.rstrip("\r")) for n, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1)]
    lines = [(n, line) for n, line in lines if line.strip()]
    first = lines[0][1] if lines else ""
    of_znodes = first.startswith(group_znodes.CONSUMERS + "/")
    if [cell.strip(' "').lower() for cell in first.split(",")] in _HEADERS:
        del lines[0]
    found: dict[tuple[str, Partition], int] = {}
    problems = [] if first else ["it is empty"]
    for number, line in lines:
        try:
            one = _zk_line(line, group) if of_znodes else _csv_line(line, group)
            known = found.setdefault((one.group, one.partition), one.offset)
            if known != one.offset:
                raise ValueError(f"another line has offset {known} for the same partition")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise INVALID_OFFSETS_FILE(
            f"The offsets in {name} cannot be used: {listing(problems, separator='; ')}; nothing was changed. "
            "A line is /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, GROUP,TOPIC,PARTITION,OFFSET or "
            "TOPIC,PARTITION,OFFSET",
        )
    return [OffsetLine(g, partition, offset) for (g, partition), offset in found.items()]


def _zk_line(line: str, expected: str | None) -> OffsetLine:
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
    return _checked(group, partition, offset)


def _csv_line(line: str, group: str | None) -> OffsetLine:
    try:
        (row,) = csv.reader([line])
    except csv.Error as error:
        raise ValueError(f"it is not CSV: {error}") from error
    if len(row) == 3 and group is None:
        raise ValueError("it names no group; give --group")
    if len(row) not in (3, 4):
        raise ValueError(f"{len(row)} columns; expected group,topic,partition,offset or topic,partition,offset")
    topic, number, offset = (cell.strip() for cell in row[-3:])  # names of groups keep their blanks, as in Kafka's tool
    if len(row) == 4:
        _require_group(row[0], group)
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise ValueError(f"{number!r} is not a partition")
    return _checked(row[0] if len(row) == 4 else group or "", TopicPartition(topic, int(number)), offset)


def _require_group(group: str, expected: str | None) -> None:
    if expected is not None and group != expected:
        raise ValueError(f"it is of group {group!r}, not {expected!r}")


def _checked(group: str, partition: Partition, offset: str) -> OffsetLine:
    if not _NUMBER.fullmatch(offset) or int(offset) >= 2**63:
        raise ValueError(f"{offset!r} is not an offset")
    try:
        group_znodes.group_path(group)
    except OptionError as error:
        raise ValueError(f"{group!r} cannot be the name of a group") from error
    if not is_topic_name(partition.topic):
        raise ValueError(f"{partition.topic!r} is not valid for a topic")
    return OffsetLine(group, partition, int(offset))
