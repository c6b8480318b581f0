"""What the C library's allocator is told."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from pyspark_zkafka.worker.allocator import keep_freed_memory

kept = keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    batch = bytearray(8 * 1024 * 1024)
    batch[::4096] = bytes(2048)
    del batch
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**environment: str) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages were mapped for 50 batches of 2,048 pages, one after the other."""
    told = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True, env=told)
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


def test_memory_is_kept() -> None:
    """With glibc, pages are mapped for the first batch alone; elsewhere nothing is done, and nothing fails."""
    kept, faults = run()
    assert kept == (platform.libc_ver()[0] == "glibc")
    assert not kept or faults < 3 * 2048


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_the_environment_goes_before(name: str) -> None:
    """Who has set the allocator keeps what was set."""
    value = "glibc.malloc.trim_threshold=1000000" if name == "GLIBC_TUNABLES" else "1000000"
    assert run(**{name: value})[0] is False
