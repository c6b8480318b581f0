"""What exactly-once costs a micro-batch: a query that copies a topic, 8 tasks of some rows each, with either guarantee."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from statistics import median
from typing import Any

from benchmarks import topics
from benchmarks.checks import require
from benchmarks.cluster import Topic
from benchmarks.engines import ENGINES
from benchmarks.session import Bench
from benchmarks.shapes import PARTITIONS, SHAPES

GUARANTEES = ("at-least-once", "exactly-once")
ROWS_PER_TASK = 500


def micro_batches(bench: Bench, batches: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each guarantee: the medians over all its micro-batches but the first of each query; rounds alternate."""
    per_trigger = PARTITIONS * ROWS_PER_TASK
    topic = topics.filled(bench.cluster, "small", batches * per_trigger / SHAPES["small"].full_records)
    target = topics.target(bench.cluster, "small")
    found: dict[str, list[dict[str, int]]] = {guarantee: [] for guarantee in GUARANTEES}
    for _ in range(rounds):
        for guarantee in GUARANTEES:
            found[guarantee] += _copy(bench, topic, target, per_trigger, guarantee)
    return [_row(bench, guarantee, durations) for guarantee, durations in found.items()]


def _copy(bench: Bench, topic: Topic, target: str, per_trigger: int, guarantee: str) -> list[dict[str, int]]:
    checkpoint = bench.folder / f"checkpoint-{secrets.token_hex(4)}"
    stream = ENGINES["ours"].stream(bench, topic, per_trigger).select("key", "value")
    options = {"zookeeper.connect": bench.cluster.zookeeper_connect, "topic": target, "deliveryGuarantee": guarantee}
    writer = stream.writeStream.format("zkafka").options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint)
    progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    require(sum(p["numInputRows"] for p in progress), topic.facts.records, f"{guarantee}: rows copied from {topic.name}")
    return [p["durationMs"] for p in progress[1:]]


def _row(bench: Bench, guarantee: str, durations: Iterable[dict[str, int]]) -> dict[str, Any]:
    several = list(durations)
    middle = {f"{name} ms": float(median(one[name] for one in several)) for name in ("addBatch", "triggerExecution")}
    return {
        "guarantee": guarantee,
        "cores": bench.cores,
        "rows": ROWS_PER_TASK * PARTITIONS,
        "micro-batches": len(several),
        **middle,
    }
