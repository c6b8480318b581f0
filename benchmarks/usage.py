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
_WORKED_TICKS = 10  # an idle worker also works now and then
_QUIET_S = 0.3
_QUIET_CPU = 0.1  # of one processor
_QUIET_TIMEOUT_S = 10.0
_PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """CPU times of a process and of its ended children, in clock ticks."""

    pid: int
    parent: int
    own_ticks: int
    reaped_ticks: int


def processes() -> dict[int, Process]:
    """Return all processes by id."""
    return {found.pid: found for pid in _PROC.iterdir() if pid.name.isdigit() and (found := _process(int(pid.name)))}


def tree(root: int, everything: dict[int, Process]) -> list[Process]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    return [everything[pid] for pid in _descend(root, children) if pid in everything]


def used_s(before: Mapping[int, Process], family: Iterable[Process]) -> float:
    """Return CPU seconds of processes and their ended children since the snapshot `before`."""
    now = {process.pid: process for process in family}
    ended: dict[int, int] = {}
    for old in before.values():
        if old.pid not in now:
            ended[old.parent] = ended.get(old.parent, 0) + old.own_ticks + old.reaped_ticks
    return sum(_used(process, before.get(process.pid), ended.get(process.pid, 0)) for process in now.values()) / _TICKS


def _used(process: Process, then: Process | None, ended_ticks: int) -> int:
    own = process.own_ticks - (0 if then is None else then.own_ticks)
    # A parent that waits for a child inherits the child's whole CPU time. Not every parent waits.
    reaped = process.reaped_ticks - (0 if then is None else then.reaped_ticks)
    return own + max(reaped - ended_ticks, 0)


def command(pid: int) -> list[str]:
    """Return a process's program, without its folder, and arguments; empty if it is gone."""
    with suppress(*_GONE):
        program, *arguments = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return [program.rpartition("/")[2], *arguments]
    return []


def peak_mb(pid: int) -> float:
    """Return a process's peak of resident memory since it was reset, in MiB."""
    with suppress(*_GONE):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def reset_peak(pid: int) -> None:
    """Reset a process's peak, where that is permitted."""
    with suppress(*_GONE):
        (_PROC / str(pid) / "clear_refs").write_text("5")


@dataclass(frozen=True)
class Usage:
    """Resources used in an interval.

    `spark_cpu_s` is of all processes started by this one, without itself. `other_cpu_s` is of everything else on the
    machine. Peaks are resident memory: of the largest JVM, of the largest Python worker that worked, and of all such
    workers together.
    """

    spark_cpu_s: float
    broker_cpu_s: float
    other_cpu_s: float
    jvm_peak_mb: float
    worker_peak_mb: float
    workers_peak_mb: float


class Meter:
    """Measures resources used between `start` and `stop`.

    Parameters
    ----------
    cluster_pid : int
        The ancestor process of the brokers.
    """

    def __init__(self, cluster_pid: int) -> None:
        self._cluster_pid = cluster_pid
        self._before: dict[int, Process] = {}
        self._busy_s = 0.0

    def wait_for_quiet(self) -> None:
        """Wait, for some seconds at most, until brokers and all sessions are idle."""
        deadline = time.monotonic() + _QUIET_TIMEOUT_S
        used = math.inf
        while used > _QUIET_CPU * _QUIET_S and time.monotonic() < deadline:
            before = processes()
            time.sleep(_QUIET_S)
            now = processes()
            used = used_s(before, self._brokers(now)) + used_s(before, tree(os.getppid(), now))

    def start(self) -> None:
        """Start measuring."""
        self._busy_s = _busy_s()
        self._before = processes()
        for process in tree(os.getpid(), self._before):
            reset_peak(process.pid)

    def stop(self) -> Usage:
        """Return the resources used since `start`."""
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
    """Return CPU seconds of the machine: all except idle time, and without guests' time, part of user time."""
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
