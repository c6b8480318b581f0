"""Speed of decoding Avro events into columns: the format avro, and Spark's connector with from_avro."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.engines import JVM_READ
from benchmarks.session import Bench
from benchmarks.shapes import PARTITIONS
from benchmarks.usage import Meter

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
_COLUMNS = (
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


def avro_reads(bench: Bench, records: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each way to read events of ten fields: medians of interleaved rounds."""
    topic = f"bench-avro-{secrets.token_hex(3)}"
    bench.cluster.create_topic(topic, PARTITIONS)
    try:
        events = bench.spark.range(records).selectExpr(f"struct({', '.join(_COLUMNS)}) AS value")
        written = _timed(bench, lambda: _write(bench, events, topic))
        ways = {
            "zkafka, value.format=avro": lambda: _ours(bench, topic).select("value.*"),
            "zkafka, value.format=avro, 2 fields": lambda: _ours(bench, topic, f"value {_FEW}").select("value.*"),
            "JVM connector, tuned, from_avro": lambda: _jvm(bench, topic).select("event.*"),
            "JVM connector, tuned, from_avro, 2 fields": lambda: _jvm(bench, topic).select("event.id", "event.amount"),
        }
        for frame in ways.values():
            frame().write.format("noop").mode("overwrite").save()  # warms up
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, frame in ways.items():
                found[name].append(_timed(bench, lambda: frame().write.format("noop").mode("overwrite").save()))  # noqa: B023
    finally:
        bench.cluster.delete_topic(topic)
    rows = [{"way": "zkafka, writing value.format=avro", "M records/s": records / written[0] / 1e6, "CPU s": written[1]}]
    return rows + [
        {
            "way": name,
            "M records/s": records / median(seconds for seconds, _ in times) / 1e6,
            "CPU s": median(used for _, used in times),
        }
        for name, times in found.items()
    ]


def _write(bench: Bench, events: DataFrame, topic: str) -> None:
    options = {"zookeeper.connect": bench.cluster.zookeeper_connect, "value.format": "avro", "value.schema": SCHEMA}
    events.write.format("zkafka").options(**options).option("topic", topic).mode("append").save()


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
