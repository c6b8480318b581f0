"""``python -m benchmarks``: measures, and shows saved figures."""

from __future__ import annotations

from benchmarks.cli import app

app(prog_name="benchmarks")
