"""The demo's second part: two streaming queries and a JVM consumer share a consumer group, shown as a live table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live
from rich.table import Table

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import DEMO_FAILED
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import consumer_of_thread
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.testing.processes import Deadline
from pyspark_zkafka.tools.demo_steps import log_ends, prove, step, table, zookeeper_client

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
        self._client = zookeeper_client(self.cluster)
        self._brokers = KafkaAdmin(self.cluster.bootstrap_servers, {})

    def run(self) -> None:
        """Run all steps. Blocks for about half a minute."""
        self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication=2)
        properties = {"auto.commit.interval.ms": "500", "rebalance.backoff.ms": "500", "rebalance.max.retries": "20"}
        connect = self.cluster.zookeeper_connect
        jvm = OldConsumer(connect, GROUP, topics={TOPIC: 1}, consumer_id="jvm", properties=properties)
        with TemporaryDirectory(prefix="zkafka-demo-") as folder, self._client, self._brokers, ExitStack() as members:
            queries: list[StreamingQuery] = []
            members.push(jvm)
            members.callback(_stop, queries)
            self._show("A streaming query joins a group", _CALL, lambda: queries.append(self._query("a", folder)))
            self._show("A second one joins", _CALL, lambda: queries.append(self._query("b", folder)))
            self._show("A JVM consumer of Kafka 1.1.1 joins", 'OldConsumer(..., kafka_version="1.1.1")', jvm.start)
            self._show("The first query stops", "query.stop()", lambda: queries.pop(0).stop())
            self._finish(jvm)

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
            before = set(self._owners().values())
            producer = threading.Thread(target=self._produce)
            producer.start()
            change()
            begin, deadline = time.monotonic(), time.monotonic() + _PATIENCE_S
            with Live(self._table(), console=self.console, auto_refresh=False) as live:
                while not self._settled(before) or producer.is_alive():
                    if time.monotonic() > deadline:
                        raise DEMO_FAILED(f"{title}: not every partition has an owner; please report it")
                    live.update(self._table(), refresh=True)
                    time.sleep(0.1)
                producer.join()
                live.update(self._table(), refresh=True)
        shares = Counter(consumer_of_thread(owner) for owner in self._owners().values())
        shown = ", ".join(f"{name.removeprefix(GROUP + '_')} {count}" for name, count in sorted(shares.items()))
        self.console.print(f"Every partition has one owner after {time.monotonic() - begin:.1f} s: {shown}\n")

    def _produce(self) -> None:
        begin = self.produced
        self.produced += _RECORDS_A_STEP
        self.cluster.produce(TOPIC, [{"key": f"user-{n}", "value": f"click {n}"} for n in range(begin, self.produced)])

    def _finish(self, jvm: OldConsumer) -> None:
        with step(self.console, "Nothing was lost", "records read by the members, compared with those written"):
            everything = {(tp.partition, offset) for tp, end in self._ends().items() for offset in range(end)}

            def finished() -> bool | None:
                return (everything <= self._read(jvm) and self._client.group_offsets(GROUP) == self._ends()) or None

            Deadline(_PATIENCE_S, poll_s=0.1).until(finished)
            self.console.print(self._table())
        by_jvm = {(r.partition, r.offset) for r in jvm.records}
        alone = f"{len(by_jvm - self.seen):,} of them by the JVM consumer alone"
        prove(self.console, f"{len(everything):,} records read by the group, {alone}", everything == self._read(jvm))
        prove(
            self.console,
            "the offsets in ZooKeeper are the ends of the logs",
            self._client.group_offsets(GROUP) == self._ends(),
        )

    def _read(self, jvm: OldConsumer) -> set[tuple[int, int]]:
        return self.seen | {(record.partition, record.offset) for record in jvm.records}

    def _settled(self, before: set[str]) -> bool:
        """True if every partition has an owner, the members share evenly, and the owning threads have changed."""
        owners = self._owners()
        counts = Counter(owners.values())
        members = len(self._client.group_members(GROUP).readable)
        full = len(owners) == PARTITIONS and len(counts) == members and set(owners.values()) != before
        return full and max(counts.values()) - min(counts.values()) <= 1

    def _owners(self) -> dict[TopicPartition, str]:
        return self._client.group_owners(GROUP)

    def _ends(self) -> dict[TopicPartition, int]:
        return log_ends(self._brokers, TOPIC, PARTITIONS)

    def _table(self) -> Table:
        owners, offsets, ends = self._owners(), self._client.group_offsets(GROUP), self._ends()
        colours = dict(zip(sorted(set(owners.values())), cycle(_COLOURS), strict=False))
        shown = {tp: f"[{colours[thread]}]{thread}[/]" for tp, thread in owners.items()}
        rows = [
            (tp.partition, shown.get(tp, "[dim]nobody[/]"), offsets.get(tp, "-"), end) for tp, end in sorted(ends.items())
        ]
        return table(f"/consumers/{GROUP}", (f"owners/{TOPIC}", "thread", f"offsets/{TOPIC}", "log's end"), rows)


def _stop(queries: list[StreamingQuery]) -> None:
    for query in queries:
        query.stop()


_CALL = f'spark.readStream.format("zkafka").option("subscribe", "{TOPIC}").option("group.id", "{GROUP}")'
