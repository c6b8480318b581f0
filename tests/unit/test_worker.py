"""Set-up of Spark's workers: garbage collection, the C library's allocator, SIGTERM, and who calls."""

from __future__ import annotations

import gc
import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from pyspark_zkafka.worker import collector_paused, is_called_by

ALLOCATE = """
import resource
from pyspark_zkafka.worker import keep_freed_memory

kept = keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    batch = bytearray(8 * 1024 * 1024)
    batch[::4096] = bytes(2048)
    del batch
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
FREEZE = """
import gc
from pyspark_zkafka.worker import prepared_worker

class Pair: pass
before = len(gc.get_objects())
with prepared_worker():
    import pyspark_zkafka.model.pushdown
frozen = gc.get_freeze_count()
one, other = Pair(), Pair()
one.other, other.one = other, one
with prepared_worker(for_task=True):
    import sys
del one, other
print(frozen > before // 2, gc.get_freeze_count() == frozen, gc.collect() >= 2)
"""
WARN = """
import logging, os
from pyspark_zkafka.worker import prepared_worker

if "CONFIGURED" in os.environ:
    logging.basicConfig(format="mine: %(message)s")
with prepared_worker():
    pass
logging.getLogger("pyspark_zkafka.read.stream_session").warning("waiting for topics")
"""
TERMINATE = """
import atexit, os, signal
from pyspark_zkafka.worker import exit_on_sigterm, ignoring_sigterm

atexit.register(print, "atexit")
exit_on_sigterm()
with ignoring_sigterm():
    os.kill(os.getpid(), signal.SIGTERM)
print("ignored", flush=True)
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("finally")
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter, with nothing else in its environment."""
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=given
    )


def test_memory_is_kept() -> None:
    """With glibc, pages are mapped for the first batch alone; elsewhere nothing is done, and nothing fails."""
    kept, faults = run(ALLOCATE).stdout.split()
    assert kept == str(platform.libc_ver()[0] == "glibc")
    assert kept == "False" or int(faults) < 3 * 2048


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_the_environment_goes_before(name: str) -> None:
    """An allocator that the environment configures keeps its configuration."""
    value = "glibc.malloc.trim_threshold=1000000" if name == "GLIBC_TUNABLES" else "1000000"
    assert run(ALLOCATE, **{name: value}).stdout.startswith("False")


def test_imports_are_frozen_once() -> None:
    """Objects present at the first call are not collected any more; later ones still are, if nothing is imported."""
    assert run(FREEZE).stdout.split() == ["True", "True", "True"]


def paused_and_failed() -> bool:
    """Whether the collector runs in a block that pauses it and then fails."""
    inside = True
    with suppress(KeyError), collector_paused():
        inside = gc.isenabled()
        raise KeyError
    return inside


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_paused_and_restored(enabled: bool) -> None:
    """The cycle collector rests inside, also when the block fails, and is as before afterwards."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        inside = paused_and_failed()
        assert (inside, gc.isenabled()) == (False, enabled)
    finally:
        (gc.enable if before else gc.disable)()


def test_sigterm_ends_a_process_in_an_orderly_way() -> None:
    """SIGTERM runs ``finally`` clauses and atexit functions, undisturbed by a second one; it can be ignored for a block."""
    done = run(TERMINATE)
    assert done.stdout.split() == ["ignored", "finally", "atexit"]
    assert done.returncode == 128 + signal.SIGTERM


def test_callers() -> None:
    """A module is found anywhere on the call stack, by its full name."""
    assert is_called_by("_pytest.python")
    assert not is_called_by("pyspark.sql.worker.data_source_pushdown_filters")


def test_warnings_have_level_and_logger() -> None:
    """A warning of a worker shows its level and its logger, unless logging is configured."""
    assert run(WARN).stderr.endswith(" WARNING pyspark_zkafka.read.stream_session: waiting for topics\n")
    assert run(WARN, CONFIGURED="1").stderr == "mine: waiting for topics\n"
