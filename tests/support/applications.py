"""Spark applications in separate processes, which run one query after another and can be killed at any point."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually
from tests.support.processes import alive

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Application", "Outcome", "Request", "Rule"]

_ROOT = Path(__file__).resolve().parents[2]
_DRIVERS = _ROOT / "tests" / "faults" / "drivers"
_KILL_S = 30
_SMALL = {"spark.driver.memory": "640m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

Rule = Mapping[str, Any]
"""An action at a point; see ``tests/faults/drivers/injection``."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A query to run, as ``tests/faults/drivers/exactly_once_query.py`` describes it."""

    checkpoint: str
    source: Mapping[str, str]
    writes: Sequence[Mapping[str, str]]
    format: str = "zkafka"
    where: str = ""
    repartition: Sequence[int | str] = ()
    select: Sequence[str] = ("key", "value")
    foreach: bool = False
    is_batch: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    stop_at: str = ""


@dataclass(frozen=True)
class Outcome:
    """The end of a query: its error if it failed, and number and rows of each completed micro-batch.

    `killed` is True if the application ended before it could report.
    """

    killed: bool = False
    error: str | None = None
    batches: tuple[tuple[int, int], ...] = ()


class Application:
    """A Spark application whose processes form a session. It starts with its first query, and again after its end.

    Parameters
    ----------
    folder : Path
        Folder for its marks, its log and Spark's files.
    cores, task_failures : int
        As in ``local[cores, task_failures]``: the number of attempts of a task.
    master : str, optional
        Replaces ``local``; ``sail`` is a server of Sail in the driver's process.
    driver : str
        The program in ``tests/faults/drivers``.
    environment : mapping, optional
        Additional environment variables of all its processes.
    """

    def __init__(
        self,
        folder: Path,
        cores: int = 4,
        task_failures: int = 1,
        conf: Mapping[str, str] | None = None,
        master: str | None = None,
        driver: str = "exactly_once_query.py",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._driver = driver
        self._master = master or f"local[{cores},{task_failures}]"
        self._conf = {**_SMALL, **(conf or {})}
        self._environment = environment or {}
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.marks = folder / "marks"
        self.log = folder / "log"

    def run(self, request: Request, *rules: Rule, timeout_s: float = 150) -> Outcome:
        """Run a query with rules, and return its outcome."""
        self.start(request, *rules)
        return self.wait(timeout_s)

    def start(self, request: DataclassInstance, *rules: Rule) -> None:
        """Start the query of a request, after removing the marks of the last one."""
        self.set_rules(*rules)
        line = json.dumps(asdict(request)) + "\n"
        try:
            self._send(line)
        except BrokenPipeError:  # killed since its last query
            self.kill()
            self._send(line)

    def set_rules(self, *rules: Rule) -> None:
        """Replace the rules, and remove all marks."""
        shutil.rmtree(self.marks, ignore_errors=True)
        self.marks.mkdir(parents=True, exist_ok=True)  # a task of a stopped query may have left one meanwhile
        (self.marks / "rules.json").write_text(json.dumps(rules))

    def wait(self, timeout_s: float = 150) -> Outcome:
        """Wait for the outcome of the last query started."""
        while True:
            try:
                line = self._lines.get(timeout=timeout_s)
            except queue.Empty:
                tail = self._log_tail()
                self.kill()  # otherwise its outcome would be taken for the next query's
                raise AssertionError(f"no end after {timeout_s:g} s; {tail}") from None
            if line is None:
                self._reap()
                return Outcome(killed=True)
            if line.startswith('{"outcome"'):
                found = json.loads(line)["outcome"]
                return Outcome(False, found["error"], tuple((batch, rows) for batch, rows in found["batches"]))

    def mark(self, name: str, timeout_s: float = 120) -> int:
        """Wait for a mark, and return the process that left it: ``mark("commit.before-1-3")``."""
        path = self.marks / name
        return int(
            eventually(lambda: path.exists() and path.read_text(), timeout_s, lambda: f"no {name}; {self._log_tail()}")
        )

    def leave(self, name: str) -> None:
        """Leave a mark that a rule waits for."""
        (self.marks / name).touch()

    @property
    def processes(self) -> dict[int, str]:
        """The command line of each process of the application, by process id."""
        process = self._process  # another thread may reap it at the same time
        return {} if process is None else _processes_of(process.pid)

    def kill_processes(self) -> None:
        """Kill all processes of the application (SIGKILL) while another thread waits for its outcome."""
        process = self._process
        if process is not None:
            eventually(lambda: not _killed(process.pid), _KILL_S, "processes of the application outlive SIGKILL")

    def kill(self) -> None:
        """Kill all processes of the application (SIGKILL). The next query starts it again."""
        self.kill_processes()
        self._reap()

    def close(self) -> None:
        """Kill the application if it runs."""
        self.kill()

    def _send(self, line: str) -> None:
        """Send a line to the driver, which is launched first if it does not run."""
        process = self._process or self._launch()
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()

    def _launch(self) -> subprocess.Popen[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        sail = [Path(sys.prefix, "sail")] if self._master == "sail" else []
        paths = [*sail, _DRIVERS / "injection", _ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "SPARK_LOCAL_DIRS": str(self._folder / "spark"),
            "ZKAFKA_TEST_FAULTS": str(self.marks),
            **self._environment,
        }
        command = [sys.executable, str(_DRIVERS / self._driver), self._master, json.dumps(self._conf)]
        with self.log.open("a") as log:
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._folder,
                env=environ,
                start_new_session=True,
            )
        self._lines = queue.Queue()
        threading.Thread(target=self._gather, args=(process, self._lines), daemon=True).start()
        return process

    @staticmethod
    def _gather(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        """Queue the lines that the driver prints, and None once all processes that could print have ended."""
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.put(line)
        lines.put(None)

    def _reap(self) -> None:
        """Forget the driver after its end."""
        process = self._process  # another thread may reap it at the same time
        if process is None:
            return
        process.wait(30)
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        self._process = None

    def _log_tail(self) -> str:
        """Return the last marks and the end of the log, for a failure message."""
        marks = sorted(self.marks.iterdir(), key=lambda path: path.stat().st_mtime)[-12:]
        log = self.log.read_text()[-6000:] if self.log.exists() else "none"
        return f"last marks: {', '.join(mark.name for mark in marks)}; log: {log}"


def _processes_of(session: int) -> dict[int, str]:
    """Return the command line of each process of a session, by process id."""
    found: dict[int, str] = {}
    for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        with suppress(ProcessLookupError, FileNotFoundError):
            if os.getsid(pid) == session and alive(pid):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def _killed(session: int) -> list[int]:
    """Send SIGKILL to all processes of a session, and return their ids. Each may have forked another meanwhile."""
    found = list(_processes_of(session))
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found
