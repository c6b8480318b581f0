"""Set up Spark's Python workers: garbage collection, allocator, SIGTERM, and detection of the calling module."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 64 * 1024 * 1024
_LARGEST_KEPT_BYTES = 32 * 1024 * 1024
_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_frozen_modules = 0


@contextmanager
def prepared_worker(*, for_task: bool = False) -> Iterator[None]:
    """Prepare Spark's worker for a call; the ``with`` block contains the call's imports.

    If logging is not configured, as in Spark's workers, warnings show their time, level and logger.

    All objects that exist before and after the imports are excluded from garbage collection permanently. Spark's worker
    collects after each task, plan and commit. For the hundred thousand objects that are modules, classes and functions,
    that takes 15 to 30 ms, more than a task of a small micro-batch. A large import triggers collections as well. Garbage is
    not collected before freezing: imports leave almost none, and the collection would take as long as those avoided.

    Parameters
    ----------
    for_task : bool
        Tune the allocator for batches. Call before threads start.
    """
    if logging.lastResort is not None and logging.lastResort.formatter is None:
        logging.lastResort.setFormatter(logging.Formatter(_LOG_FORMAT))
    _freeze_imports()
    yield
    _freeze_imports()
    if for_task:
        keep_freed_memory()


def _freeze_imports() -> None:
    """Exclude all objects from garbage collection, if modules were imported since the last call."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


@cache
def keep_freed_memory() -> bool:
    """Make glibc keep up to 64 MiB of freed memory; False without glibc, or if environment variables configure it.

    A task frees a batch of several MiB and needs as much for the next one. The kernel clears and maps each page of newly
    allocated memory, which took a fifth of the CPU when reading records of 1 KB. All threads allocate from one arena.
    Otherwise each of librdkafka's threads has an arena, and memory freed after reading from one broker is not reused for
    the next.
    """
    import ctypes

    if any(name in os.environ for name in _USERS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES))
    return all([mallopt(*setting) for setting in settings])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable garbage collection for a ``with`` block that creates thousands of objects without cycles.

    This saves more time than any other optimisation of the pure-Python path.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def exit_on_sigterm() -> None:
    """Make SIGTERM run ``finally`` clauses and atexit functions.

    Spark ends the process that plans a stream with SIGTERM. Without this, a member's registration and claims would block
    its group until the session expires.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: object) -> None:
    """Exit, and ignore the second SIGTERM that Spark sends, which must not interrupt the exit."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


@contextmanager
def ignoring_sigterm() -> Iterator[None]:
    """Ignore SIGTERM for a ``with`` block, if `exit_on_sigterm` has set its handler."""
    if signal.getsignal(signal.SIGTERM) is not _exit or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, _exit)


def is_called_by(module: str) -> bool:
    """True if a module, such as one of Spark's workers, is on the call stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")
        if spec is not None and spec.name == module:
            return True
        frame = frame.f_back
    return False
