"""Runs each job in a process of its own: each has another master, and its CPU time is told by its process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from benchmarks import extras, results
from benchmarks.job import Job
from benchmarks.matrix import Extras
from benchmarks.results import Round
from benchmarks.session import ROOT, prepare_environment

_TAIL_LINES = 60


class MeasurementFailed(Exception):
    """An engine gave a wrong result, or failed; with the last lines of what was said about it."""


def measure(job: Job) -> list[Round]:
    """The rounds of a job, on the cluster that is up."""
    prepare_environment()
    with TemporaryDirectory() as folder:
        output = Path(folder) / "rounds"
        _run("benchmarks.job", job.to_json(), str(output))
        return [results.parse_round(json.loads(line)) for line in output.read_text(encoding="utf-8").splitlines()]


def measure_extra(name: str, size: Extras, *, unix_sockets: bool) -> dict[str, list[dict[str, Any]]]:
    """The rows of figures of one of `benchmarks.extras`, by its name."""
    prepare_environment()
    with TemporaryDirectory() as folder:
        output = Path(folder) / "figures"
        _run("benchmarks.extras", *extras.arguments(name, size, unix_sockets, output))
        found: dict[str, list[dict[str, Any]]] = json.loads(output.read_text(encoding="utf-8"))
        return found


def _run(module: str, *arguments: str) -> None:
    """Run a module; what it and Spark's processes complain of is shown if it fails."""
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        done = subprocess.run([sys.executable, "-m", module, *arguments], check=False, cwd=ROOT, stderr=complaints)
        if done.returncode != 0:
            complaints.seek(0)
            raise MeasurementFailed("".join(deque(complaints, maxlen=_TAIL_LINES)))
