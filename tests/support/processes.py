"""The state of processes, from ``/proc``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["alive", "parent_of"]


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        state, *_ = _fields(pid)
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or while its status was read
        return False
    return state not in "ZX"


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    return int(_fields(pid)[1])


def _fields(pid: int) -> list[str]:
    """The fields of ``stat`` behind the name, which may have any characters."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
