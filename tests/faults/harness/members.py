"""Members of a workload: applications that restart whenever they end, and their completed batches."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_zkafka.model.checkpoint import StreamOffset
from tests.faults.harness.history import Event, Finished, Interrupted, Life
from tests.faults.harness.journal import Journal
from tests.faults.harness.sampling import UNREACHABLE
from tests.faults.harness.workloads import ENGINES, PARTITIONS, Workload
from tests.support.applications import Application
from tests.support.older_pyspark import with_pyspark
from tests.support.processes import parent_of

__all__ = ["Member", "MemberRequest", "finished", "shortened", "signal_process"]

_PLANNER, _TASKS = "python_streaming_source_runner", "pyspark.daemon pyspark.worker"
"""Parts of command lines. Other daemons of pyspark look data sources up, and plan; their workers are nearly always idle."""
_SHOWN = 600


@dataclass(frozen=True, kw_only=True)
class MemberRequest:
    """A query to run, for ``tests/faults/drivers/harness_member.py``.

    With `foreach_slots`, ``foreachBatch`` writes to the sink, after a shuffle into so many partitions.
    """

    name: str
    run: int
    kind: str
    source: Mapping[str, str]
    checkpoint: str
    journal: str
    sink: Mapping[str, str] = field(default_factory=dict)
    foreach_slots: int = 0


class Member(threading.Thread):
    """A member that runs from `start` to `end`, except between `halt` and `resume`.

    After a kill, it restarts alternately at once and after its session has expired.

    Parameters
    ----------
    options : tuple of dict
        The options of the source and of the sink.
    written : callable, optional
        Returns how many slots of a micro-batch a query has written exactly once, given the query's id and the micro-batch.
    """

    def __init__(
        self,
        name: str,
        workload: Workload,
        folder: Path,
        journal: Journal,
        options: tuple[Mapping[str, str], Mapping[str, str]],
        written: Callable[[str, int], int] | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.kind = "sink" if workload.is_sink else "batch" if workload.kind == "batch" else "stream"
        self.journal = journal
        self.reads = folder / f"{name}.jsonl"
        self.reads.touch()
        self.checkpoint = folder / f"{name}-checkpoint"
        master = "sail" if workload.engine == "sail" else f"local[{workload.cores},3]"
        self.application = Application(
            folder / name,
            conf=_CONF,
            master=master,
            driver="harness_member.py",
            environment={} if workload.engine in ENGINES else with_pyspark(workload.engine),
        )
        self._source, self._sink = options
        self._foreach_slots = PARTITIONS if workload.in_foreach else 0
        self._written = written
        self._session_s = workload.terms().session_s
        self._number = -1
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._idle = threading.Event()
        self._turn = threading.Lock()
        self._wanted.set()

    def run(self) -> None:
        """Run the query repeatedly."""
        while not self._ended.is_set():
            if self._wanted.wait(0.1) and self._begins():
                self._live()
            self._idle.set()

    def halt(self, timeout_s: float = 120) -> None:
        """Stop the query; returns when it has left its group."""
        self._tell()
        assert self._idle.wait(timeout_s), f"{self.name} has not stopped after {timeout_s:g} s"

    def kill(self) -> bool:
        """Send SIGKILL to all processes of the application; the member restarts. Returns False if it has no process."""
        has_processes = bool(self.application.processes)
        self.application.kill_processes()
        return has_processes

    def resume(self) -> None:
        """Run the query again."""
        self._wanted.set()

    def end(self) -> None:
        """Stop the query and its application; returns when both are gone."""
        self._ended.set()
        self._tell()
        self.join(120)
        self.application.close()

    def abort(self) -> None:
        """End all processes at once, and do not restart."""
        self._ended.set()
        self._wanted.clear()
        self.application.close()

    @property
    def run_number(self) -> int:
        """The number of the current or last run."""
        return self._number

    @property
    def is_ready(self) -> bool:
        """Whether the member has journaled a batch, or its sink has completed one."""
        return (self.checkpoint / "commits" / "0").exists() if self.kind == "sink" else self.reads.stat().st_size > 0

    @property
    def planner(self) -> int | None:
        """The process that plans; for a batch job, the driver."""
        return self._process(_PLANNER if self.kind != "batch" else "harness_member.py")

    @property
    def workers(self) -> list[int]:
        """The Python workers that run the application's tasks, children of Spark's daemon."""
        daemons = [pid for pid, line in self.application.processes.items() if _TASKS in line]
        with suppress(ProcessLookupError, FileNotFoundError):
            return sorted(pid for pid in daemons if parent_of(pid) in daemons)
        return []

    def _process(self, name: str) -> int | None:
        return next((pid for pid, line in self.application.processes.items() if name in line), None)

    def _begins(self) -> bool:
        """Return whether a run starts; it does not if the member was told to stop meanwhile."""
        with self._turn:
            if self._wanted.is_set():
                self._idle.clear()
            return self._wanted.is_set()

    def _live(self) -> None:
        self._number += 1
        self.journal.add(Life(time.time(), self.name, self._number, "started"))
        self.application.start(self._request())
        if not self._wanted.is_set():  # told to stop while it was starting, and starting removes marks
            self.application.leave("stop")
        outcome = self.application.wait(1e6)
        stage = "killed" if outcome.killed else "stopped" if outcome.error is None else "failed"
        self.journal.add(Life(time.time(), self.name, self._number, stage, shortened(outcome.error or "")))
        self._note_written()
        self._ended.wait(self._pause_s if outcome.killed else 0.5)

    def _note_written(self) -> None:
        """Journal that the last run has left an incomplete micro-batch with written slots, unless brokers are down."""
        batch = _last_number(self.checkpoint / "offsets")
        if self._written is None or batch <= _last_number(self.checkpoint / "commits"):
            return
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        with suppress(*UNREACHABLE):
            if slots := self._written(query, batch):
                self.journal.add(Interrupted(time.time(), self.name, self._number, slots))

    @property
    def _pause_s(self) -> float:
        return self._session_s + 5 if self._number % 2 else 0.0

    def _request(self) -> MemberRequest:
        return MemberRequest(
            name=self.name,
            run=self._number,
            kind=self.kind,
            source=self._source,
            sink=self._sink,
            foreach_slots=self._foreach_slots,
            checkpoint=str(self.checkpoint),
            journal=str(self.reads),
        )

    def _tell(self) -> None:
        with self._turn:
            if self._wanted.is_set() and not self._idle.is_set():
                self.journal.add(Life(time.time(), self.name, self._number, "stopping"))
            self._wanted.clear()
        self.application.marks.mkdir(parents=True, exist_ok=True)
        self.application.leave("stop")


_CONF = {
    "spark.sql.streaming.minBatchesToRetain": "1000000",  # completed batches are read from the checkpoint at the end
    "spark.ui.enabled": "false",
}


def _last_number(folder: Path) -> int:
    """Return the number of the last micro-batch with a file in a folder of a checkpoint, or -1."""
    return max((int(file.name) for file in folder.glob("[0-9]*")), default=-1)


def finished(member: Member) -> Iterator[Event]:
    """Yield a member's completed micro-batches from its checkpoint, where Spark writes a file when each is done."""
    for commit in sorted((member.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name)):
        offset = StreamOffset.from_json(
            json.loads((member.checkpoint / "offsets" / commit.name).read_text().splitlines()[2])
        )
        ranges = tuple(
            (tp.topic, tp.partition, span.start, span.until) for tp, span in sorted(offset.ranges.items()) if span.size
        )
        yield Finished(commit.stat().st_mtime, member.name, int(commit.name), ranges)


def shortened(error: str) -> str:
    """Return the start of an error, and all conditions that it names.

    >>> shortened("[STREAM_FAILED] a " + "long " * 300 + "[NO_LEADER] text")[-32:]
    ' ... [STREAM_FAILED] [NO_LEADER]'
    """
    if len(error) <= _SHOWN:
        return error
    conditions = dict.fromkeys(re.findall(r"\[[A-Z][A-Z0-9_.]+\]", error))
    return f"{error[:_SHOWN]} ... {' '.join(conditions)}"


def signal_process(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process. Returns False if the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
