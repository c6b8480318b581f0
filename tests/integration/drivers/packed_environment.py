"""A job for spark-submit that writes and reads a topic, and prints as JSON which installed packages the driver and the
tasks used.

Arguments: zookeeper.connect, a topic, and ``register`` to register the source instead of letting Spark find it.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import pyspark_zkafka


def place() -> str:
    """Return the file from which a task imports the package."""
    from pyspark_zkafka import __file__ as file

    return str(file)


def main(zookeeper: str, topic: str, found: str) -> None:
    """Write 100 records in 4 tasks, then read them."""
    spark = SparkSession.builder.getOrCreate()
    try:
        if found == "register":
            spark.dataSource.register(pyspark_zkafka.DefaultSource)
        options = {"zookeeper.connect": zookeeper, "transport": "direct"}
        rows = spark.range(100, numPartitions=4).selectExpr("cast(id AS string) AS value")
        rows.write.format("zkafka").options(**options, topic=topic).mode("append").save()
        read = spark.read.format("zkafka").options(**options, subscribe=topic).schema("value string").load()
        placed = read.select("value", udf(place, "string", useArrow=False).asNondeterministic()().alias("place"))
        answer = {"driver": pyspark_zkafka.__file__, "records": [record.asDict() for record in placed.collect()]}
        print(json.dumps(answer))  # noqa: T201
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
