"""Speed of batches on Sail, an engine without a JVM, next to Spark: the same queries on the same topics, in turns.

Run as a module, it is the process of Sail: ``python -m benchmarks.sail`` does the works that it reads, one JSON line each.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import topics
from benchmarks.avro import COLUMNS, SCHEMA
from benchmarks.checks import require
from benchmarks.engines import JVM_IDEMPOTENT, JVM_READ
from benchmarks.session import ROOT, Bench
from benchmarks.shapes import PARTITIONS
from benchmarks.usage import Meter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLIENT = Path(sys.prefix, "sail")
"""Sail and its client, which `make` installs: other versions of pyspark than Spark's."""
_ALL = (
    *("count(*) AS n", "sum(length(key))", "sum(length(value))", "max(topic)", "sum(partition)", "max(offset)"),
    *("max(timestamp)", "sum(timestampType)"),
)
_EVENT = (
    *("count(*) AS n", "sum(id)", "max(customer)", "sum(amount)", "sum(quantity)", "max(paid)", "max(at)", "max(state)"),
    *("max(note)", "sum(place.zip)", "sum(size(parts))"),
)
_AVRO = {"value.format": "avro", "value.schema": SCHEMA}
_TARGET = "bench-sail-target"


@dataclass(frozen=True)
class Work:
    """A query: it aggregates a topic's records, or writes rows of its own."""

    name: str
    records: int
    topic: str
    aggregates: tuple[str, ...] = ()
    value_bytes: int = 0
    is_avro: bool = False

    @property
    def is_write(self) -> bool:
        """Whether the work writes."""
        return not self.aggregates


@dataclass(frozen=True)
class Way:
    """A data source with its options."""

    format: str
    read: Mapping[str, str]
    write: Mapping[str, str]


def act(spark: SparkSession, way: Way, work: Work) -> float:
    """Do a work; return its seconds. Fails if it does not see every record."""
    started = time.perf_counter()
    if work.is_write:
        rows = spark.range(0, work.records, 1, PARTITIONS).selectExpr(
            "CAST(CAST(id AS STRING) AS BINARY) AS key",
            f"CAST(rpad(CAST(id AS STRING), {work.value_bytes}, 'x') AS BINARY) AS value",
        )
        rows.write.format(way.format).options(**way.write, topic=work.topic).mode("append").save()
    else:
        found = _frame(spark, way, work).selectExpr(*work.aggregates).first()
        require(found["n"], work.records, work.name)
    return time.perf_counter() - started


def _frame(spark: SparkSession, way: Way, work: Work) -> DataFrame:
    reader = spark.read.format(way.format).options(**way.read, subscribe=work.topic)
    if way.format == "zkafka":
        if work.is_avro:
            return reader.options(**_AVRO).load().select("value.*")
        return reader.schema("value binary").load() if len(work.aggregates) < len(_ALL) else reader.load()
    if work.is_avro:
        from pyspark.sql.avro.functions import from_avro

        return reader.load().select(from_avro("value", SCHEMA).alias("value")).select("value.*")
    return reader.load()


def sail_speed(bench: Bench, scale: float, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each work: M records/s of each engine, and the median ratio of Sail to the tuned JVM connector."""
    servers = {"kafka.bootstrap.servers": bench.cluster.bootstrap_servers}
    ours = Way("zkafka", servers, servers)
    on_spark = {
        "JVM connector, defaults": Way("kafka", servers, servers),
        "JVM connector, tuned": Way("kafka", {**servers, **JVM_READ}, {**servers, **JVM_IDEMPOTENT}),
        "zkafka on Spark": ours,
    }
    rows = []
    with ExitStack() as ends:
        works = _works(bench, scale, ends)
        sail = ends.enter_context(_process())
        for work in works:

            def turn(name: str, work: Work = work) -> float:
                Meter(bench.cluster.pid).wait_for_quiet()
                before = sum(topics.ends(bench.cluster, _TARGET))
                seconds = sail(ours, work) if name not in on_spark else act(bench.spark, on_spark[name], work)
                wrote = sum(topics.ends(bench.cluster, _TARGET)) - before
                require(wrote, work.records if work.is_write else 0, f"{name}, {work.name}")
                return seconds

            names = (*on_spark, "zkafka on Sail")
            for _ in range(2):  # warms up
                for name in names:
                    turn(name)
            times = [{name: turn(name) for name in names} for _ in range(rounds)]
            speeds = {name: work.records / median(each[name] for each in times) / 1e6 for name in names}
            ratio = median(each["JVM connector, tuned"] / each["zkafka on Sail"] for each in times)
            rows.append({"M records/s": work.name, **speeds, "Sail, times the tuned JVM connector": ratio})
    return rows


def _works(bench: Bench, scale: float, ends: ExitStack) -> list[Work]:
    """Fill the topics to read; the topic with events is deleted at the end."""
    cluster = bench.cluster
    small, big = (topics.filled(cluster, shape, scale) for shape in ("small", "big"))
    events = f"bench-sail-avro-{secrets.token_hex(3)}"
    for name in (events, _TARGET):
        kept = {} if name == events else {"retention_bytes": str(256 * 1024**2), "segment_bytes": str(64 * 1024**2)}
        cluster.create_topic(name, PARTITIONS, **kept)
        ends.callback(cluster.delete_topic, name)
    count = int(1_000_000 * scale)
    rows = bench.spark.range(0, count, 1, PARTITIONS).selectExpr(f"struct({', '.join(COLUMNS)}) AS value")
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **_AVRO, "topic": events}
    rows.write.format("zkafka").options(**options).mode("append").save()
    found = [
        *(Work(f"read, all columns, {size}", sum(t.ends), t.name, _ALL) for size, t in (("100 B", small), ("1 KB", big))),
        Work("read, value alone, 100 B", sum(small.ends), small.name, ("count(*) AS n", "sum(length(value))")),
        Work("read, Avro of ten fields", count, events, _EVENT, is_avro=True),
        Work("write with keys, 100 B", int(2_000_000 * scale), _TARGET, value_bytes=100),
        Work("write with keys, 1 KB", int(300_000 * scale), _TARGET, value_bytes=1000),
    ]
    return [work for work in found if work.records]


@contextmanager
def _process() -> Iterator[Any]:
    """Run Sail in a process of its own; yield a function that does a work there, and returns its seconds."""
    environment = {**os.environ, "PYTHONPATH": f"{_CLIENT}{os.pathsep}{ROOT}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "benchmarks.sail"], env=environment, **pipes) as process:

        def do(way: Way, work: Work) -> float:
            process.stdin.write(json.dumps({"way": asdict(way), "work": asdict(work)}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"Sail has ended, in {work.name}; its log is above")
            return float(answer)

        yield do
        process.stdin.close()


def main() -> None:
    """Do works with Sail until the input ends."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    from pyspark_zkafka import ZKafkaDataSource

    server = SparkConnectServer()
    server.start(background=True)
    spark = SparkSession.builder.remote("sc://{}:{}".format(*server.listening_address)).getOrCreate()
    spark.dataSource.register(ZKafkaDataSource)
    for line in sys.stdin:
        asked = json.loads(line)
        work = Work(**{**asked["work"], "aggregates": tuple(asked["work"]["aggregates"])})
        sys.stdout.write(f"{act(spark, Way(**asked['way']), work)}\n")
        sys.stdout.flush()
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
