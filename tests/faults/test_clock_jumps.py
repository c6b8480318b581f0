"""Copies of a topic in a group while the application's wall clock jumps forward and back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.applications import Application, Request
from tests.support.jumping_clock import JumpingClock
from tests.support.numbered_rows import fill_numbered, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
HOUR_S = 3600
JUMPS_S = (HOUR_S, 0, -HOUR_S, 24 * HOUR_S, -24 * HOUR_S)
# Spark measures the time since an executor's last heartbeat by the wall clock.
PATIENT = {"spark.network.timeout": "30d"}
ROWS, PER_BATCH, PARTITIONS = 2_000, 80, 4


@pytest.fixture
def clock(tmp_path: Path) -> JumpingClock:
    return JumpingClock(tmp_path)


@contextmanager
def jumping(clock: JumpingClock, every_s: float = 1.0) -> Iterator[None]:
    """Let the clock jump from one shift to the next inside the block."""
    is_over = threading.Event()

    def jump() -> None:
        for shift_s in cycle(JUMPS_S):
            clock.set(shift_s)
            if is_over.wait(every_s):
                return

    thread = threading.Thread(target=jump)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_clock(clock: JumpingClock) -> None:
    """The test clock shifts a process's time of day, but neither its monotonic clock nor its waits."""
    script = (
        "import time, threading; b = time.monotonic(); threading.Event().wait(0.2); "
        "print(time.time(), b, time.monotonic() - b)"
    )
    clock.set(HOUR_S)
    before = time.monotonic()
    command = [sys.executable, "-c", script]
    shown = subprocess.run(command, env=dict(clock.environment), capture_output=True, text=True, check=True, timeout=30)
    wall, monotonic, waited_s = map(float, shown.stdout.split())
    assert abs(wall - time.time() - HOUR_S) < 30
    assert before <= monotonic <= time.monotonic()
    assert 0.2 <= waited_s < 20


@pytest.mark.spark(4, 2)
@pytest.mark.long
@pytest.mark.parametrize("membership", ["zookeeper", "kafka"])
def test_copy(
    zkafka_cluster: LocalCluster,
    spark: SparkSession,
    new_topic: NewTopic,
    tmp_path: Path,
    clock: JumpingClock,
    membership: str,
) -> None:
    """A query in a group copies each row once and commits while the clock jumps by days."""
    source, sink = new_topic(partitions=PARTITIONS), new_topic(partitions=2)
    fill_numbered(zkafka_cluster, source, range(ROWS), PARTITIONS)
    group = {"group.id": f"{source}-group", "groupMembership": membership}
    connection = {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
    request = Request(
        checkpoint=str(tmp_path / "checkpoint"),
        source={
            **connection,
            **group,
            "subscribe": source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(PER_BATCH),
        },
        writes=[{**connection, "topic": sink, "deliveryGuarantee": "exactly-once"}],
    )
    application = Application(tmp_path / "application", conf=PATIENT, environment=clock.environment)
    try:
        with jumping(clock):
            outcome = application.run(request)
    finally:
        application.close()
    assert outcome.error is None
    assert not outcome.killed
    assert numbers(zkafka_cluster.bootstrap_servers, sink) == Counter(range(ROWS))
    committed = {"startingOffsets": "committed", "auto.offset.reset": "earliest", "offsets.storage": membership}
    left = spark.read.format("zkafka").options(
        **connection, **committed, **{"group.id": group["group.id"]}, subscribe=source
    )
    assert left.load().count() == 0
    written = spark.read.format("zkafka").options(**connection, subscribe=sink).load()
    (span_s,) = written.selectExpr("max(unix_seconds(timestamp)) - min(unix_seconds(timestamp))").collect()[0]
    assert span_s > 24 * HOUR_S
