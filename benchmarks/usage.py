"""CPU time and memory of process trees, from /proc (Linux)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_WORKED_TICKS = 10  # an idle worker, too, has something to do now and then
_QUIET_S = 0.3
_QUIET_CPU = 0.1  # of one processor
_QUIET_TIMEOUT_S = 10.0
_PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """A process: its CPU time, and that of its children that have ended, in clock ticks."""

    pid: int
    parent: int
    own_ticks: int
    reaped_ticks: int


def processes() -> dict[int, Process]:
    """All processes, by id."""
    return {found.pid: found for pid in _PROC.iterdir() if pid.name.isdigit() and (found := _process(int(pid.name)))}


def tree(root: int, everything: dict[int, Process]) -> list[Process]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    return [everything[pid] for pid in _descend(root, children) if pid in everything]


def used_s(before: Mapping[int, Process], family: Iterable[Process]) -> float:
    """The CPU time of processes, and of their children that have ended, since there were those of `before`; in seconds."""
    now = {process.pid: process for process in family}
    ended: dict[int, int] = {}
    for old in before.values():
        if old.pid not in now:
            ended[old.parent] = ended.get(old.parent, 0) + old.own_ticks + old.reaped_ticks
    return sum(_used(process, before.get(process.pid), ended.get(process.pid, 0)) for process in now.values()) / _TICKS


def _used(process: Process, then: Process | None, ended_ticks: int) -> int:
    own = process.own_ticks - (0 if then is None else then.own_ticks)
    # With a child that has ended comes all that it ever used; but not every parent is told of its children's end.
    reaped = process.reaped_ticks - (0 if then is None else then.reaped_ticks)
    return own + max(reaped - ended_ticks, 0)


def command(pid: int) -> list[str]:
    """A process's program, without its folder, and arguments; nothing when it is gone."""
    with suppress(*_GONE):
        program, *arguments = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return [program.rpartition("/")[2], *arguments]
    return []


def peak_mb(pid: int) -> float:
    """A process's peak of resident memory since it was reset, in MiB."""
    with suppress(*_GONE):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def reset_peak(pid: int) -> None:
    """Count a process's peak from now on, where that is permitted."""
    with suppress(*_GONE):
        (_PROC / str(pid) / "clear_refs").write_text("5")


@dataclass(frozen=True)
class Usage:
    """What was used meanwhile.

    `spark_cpu_s` is of all processes that this one has started, itself apart. `other_cpu_s` is of everything else on the
    machine. Peaks are resident memory: of the largest JVM, of the largest Python worker among those that worked, and of all
    of these workers together.
    """

    spark_cpu_s: float
    broker_cpu_s: float
    other_cpu_s: float
    jvm_peak_mb: float
    worker_peak_mb: float
    workers_peak_mb: float


class Meter:
    """Measures what is used between `start` and `stop`.

    Parameters
    ----------
    cluster_pid : int
        The process that the brokers descend from.
    """

    def __init__(self, cluster_pid: int) -> None:
        self._cluster_pid = cluster_pid
        self._before: dict[int, Process] = {}
        self._busy_s = 0.0

    def wait_for_quiet(self) -> None:
        """Wait until the brokers and all sessions have finished what was left to do; for some seconds."""
        deadline = time.monotonic() + _QUIET_TIMEOUT_S
        used = math.inf
        while used > _QUIET_CPU * _QUIET_S and time.monotonic() < deadline:
            before = processes()
            time.sleep(_QUIET_S)
            now = processes()
            used = used_s(before, self._brokers(now)) + used_s(before, tree(os.getppid(), now))

    def start(self) -> None:
        """Begin."""
        self._busy_s = _busy_s()
        self._before = processes()
        for process in tree(os.getpid(), self._before):
            reset_peak(process.pid)

    def stop(self) -> Usage:
        """What was used since the beginning."""
        busy_s = _busy_s() - self._busy_s
        now, here = processes(), os.getpid()
        family = tree(here, now)
        used_here, used_by_brokers = used_s(self._before, family), used_s(self._before, self._brokers(now))
        jvms = [peak_mb(p.pid) for p in family if command(p.pid)[:1] == ["java"]]
        workers = [peak_mb(p.pid) for p in family if self._worked(p) and _is_worker(command(p.pid))]
        return Usage(
            spark_cpu_s=used_here - (now[here].own_ticks - self._before[here].own_ticks) / _TICKS,
            broker_cpu_s=used_by_brokers,
            other_cpu_s=max(busy_s - used_here - used_by_brokers, 0.0),
            jvm_peak_mb=max(jvms, default=0.0),
            worker_peak_mb=max(workers, default=0.0),
            workers_peak_mb=sum(workers),
        )

    def _worked(self, process: Process) -> bool:
        before = self._before.get(process.pid)
        return process.own_ticks - (0 if before is None else before.own_ticks) >= _WORKED_TICKS

    def _brokers(self, everything: dict[int, Process]) -> list[Process]:
        return [p for p in tree(self._cluster_pid, everything) if "kafka.Kafka" in command(p.pid)]


def _busy_s() -> float:
    """CPU time of the whole machine: all but idle time, and guests' time, which user time includes."""
    with (_PROC / "stat").open() as lines:
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, lines.readline().split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / _TICKS


def _process(pid: int) -> Process | None:
    with suppress(*_GONE):
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        return Process(pid, int(fields[1]), own, reaped)
    return None


def _is_worker(arguments: list[str]) -> bool:
    return arguments[:1] != ["java"] and any(argument.startswith("pyspark.") for argument in arguments)


def _descend(root: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield root
    for child in children.get(root, ()):
        yield from _descend(child, children)
