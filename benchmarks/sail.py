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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks import arrow_path, topics
from benchmarks.avro import COLUMNS, SCHEMA
from benchmarks.checks import require
from benchmarks.cluster import KAFKA
from benchmarks.engines import JVM_IDEMPOTENT, JVM_READ
from benchmarks.session import ROOT, Bench
from benchmarks.shapes import PARTITIONS
from benchmarks.usage import Meter
from pyspark_zkafka.testing.jars import find_java, kafka_classpath

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
_LIMIT, _ALONE = "Sail's limit", "Kafka's client alone"
_TOOL_LIMIT_S = 300


@dataclass(frozen=True)
class Work:
    """A query: it aggregates a topic's records, or writes rows of its own."""

    name: str
    records: int
    topic: str
    aggregates: tuple[str, ...] = ()
    columns: str = ""
    made_up: Mapping[str, str] = field(default_factory=dict)
    """The columns and the options of a source without Kafka that has as many rows like these."""
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


LIMIT = Way("made_up", {}, {})
"""Sources without Kafka, which repeat a batch, and a sink that discards all."""


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
    if way == LIMIT:
        source = "repeated" if work.is_avro else "made_up"
        return spark.read.format(source).schema(work.columns).options(**work.made_up).load()
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
    """Return a row for each work: M records/s of each engine, and the median ratio of Sail to the tuned JVM connector.

    The limits are a source and sink without Kafka on Sail, and Kafka's own consumer or producer alone, by the time that its
    performance tool reports.
    """
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
                if name == _ALONE:
                    seconds = _performance_tool(bench, work)
                elif name in on_spark:
                    seconds = act(bench.spark, on_spark[name], work)
                else:
                    seconds = sail(LIMIT if name == _LIMIT else ours, work)
                wrote = sum(topics.ends(bench.cluster, _TARGET)) - before
                require(wrote, work.records if work.is_write and name != _LIMIT else 0, f"{name}, {work.name}")
                return seconds

            names = (*on_spark, "zkafka on Sail", _LIMIT, _ALONE)
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
    sample = arrow_path.stored_sample(rows.select("value.*"), Path(ends.enter_context(TemporaryDirectory())))
    fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.select("value.*").schema)
    repeated = {"sample": str(sample), "ends": ",".join([str(count // PARTITIONS)] * PARTITIONS)}
    value = ("count(*) AS n", "sum(length(value))")
    found = [
        *(
            Work(f"read, all columns, {size}", sum(t.ends), t.name, _ALL, *arrow_path.described(t))
            for size, t in (("100 B", small), ("1 KB", big))
        ),
        Work("read, value alone, 100 B", sum(small.ends), small.name, value, *arrow_path.described(small, "value binary")),
        Work("read, Avro of ten fields", count, events, _EVENT, fields, repeated, is_avro=True),
        Work("write with keys, 100 B", int(2_000_000 * scale), _TARGET, value_bytes=100),
        Work("write with keys, 1 KB", int(300_000 * scale), _TARGET, value_bytes=1000),
    ]
    return [work for work in found if work.records]


def _performance_tool(bench: Bench, work: Work) -> float:
    """Move as many records with Kafka's performance tool; return the seconds that it reports, without its start."""
    servers = bench.cluster.bootstrap_servers
    if work.is_write:
        main = "org.apache.kafka.tools.ProducerPerformance"
        properties = {"bootstrap.servers": servers, **{k.removeprefix("kafka."): v for k, v in JVM_IDEMPOTENT.items()}}
        arguments = ["--record-size", str(work.value_bytes), "--num-records", str(work.records), "--throughput", "-1"]
        arguments += ["--producer-props", *(f"{name}={value}" for name, value in properties.items())]
    else:
        main = "org.apache.kafka.tools.ConsumerPerformance"
        arguments = ["--bootstrap-server", servers, "--messages", str(work.records), "--group", secrets.token_hex(8)]
        arguments += ["--fetch-size", str(8 * 1024**2), "--socket-buffer-size", str(1024**2), "--hide-header"]
    command = [
        str(find_java()),
        "-Xmx1g",
        "-cp",
        kafka_classpath(KAFKA, f"org.apache.kafka:kafka-tools:{KAFKA}"),
        main,
        "--topic",
        work.topic,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TOOL_LIMIT_S)
    shown = done.stdout.strip().splitlines()[-1]
    if work.is_write:  # "300000 records sent, 98684.2 records/sec (94.11 MB/sec), ..."
        return work.records / float(shown.split("records/sec")[0].split(",")[-1])
    return float(shown.split(",")[7]) / 1000  # fetch.time.ms


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
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # that of the batches that `MadeUp` makes
    for source in (ZKafkaDataSource, arrow_path.MadeUp, arrow_path.Repeated):
        spark.dataSource.register(source)
    for line in sys.stdin:
        asked = json.loads(line)
        work = Work(**{**asked["work"], "aggregates": tuple(asked["work"]["aggregates"])})
        sys.stdout.write(f"{act(spark, Way(**asked['way']), work)}\n")
        sys.stdout.flush()
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
