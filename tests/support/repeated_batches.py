"""Checkpoints in the state that a crash leaves between the commit of a sink and Spark's own."""

from __future__ import annotations

from pathlib import Path

__all__ = ["ended_batches", "forget_last_end"]


def ended_batches(checkpoint: Path) -> list[int]:
    """Return the numbers of the micro-batches whose end is in a checkpoint, in order."""
    return sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())


def forget_last_end(checkpoint: Path) -> int:
    """Delete the end of the last micro-batch, and return its number. A restarted query repeats this micro-batch."""
    number = ended_batches(checkpoint)[-1]
    (checkpoint / "commits" / str(number)).unlink()
    (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
    return number
