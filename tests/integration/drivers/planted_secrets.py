"""A driver process that uses secrets in every step, and prints everything that a user may see.

Its input is JSON: `folder`, Spark's `conf`, and `options` by name of the step. It prints ``done STEP`` or ``failed STEP``
after each step, so that a test knows which steps ran.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Options = dict[str, str]


def main() -> None:
    """Run each step, and print plans, rows, representations and errors."""
    given = json.load(sys.stdin)
    folder, options = Path(given["folder"]), given["options"]
    logging.basicConfig(stream=sys.stderr)
    logging.getLogger("pyspark_zkafka").setLevel(logging.DEBUG)
    builder = SparkSession.builder.master("local[2]").appName("secrets")
    for name, value in given["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        for step, run in STEPS.items():
            if step in options:
                attempt(step, lambda run=run, step=step: run(spark, folder / step, options[step]))  # type: ignore[misc]
    finally:
        spark.stop()


def show(*texts: object) -> None:
    """Write texts to standard output and flush it."""
    sys.stdout.write(" ".join(map(str, texts)) + "\n")
    sys.stdout.flush()


def attempt(step: str, run: Callable[[], None]) -> None:
    """Run a step; print its error with all causes, in Python and in the JVM."""
    try:
        run()
    except (PySparkException, Py4JError) as error:
        traceback.print_exc(file=sys.stdout)
        show(repr(error), getattr(error, "_stackTrace", ""), getattr(error, "stackTrace", ""))
        show(f"failed {step}")
    else:
        show(f"done {step}")


def frame(spark: SparkSession, options: Options) -> DataFrame:
    """Return a batch read, after printing its plans in both forms."""
    found = spark.read.format("zkafka").options(**options).load()
    for mode in ("extended", "formatted"):
        found.explain(mode=mode)
    show(found, repr(found))
    return found


def read(spark: SparkSession, folder: Path, options: Options) -> None:
    show("rows:", frame(spark, options).where("partition >= 0").count())


def write(spark: SparkSession, folder: Path, options: Options) -> None:
    rows = spark.range(6).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("zkafka").options(**options).mode("append").save()


def stream(spark: SparkSession, folder: Path, options: Options) -> None:
    """Run a streaming query from topic to topic; read and write use the same secrets."""
    writing = {name: value for name, value in options.items() if name.startswith(("zookeeper.", "kafka.", "listener"))}
    source = spark.readStream.format("zkafka").options(**options).option("startingOffsets", "earliest").load()
    source.explain(extended=True)
    query = (
        source.writeStream.format("zkafka")
        .options(**writing)
        .option("topic", "copied")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(120)
        show("progress:", query.lastProgress)
    finally:
        query.explain(extended=True)
        show(query.exception(), query.status)


STEPS: dict[str, Callable[[SparkSession, Path, Options], None]] = {
    "read": read,
    "referred read": read,
    "scram read": read,
    "token read": read,
    "librdkafka read": read,
    "librdkafka scram read": read,
    "librdkafka token write": write,
    "write": write,
    "stream": stream,
    "view": read,
    "refused stream": stream,
    "refused read": read,
    "refused write": write,
    "refused zookeeper": read,
    "malformed read": read,
    "unknown option": read,
    "unreachable authority": read,
}

if __name__ == "__main__":
    main()
