"""The end of the process that plans a stream."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.testing.processes import Wait

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

PLANNING = """
import sys
import pyarrow
from pyspark_zkafka.read.readers import ZKafkaStreamReader
from pyspark_zkafka.options.stream import parse_stream
where = {"zookeeper.connect": sys.argv[1], "group.id": sys.argv[2]}
options = {**where, "subscribe": sys.argv[3], "startingOffsets": "earliest"}
reader = ZKafkaStreamReader(parse_stream(options), pyarrow.schema([]))
try:
    print(reader.initialOffset(), flush=True)
    sys.stdin.read()
finally:
    reader.stop()
"""


@pytest.mark.parametrize("told_by", ["signals", "end of file"])
def test_it_leaves_at_once_however_often_it_is_told(
    zkafka_cluster: LocalCluster, new_topic: Callable[..., str], told_by: str
) -> None:
    """On SIGTERM the process leaves its group; further signals meanwhile have no effect, since Spark sends two."""
    topic = new_topic()
    group = f"group-of-{topic}"
    command = [sys.executable, "-c", PLANNING, zkafka_cluster.zookeeper_connect, group, topic]
    with zkafka_cluster.zookeeper() as znodes, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as planning:  # fmt: skip
        assert planning.stdin is not None
        assert planning.stdout is not None
        assert planning.stderr is not None
        assert planning.stdout.readline().startswith("{")
        assert len(znodes.get_children(f"/consumers/{group}/ids")) == 1
        if told_by == "end of file":
            planning.stdin.close()

        def told_and_ended() -> bool | None:
            planning.send_signal(signal.SIGTERM)
            return None if planning.poll() is None else True

        assert Wait(10, poll_s=0.0005).until(told_and_ended)
        assert znodes.get_children(f"/consumers/{group}/ids") == []
        assert planning.stderr.read() == ""
