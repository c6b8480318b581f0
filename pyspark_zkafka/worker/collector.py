"""What Python's cycle collector is spared: it looks at every object again and again, and finds nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


_frozen_modules = 0


def freeze_imports() -> None:
    """Have the collector leave alone, for good, what is there now; for a worker of Spark, before and after it imports.

    Spark's worker collects after each task, and after each call for a plan or a commit: 15 to 30 ms for the hundred
    thousand objects that are modules, classes and functions, more than a task of a small micro-batch takes. A large import
    makes Python collect them, too. Nothing is done until more modules are imported. What is frozen is not collected first:
    importing leaves next to nothing behind, and to look for it would take as long.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)
