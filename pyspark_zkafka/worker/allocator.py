"""What the C library's allocator is told: to keep the memory of one batch for the next."""

from __future__ import annotations

import ctypes
import os
from functools import cache

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 64 * 1024 * 1024
_LARGEST_KEPT_BYTES = 32 * 1024 * 1024
_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory, up to 64 MiB, where it would give it back to the system; before any thread is made.

    A task frees a batch of some MiB and needs as much for the next: of memory that comes from the system anew, each page
    is cleared and mapped again, which took a fifth of the CPU of reading records of 1 KB. All threads take from one
    arena: else each of librdkafka's would keep as much for itself, and what was read from one broker could not serve what
    comes from the next.

    Returns
    -------
    bool
        Whether that was done. Not where the environment says what the allocator shall do, nor without glibc.
    """
    if any(name in os.environ for name in _USERS):
        return False
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    wanted = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES))
    return all([bool(tell(*one)) for one in wanted])
