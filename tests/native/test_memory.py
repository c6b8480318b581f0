"""Accesses to memory, watched while the C code encodes and hashes rows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.compiler import SOURCES, compile_c

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The C code as one program, which watches every access to memory."""
    sources = sorted(SOURCES.glob("*.c"))
    checks = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    out = tmp_path_factory.mktemp("driver") / "driver"
    compile_c(out, *checks, HERE / "driver.c", *sources)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run([str(out), *arguments], capture_output=True, text=True, env=environment, check=False)

    return run


@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_fault_of_memory(driver: Callable[..., subprocess.CompletedProcess[str]], seed: str) -> None:
    """300,000 rows encoded in random portions touch no memory that is not theirs, and leave none."""
    done = driver(seed, "300000")
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) >= 300_000


def test_the_watch_is_on(driver: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A leak made on purpose is found."""
    done = driver("1", "100", "leak")
    assert done.returncode != 0
    assert "LeakSanitizer: detected memory leaks" in done.stderr
