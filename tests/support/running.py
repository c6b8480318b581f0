"""Types of the fixtures `run` and `show`, which run commands in unit tests."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_zkafka.model.view_tables import Row

__all__ = ["Run", "Show"]

Run = Callable[..., list[Row]]
"""Runs a command with ``--json`` and returns its rows: ``run(command, argument, option=True, dry_run=True)``."""

Show = Callable[..., tuple[str, str]]
"""Runs a command without ``--json`` like `Run`, and returns its output and its notes."""
