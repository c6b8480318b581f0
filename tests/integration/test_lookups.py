"""Frames of a lookup topic in a stream, in a Spark application of its own, whose workers' log is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_zkafka.testing import LocalCluster

DRIVER = Path(__file__).parent / "drivers" / "lookup.py"
WARNING = "by a plan that is"


@pytest.mark.long
@pytest.mark.timeout(500)
def test_frame_of_a_lookup_topic(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """A frame that each micro-batch loads has the latest records. One that is loaded once lacks them, with a warning.

    With pushdown of filters, Spark plans the frame again for each micro-batch: the join filters null keys.
    """
    stream, lookup = new_topic(), new_topic()
    command = [sys.executable, str(DRIVER), zkafka_cluster.bootstrap_servers, stream, lookup, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    *complete, once = map(json.loads, done.stdout.splitlines())
    for found in complete:
        assert found == {key: key.upper() for key in found}
        assert len(found) == 2
    assert [*once.values()][1:] == [None] * 5  # the first micro-batch may be empty, and before the first record
    before, _, after = done.stderr.partition("end of pushed")
    assert WARNING not in before
    warned = [line for line in after.splitlines() if WARNING in line]
    assert warned, after
    assert f"the frame of {lookup} " in warned[0]
    assert "call load() inside foreachBatch" in warned[0]
