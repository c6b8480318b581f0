"""Duration of a query's start, and its CPU time while no records arrive."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import topics
from benchmarks.checks import require
from benchmarks.cluster import Topic
from benchmarks.engines import ENGINES
from benchmarks.session import Bench
from benchmarks.shapes import Facts
from benchmarks.usage import Process, processes, tree, used_s

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

ENGINE_NAMES = ("ours", "jvm")
_LIMIT = "arrow"
_FIRST = "start to first record s"
_IDLE = "Waiting for data to arrive"
_TIMEOUT_S = 60.0


def starts(bench: Bench, rounds: int, idle_s: float) -> list[dict[str, Any]]:
    """Return a row for each engine: median seconds until idle and until the first record is done, and CPU while idle.

    The limit is a source without Kafka, which has one record and then ends.
    """
    topic = f"bench-idle-{secrets.token_hex(3)}"
    bench.cluster.create_topic(topic)
    try:
        for name in ENGINE_NAMES:
            _first_record(bench, name, topic)  # warms up
        found = {name: [_start(bench, name, topic, idle_s) for _ in range(rounds)] for name in ENGINE_NAMES}
        found[_LIMIT] = [{_FIRST: _first_rows(bench, _LIMIT, topic)[0]} for _ in range(rounds)]
    finally:
        bench.cluster.delete_topic(topic)
    return [
        {"engine": ENGINES[name].label, **{key: median(one[key] for one in rows) for key in rows[0]}}
        for name, rows in found.items()
    ]


def _start(bench: Bench, engine: str, topic: str, idle_s: float) -> dict[str, float]:
    until_idle, percent = _idle(bench, engine, topic, idle_s)
    until_done = _first_record(bench, engine, topic)
    return {
        "start to idle s": until_idle,
        _FIRST: until_done,
        "idle CPU %": percent,
    }


def _idle(bench: Bench, engine: str, topic: str, idle_s: float) -> tuple[float, float]:
    """Return the seconds from start to idle, then CPU of the JVM and its children, in percent of a core."""
    begin = time.perf_counter()
    query = _query(bench, engine, topic, "latest")
    try:
        _until(query, lambda: query.status["message"] == _IDLE)
        seconds = time.perf_counter() - begin
        before = processes()
        time.sleep(idle_s)
        return seconds, used_s(before, _family()) / idle_s * 100
    finally:
        query.stop()


def _first_record(bench: Bench, engine: str, topic: str) -> float:
    """Return the seconds from the start to the end of the micro-batch with the waiting records."""
    _produce_one(bench, topic)
    seconds, read = _first_rows(bench, engine, topic)
    require(read, sum(topics.ends(bench.cluster, topic)), f"{engine}: records after the start")
    return seconds


def _first_rows(bench: Bench, engine: str, topic: str) -> tuple[float, int]:
    """Return the seconds from the start to the end of the first micro-batch with rows, and their number."""
    begin = time.perf_counter()
    query = _query(bench, engine, topic, "earliest")
    try:
        _until(query, lambda: any(p["numInputRows"] for p in query.recentProgress))
        return time.perf_counter() - begin, sum(p["numInputRows"] for p in query.recentProgress)
    finally:
        query.stop()


def _query(bench: Bench, engine: str, topic: str, start: str) -> StreamingQuery:
    one = Topic(topic, "small", Facts(1, 1, 1, 0, 0, 0, 0), [1])  # only the limit reads so much
    stream = ENGINES[engine].stream(bench, one, 10_000_000, start=start)
    checkpoint = bench.folder / f"start-{secrets.token_hex(4)}"
    return stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def _until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > end or query.exception() is not None:
            raise TimeoutError(f"the query did not get this far: {query.status}, {query.exception()}")
        time.sleep(0.005)


def _produce_one(bench: Bench, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({**topics.PRODUCER, "bootstrap.servers": bench.cluster.bootstrap_servers})
    producer.produce(topic, b"1", b"1")
    if producer.flush(30):
        raise TimeoutError("a record was not acknowledged")


def _family() -> list[Process]:
    return [p for p in tree(os.getpid(), processes()) if p.pid != os.getpid()]
