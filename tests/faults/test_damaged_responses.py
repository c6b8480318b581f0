"""Two minutes of damaged fetch responses under AddressSanitizer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.native.fuzzing import Fuzzer

DURATION_S = 120
ROUNDS = 100_000


@pytest.mark.long
def test_no_fault_of_memory(tmp_path: Path) -> None:
    """The decoder accesses only its own memory and leaks none, whatever the response."""
    fuzzer, deadline, seed = Fuzzer(tmp_path), time.monotonic() + DURATION_S, time.time_ns()
    while time.monotonic() < deadline:
        seed += 1
        done = fuzzer.run(seed, ROUNDS)
        assert done.returncode == 0, f"seed {seed}"
        assert done.stderr == "", f"seed {seed}"
