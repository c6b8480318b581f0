"""The demo of the package on real servers, step by step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # PySpark's own custom
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.cluster import open_cluster
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import canonical_json
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.spec import tested_version
from pyspark_zkafka.tools.demo_steps import log_ends, prove, step, table, zookeeper_client
from pyspark_zkafka.tools.group_demo import GroupDemo
from pyspark_zkafka.tools.stream_demo import run_stream_demo

__all__ = ["run"]

TOPIC, TOTALS, GROUP = "orders", "totals", "billing"
PARTITIONS, REPLICATION = 8, 2


def run(rows: int, cores: int, kafka_version: str = "3.9.1") -> None:
    """Run all steps; leaves nothing running. Blocks for about a minute once the jars are cached."""
    console = Console()
    begin = time.monotonic()
    cluster = LocalCluster(brokers=3, kafka_version=tested_version(kafka_version))
    servers = "three brokers in KRaft mode" if cluster.controller_ids else "ZooKeeper and three brokers"
    with step(console, f"Start {servers}", f'LocalCluster(brokers=3, kafka_version="{cluster.kafka_version}")'):
        cluster.start()
    try:
        with _spark(console, cores) as spark:
            _Demo(console, cluster, spark, rows).run()
    finally:
        with step(console, "Stop everything", "LocalCluster.close()"):
            cluster.close()
    console.print(f"[bold green]Done[/] in {time.monotonic() - begin:.0f} s; nothing is left running.")


@contextmanager
def _spark(console: Console, cores: int) -> Iterator[SparkSession]:
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
        if self._is_kraft:
            run_stream_demo(self.console, self.spark, self._load_stream(), self.rows)
        else:
            GroupDemo(self.console, self.cluster, self.spark).run()

    @property
    def _is_kraft(self) -> bool:
        return bool(self.cluster.controller_ids)

    @property
    def _options(self) -> dict[str, str]:
        if self._is_kraft:
            return {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}
        return {"zookeeper.connect": self.cluster.zookeeper_connect}

    def _create_topics(self) -> None:
        call = f'create_topic("{TOPIC}", partitions={PARTITIONS}, replication={REPLICATION})'
        with step(self.console, "Create a topic", call):
            self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication=REPLICATION)
            self.cluster.create_topic(TOTALS, partitions=1, replication=REPLICATION)
        self.console.print(_brokers_table(self._snapshot(), is_kraft=self._is_kraft))

    def _write(self) -> None:
        frame = self.spark.range(self.rows).select(
            F.concat(F.lit("customer-"), (F.col("id") % 50_000).cast("string")).alias("key"),
            F.to_json(F.struct(F.col("id"), (F.col("id") % 997).alias("amount"))).alias("value"),
        )
        call = f'frame.write.format("zkafka").option("topic", "{TOPIC}").mode("append").save()'
        with step(self.console, f"Write {self.rows:,} rows from a DataFrame", call):
            writer = frame.write.format("zkafka").options(**self._options).option("topic", TOPIC).mode("append")
            seconds = self._with_bar(writer.save)
        self.console.print(f"{self.rows / seconds:,.0f} rows/s, each acknowledged by all in-sync replicas")

    def _show_plan(self) -> None:
        call = f'spark.read.format("zkafka").option("view", "plan").option("subscribe", "{TOPIC}").load()'
        source = "the brokers'" if self._is_kraft else "ZooKeeper's"
        with step(self.console, f"Plan a read from {source} leaders and ISRs", call):
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
        ends = canonical_json({_place(row): row["until"] for row in self._plan()})
        call = f'totals.write.format("zkafka").options(**{{"group.id": "{GROUP}", "commitOffsets": ends}}) ...'
        with step(self.console, "Write totals, and commit the offsets that they cover", call):
            by_partition = self._load().groupBy(F.col("partition").cast("string").alias("key"))
            totals = by_partition.agg(F.count("*").cast("string").alias("value"))
            committing = {**self._options, "topic": TOTALS, "group.id": GROUP, "commitOffsets": ends}
            if self._is_kraft:
                committing["offsets.storage"] = "kafka"
            totals.write.format("zkafka").options(**committing).mode("append").save()
        self.console.print(self._offsets_table())

    def _stop_broker(self) -> None:
        before, victim = self._snapshot(), self.cluster.broker_ids[0]
        with step(self.console, "Stop a broker, and read again", f"cluster.stop({victim})"):
            self.cluster.stop(victim)
            read, misplaced, _ = self._count()
        self.console.print(_leaders_table(before, self._snapshot()))
        prove(self.console, f"{read:,} records read without broker {victim}", read == self.rows and misplaced == 0)

    def _snapshot(self) -> ClusterSnapshot:
        with open_cluster(parse_connection(self._options)) as source:
            return source.snapshot([TOPIC])

    def _plan(self) -> list[Row]:
        return self._load(view="plan").orderBy("spark_partition").collect()

    def _load(self, **options: str) -> DataFrame:
        reader = self.spark.read.format("zkafka").options(**self._options, **options)
        return reader.option("subscribe", TOPIC).load()

    def _load_stream(self) -> DataFrame:
        return (
            self.spark.readStream.format("zkafka")
            .options(**self._options, startingOffsets="earliest")
            .option("subscribe", TOPIC)
            .load()
        )

    def _count(self) -> tuple[int, int, float]:
        """Count of records, count of keys not in the partition that Kafka's default partitioner chooses, and seconds."""
        begin = time.monotonic()
        found = self._load().groupBy("key", "partition").count().collect()
        expected, _ = Router(TOPIC, PARTITIONS, range(PARTITIONS)).route(len(found), pa.array([r["key"] for r in found]))
        misplaced = sum(row["partition"] != partition for row, partition in zip(found, expected.tolist(), strict=True))
        return sum(row["count"] for row in found), misplaced, time.monotonic() - begin

    def _records(self) -> int:
        with KafkaAdmin(self.cluster.bootstrap_servers, {}) as admin:
            return sum(log_ends(admin, TOPIC, PARTITIONS).values())

    def _with_bar(self, write: Callable[[], object]) -> float:
        """Write in this thread, with a progress bar of the records in Kafka; returns the seconds."""
        finished = threading.Event()
        columns = (TextColumn("records in Kafka"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        begin = time.monotonic()
        with Progress(*columns, console=self.console) as progress, ThreadPoolExecutor(1) as pool:
            task = progress.add_task("", total=self.rows)

            def watch() -> None:
                while not finished.wait(0.5):
                    progress.update(task, completed=self._records())

            pool.submit(watch)
            try:
                write()  # not in the other thread, which has no active Spark session
            finally:
                finished.set()
            progress.update(task, completed=self._records())
        return time.monotonic() - begin

    def _offsets_table(self) -> Table:
        if self._is_kraft:
            return self._kafka_offsets_table()
        with zookeeper_client(self.cluster) as client:
            found = sorted(client.group_offsets(GROUP).items())
        rows = [(f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}", offset) for tp, offset in found]
        return table("Offsets in ZooKeeper now", ("znode", "value"), rows)

    def _kafka_offsets_table(self) -> Table:
        with KafkaGroupOffsets(self.cluster.bootstrap_servers, {}, GROUP) as offsets:
            found = sorted(offsets.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)]).items())
        return table(f"Offsets of the group {GROUP} in Kafka now", ("partition", "offset"), found)


