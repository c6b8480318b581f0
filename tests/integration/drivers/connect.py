"""A client of Spark Connect, without a JVM: writes and reads a topic, and tells as JSON what it found.

Arguments: the server's URL, zookeeper.connect, a topic.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(server: str, zookeeper: str, topic: str) -> None:
    """Write 100 records and read them back, all by the source's name."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    try:
        options = {"zookeeper.connect": zookeeper}
        rows = spark.range(100).selectExpr("cast(id % 10 AS string) AS key", "cast(id AS string) AS value")
        rows.write.format("zkafka").options(**options, topic=topic).mode("append").save()
        read = spark.read.format("zkafka").options(**options, subscribe=topic)
        frame = read.schema("partition int, offset bigint, key string, value string").load()
        brokers = spark.read.format("zkafka").options(**options, view="brokers").load()
        answer = {
            "session": type(spark).__module__,
            "columns": spark.read.format("zkafka").options(**options, subscribe=topic).load().columns,
            "rows": [row.asDict() for row in frame.collect()],
            "brokers": brokers.count(),
            "refused": _refused(spark, options),
        }
        print(json.dumps(answer))  # noqa: T201
    finally:
        spark.stop()


def _refused(spark: SparkSession, options: dict[str, str]) -> str:
    """What the client is told of an option that does not exist."""
    try:
        spark.read.format("zkafka").options(**options, subscribes="t").load().collect()
    except Exception as error:  # noqa: BLE001
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
