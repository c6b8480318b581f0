"""Age of records from the producer's timestamp to the end of foreachBatch's query.

Also next to a backfill: another application with one core, which reads old records meanwhile.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.checks import require
from benchmarks.cluster import Topic
from benchmarks.engines import ENGINES
from benchmarks.session import Bench
from benchmarks.shapes import Facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

ENGINE_NAMES = ("ours", "jvm")
RATES = (1_000, 50_000)
_BACKFILL_RATE = 1_000
_WARM_UP_S = 4.0
_PERCENTILES = {"p50 ms": 0.5, "p99 ms": 0.99, "max ms": 1.0}
_TIMEOUT_S = 60.0


@dataclass
class Ages:
    """Counts of records by age in milliseconds, for records produced since `since_ms`."""

    since_ms: int = 2**62
    counts: dict[int, int] = field(default_factory=dict)
    records: int = 0
    batches: int = 0

    def take(self, frame: DataFrame, number: int) -> None:
        """Count the records of a micro-batch; used in foreachBatch."""
        rows = frame.selectExpr("unix_millis(timestamp) AS t").groupBy("t").count().collect()
        now_ms = int(time.time() * 1000)
        self.records += sum(row["count"] for row in rows)
        self.batches += any(row["t"] >= self.since_ms for row in rows)
        for row in rows:
            if row["t"] >= self.since_ms:
                age_ms = now_ms - row["t"]
                self.counts[age_ms] = self.counts.get(age_ms, 0) + row["count"]

    def percentile(self, share: float) -> float:
        """Return the age that this share of the records does not exceed."""
        wanted = share * sum(self.counts.values())
        for age_ms in sorted(self.counts):
            wanted -= self.counts[age_ms]
            if wanted <= 0:
                return float(age_ms)
        return float("nan")


def latencies(bench: Bench, seconds: float, rates: Iterable[int] = RATES) -> list[dict[str, Any]]:
    """Return a row for each engine and rate, and for each engine next to a backfill."""
    bench.spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        for name in ENGINE_NAMES:
            _latency(bench, name, RATES[0], seconds / 3)  # warms up
        rows = [_latency(bench, name, rate, seconds) for rate in rates for name in ENGINE_NAMES]
        for name in ENGINE_NAMES:
            with _backfill(name) as process:
                row = _latency(bench, name, _BACKFILL_RATE, seconds)
                records, took_s = map(float, process.communicate()[0].split())
            rows.append(
                {**row, "next to a backfill, M records": records / 1e6, "M records/s": round(records / took_s / 1e6, 2)}
            )
        return rows
    finally:
        bench.spark.conf.unset("spark.sql.shuffle.partitions")


@contextmanager
def _backfill(engine: str) -> Iterator[subprocess.Popen[str]]:
    """Run another process that reads, and yield it once it is warm."""
    command = [sys.executable, "-m", "benchmarks.backfill", engine]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdin is None or process.stdout is None or process.stdout.readline() != "warm\n":
                raise RuntimeError(f"the backfill by {ENGINES[engine].label} did not start")
            process.stdin.write("\n")
            process.stdin.flush()
            yield process
        except BaseException:
            process.kill()
            raise


def _latency(bench: Bench, engine: str, rate: int, seconds: float) -> dict[str, Any]:
    topic = f"bench-latency-{secrets.token_hex(3)}"
    bench.cluster.create_topic(topic)
    ages = Ages()
    query = _start(bench, engine, topic, ages)
    try:
        # Starting processes for the first micro-batch is not measured.
        produced = _produce(bench, topic, rate, 1)
        _wait(query, ages, produced)
        ages.since_ms = int((time.time() + _WARM_UP_S) * 1000)
        produced += _produce(bench, topic, rate, _WARM_UP_S + seconds)
        _wait(query, ages, produced)
    finally:
        query.stop()
        bench.cluster.delete_topic(topic)
    require(ages.records, produced, f"{engine}: records at {rate} records/s")
    percentiles = {name: ages.percentile(share) for name, share in _PERCENTILES.items()}
    return {"engine": ENGINES[engine].label, "records/s": rate, **percentiles, "micro-batches": ages.batches}


def _start(bench: Bench, engine: str, topic: str, ages: Ages) -> StreamingQuery:
    nothing = Topic(topic, "small", Facts(0, 0, 0, 0, 0, 0, 0), [])
    checkpoint: Path = bench.folder / topic
    stream = ENGINES[engine].stream(bench, nothing, 10_000_000)
    return stream.writeStream.foreachBatch(ages.take).option("checkpointLocation", str(checkpoint)).start()


def _produce(bench: Bench, topic: str, rate: int, seconds: float) -> int:
    """Produce records in another process, and return their number."""
    arguments = [bench.cluster.bootstrap_servers, topic, str(rate), str(seconds)]
    command = [sys.executable, "-m", "benchmarks.steady_producer", *arguments]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _wait(query: StreamingQuery, ages: Ages, records: int) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while ages.records < records:
        if time.monotonic() > end or query.exception() is not None:
            raise TimeoutError(f"{ages.records} of {records} records came; {query.exception()}")
        time.sleep(0.05)
