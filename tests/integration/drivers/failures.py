"""A driver process whose reads, writes and streams fail, and which prints the traceback of each.

Arguments: the bootstrap servers, a topic whose records are not JSON, and a folder for checkpoints. The output is a JSON
object with the traceback of each step. Spark logs to standard error.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(servers: str, topic: str, folder: Path) -> None:
    """Run each step, and print its error."""
    spark = SparkSession.builder.master("local[2]").appName("failures").getOrCreate()
    connection = {"kafka.bootstrap.servers": servers}
    decoded = {"subscribe": topic, "value.format": "json", "value.schema": "id int", "startingOffsets": "earliest"}

    def read(**options: str) -> DataFrame:
        return spark.read.format("zkafka").options(**connection, **options).load()

    def write(query: str) -> None:
        spark.sql(query).write.format("zkafka").options(**connection, topic=topic).mode("append").save()

    def stream(name: str, **options: str) -> None:
        frame = spark.readStream.format("zkafka").options(**connection, **options).load()
        frame.writeStream.format("noop").option("checkpointLocation", str(folder / name)).start().awaitTermination(120)

    steps: dict[str, Callable[[], object]] = {
        "option": lambda: read(subscribe=topic, startingOffset="earliest"),
        "topic": lambda: read(subscribe="no-such-topic").collect(),
        "read": lambda: read(**decoded).collect(),
        "column": lambda: write("select 1.5D as value"),
        "write": lambda: write("select repeat('x', 2000000) as value"),
        "stream option": lambda: stream("option", subscribe=topic, endingOffsets="latest"),
        "stream": lambda: stream("stream", subscribe="no-such-stream"),
        "stream task": lambda: stream("task", **decoded),
    }
    printed = {}
    for name, step in steps.items():
        try:
            step()
        except PySparkException:
            printed[name] = traceback.format_exc()
    spark.stop()
    sys.stdout.write(json.dumps(printed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
