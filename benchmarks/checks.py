"""Checks of everything read or written: a wrong result yields no figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.cluster import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONTENT = {
    "records": "count(1)",
    "key_bytes": "coalesce(sum(length(key)), 0)",
    "value_bytes": "sum(length(value))",
    "key_crcs": "coalesce(sum(crc32(key)), 0)",
    "value_crcs": "sum(crc32(value))",
}
_HEADERS = {
    "headers": "sum(size(headers))",
    "header_bytes": "sum(aggregate(headers, 0L, (sum, h) -> sum + length(h.key) + length(h.value)))",
}
_PLACES = {
    "first": "min(offset)",
    "last": "max(offset)",
    "offsets": "sum(offset)",
    "timestamps": "sum(CAST(unix_millis(timestamp) AS DECIMAL(20)))",
    "types": "sum(timestampType)",
    "topic": "max(topic)",
}


class WrongResult(Exception):
    """An engine read or wrote something wrong."""


def require(found: Any, expected: Any, what: str) -> None:
    """Fail unless both are equal."""
    if found != expected:
        raise WrongResult(f"{what}: found {found}, expected {expected}")


def check_read(frame: DataFrame, topic: Topic, who: str) -> dict[int, tuple[int, int]]:
    """Read all records, and compare contents, offsets and topic with the filled ones.

    Returns
    -------
    dict
        Sums of timestamps and of timestamp types by partition, to compare between engines.
    """
    expected = {name: asdict(topic.facts)[name] for name in _measures(topic)}
    rows = _grouped(frame, {**_measures(topic), **_PLACES})
    require({name: sum(row[name] for row in rows.values()) for name in expected}, expected, f"{who} read {topic.name}")
    for partition, end in enumerate(topic.ends):
        row = rows[partition]
        found = (row["records"], row["first"], row["last"], row["offsets"], row["topic"])
        require(found, (end, 0, end - 1, end * (end - 1) // 2, topic.name), f"{who} read partition {partition}")
    return {partition: (row["timestamps"], row["types"]) for partition, row in sorted(rows.items())}


def check_values(frame: DataFrame, topic: Topic, who: str) -> None:
    """Read only the values, and compare them with the filled ones."""
    wanted = ("records", "value_bytes", "value_crcs")
    row = _aggregated(frame, {name: _CONTENT[name] for name in wanted})
    require(row, {name: asdict(topic.facts)[name] for name in wanted}, f"{who} read the values of {topic.name}")


def content(frame: DataFrame, topic: Topic) -> dict[str, int]:
    """Return sums over a part of a topic's records."""
    found = _aggregated(frame, {**_measures(topic), "offsets": _PLACES["offsets"]})
    return {name: value or 0 for name, value in found.items()}


def check_streamed(found: Mapping[str, int], topic: Topic, who: str) -> None:
    """Compare the sums of `content` over all micro-batches with the filled records."""
    offsets = sum(end * (end - 1) // 2 for end in topic.ends)
    expected = {**{name: asdict(topic.facts)[name] for name in _measures(topic)}, "offsets": offsets}
    require(dict(found), expected, f"{who} streamed {topic.name}")


def check_written(frame: DataFrame, topic: Topic, who: str, *, keys: bool) -> None:
    """Compare written records, read back, with the topic of their rows."""
    wanted = _CONTENT if keys else {name: _CONTENT[name] for name in ("records", "value_bytes", "value_crcs")}
    expected = {name: asdict(topic.facts)[name] for name in wanted}
    require(_aggregated(frame, wanted), expected, f"{who} wrote {topic.name}")


def rows_drained(spark: SparkSession) -> int:
    """Return the number of rows that the noop sink took last, from Spark's own metrics."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    for place in reversed(range(executions.size())):
        number = executions.apply(place).executionId()
        metric = _metric(store.planGraph(number).allNodes(), "OverwriteByExpression noop", "number of output rows")
        if metric is not None:
            return int(store.executionMetrics(number).apply(metric).replace(",", ""))
    raise WrongResult("nothing was written to the noop sink")


def _metric(nodes: Any, node_name: str, name: str) -> int | None:
    """Return the id of a metric of a query's node. The arguments have Scala types."""
    for node in (nodes.apply(n) for n in range(nodes.size())):
        metrics = node.metrics()
        for metric in (metrics.apply(n) for n in range(metrics.size())):
            if node.name().startswith(node_name) and metric.name() == name:
                return int(metric.accumulatorId())
    return None


def _measures(topic: Topic) -> dict[str, str]:
    return {**_CONTENT, **(_HEADERS if topic.has_headers else {})}


def _grouped(frame: DataFrame, measures: dict[str, str]) -> dict[int, dict[str, Any]]:
    from pyspark.sql.functions import expr

    rows = frame.groupBy("partition").agg(*(expr(text).alias(name) for name, text in measures.items())).collect()
    return {row["partition"]: row.asDict() for row in rows}


def _aggregated(frame: DataFrame, measures: dict[str, str]) -> dict[str, Any]:
    return frame.selectExpr(*(f"{text} AS {name}" for name, text in measures.items())).first().asDict()
