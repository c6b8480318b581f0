"""Rows of the views that show consumer groups: from znodes' bytes, by path, to values by column.

A znode that cannot be decoded becomes a row with the reason in its column `error`: one bad znode does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.view_tables import Row, timestamp_us
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import LegacyPartition

__all__ = ["committed_partitions", "group_rows", "member_rows", "offset_rows", "owner_rows", "with_lag"]

Data = Mapping[str, bytes | None]
"""The data of znodes by path."""


def group_rows(groups: Iterable[str], children: Mapping[str, list[str]], topics: set[str] | None = None) -> list[Row]:
    """One row for each existing group, by name: the number of its members, and the topics that it owns or has offsets of.

    `children` are the names below each existing group, and below its ids, owners and offsets, by path. With `topics`, other
    topics are left out, and groups without any.
    """
    rows = [_group_row(group, children, topics) for group in sorted(groups) if group_znodes.group_path(group) in children]
    return [row for row in rows if topics is None or row["topics"]]


def _group_row(group: str, children: Mapping[str, list[str]], topics: set[str] | None) -> Row:
    owned = children.get(group_znodes.owners_path(group), [])
    committed = children.get(group_znodes.offsets_path(group), [])
    members = children.get(group_znodes.ids_path(group), [])
    found = {*owned, *committed}
    return {"group": group, "members": len(members), "topics": sorted(found if topics is None else found & topics)}


def member_rows(data: Data) -> list[Row]:
    """One row for each consumer, by group and id, from the znodes ``/consumers/G/ids/C``."""
    rows = [_member_row(path, found) for path, found in data.items()]
    return sorted(rows, key=lambda row: (row["group"], row["consumer"]))


def _member_row(path: str, data: bytes | None) -> Row:
    _, _, group, _, consumer = path.split("/")
    row = {"group": group, "consumer": consumer}
    try:
        found = group_znodes.decode_registration(path, data)
    except CodecError as error:
        return {**row, "readable": False, "error": error.message}
    return {
        **row,
        "pattern": found.pattern,
        "subscription": list(found.subscription.items()),
        "timestamp": timestamp_us(found.timestamp),
        "readable": True,
    }


def owner_rows(data: Data) -> list[Row]:
    """One row for each claim, by group, topic and partition, from the znodes ``/consumers/G/owners/T/P``."""
    return sorted((_partition_row(path, found, _owner_fields) for path, found in data.items()), key=_order)


def _owner_fields(path: str, data: bytes | None) -> Row:
    thread = group_znodes.decode_owner(path, data)
    return {"thread": thread, "consumer": group_znodes.consumer_of_thread(thread)}


def offset_rows(data: Data, modified_ms: Mapping[str, int]) -> list[Row]:
    """One row for each committed offset, by group, topic and partition, from the znodes ``/consumers/G/offsets/T/P``.

    `modified_ms` is the time of each znode's last change, by the server's clock. For `latest` and `lag` see `with_lag`.
    """
    rows = (
        {**_partition_row(path, found, _offset_fields), "timestamp": timestamp_us(str(modified_ms[path]))}
        for path, found in data.items()
    )
    return sorted(rows, key=_order)


def _offset_fields(path: str, data: bytes | None) -> Row:
    return {"offset": group_znodes.decode_offset(path, data)}


def committed_partitions(rows: Iterable[Row]) -> list[TopicPartition]:
    """The partitions in rows of offsets, sorted, each once; without those of 0.7, and the unreadable ones."""
    return sorted({tp for tp in map(_committed, rows) if tp is not None})


def with_lag(rows: Iterable[Row], latest: Mapping[TopicPartition, int]) -> list[Row]:
    """Rows of offsets with the log's latest offset and the lag, if `latest` has it.

    The lag is null for a negative offset, which means none, and negative for an offset beyond the log's end.
    """
    return [_with_lag(row, latest) for row in rows]


def _with_lag(row: Row, latest: Mapping[TopicPartition, int]) -> Row:
    partition = _committed(row)
    end = None if partition is None else latest.get(partition)
    if end is None:
        return row
    return {**row, "latest": end, "lag": end - row["offset"] if row["offset"] >= 0 else None}


def _committed(row: Row) -> TopicPartition | None:
    modern = row.get("offset") is not None and row.get("broker") is None
    return TopicPartition(row["topic"], row["partition"]) if modern else None


def _partition_row(path: str, data: bytes | None, decode: Callable[[str, bytes | None], Row]) -> Row:
    _, _, group, _, topic, key = path.split("/")
    row: dict[str, Any] = {"group": group, "topic": topic}
    try:
        place = group_znodes.parse_key(path, topic, key)
        row["partition"] = place.partition
        if isinstance(place, LegacyPartition):
            row["broker"] = place.broker
        row.update(decode(path, data))
    except CodecError as error:
        row["error"] = error.message
    return row


def _order(row: Row) -> tuple[str, str, int, int]:
    return row["group"], row["topic"], row.get("broker", -1), row.get("partition", -1)
