"""A Spark Connect client without a JVM, which writes and reads a topic, or copies it, and prints the result as JSON.

Arguments: the server's URL, zookeeper.connect and a topic; for a copy, also another topic and a folder for checkpoints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def main(server: str, zookeeper: str, topic: str, *copy: str) -> None:
    """Run the job with the source's short name."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    options = {"zookeeper.connect": zookeeper}
    try:
        _write(spark, {**options, "topic": topic})
        found = _copies(spark, options, topic, *copy) if copy else _reads(spark, options, topic)
        print(json.dumps({"session": type(spark).__module__, **found}))  # noqa: T201
    finally:
        spark.stop()


def _write(spark: SparkSession, options: Mapping[str, str]) -> None:
    rows = spark.range(100).selectExpr("cast(id % 10 AS string) AS key", "cast(id AS string) AS value")
    rows.write.format("zkafka").options(**options).mode("append").save()


def _reads(spark: SparkSession, options: Mapping[str, str], topic: str) -> dict[str, Any]:
    read = spark.read.format("zkafka").options(**options, subscribe=topic)
    frame = read.schema("partition int, offset bigint, key string, value string").load()
    return {
        "columns": spark.read.format("zkafka").options(**options, subscribe=topic).load().columns,
        "rows": [row.asDict() for row in frame.collect()],
        "brokers": spark.read.format("zkafka").options(**options, view="brokers").load().count(),
        "refused": _refused(spark, options),
    }


def _copies(spark: SparkSession, options: Mapping[str, str], topic: str, sink: str, folder: str) -> dict[str, Any]:
    stream = spark.readStream.format("zkafka").options(**options, subscribe=topic, startingOffsets="earliest").load()
    once = {**options, "topic": sink, "deliveryGuarantee": "exactly-once"}
    named = {**once, "writerName": sink}
    committed = spark.read.format("zkafka").options(**options, subscribe=sink)
    return {
        "unnamed": [_copy(stream, once, f"{folder}/nothing"), _copy(stream, named, f"{folder}/name")],
        "copies": [_copy(stream, named, f"{folder}/named", numbered=True, fails=fails) for fails in (True, False)],
        "copied": committed.option("kafka.isolation.level", "read_committed").load().count(),
    }


def _copy(
    stream: DataFrame, options: Mapping[str, str], checkpoint: str, *, numbered: bool = False, fails: bool = False
) -> str:
    """Return the error of a foreachBatch query, which passes the number of the micro-batch if it is `numbered`."""

    def write(batch: DataFrame, number: int) -> None:
        batch_id = {"batchId": number} if numbered else {}
        batch.select("key", "value").write.format("zkafka").options(**options, **batch_id).mode("append").save()
        if fails:
            raise RuntimeError("injected")

    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    try:
        writer.start().awaitTermination()
    except Exception as error:  # noqa: BLE001
        return str(error)
    return ""


def _refused(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the error that the client gets for an unknown option."""
    try:
        spark.read.format("zkafka").options(**options, subscribes="t").load().collect()
    except Exception as error:  # noqa: BLE001
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
