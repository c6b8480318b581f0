"""Records that fill all columns, and their rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Row

    from pyspark_zkafka.testing import LocalCluster

__all__ = ["COLUMNS", "expected_rows", "produce_all_columns", "shown"]

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
_HEADERS = [("a", b"1"), ("a", None), ("b", b"")]
_CONTENTS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]] = [
    (b"k", b"v", _HEADERS),
    (None, None, None),
    (b"", b"", None),
    (b"", None, None),
]
_BEGIN_MS = 1_700_000_000_123
_BEGIN = datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)


def produce_all_columns(cluster: LocalCluster, topic: str) -> None:
    """Produce records to partition 1, with null, empty and other keys and values, one of them with headers."""
    records: list[dict[str, Any]] = [
        {
            "key": key,
            "value": value,
            "partition": 1,
            "timestamp": _BEGIN_MS + n,
            **({"headers": headers} if headers else {}),
        }
        for n, (key, value, headers) in enumerate(_CONTENTS)
    ]
    cluster.produce(topic, records)


def expected_rows(topic: str) -> list[tuple[Any, ...]]:
    """Return the rows of these records in order of offset, in the form of `shown`."""
    return [
        (key, value, topic, 1, n, _BEGIN + timedelta(milliseconds=n), 0, headers)
        for n, (key, value, headers) in enumerate(_CONTENTS)
    ]


def shown(row: Row) -> tuple[Any, ...]:
    """Return a row of all columns as a tuple, with its time in UTC, and headers as tuples."""
    values = row.asDict()
    when, headers = row.timestamp.astimezone(timezone.utc), row.headers and [tuple(h) for h in row.headers]
    return tuple({**values, "timestamp": when, "headers": headers}.values())
