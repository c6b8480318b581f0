"""``zkafka demo``: the package on real servers, step by step.

On Kafka 4, rows are written, read and streamed in a consumer group, whose lag is shown. With ZooKeeper, two streaming
queries and a JVM consumer then share a group, shown as a live table.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # PySpark's own custom
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import DEMO_FAILED
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.znodes.groups import consumer_of_thread
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.testing.processes import Wait
from pyspark_zkafka.threads import call_in_thread
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

TOPIC, GROUP = "orders", "billing"
PARTITIONS, REPLICATION = 8, 2
CLICKS, SHOP, CLICKS_PARTITIONS = "clicks", "shop", 6
_LATE_ROWS = 10_000
_PATIENCE_S = 120.0
_INTERRUPTED = 130
_RECORDS_A_STEP = 600
_COLOURS = ("cyan", "magenta", "yellow", "green")
_READ = f'spark.read.format("zkafka").option("subscribe", "{TOPIC}").load()'
_WRITE = f'frame.write.format("zkafka").option("topic", "{TOPIC}").mode("append").save()'
_STREAM = f'spark.readStream.format("zkafka").options(subscribe="{TOPIC}", **{{"group.id": "{GROUP}"}}) ...'
_LAG = f'spark.read.format("zkafka").options(view="offsets", **{{"group.id": "{GROUP}"}}).load()'
_JOIN = f'spark.readStream.format("zkafka").option("subscribe", "{CLICKS}").option("group.id", "{SHOP}")'


def run(rows: int, cores: int) -> None:
    """Run all steps, and leave nothing running. Blocks for about two minutes once the jars are cached."""
    console = Console()
    started = time.monotonic()
    with NamedTemporaryFile(prefix="zkafka-demo-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    try:
        with open_spark(console, cores, log) as spark:
            with _running(console, "4.3.1", "Start Kafka 4: three brokers") as cluster:
                _Demo(console, cluster, spark, rows).run()
            with _running(console, "3.9.1", "With ZooKeeper: start Kafka 3.9 and three brokers") as cluster:
                _GroupDemo(console, cluster, spark).run()
        log.unlink()
    except KeyboardInterrupt:
        console.print("[bold]Interrupted[/]")
        raise SystemExit(_INTERRUPTED) from None
    except Exception:
        console.print(f"[red]Failed[/]; Spark's log is in {log}")
        raise
    console.print(f"[bold green]Done[/] in {time.monotonic() - started:.0f} s; nothing is left running.")


@contextmanager
def _running(console: Console, kafka_version: str, title: str) -> Iterator[LocalCluster]:
    """Start a cluster, and stop it at the end."""
    cluster = LocalCluster(brokers=3, kafka_version=kafka_version)
    with closing(cluster):
        with step(console, title, f'LocalCluster(brokers=3, kafka_version="{kafka_version}")'):
            cluster.start()
        yield cluster


@contextmanager
def open_spark(console: Console, cores: int, log: Path) -> Iterator[SparkSession]:
    """Start Spark, whose JVM and workers write to a log: it would break into the live tables."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with step(console, "Start Spark", f'SparkSession.builder.master("local[{cores}]").getOrCreate()'):
        builder = SparkSession.builder.master(f"local[{cores}]").appName("zkafka demo")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        with _standard_error_to(log):
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Let processes that are started meanwhile write their errors to a file."""
    ours = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


@dataclass(frozen=True)
class _Demo:
    """The steps without ZooKeeper."""

    console: Console
    cluster: LocalCluster
    spark: SparkSession
    rows: int

    def run(self) -> None:
        """Run all steps. Blocks for about a minute."""
        self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication=REPLICATION)
        with step(self.console, f"Write {self.rows:,} rows", _WRITE):
            seconds = self._with_bar(lambda: self._write(0, self.rows))
        self.console.print(f"{self.rows:,} rows, each acknowledged by all in-sync replicas, {_in(seconds)}")
        with step(self.console, "Read them, and prove it", _READ):
            read, misplaced, seconds = self._count()
        prove(self.console, f"{read:,} records read, {self.rows:,} written", read == self.rows)
        claim = f"{misplaced} of their keys are in another partition than Kafka's default partitioner gives them"
        prove(self.console, claim, misplaced == 0)
        self.console.print(f"{read:,} rows, counted by key and partition, {_in(seconds)}")
        with TemporaryDirectory(prefix="zkafka-demo-") as folder:
            self._stream(folder)
        self._stop_broker()

    @property
    def _options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}

    def _write(self, first: int, end: int) -> None:
        frame = self.spark.range(first, end).select(
            F.concat(F.lit("customer-"), (F.col("id") % 50_000).cast("string")).alias("key"),
            F.to_json(F.struct(F.col("id"), (F.col("id") % 997).alias("amount"))).alias("value"),
        )
        frame.write.format("zkafka").options(**self._options, topic=TOPIC).mode("append").save()

    def _stream(self, folder: str) -> None:
        """Stream the records into files in a group, twice, with more records in between."""
        with step(self.console, "Stream them into files, in a consumer group", _STREAM):
            self._run_stream(folder)
        with step(self.console, f"Write {_LATE_ROWS:,} rows more, and see the group's lag", _LAG):
            self._write(self.rows, self.rows + _LATE_ROWS)
            lag = self._lag()
        columns = ("topic", "partition", "offset", "log's end", "lag")
        rows = [(row["topic"], row["partition"], row["offset"], row["latest"], row["lag"]) for row in lag]
        self.console.print(table(f"The group {GROUP}", columns, rows))
        behind = sum(row["lag"] for row in lag)
        prove(self.console, f"the group is {behind:,} records behind, {_LATE_ROWS:,} were written", behind == _LATE_ROWS)
        with step(self.console, "Run the stream again, from its checkpoint", _STREAM):
            self._run_stream(folder)
            found = self.spark.read.parquet(f"{folder}/files")
            count, different, behind = found.count(), found.distinct().count(), sum(row["lag"] for row in self._lag())
        is_whole = count == different == self.rows + _LATE_ROWS
        prove(
            self.console,
            f"{count:,} records streamed, {different:,} of them different; lag {behind}",
            is_whole and not behind,
        )

    def _run_stream(self, folder: str) -> None:
        options = {**self._options, "subscribe": TOPIC, "group.id": GROUP, "startingOffsets": "earliest"}
        places = self.spark.readStream.format("zkafka").options(**options).load().select("partition", "offset")
        writer = places.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start(f"{folder}/files").awaitTermination()

    def _lag(self) -> list[Row]:
        view = self.spark.read.format("zkafka").options(**self._options, view="offsets", **{"group.id": GROUP})
        return view.load().orderBy("topic", "partition").collect()

    def _stop_broker(self) -> None:
        victim = self.cluster.broker_ids[0]
        with step(self.console, "Stop a broker, and read again", f"cluster.stop({victim})"):
            self.cluster.stop(victim)
            read, misplaced, _ = self._count()
        is_whole = read == self.rows + _LATE_ROWS and misplaced == 0
        prove(self.console, f"{read:,} records read without broker {victim}", is_whole)

    def _count(self) -> tuple[int, int, float]:
        """Return the counts of records, and of keys that this package's own router puts elsewhere, and seconds."""
        started = time.monotonic()
        reader = self.spark.read.format("zkafka").options(**self._options, subscribe=TOPIC)
        found = reader.load().groupBy("key", "partition").count().collect()
        expected, _ = Router(TOPIC, PARTITIONS, range(PARTITIONS)).route(len(found), pa.array([r["key"] for r in found]))
        misplaced = sum(row["partition"] != partition for row, partition in zip(found, expected.tolist(), strict=True))
        return sum(row["count"] for row in found), misplaced, time.monotonic() - started

    def _with_bar(self, write: Callable[[], object]) -> float:
        """Write in this thread, with a progress bar of the records in Kafka, and return the seconds."""
        finished = threading.Event()
        columns = (TextColumn("records in Kafka"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        started = time.monotonic()
        with Progress(*columns, console=self.console) as progress, ThreadPoolExecutor(1) as pool:
            task = progress.add_task("", total=self.rows)

            def watch() -> None:
                with KafkaAdmin(self.cluster.bootstrap_servers, {}) as admin:
                    is_last = False
                    while not is_last:
                        is_last = finished.wait(0.5)
                        progress.update(task, completed=sum(log_ends(admin, TOPIC, PARTITIONS).values()))

            watching = pool.submit(watch)
            try:
                write()  # not in the other thread, which has no active Spark session
            finally:
                finished.set()
            watching.result()
        return time.monotonic() - started


def _in(seconds: float) -> str:
    return f"in {seconds:.1f} s; much of it is the start of Spark's first tasks (make bench measures the speed)"


@dataclass
class _GroupDemo:
    """Runs the steps one after the other; each waits until every partition has its owner."""

    console: Console
    cluster: LocalCluster
    spark: SparkSession
    seen: set[tuple[int, int]] = field(default_factory=set)
    produced: int = 0
    queries: list[StreamingQuery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = zookeeper_client(self.cluster)
        self._brokers = KafkaAdmin(self.cluster.bootstrap_servers, {})

    def run(self) -> None:
        """Run all steps. Blocks for about half a minute."""
        self.cluster.create_topic(CLICKS, partitions=CLICKS_PARTITIONS, replication=2)
        properties = {"auto.commit.interval.ms": "500", "rebalance.backoff.ms": "500", "rebalance.max.retries": "20"}
        connect = self.cluster.zookeeper_connect
        jvm = OldConsumer(connect, SHOP, topics={CLICKS: 1}, consumer_id="jvm", properties=properties)
        with TemporaryDirectory(prefix="zkafka-demo-") as folder, self._client, self._brokers, ExitStack() as members:
            members.push(jvm)
            members.callback(self._stop)
            self._show("A streaming query joins a group", _JOIN, lambda: self.queries.append(self._query("a", folder)))
            self._show("A second one joins", _JOIN, lambda: self.queries.append(self._query("b", folder)))
            self._show("A JVM consumer of Kafka 1.1.1 joins", 'OldConsumer(..., kafka_version="1.1.1")', jvm.start)
            self._show("The first query stops", "query.stop()", lambda: self.queries.pop(0).stop())
            self._finish(jvm)

    def _query(self, name: str, checkpoints: str) -> StreamingQuery:
        options = {
            "zookeeper.connect": self.cluster.zookeeper_connect,
            "subscribe": CLICKS,
            "group.id": SHOP,
            "consumer.id": f"query-{name}",
            "auto.offset.reset": "earliest",
            "rebalance.backoff.ms": "500",
        }
        stream = self.spark.readStream.format("zkafka").options(**options).load()
        writer = stream.writeStream.foreachBatch(self._note).trigger(processingTime="200 milliseconds")
        return writer.option("checkpointLocation", f"{checkpoints}/{name}").start()

    def _note(self, frame: DataFrame, batch: int) -> None:
        self.seen.update((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())

    def _show(self, title: str, call: str, change: Callable[[], object]) -> None:
        """Change the group's members while records come in, and show the owners until all has settled."""
        with step(self.console, title, call, spinner=False):
            before = set(self._client.group_owners(SHOP).values())
            producing = call_in_thread(self._produce, "zkafka-demo-producer")
            change()
            started, deadline = time.monotonic(), time.monotonic() + _PATIENCE_S
            with Live(self._table(), console=self.console, auto_refresh=False, transient=True) as live:
                while not self._settled(before) or not producing.done():
                    self._require_running()
                    if time.monotonic() > deadline:
                        raise DEMO_FAILED(f"{title}: not every partition has an owner; please report it")
                    live.update(self._table(), refresh=True)
                    time.sleep(0.1)
                producing.result()
                live.update(self._table(), refresh=True)
        shares = Counter(consumer_of_thread(owner) for owner in self._client.group_owners(SHOP).values())
        shown = ", ".join(f"{name.removeprefix(SHOP + '_')} {count}" for name, count in sorted(shares.items()))
        self.console.print(f"Every partition has one owner after {time.monotonic() - started:.1f} s: {shown}\n")

    def _stop(self) -> None:
        for query in self.queries:
            query.stop()

    def _require_running(self) -> None:
        for query in self.queries:
            if not query.isActive:
                raise DEMO_FAILED(f"A streaming query has ended: {query.exception()}")

    def _produce(self) -> None:
        started = self.produced
        self.produced += _RECORDS_A_STEP
        self.cluster.produce(CLICKS, [{"key": f"user-{n}", "value": f"click {n}"} for n in range(started, self.produced)])

    def _finish(self, jvm: OldConsumer) -> None:
        with step(self.console, "Nothing was lost", "records read by the members, compared with those written"):
            everything = {(tp.partition, offset) for tp, end in self._ends().items() for offset in range(end)}

            def finished() -> bool:
                self._require_running()
                return everything <= self._read(jvm) and self._client.group_offsets(SHOP) == self._ends()

            Wait(_PATIENCE_S, poll_s=0.1).until(finished)
            self.console.print(self._table())
        alone = f"{len(self._read(jvm) - self.seen):,} of them by the JVM consumer alone"
        prove(self.console, f"{len(everything):,} records read by the group, {alone}", everything == self._read(jvm))
        at_ends = self._client.group_offsets(SHOP) == self._ends()
        prove(self.console, "the offsets in ZooKeeper are the ends of the logs", at_ends)

    def _read(self, jvm: OldConsumer) -> set[tuple[int, int]]:
        return self.seen | {(record.partition, record.offset) for record in jvm.records}

    def _settled(self, before: set[str]) -> bool:
        """Return whether every partition has an owner, the members share evenly, and the owning threads have changed."""
        owners = self._client.group_owners(SHOP)
        counts = Counter(owners.values())
        members = len(self._client.group_members(SHOP).readable)
        full = len(owners) == CLICKS_PARTITIONS and len(counts) == members and set(owners.values()) != before
        return full and max(counts.values()) - min(counts.values()) <= 1

    def _ends(self) -> dict[TopicPartition, int]:
        return log_ends(self._brokers, CLICKS, CLICKS_PARTITIONS)

    def _table(self) -> Table:
        owners, offsets, ends = self._client.group_owners(SHOP), self._client.group_offsets(SHOP), self._ends()
        colours = dict(zip(sorted(set(owners.values())), cycle(_COLOURS), strict=False))
        shown = {tp: f"[{colours[thread]}]{thread}[/]" for tp, thread in owners.items()}
        rows = [
            (tp.partition, shown.get(tp, "[dim]nobody[/]"), offsets.get(tp, "-"), end) for tp, end in sorted(ends.items())
        ]
        return table(f"/consumers/{SHOP}", (f"owners/{CLICKS}", "thread", f"offsets/{CLICKS}", "log's end"), rows)


@contextmanager
def step(console: Console, title: str, call: str, *, spinner: bool = True) -> Iterator[None]:
    """Show a step's title, its call and its duration; `spinner` must be off for other live displays."""
    console.print(Panel(f"[cyan]{call}[/]", title=f"[bold]{title}[/]", title_align="left", border_style="blue"))
    started = time.monotonic()
    with console.status(f"{title} ...") if spinner else nullcontext():
        yield
    console.print(f"[dim]{time.monotonic() - started:.1f} s[/]\n")


def prove(console: Console, claim: str, holds: bool) -> None:
    """Print a claim as proved, or end the demo."""
    if not holds:
        raise DEMO_FAILED(f"This check failed: {claim}; please report it with the output above")
    console.print(f"[green]proved[/] {claim}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of the rows' texts, in which Rich's markup is interpreted."""
    shown = Table(*columns, title=title, title_justify="left", header_style="bold")
    for row in rows:
        shown.add_row(*map(str, row))
    return shown


def zookeeper_client(cluster: LocalCluster) -> ZooKeeperClient:
    """Return a client of the cluster's ZooKeeper, to be opened by `with`."""
    config = parse_connection({"zookeeper.connect": cluster.zookeeper_connect}).zookeeper
    if config is None:
        raise DEMO_FAILED(f"No ZooKeeper in {cluster.zookeeper_connect!r}")
    return ZooKeeperClient(config)


def log_ends(admin: KafkaAdmin, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """Return the end of each partition's log."""
    return admin.list_offsets({TopicPartition(topic, p): LATEST for p in range(partitions)})
