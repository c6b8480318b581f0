"""What Python's cycle collector is spared."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress

import pytest

from pyspark_zkafka.worker.collector import collector_paused


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


FREEZE = """
import gc
from pyspark_zkafka.worker.collector import freeze_imports

class Pair: pass
before = len(gc.get_objects())
freeze_imports()
frozen = gc.get_freeze_count()
one, other = Pair(), Pair()
one.other, other.one = other, one
freeze_imports()
del one, other
print(frozen > before // 2, gc.get_freeze_count() == frozen, gc.collect() >= 2)
"""


def test_imports_are_frozen_once() -> None:
    """What is there at the first call is left alone from then on; what comes later is still collected."""
    done = subprocess.run([sys.executable, "-c", FREEZE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
