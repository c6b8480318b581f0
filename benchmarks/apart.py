"""Spark sessions in separate processes, one for each of Spark's settings, which take turns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from rich.console import Console

from benchmarks import extras, results
from benchmarks.job import Case, Job, turns
from benchmarks.matrix import Extras
from benchmarks.results import Round
from benchmarks.session import ROOT, prepare_environment

_TAIL_LINES = 60
console = Console()


class MeasurementFailed(Exception):
    """An engine failed or gave a wrong result. The text is the end of its process's standard error."""


class SessionProcess:
    """A `benchmarks.job.Session` in another process, for use in a ``with`` block."""

    def __init__(self, master: str, settings: str) -> None:
        self._complaints = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # closed by __exit__
        command = [sys.executable, "-m", "benchmarks.job", master, settings]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._complaints}
        self._process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)

    def __enter__(self) -> SessionProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()
        self._complaints.close()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send the session a request; return its answer."""
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise MeasurementFailed(_tail(self._complaints)) from None
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            raise MeasurementFailed(_tail(self._complaints))
        return json.loads(answer)


def measure(job: Job) -> Iterator[list[Round]]:
    """Measure a job on the running cluster; yield the rounds of each finished case."""
    prepare_environment()
    with ExitStack() as stack:
        sessions = {one: stack.enter_context(SessionProcess(job.master, one)) for one in job.settings}
        for case in job.cases:
            yield list(_rounds(job, case, sessions))


def _rounds(job: Job, case: Case, sessions: dict[str, SessionProcess]) -> Iterator[Round]:
    for session in sessions.values():
        session.ask("open", case=asdict(case))
        for engine in case.compared:
            session.ask("check", engine=engine.name)
    for _ in range(case.warm_up):
        for session in sessions.values():
            for engine in case.compared:
                session.ask("warm_up", engine=engine.name)
    source = random.Random(f"{job.master} {case}")
    for number in range(case.rounds):
        found = [
            results.parse_round(sessions[turn.settings].ask("time", engine=turn.engine, number=number))
            for turn in turns(case.compared, job.settings, number, source)
        ]
        found.sort(key=lambda one: (case.engines.index(one.engine), one.settings))
        said = "  ".join(f"{one.contender} {one.records / one.seconds:,.0f}/s" for one in found)
        where = f"{job.master} {case.work} {case.shape} {number + 1}/{case.rounds}"
        console.print(f"{where}: {said}", highlight=False, soft_wrap=True)
        yield from found
    for session in sessions.values():
        session.ask("close")


def measure_extra(name: str, size: Extras, settings: str) -> list[dict[str, Any]]:
    """Return the rows of figures of one of `benchmarks.extras`, by its name."""
    prepare_environment()
    with TemporaryDirectory() as folder, TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        output = Path(folder) / "figures"
        command = [sys.executable, "-m", "benchmarks.extras", *extras.arguments(name, size, settings, output)]
        if subprocess.run(command, check=False, cwd=ROOT, stderr=complaints).returncode != 0:
            raise MeasurementFailed(_tail(complaints))
        found: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))
        return found


def _tail(complaints: IO[str]) -> str:
    complaints.seek(0)
    return "".join(deque(complaints, maxlen=_TAIL_LINES))
