"""Group member that journals what it reads; each line of standard input requests one query.

A request is an object with the fields of `tests.faults.harness.members.MemberRequest`. A query runs until it fails or
until the mark ``stop`` exists; then a line of JSON says how it ended. Arguments: the master, or ``sail``, and Spark's
configuration as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.errors import PartitionLost, ZKafkaError
from tests.faults.harness.history import Event, Finished, Life, Read, line
from tests.faults.harness.values import digest
from tests.support.sail import sail_session

COLUMNS = ("topic", "partition", "offset", "value")
_PAUSE_S = 0.5


class Member:
    """A member and its journal."""

    def __init__(self, spark: SparkSession, request: dict[str, Any]) -> None:
        self.spark = spark
        self.name, self.number = request["name"], request["run"]
        self.request = request

    def run(self) -> None:
        """Read until the end; raises the query's error."""
        self.drop_torn_line()
        if self.request["kind"] == "batch":
            self.read_batches()
        else:
            self.read_stream()

    def read_stream(self) -> None:
        """Run a streaming query into the journal or into a sink."""
        source = self.spark.readStream.format("zkafka").options(**self.request["source"]).load()
        if slots := self.request["foreach_slots"]:
            writer = source.select("key", "value").repartition(slots).writeStream.foreachBatch(self.write)
        elif self.request["kind"] == "sink":
            writer = source.select("key", "value").writeStream.format("zkafka").options(**self.request["sink"])
        else:
            writer = source.select(*COLUMNS).writeStream.foreachBatch(self.gather)
        query = (
            writer.option("checkpointLocation", self.request["checkpoint"])
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        await_end(query)

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a micro-batch to the sink."""
        frame.write.format("zkafka").options(**self.request["sink"]).mode("append").save()

    def gather(self, frame: DataFrame, batch: int) -> None:
        """Journal a micro-batch."""
        self.journal(reads(frame.collect(), self.name, self.number, batch))

    def read_batches(self) -> None:
        """Read batches of a `ConsumerGroup`, committing each after it is in the journal."""
        options = dict(self.request["source"])
        connect = options.pop("zookeeper.connect", None)
        group, topic = (options.pop(name) for name in ("group.id", "subscribe"))
        number = self.number * 1_000_000
        with ConsumerGroup(connect, group, subscribe=[topic], options=options) as member:
            while not _is_stopped():
                number += 1
                batch = member.plan(self.spark)
                rows = batch.load().select(*COLUMNS).collect()
                ranges = tuple((r.partition.topic, r.partition.partition, r.start, r.until) for r in batch.ranges)
                found = reads(rows, self.name, self.number, number)
                self.journal([*found, Finished(time.time(), self.name, number, ranges)])
                with self.fenced():
                    batch.commit()
                time.sleep(_PAUSE_S)

    @contextmanager
    def fenced(self) -> Any:
        """Journal a refused commit, and continue."""
        try:
            yield
        except PartitionLost as error:
            self.journal([Life(time.time(), self.name, self.number, "fenced", str(error))])

    def drop_torn_line(self) -> None:
        """Remove the end of the journal that a killed run has torn, so that this run begins a line."""
        with open(self.request["journal"], "ab+", buffering=0) as journal:
            journal.seek(0)
            journal.truncate(journal.read().rfind(b"\n") + 1)

    def journal(self, events: Iterable[Event]) -> None:
        """Append events in one write, so that a killed process tears at most one line."""
        text = "".join(f"{line(event)}\n" for event in events)
        with open(self.request["journal"], "ab", buffering=0) as journal:
            journal.write(text.encode())


def reads(rows: list[Row], member: str, run: int, batch: int) -> list[Read]:
    """Return one read per partition with the rows of a batch, in their order."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault((row.topic, row.partition), []).append((row.offset, digest(bytes(row.value))))
    now = time.time()
    return [Read(now, member, run, batch, *place, *zip(*records, strict=True)) for place, records in found.items()]


def _is_stopped() -> bool:
    return Path(os.environ["ZKAFKA_TEST_FAULTS"], "stop").exists()


def await_end(query: StreamingQuery) -> None:
    """Return when the query was stopped; raises its error."""
    while not _is_stopped():
        if query.awaitTermination(_PAUSE_S):
            return
    query.stop()


def outcome(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Run a query, and return how it ended."""
    try:
        Member(spark, request).run()
    except (PySparkException, ZKafkaError) as error:
        return {"error": str(error), "batches": []}
    except Exception as error:  # noqa: BLE001 - otherwise the driver would end, as if killed
        return {"error": f"{type(error).__name__}: {error}", "batches": []}
    finally:
        if request["kind"] != "batch":
            for query in spark.streams.active:
                query.stop()
    return {"error": None, "batches": []}


def main(master: str, conf: str) -> None:
    """Run queries until standard input ends."""
    with sail_session() if master == "sail" else _spark(master, json.loads(conf)) as spark:
        for text in sys.stdin:
            ended = outcome(spark, json.loads(text))
            sys.stdout.write(json.dumps({"outcome": ended}) + "\n")
            sys.stdout.flush()


@contextmanager
def _spark(master: str, conf: dict[str, str]) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master(master).appName("member")
    for name, value in conf.items():
        builder = builder.config(name, value)
    yield builder.getOrCreate()


if __name__ == "__main__":
    main(*sys.argv[1:])
