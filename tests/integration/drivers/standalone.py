"""A driver process that writes and reads a topic on a standalone cluster, and prints as JSON where the tasks ran.

Arguments: the master's URL, zookeeper.connect, a topic.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

WHERE = "pid int, folder string"


def with_place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the process id and the working folder to batches. An executor's folder lies in its worker's folder."""
    for batch in batches:
        pid, folder = (pa.repeat(value, len(batch)) for value in (pa.scalar(os.getpid(), pa.int32()), os.getcwd()))
        yield pa.RecordBatch.from_arrays([*batch.columns, pid, folder], names=[*batch.schema.names, "pid", "folder"])


def main(master: str, zookeeper: str, topic: str) -> None:
    """Write 600 records in 6 tasks, then read them."""
    spark = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        # Start when both workers have provided their executor.
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "100s")
        .getOrCreate()
    )
    try:
        rows = spark.range(600, numPartitions=6).selectExpr("cast(id AS string) AS key")
        placed = rows.mapInArrow(with_place, f"key string, {WHERE}").selectExpr("key", "concat(pid, ' ', folder) AS value")
        options = {"zookeeper.connect": zookeeper}
        placed.write.format("zkafka").options(**options, topic=topic).mode("append").save()
        read = (
            spark.read.format("zkafka")
            .schema("partition int, key string, value string")
            .options(**options, subscribe=topic)
        )
        found = read.load().mapInArrow(with_place, f"partition int, key string, value string, {WHERE}").collect()
        print(json.dumps({"driver": os.getpid(), "rows": [row.asDict() for row in found]}))  # noqa: T201
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
