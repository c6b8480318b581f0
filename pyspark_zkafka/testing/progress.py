"""How far a fetch is, shown on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["FetchProgress"]

_FOUND = re.compile(r"\s*found \S+#\S+;")
_FETCHED = re.compile(r"\s*\[SUCCESSFUL \]")


class FetchProgress:
    """A bar on standard error that follows Ivy's output; nothing is shown where that is not a terminal.

    Ivy first finds all modules (the bar's end moves), then downloads one jar for each.
    """

    def __init__(self, coordinates: Iterable[str], console: Console | None = None) -> None:
        self.found = 0
        self.fetched = 0
        self._title = "Fetching " + ", ".join(":".join(c.split(":")[1:]) for c in coordinates)
        self._console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("jars"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> FetchProgress:
        self._progress.start()
        self._task = self._progress.add_task(self._title, total=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        """Take one line of Ivy's output into account."""
        if _FOUND.match(text):
            self.found += 1
        elif _FETCHED.match(text):
            self.fetched += 1
        else:
            return
        self._progress.update(self._task, completed=self.fetched, total=self.found if self.fetched else None)
