"""Pauses of Python's cycle collector, and exclusion of imported modules from its scans."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused", "freeze_imports"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable collection for a ``with`` block that creates thousands of objects, none of them in a cycle.

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
    """Exclude all present objects from collection permanently; for a Spark worker, before and after its imports.

    Spark's worker collects after each task, and after each call for a plan or a commit: 15 to 30 ms for the hundred
    thousand objects that are modules, classes and functions, more than a task of a small micro-batch takes. A large import
    triggers collections, too. Does nothing until more modules are imported. Garbage is not collected before freezing:
    importing leaves next to none behind, and a collection would take as long as those that this avoids.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)
