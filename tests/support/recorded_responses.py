"""Fetch responses from tests/vectors/record_batches.json."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RecordedLog", "recorded_logs"]

_FILE = Path(__file__).parents[1] / "vectors" / "record_batches.json"


@dataclass(frozen=True)
class RecordedLog:
    """A topic's log as it was fetched, and its rows as librdkafka read them."""

    topic: str
    records: bytes
    aborted: list[tuple[int, int]]
    rows: list[dict[str, Any]]
    committed_offsets: list[int]


def recorded_logs() -> list[RecordedLog]:
    return [
        RecordedLog(
            log["topic"],
            zlib.decompress(base64.b64decode(log["records"])),
            [(producer, first) for producer, first in log["aborted"]],
            [_row(*fields) for fields in log["rows"]],
            log["committed_offsets"],
        )
        for log in json.loads(_FILE.read_text(encoding="utf-8"))["logs"]
    ]


def _row(
    offset: int, key: str | None, value: str | None, kind: int, timestamp_ms: int, headers: list[list[str]]
) -> dict[str, Any]:
    return {
        "offset": offset,
        "key": _data(key),
        "value": _data(value),
        "timestampType": kind - 1,
        "timestamp_ms": timestamp_ms,
        "headers": [{"key": name, "value": _data(header)} for name, header in headers] or None,
    }


def _data(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
