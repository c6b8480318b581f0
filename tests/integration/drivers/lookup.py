"""Streams that look records up in a frame that each micro-batch loads, or that is loaded once, with and without pushdown.

Arguments: the brokers' addresses, a topic to read, a topic to look up, and a folder. Prints what each stream has found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TypeAlias

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

Take: TypeAlias = Callable[[DataFrame], None]

KEYS = "ab"
MANY_KEYS = "abcdef"  # more micro-batches than workers, so that one reads by the plan twice


def main(servers: str, stream_topic: str, lookup_topic: str, folder: str) -> None:
    """Run all streams."""
    kafka = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    producer = Producer({"bootstrap.servers": servers})

    def produce(topic: str, key: str) -> None:
        producer.produce(topic, key.upper().encode(), key.encode())
        assert producer.flush(30) == 0

    def lookup() -> DataFrame:
        loaded = spark.read.format("zkafka").options(**kafka, subscribe=lookup_topic).load()
        return loaded.selectExpr("key", "CAST(value AS STRING) AS found")

    def load_once(stream: DataFrame, take: Take) -> DataStreamWriter:
        return stream.join(lookup(), "key", "left").writeStream.foreachBatch(lambda frame, number: take(frame))

    def load_each_time(stream: DataFrame, take: Take) -> DataStreamWriter:
        return stream.writeStream.foreachBatch(lambda frame, number: take(frame.join(lookup(), "key", "left")))

    def run(name: str, write: Callable[[DataFrame, Take], DataStreamWriter], keys: str) -> dict[str, str | None]:
        """Run a micro-batch for each key, which is written to the lookup topic first. Returns what each key has found."""
        found: dict[str, str | None] = {}

        def take(frame: DataFrame) -> None:
            found.update({bytes(row.key).decode(): row.found for row in frame.collect()})

        stream = spark.readStream.format("zkafka").options(**{**kafka, "startingOffsets": "latest"}, subscribe=stream_topic)
        writer = write(stream.load().selectExpr("key"), take)
        query = writer.option("checkpointLocation", f"{folder}/{name}").start()
        query.processAllAvailable()
        for key in keys:
            produce(lookup_topic, f"{name}-{key}")
            produce(stream_topic, f"{name}-{key}")
            query.processAllAvailable()
        query.stop()
        return found

    for name, write, keys, pushes in (
        ("each", load_each_time, KEYS, False),
        ("pushed", load_once, KEYS, True),
        ("once", load_once, MANY_KEYS, False),
    ):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushes)
        sys.stdout.write(json.dumps(run(name, write, keys)) + "\n")
        sys.stderr.write(f"end of {name}\n")
        sys.stderr.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
