"""Speed of Avro events as columns: the format avro, and Spark's connector with from_avro and to_avro."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks import arrow_path, topics
from benchmarks.checks import require, rows_drained
from benchmarks.engines import JVM_IDEMPOTENT, JVM_READ, JVM_WRITE
from benchmarks.session import Bench
from benchmarks.shapes import PARTITIONS
from benchmarks.usage import Meter
from benchmarks.writes import in_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = """{"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "amount", "type": "double"},
    {"name": "quantity", "type": "int"},
    {"name": "paid", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT", "DONE"]}},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "place", "type": {"type": "record", "name": "Place", "fields": [
        {"name": "city", "type": "string"}, {"name": "zip", "type": "int"}]}},
    {"name": "parts", "type": {"type": "array", "items": "int"}}]}"""
COLUMNS = (
    "id",
    "concat('customer-', id % 50000) AS customer",
    "id / 7D AS amount",
    "cast(id % 100 AS int) AS quantity",
    "id % 3 = 0 AS paid",
    "timestamp_micros(1700000000000000 + id) AS at",
    "element_at(array('NEW', 'SENT', 'DONE'), cast(id % 3 AS int) + 1) AS state",
    "if(id % 2 = 0, concat('note ', id), null) AS note",
    "named_struct('city', concat('city-', id % 500), 'zip', cast(id % 99999 AS int)) AS place",
    "array(cast(id % 7 AS int), cast(id % 11 AS int), cast(id % 13 AS int)) AS parts",
)
_FEW = "struct<id:bigint,amount:double>"
_DISCARDED = "write, Spark's limit"


def avro_speed(bench: Bench, records: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each way to read and write events of ten fields: medians of interleaved rounds."""
    topic = f"bench-avro-{secrets.token_hex(3)}"
    written = f"{topic}-written"
    with ExitStack() as ends:
        for name in (topic, written):
            bench.cluster.create_topic(name, PARTITIONS)
            ends.callback(bench.cluster.delete_topic, name)
        folder = Path(ends.enter_context(TemporaryDirectory()))
        # Otherwise each write would also make ten columns up.
        events = in_memory(bench.spark.range(records).selectExpr(f"struct({', '.join(COLUMNS)}) AS value"), records)
        ends.callback(events.unpersist, blocking=True)
        _write(bench, events, topic)
        require(sum(topics.ends(bench.cluster, topic)), records, "events to read")
        made_up = arrow_path.repeat(events, folder, PARTITIONS)
        ways = {
            "read, zkafka, value.format=avro": lambda: _read(_ours(bench, topic).select("value.*")),
            "read, JVM connector, tuned, from_avro": lambda: _read(_jvm(bench, topic).select("event.*")),
            "read, Spark's limit": lambda: _read(made_up.select("value.*")),
            "read 2 fields, zkafka, value.format=avro": lambda: _read(
                _ours(bench, topic, f"value {_FEW}").select("value.*")
            ),
            "read 2 fields, JVM connector, tuned, from_avro": lambda: _read(
                _jvm(bench, topic).select("event.id", "event.amount")
            ),
            "write, zkafka, value.format=avro": lambda: _write(bench, events, written),
            "write, JVM connector, tuned, to_avro": lambda: _write_jvm(bench, events, written, JVM_WRITE),
            "write, JVM connector, tuned, idempotent, to_avro": lambda: _write_jvm(bench, events, written, JVM_IDEMPOTENT),
            _DISCARDED: lambda: arrow_path.write(events),
        }

        def turn(name: str) -> tuple[float, float]:
            before = sum(topics.ends(bench.cluster, written))
            took = _timed(bench, ways[name])
            if name.startswith("read"):
                require(rows_drained(bench.spark), records, name)
            wrote = sum(topics.ends(bench.cluster, written)) - before
            require(wrote, records if name.startswith("write") and name != _DISCARDED else 0, name)
            return took

        for name in ways:
            turn(name)  # warms up
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name in ways:
                found[name].append(turn(name))
    return [
        {
            "way": name,
            "M records/s": records / median(seconds for seconds, _ in times) / 1e6,
            "CPU s": median(used for _, used in times),
        }
        for name, times in found.items()
    ]


def _read(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write(bench: Bench, events: DataFrame, topic: str) -> None:
    options = {"zookeeper.connect": bench.cluster.zookeeper_connect, "value.format": "avro", "value.schema": SCHEMA}
    events.write.format("zkafka").options(**options).option("topic", topic).mode("append").save()


def _write_jvm(bench: Bench, events: DataFrame, topic: str, options: Mapping[str, str]) -> None:
    from pyspark.sql.avro.functions import to_avro

    writer = events.select(to_avro("value", SCHEMA).alias("value")).write.format("kafka").options(**options)
    writer.option("kafka.bootstrap.servers", bench.cluster.bootstrap_servers).option("topic", topic).mode("append").save()


def _ours(bench: Bench, topic: str, schema: str = "") -> DataFrame:
    reader = bench.spark.read.format("zkafka").option("zookeeper.connect", bench.cluster.zookeeper_connect)
    reader = reader.option("value.format", "avro").option("value.schema", SCHEMA).option("subscribe", topic)
    return (reader.schema(schema) if schema else reader).load()


def _jvm(bench: Bench, topic: str) -> DataFrame:
    from pyspark.sql.avro.functions import from_avro

    reader = bench.spark.read.format("kafka").option("kafka.bootstrap.servers", bench.cluster.bootstrap_servers)
    records = reader.options(**JVM_READ).option("subscribe", topic).load()
    return records.select(from_avro("value", SCHEMA).alias("event"))


def _timed(bench: Bench, action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of an action, and the CPU seconds of Spark and Python."""
    meter = Meter(bench.cluster.pid)
    meter.wait_for_quiet()
    meter.start()
    started = time.perf_counter()
    action()
    return time.perf_counter() - started, meter.stop().spark_cpu_s
