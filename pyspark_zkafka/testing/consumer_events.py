"""Events of a consumer's process: lines of JSON that it appends to a file."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Events", "OldRecord"]


@dataclass(frozen=True, slots=True)
class OldRecord:
    """A record that a consumer consumed."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Events:
    """The events of one process so far; thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, 0
        self._records: list[OldRecord] = []
        self._others: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def records(self) -> list[OldRecord]:
        """All records."""
        with self._lock:
            self._take()
            return list(self._records)

    def others(self, *kinds: str) -> list[dict[str, Any]]:
        """All other events of some kinds."""
        with self._lock:
            self._take()
            return [event for event in self._others if event["event"] in kinds]

    def _take(self) -> None:
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return  # the process was reaped, and its last event read before
        if whole:
            self._read += len(whole) + 1
            for line in whole.split(b"\n"):
                self._add(json.loads(line))

    def _add(self, event: dict[str, Any]) -> None:
        if event["event"] == "record":
            key, value = (None if event[k] is None else b64decode(event[k]) for k in ("key", "value"))
            self._records.append(OldRecord(event["topic"], event["partition"], event["offset"], key, value))
        else:
            self._others.append(event)
