"""Hand batches to an engine that runs tasks as threads, without filling the engine's queue of batches.

Sail reads each task in a thread that puts its batches into a queue, and keeps the GIL while the queue is full. If the
consumer of the queue needs Python, such as a UDF, a Python writer or a join with another read, neither can continue. A task
therefore never lends more batches than the queue has room for. It waits, without the GIL, until the engine has released
enough batches. An engine that collects batches, for a sort or a join, releases no batch. The task then continues to read,
and hands over the rest in a few large batches, which the engine would keep in memory in any case. If the engine does
release a batch, it was only slow, and the task waits again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator
from itertools import accumulate, chain, groupby

import pyarrow as pa

from pyspark_zkafka.conditions import BATCHES_KEPT
from pyspark_zkafka.records.native.library import CArray, require

_ROOM = 16
"""Batches in the queue of a task of Sail 0.7."""
_LENT = 12
"""Batches that a task lends before it waits. The rest of the room is for the end of the task."""
_PATIENCE_S = 1.0
_MORE_PATIENCE = 4
_GIVE_UP_S = 600.0
_POLL_S, _LONGEST_POLL_S = 0.0005, 0.01
_LARGEST_BYTES = 1024**3
"""The largest size of a joined batch: Arrow's columns of text hold at most 2 GiB."""


class Loans:
    """The number of batches that an engine has not released. Open inside its ``with`` block; releases may come later."""

    def __init__(self) -> None:
        self._native = require()
        self._open: int | None = None

    def __enter__(self) -> Loans:
        self._open = self._native.loans_new()
        if self._open is None:
            raise MemoryError("no memory to count batches")
        return self

    def __exit__(self, *exc: object) -> None:
        self._native.loans_close(self._open)

    @property
    def count(self) -> int:
        """The number of lent batches that are not released."""
        return int(self._native.loans_count(self._open))

    def lend(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch with the same memory, counted until nothing refers to it.

        `schema` may have other time zones than the batch.
        """
        array = CArray()
        batch._export_to_c(array.address)
        is_counted = self._native.lend(self._open, array.address)
        exported = array.batch(schema)  # also without a count, to release the array
        if not is_counted:
            raise MemoryError("no memory to count batches")
        return exported

    def wait_below(self, count: int, patience_s: float) -> bool:
        """Wait until fewer than `count` batches are lent. Return False if that takes longer than `patience_s`."""
        deadline, pause_s = time.monotonic() + patience_s, _POLL_S
        while self.count >= count:
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)
        return True


def lent(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, patience_s: float = _PATIENCE_S, give_up_s: float = _GIVE_UP_S
) -> Iterator[pa.RecordBatch]:
    """Yield a task's rows in order, in the task's batches, or in fewer and larger batches if the engine keeps them.

    `schema` may have other time zones than the batches.

    Raises ZKafkaError (``BATCHES_KEPT``) if the engine keeps all batches, and more are left than can be joined.
    """
    unsent: deque[pa.RecordBatch] = deque()
    unsent_bytes = 0
    stalled_at: float | None = None  # since then, the engine has kept at least _LENT batches
    with Loans() as loans:
        for batch in chain(batches, [None]):
            if batch is not None:
                unsent.append(batch)
                unsent_bytes += batch.nbytes
            while unsent:
                asked_at = time.monotonic()
                if loans.wait_below(_LENT, patience_s if stalled_at is None else 0.0):
                    if stalled_at is not None:  # the engine was only slow: give it more time from now on
                        patience_s, stalled_at = max(patience_s, _MORE_PATIENCE * (asked_at - stalled_at)), None
                    unsent_bytes -= unsent[0].nbytes
                    yield loans.lend(unsent.popleft(), schema)
                elif unsent_bytes >= (_ROOM - _LENT) * _LARGEST_BYTES:
                    if not loans.wait_below(_LENT, give_up_s):
                        raise BATCHES_KEPT(
                            f"The engine has kept {loans.count} batches of a task for {give_up_s:.0f} s, and at least "
                            f"{unsent_bytes} bytes are left; set maxRecordsPerPartition, so that each task reads less"
                        )
                else:
                    stalled_at = asked_at if stalled_at is None else stalled_at
                    break
        if unsent:
            for joined in _joined(unsent, _ROOM - loans.count):
                yield loans.lend(joined, schema)


def _joined(batches: Collection[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Join batches into at most `most` batches of about equal size."""
    sizes = [batch.nbytes for batch in batches]
    total = max(1, sum(sizes))
    starts = accumulate(sizes, initial=0)
    for _, group in groupby(zip(starts, batches, strict=False), lambda placed: placed[0] * most // total):
        yield pa.concat_batches([batch for _, batch in group])
