"""Driver that runs one query per line of standard input, and prints a line of JSON when each has ended.

A line of input is an object: `source` and `format` (options and format of the source), `where`, `repartition` (arguments)
and `select` (of the frame), `writes` (the options of each write), `foreach` (true: the writes are those of a foreachBatch),
`is_batch`, `checkpoint`, `conf` (Spark's, for the session), `trigger`, `stop_at` (the mark at which the query is stopped
and started again). Arguments: the master, and Spark's configuration as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

Request = dict[str, Any]


def frame_of(spark: SparkSession, request: Request) -> DataFrame:
    """Return the frame to write."""
    reader = spark.read if request["is_batch"] else spark.readStream
    frame = reader.format(request["format"]).options(**request["source"]).load()
    if request["where"]:
        frame = frame.where(request["where"])
    if request["repartition"]:
        frame = frame.repartition(*request["repartition"])
    return frame.selectExpr(*request["select"])


def write(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("zkafka").options(**options).mode("append").save()


def start(spark: SparkSession, request: Request) -> StreamingQuery:
    """Return the running query."""

    def write_all(frame: DataFrame, batch: int) -> None:
        from sitecustomize import reach

        for options in request["writes"]:
            write(frame, options)
        reach("foreach_batch.after", batch)

    writer = frame_of(spark, request).writeStream.option("checkpointLocation", request["checkpoint"])
    writer = writer.trigger(**request["trigger"])
    if request["foreach"]:
        return writer.foreachBatch(write_all).start()
    return writer.format("zkafka").options(**request["writes"][0]).start()


def run(spark: SparkSession, request: Request) -> dict[str, Any]:
    """Run a query; returns its error or None, and the number and the row count of each micro-batch."""
    for name, value in request["conf"].items():
        spark.conf.set(name, value)
    if request["is_batch"]:
        write(frame_of(spark, request), request["writes"][0])
        return {"error": None, "batches": []}
    query = start(spark, request)
    if request["stop_at"]:
        mark = Path(os.environ["ZKAFKA_TEST_FAULTS"], request["stop_at"])
        while query.isActive and not mark.exists():
            time.sleep(0.005)
        query.stop()
        query = start(spark, request)
    error = None
    try:
        query.awaitTermination()
    except PySparkException as failed:
        error = str(failed)
    return {"error": error, "batches": [[p["batchId"], p["numInputRows"]] for p in query.recentProgress]}


def main(master: str, conf: str) -> None:
    builder = SparkSession.builder.master(master).appName("exactly-once")
    for name, value in json.loads(conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            outcome = run(spark, request)
        except PySparkException as error:
            outcome = {"error": str(error), "batches": []}
        finally:
            for name in request["conf"]:
                spark.conf.unset(name)
        sys.stdout.write(json.dumps({"outcome": outcome}) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
