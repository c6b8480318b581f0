"""Progress bars."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pyspark_zkafka.tools.progress import progress_bar


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bar(is_terminal: bool) -> None:
    """A bar is drawn on a terminal alone."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
    with progress_bar(console, "replicas in sync", 4) as set_done:
        set_done(3)
    assert isinstance(console.file, io.StringIO)
    assert ("replicas in sync" in console.file.getvalue()) is is_terminal
