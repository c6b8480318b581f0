"""The state of processes, from ``/proc``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["alive", "parent_of"]


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        state, *_ = _fields(pid)
    except (FileNotFoundError, ProcessLookupError):  # it ended before or during the read
        return False
    return state not in "ZX"


def parent_of(pid: int) -> int:
    """Return the process id of a process's parent."""
    return int(_fields(pid)[1])


def _fields(pid: int) -> list[str]:
    """Return the fields of ``stat`` after the name, which may contain any characters."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
