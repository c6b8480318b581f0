"""Where a member goes on reading a partition that it has gained: at its own last position, or where the group is."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_zkafka.protocol.stream_offsets import Span

__all__ = ["Resumption", "resume"]


@dataclass(frozen=True, slots=True)
class Resumption:
    """The next offset to read, None where nothing is known; `moved`: somebody else has moved the group's offset."""

    position: int | None
    moved: bool = False


def resume(span: Span | None, committed: int | None, last_committed: int | None = None) -> Resumption:
    """Where to go on with a partition that was gained.

    The stream's own finished work goes on where the group's offset is one that the stream itself committed: that of the
    finished micro-batch or, as commits follow work, the one before. Any other offset is somebody else's, another member's
    progress or an operator's reset, forward or back, and wins.

    Parameters
    ----------
    span : Span or None
        What the checkpoint's last finished micro-batch tells of the partition; None if the stream never read it.
    committed : int or None
        The group's offset, read after the partition was claimed.
    last_committed : int or None
        What this process itself committed last.

    Examples
    --------
    One finished micro-batch, [10, 20), ahead of the commit; then an operator's reset:

    >>> resume(Span(10, 20, committed=10), committed=10)
    Resumption(position=20, moved=False)
    >>> resume(Span(10, 20, committed=10), committed=5)
    Resumption(position=5, moved=True)
    """
    if span is None or committed is None:
        return Resumption(committed if span is None else span.until)
    own = {span.committed, span.start, span.until, last_committed}
    return Resumption(span.until) if committed in own else Resumption(committed, moved=True)
