"""Seconds of damaged responses under the sanitizers."""

from __future__ import annotations

import pytest

from tests.native.fuzzing import Fuzzer
from tests.support.tiers import seldom


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Fuzzer:
    return Fuzzer(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("seed", [1, *seldom(2)])
def test_no_fault_of_memory(fuzzer: Fuzzer, seed: int) -> None:
    """Decoding 60,000 damaged responses accesses no foreign memory, leaks none, and meets every reason to stop."""
    done = fuzzer.run(seed, 60_000)
    assert done.returncode == 0
    assert done.stderr == ""
    records, *stops = map(int, done.stdout.split())
    assert records > 40_000
    assert all(stops)


def test_the_watch_is_on(fuzzer: Fuzzer) -> None:
    """The sanitizers find a deliberate access beyond a response."""
    done = fuzzer.run(1, 1, "crash")
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