def _brokers_table(snapshot: ClusterSnapshot, *, is_kraft: bool) -> Table:
    rows = [(b.id, ", ".join(map(str, b.endpoints))) for b in snapshot.brokers.values()]
    if is_kraft:  # metadata names no controller then
        return table("Brokers, from their metadata", ("id", "endpoint"), rows)
    controller = {snapshot.controller: "yes"}
    marked = [(*row, controller.get(row[0], "")) for row in rows]
    return table("Brokers, from /brokers/ids", ("id", "endpoint", "controller"), marked)


def _place(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _plan_table(plan: list[Row]) -> Table:
    columns = ("Spark partition", "partition", "leader", "ISR", "range")
    rows = [
        (r["spark_partition"], _place(r), r["leader"], ", ".join(map(str, r["isr"])), f"[{r['start']}, {r['until']})")
        for r in plan
    ]
    return table("The plan: one Spark partition for each Kafka partition", columns, rows)


def _leaders_table(before: ClusterSnapshot, after: ClusterSnapshot) -> Table:
    states = [(tp, before.states[tp], after.states[tp]) for tp in before.partitions(TOPIC)]
    rows = [(tp, was.leader, now.leader, ", ".join(map(str, now.isr))) for tp, was, now in states]
    return table("Leaders", ("partition", "before", "after", "ISR now"), rows)
