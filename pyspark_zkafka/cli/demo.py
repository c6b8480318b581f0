"""The demo of the package on real servers, step by step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspark_zkafka.cli.demo_steps import prove, step
from pyspark_zkafka.cli.group_demo import GroupDemo
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST, canonical_json
from pyspark_zkafka.protocol.partitioners import Router
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["run"]

TOPIC, TOTALS, GROUP = "orders", "totals", "billing"
PARTITIONS, REPLICATION = 8, 2


def run(rows: int, cores: int) -> None:
    """Run all steps; leaves nothing running. Blocks for about a minute once the jars are cached."""
    console = Console()
    begin = time.monotonic()
    with step(console, "Start ZooKeeper and three brokers", "LocalCluster(brokers=3)"):
        cluster = LocalCluster(brokers=3).start()
    try:
        with _spark(console, cores) as spark:
            _Demo(console, cluster, spark, rows).run()
    finally:
        with step(console, "Stop everything", "LocalCluster.close()"):
            cluster.close()
    console.print(f"[bold green]Done[/] in {time.monotonic() - begin:.0f} s; nothing is left running.")


@contextmanager
def _spark(console: Console, cores: int) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with step(console, "Start Spark", f'SparkSession.builder.master("local[{cores}]").getOrCreate()'):
        builder = SparkSession.builder.master(f"local[{cores}]").appName("zkafka demo")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class _Demo:
    console: Console
    cluster: LocalCluster
    spark: SparkSession
    rows: int

    def run(self) -> None:
        self._create_topics()
        self._write()
        self._show_plan()
        self._read()
        self._commit()
        self._stop_broker()
        self.cluster.restart(self.cluster.broker_ids[0])
        GroupDemo(self.console, self.cluster, self.spark).run()

    @property
    def _options(self) -> dict[str, str]:
        return {"zookeeper.connect": self.cluster.zookeeper_connect}

    def _create_topics(self) -> None:
        call = f'create_topic("{TOPIC}", partitions={PARTITIONS}, replication={REPLICATION})'
        with step(self.console, "Create a topic", call):
            self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication=REPLICATION)
            self.cluster.create_topic(TOTALS, partitions=1, replication=REPLICATION)
        self.console.print(_brokers_table(self._snapshot()))

    def _write(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812  # PySpark's own custom

        frame = self.spark.range(self.rows).select(
            F.concat(F.lit("customer-"), (F.col("id") % 50_000).cast("string")).alias("key"),
            F.to_json(F.struct(F.col("id"), (F.col("id") % 997).alias("amount"))).alias("value"),
        )
        call = f'frame.write.format("zkafka").option("topic", "{TOPIC}").mode("append").save()'
        with step(self.console, f"Write {self.rows:,} rows from a DataFrame", call):
            writer = frame.write.format("zkafka").options(**self._options).option("topic", TOPIC).mode("append")
            seconds = self._with_bar("records in Kafka", self.rows, writer.save, self._records)
        self.console.print(f"{self.rows / seconds:,.0f} rows/s, each acknowledged by all in-sync replicas")

    def _show_plan(self) -> None:
        call = f'spark.read.format("zkafka").option("view", "plan").option("subscribe", "{TOPIC}").load()'
        with step(self.console, "Plan a read from ZooKeeper's leaders and ISRs", call):
            plan = self._plan()
        self.console.print(_plan_table(plan))

    def _read(self) -> None:
        call = f'spark.read.format("zkafka").option("subscribe", "{TOPIC}").load()'
        with step(self.console, "Read it back, and prove it", call):
            read, misplaced, seconds = self._count()
        prove(self.console, f"{read:,} records read, {self.rows:,} written", read == self.rows)
        prove(self.console, f"{misplaced} of their keys are in another partition than murmur2 assigns", misplaced == 0)
        self.console.print(f"{read / seconds:,.0f} rows/s, counted by key and partition")

    def _commit(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        ends = canonical_json({TopicPartition(TOPIC, row["partition"]): row["until"] for row in self._plan()})
        call = f'totals.write.format("zkafka").options(**{{"group.id": "{GROUP}", "commitOffsets": ends}}) ...'
        with step(self.console, "Write totals, and commit the offsets that they cover", call):
            totals = (
                self._load()
                .groupBy(F.col("partition").cast("string").alias("key"))
                .agg(F.count("*").cast("string").alias("value"))
            )
            committing = {**self._options, "topic": TOTALS, "group.id": GROUP, "commitOffsets": ends}
            totals.write.format("zkafka").options(**committing).mode("append").save()
        self.console.print(self._offsets_table())

    def _stop_broker(self) -> None:
        before = self._snapshot()
        victim = self.cluster.broker_ids[0]
        with step(self.console, "Stop a broker, and read again", f"cluster.stop({victim})"):
            self.cluster.stop(victim)
            read, misplaced, _ = self._count()
        self.console.print(_leaders_table(before, self._snapshot()))
        prove(self.console, f"{read:,} records read without broker {victim}", read == self.rows and misplaced == 0)

    def _snapshot(self) -> ClusterSnapshot:
        with self._zookeeper() as client:
            return client.snapshot([TOPIC])

    def _zookeeper(self) -> ZooKeeperClient:
        config = parse_connection(self._options).zookeeper
        if config is None:
            raise ZKafkaError("DEMO_FAILED", "the demo's cluster has no ZooKeeper; please report it")
        return ZooKeeperClient(config)

    def _plan(self) -> list[Row]:
        return self._load(view="plan").orderBy("spark_partition").collect()

    def _load(self, **options: str) -> DataFrame:
        reader = self.spark.read.format("zkafka").options(**self._options, **options)
        return reader.option("subscribe", TOPIC).load()

    def _count(self) -> tuple[int, int, float]:
        """Count of records, count of keys not in the partition that Kafka's default partitioner chooses, and seconds."""
        begin = time.monotonic()
        found = self._load().groupBy("key", "partition").count().collect()
        expected, _ = Router(TOPIC, PARTITIONS, range(PARTITIONS)).route(len(found), pa.array([r["key"] for r in found]))
        misplaced = sum(row["partition"] != partition for row, partition in zip(found, expected.tolist(), strict=True))
        return sum(row["count"] for row in found), misplaced, time.monotonic() - begin

    def _records(self) -> int:
        partitions = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        with KafkaAdmin(self.cluster.bootstrap_servers, {}) as admin:
            return sum(admin.list_offsets(dict.fromkeys(partitions, LATEST)).values())

    def _with_bar(self, what: str, total: int, work: Callable[[], object], done: Callable[[], int]) -> float:
        """Run `work` in this thread, with a progress bar of what `done` counts in another one; returns the seconds."""
        finished = threading.Event()
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        begin = time.monotonic()
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(what, total=total)

            def watch() -> None:
                while not finished.wait(0.5):
                    progress.update(task, completed=done())

            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                work()
            finally:
                finished.set()
                watcher.join()
            progress.update(task, completed=done())
        return time.monotonic() - begin

    def _offsets_table(self) -> Table:
        table = _table("Offsets in ZooKeeper now", "znode", "value")
        with self._zookeeper() as client:
            found = client.group_offsets(GROUP, None)
        for tp, offset in sorted(found.items()):
            table.add_row(f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}", str(offset))
        return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _brokers_table(snapshot: ClusterSnapshot) -> Table:
    table = _table("Brokers, from /brokers/ids", "id", "endpoint", "controller")
    for broker in snapshot.brokers.values():
        endpoints = ", ".join(map(str, broker.endpoints))
        table.add_row(str(broker.id), endpoints, "yes" if broker.id == snapshot.controller else "")
    return table


def _plan_table(plan: list[Row]) -> Table:
    table = _table(
        "The plan: one Spark partition a Kafka partition", "Spark partition", "partition", "leader", "ISR", "range"
    )
    for row in plan:
        isr, partition = ", ".join(map(str, row["isr"])), TopicPartition(row["topic"], row["partition"])
        table.add_row(
            str(row["spark_partition"]), str(partition), str(row["leader"]), isr, f"[{row['start']}, {row['until']})"
        )
    return table


def _leaders_table(before: ClusterSnapshot, after: ClusterSnapshot) -> Table:
    table = _table("Leaders", "partition", "before", "after", "ISR now")
    for tp in before.partitions(TOPIC):
        was, now = before.states[tp], after.states[tp]
        table.add_row(str(tp), str(was.leader), str(now.leader), ", ".join(map(str, now.isr)))
    return table
