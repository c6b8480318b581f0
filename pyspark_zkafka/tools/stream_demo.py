"""The demo's second part for clusters without ZooKeeper: a stream, and a line on the rest."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from pyspark_zkafka.tools.demo_steps import prove, step

__all__ = ["run_stream_demo"]

_CALL = 'spark.readStream.format("zkafka") ... .trigger(availableNow=True).start()'
_REST = "Consumer groups that share partitions, and the views of groups, need ZooKeeper: run zkafka demo --kafka 3.9.1"


def run_stream_demo(console: Console, spark: SparkSession, records: DataFrame, rows: int) -> None:
    """Stream all records into files, and prove that none is missing or doubled. Blocks for some seconds."""
    with TemporaryDirectory(prefix="zkafka-demo-") as name, step(console, "Stream the topic into files", _CALL):
        folder = Path(name)
        places = records.select("partition", "offset").writeStream.format("parquet")
        query = places.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        query.start(str(folder / "files")).awaitTermination()
        found = spark.read.parquet(str(folder / "files"))
        count, different = found.count(), found.distinct().count()
    prove(console, f"{count:,} records streamed, {different:,} of them different", count == different == rows)
    console.print(_REST)
