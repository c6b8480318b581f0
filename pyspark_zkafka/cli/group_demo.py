"""The demo's second part: two streaming queries and a JVM consumer share a consumer group, shown as a live table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pyspark_zkafka.cli.demo_steps import prove, step
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.znodes.groups import consumer_of_thread
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["GroupDemo"]

TOPIC, GROUP, PARTITIONS = "clicks", "shop", 6
_PATIENCE_S = 40.0
_RECORDS_A_STEP = 600
_COLOURS = ("cyan", "magenta", "yellow", "green")


@dataclass
class GroupDemo:
    """Runs the steps one after the other; each waits until every partition has its owner."""

    console: Console
    cluster: LocalCluster
    spark: SparkSession
    seen: set[tuple[int, int]] = field(default_factory=set)
    produced: int = 0

    def __post_init__(self) -> None:
        config = parse_connection({"zookeeper.connect": self.cluster.zookeeper_connect}).zookeeper
        if config is None:
            raise ZKafkaError("DEMO_FAILED", "the demo's cluster has no ZooKeeper; please report it")
        self._client = ZooKeeperClient(config)
        self._brokers = KafkaAdmin(self.cluster.bootstrap_servers, {})

    def run(self) -> None:
        """Run all steps. Blocks for about half a minute."""
        self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication=2)
        properties = {"auto.commit.interval.ms": "500", "rebalance.backoff.ms": "500", "rebalance.max.retries": "20"}
        jvm = OldConsumer(
            self.cluster.zookeeper_connect, GROUP, topics={TOPIC: 1}, consumer_id="jvm", properties=properties
        )
        with TemporaryDirectory(prefix="zkafka-demo-") as folder, self._client, self._brokers:
            queries: list[StreamingQuery] = []
            try:
                self._show("A streaming query joins a group", _CALL, lambda: queries.append(self._query("a", folder)))
                self._show("A second one joins", _CALL, lambda: queries.append(self._query("b", folder)))
                self._show("A JVM consumer of Kafka 1.1.1 joins", 'OldConsumer(..., kafka_version="1.1.1")', jvm.start)
                self._show("The first query stops", "query.stop()", lambda: queries.pop(0).stop())
                self._finish(jvm)
            finally:
                for query in queries:
                    query.stop()
                jvm.__exit__(None, None, None)

    def _query(self, name: str, checkpoints: str) -> StreamingQuery:
        options = {
            "zookeeper.connect": self.cluster.zookeeper_connect,
            "subscribe": TOPIC,
            "group.id": GROUP,
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
            before = set(self._look().values())
            producer = threading.Thread(target=self._produce)
            producer.start()
            change()
            begin, deadline = time.monotonic(), time.monotonic() + _PATIENCE_S
            with Live(self._table(), console=self.console, auto_refresh=False) as live:
                while not self._settled(before) or producer.is_alive():
                    if time.monotonic() > deadline:
                        raise ZKafkaError("DEMO_FAILED", f"{title}: not every partition has an owner; please report it")
                    live.update(self._table(), refresh=True)
                    time.sleep(0.1)
                producer.join()
                live.update(self._table(), refresh=True)
        shares = Counter(consumer_of_thread(owner) for owner in self._look().values())
        shown = ", ".join(f"{name.removeprefix(GROUP + '_')} {count}" for name, count in sorted(shares.items()))
        self.console.print(f"Every partition has one owner after {time.monotonic() - begin:.1f} s: {shown}\n")

    def _produce(self) -> None:
        begin = self.produced
        self.produced += _RECORDS_A_STEP
        self.cluster.produce(TOPIC, [{"key": f"user-{n}", "value": f"click {n}"} for n in range(begin, self.produced)])

    def _finish(self, jvm: OldConsumer) -> None:
        with step(self.console, "Nothing was lost", "records read by the members, compared with those written"):
            deadline = time.monotonic() + _PATIENCE_S
            everything = {(tp.partition, offset) for tp, end in self._ends().items() for offset in range(end)}
            while not (everything <= self._read(jvm) and self._offsets() == self._ends()):
                if time.monotonic() > deadline:
                    raise ZKafkaError("DEMO_FAILED", "records are missing, or not committed; please report it")
                time.sleep(0.1)
            self.console.print(self._table())
        by_jvm = {(r.partition, r.offset) for r in jvm.records}
        claim = (
            f"{len(everything):,} records read by the group, {len(by_jvm - self.seen):,} of them by the JVM consumer alone"
        )
        prove(self.console, claim, everything == self._read(jvm))
        prove(self.console, "the offsets in ZooKeeper are the ends of the logs", self._offsets() == self._ends())

    def _read(self, jvm: OldConsumer) -> set[tuple[int, int]]:
        return self.seen | {(record.partition, record.offset) for record in jvm.records}

    def _settled(self, before: set[str]) -> bool:
        """True if every partition has an owner, the members share evenly, and the owning threads have changed."""
        owners = self._look()
        counts = Counter(owners.values())
        members = len(self._client.group_members(GROUP).readable)
        full = len(owners) == PARTITIONS and len(counts) == members and set(owners.values()) != before
        return full and max(counts.values()) - min(counts.values()) <= 1

    def _look(self) -> dict[TopicPartition, str]:
        return self._client.group_owners(GROUP)

    def _offsets(self) -> dict[TopicPartition, int]:
        return self._client.group_offsets(GROUP)

    def _ends(self) -> dict[TopicPartition, int]:
        return self._brokers.list_offsets({TopicPartition(TOPIC, p): LATEST for p in range(PARTITIONS)})

    def _table(self) -> Table:
        owners, offsets, ends = self._look(), self._offsets(), self._ends()
        table = Table(title=f"/consumers/{GROUP}", title_justify="left", header_style="bold")
        for column in (f"owners/{TOPIC}", "thread", f"offsets/{TOPIC}", "log's end"):
            table.add_column(column)
        colours = dict(zip(sorted({*owners.values()}), _COLOURS * 2, strict=False))
        for tp, end in sorted(ends.items()):
            thread = owners.get(tp)
            shown = "[dim]nobody[/]" if thread is None else f"[{colours[thread]}]{thread}[/]"
            table.add_row(str(tp.partition), shown, str(offsets.get(tp, "-")), str(end))
        return table


_CALL = f'spark.readStream.format("zkafka").option("subscribe", "{TOPIC}").option("group.id", "{GROUP}")'
