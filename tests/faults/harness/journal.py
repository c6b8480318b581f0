"""Journal to which several threads of a process append."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.faults.harness.history import Event, line

__all__ = ["Journal"]


class Journal:
    """A file of events; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.touch()

    def add(self, *events: Event) -> None:
        """Append events."""
        text = "".join(f"{line(event)}\n" for event in events)
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(text)
