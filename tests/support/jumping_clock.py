"""A wall clock of chosen processes that a test shifts; needs a C compiler."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.compiler import compiler

__all__ = ["JumpingClock"]

_SOURCE = Path(__file__).resolve().parents[1] / "faults" / "drivers" / "jumping_clock.c"


class JumpingClock:
    """The wall clock of all processes with `environment`: the machine's time, shifted by the seconds given to `set`.

    Monotonic clocks are not shifted.
    """

    def __init__(self, folder: Path) -> None:
        self._shift = folder / "shift"
        self._library = folder / "jumping_clock.so"
        flags = ["-shared", "-fPIC", "-std=gnu11", "-D_GNU_SOURCE", "-O1"]
        subprocess.run([compiler(), *flags, "-o", self._library, _SOURCE, "-ldl", "-lpthread"], check=True)
        self._shift.write_bytes(bytes(8))

    @property
    def environment(self) -> Mapping[str, str]:
        """Additional environment variables for a process."""
        return {"LD_PRELOAD": str(self._library), "JUMPING_CLOCK": str(self._shift)}

    def set(self, shift_s: int) -> None:
        """Shift the clock by this many seconds from now on."""
        file = os.open(self._shift, os.O_WRONLY)
        try:
            os.pwrite(file, struct.pack("=q", shift_s), 0)
        finally:
            os.close(file)
