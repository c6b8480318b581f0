"""Memory accesses of the C code while it encodes record batches, and hashes keys and rows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.compiler import SOURCES, compile_c
from tests.support.tiers import seldom

Driver = Callable[..., "subprocess.CompletedProcess[str]"]
_CHECKS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The encoder as a program under the sanitizers, which decodes what it encoded."""
    sources = [SOURCES / f"{name}.c" for name in ("encoder", "crc32c", "hashes", "row_hashes")]
    program = compile_c(tmp_path_factory.mktemp("encoder") / "drive", *_CHECKS, _HERE / "drive_encoder.c", *sources)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run([str(program), *arguments], capture_output=True, text=True, env=environment, check=False)

    return run


_HERE = Path(__file__).parent


@pytest.mark.parametrize(("seed", "rows"), [(1, 200_000), *seldom((2, 10_000_000), (3, 10_000_000))])
def test_no_fault_of_memory(driver: Driver, seed: int, rows: int) -> None:
    """Rows of all kinds, encoded in few or thousands of batches, decode to themselves without memory faults."""
    done = driver(str(seed), str(rows))
    assert done.returncode == 0
    assert done.stderr == ""
    records, closed, grown = map(int, done.stdout.split())
    assert records >= rows
    assert min(closed, grown) > rows / 1000


def test_the_watch_is_on(driver: Driver) -> None:
    """The sanitizers find a deliberate header in memory that is too short."""
    done = driver("1", "1", "crash")
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
