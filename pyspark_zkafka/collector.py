"""What Python's cycle collector is spared: it looks at every object again and again, and finds nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["collector_paused", "freeze_imports"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection for the time of a ``with`` block, while objects are made by the thousand, none of them in a cycle.

    The largest single gain of the pure-Python path.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def freeze_imports() -> None:
    """Have the collector leave alone, for good, what is there now; for a worker of Spark, once its modules are imported.

    Spark's worker collects after each task, which takes some 25 ms for the hundred thousands of objects that are modules,
    classes and functions: more than a task of a small micro-batch.
    """
    gc.collect()
    gc.freeze()
