"""Spark's settings, and the sessions in which engines run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.cluster import BenchCluster
from tests.support.spark_standalone import spark_standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
STANDALONE = "standalone"
SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {
        "spark.python.unix.domain.socket.enabled": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    },
    "recommended": {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    },
}
"""Measured settings of Spark: its defaults, and the recommendations of docs/performance.md."""
CONNECTOR_VERSION = "4.2.0"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
    f"org.apache.spark:spark-avro_2.13:{CONNECTOR_VERSION}",
)
"""Spark's own connector, as in the parity tests, and from_avro."""


@dataclass(frozen=True)
class Bench:
    """The context of a measurement; `folder` is for checkpoints, `cores` the number of concurrent tasks."""

    spark: SparkSession
    cluster: BenchCluster
    cores: int
    folder: Path


def prepare_environment() -> None:
    """Set the environment in which Spark and its workers find settings, Python and these modules."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_CONF_DIR"] = str(ROOT / "spark-conf")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = str(ROOT)


@contextmanager
def opened(master: str, cluster: BenchCluster, settings: str) -> Iterator[Bench]:
    """Open a session with settings of `SETTINGS`; a master is ``local[n]``, or ``standalone`` with two one-core workers."""
    prepare_environment()
    with ExitStack() as stack:
        url = master
        if master == STANDALONE:  # with the JVM's own compilers, as with local[n]
            url = stack.enter_context(spark_standalone(worker_memory="2g", jvm_options="")).master
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="zkafka-bench-", ignore_cleanup_errors=True)))
        spark = _session(url, folder, settings)
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        yield Bench(spark, cluster, _cores(master), folder)


def _session(master: str, folder: Path, settings: str) -> SparkSession:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import fetch_jars

    builder = SparkSession.builder.master(master).appName("bench")
    for name, value in {
        "spark.jars": ",".join(map(str, fetch_jars(*CONNECTOR, transitive=False))),
        "spark.driver.memory": "4g",
        "spark.executor.memory": "2g",
        "spark.executor.cores": "1",
        **SETTINGS[settings],
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Start when both workers have provided their executor.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _cores(master: str) -> int:
    return 2 if master == STANDALONE else int(master.removeprefix("local[").removesuffix("]"))
