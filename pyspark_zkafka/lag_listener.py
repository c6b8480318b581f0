"""A listener that reports the lag of streaming queries to logs, callbacks and Prometheus."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import BinaryType, StringType

from pyspark_zkafka.engines import progress_json
from pyspark_zkafka.model.query_lag import LagHistory, QueryLag, parse_source_offsets, query_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )
    from pyspark.sql.types import StructType

__all__ = ["LagListener"]

_log = logging.getLogger(__name__)

_OBSERVED = "zkafka"
_MEASURED = ("key", "value")


class LagListener(StreamingQueryListener):
    """Report the lag of each streaming query that reads ``zkafka``, after each micro-batch.

    Add the listener once to a session: ``spark.streams.addListener(LagListener())``. Other sources are ignored. Spark calls
    a listener for one event at a time, in a thread of the driver, shortly after the micro-batch.

    Parameters
    ----------
    callback : callable, optional
        Called with a `QueryLag` for each source. While the callback runs, events of other queries wait. Spark logs its
        exceptions, and continues.
    registry : prometheus_client.CollectorRegistry, optional
        Registry for the metrics; needs the extra ``metrics``. A registry accepts only one listener.
    log : bool
        Log each lag as a line of the logger ``pyspark_zkafka.lag_listener``, at level INFO.

    Examples
    --------
    >>> lags = []
    >>> listener = LagListener(lags.append, log=False)
    """

    def __init__(
        self,
        callback: Callable[[QueryLag], None] | None = None,
        *,
        registry: CollectorRegistry | None = None,
        log: bool = True,
    ) -> None:
        self._callback = callback
        self._logs = log
        self._metrics = None if registry is None else LagMetrics(registry)
        self._histories: dict[tuple[str, int], LagHistory] = {}

    @staticmethod
    def observe_bytes(frame: DataFrame) -> DataFrame:
        """Count the bytes of each micro-batch, so that the listener can estimate the bytes behind latest.

        Apply this to the frame that `load` returned, before anything else and once per query, because names of observed
        metrics must be unique. Counts the bytes of the columns `key` and `value`, if the frame has them. A column that a
        format has decoded to another type than string or binary counts as 0 bytes.
        """
        from pyspark.sql import functions as f

        sizes = [f.coalesce(f.octet_length(f.col(name)), f.lit(0)) for name in measured_columns(frame.schema)]
        return frame.observe(_OBSERVED, f.sum(sum(sizes, f.lit(0))).cast("long").alias("bytes"))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag of each ``zkafka`` source of the query. If the callback raises, all sources are counted first."""
        lags = list(self._lags(event.progress))
        for lag in lags:
            if self._logs:
                _log.info("%s", log_line(lag))
            if self._metrics is not None:
                self._metrics.update(lag)
        if self._callback is not None:
            for lag in lags:
                self._callback(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the query has no new records, or owns no partition."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Drop the query's metrics."""
        run = str(event.runId)
        self._histories = {key: found for key, found in self._histories.items() if key[0] != run}
        if self._metrics is not None:
            self._metrics.remove(run)

    def _lags(self, progress: StreamingQueryProgress) -> Iterator[QueryLag]:
        run, observed = str(progress.runId), progress.observedMetrics.get(_OBSERVED)
        for number, source in enumerate(progress.sources):
            offsets = parse_source_offsets(progress_json(source.endOffset), progress_json(source.latestOffset))
            if offsets is None:
                continue
            history = self._histories.get((run, number), LagHistory()).advance(offsets, source.numInputRows)
            self._histories[run, number] = history
            read = QueryLag(
                query=progress.name or str(progress.id),
                query_id=str(progress.id),
                run_id=run,
                batch_id=progress.batchId,
                timestamp=progress.timestamp,
                source=number,
                records=source.numInputRows,
                bytes=None if observed is None or len(progress.sources) > 1 else observed.bytes or 0,
            )
            yield query_lag(read, offsets, history)


def measured_columns(schema: StructType) -> list[str]:
    """Return the columns, of `key` and `value`, that Spark can measure in bytes."""
    return [
        field.name for field in schema if field.name in _MEASURED and isinstance(field.dataType, (BinaryType, StringType))
    ]


def log_line(lag: QueryLag) -> str:
    """Format a lag as a log line, with the names of Spark's metrics and without unknown values.

    >>> log_line(QueryLag("orders", "i", "r", 3, "2026-11-21T02:41:05.441Z", 0, records=70, rebalances=1))
    'query orders, batch 3, source 0: records=70 rebalances=1'
    """
    values = {
        "records": lag.records,
        "bytes": lag.bytes,
        **lag.metrics,
        "ownedPartitions": lag.owned_partitions,
        "rebalances": lag.rebalances,
        "commits": lag.commits,
        "uncommittedOffsets": lag.uncommitted_offsets,
    }
    shown = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return f"query {lag.query}, batch {lag.batch_id}, source {lag.source}: {shown}"


_LABELS = ("query", "source")
_GAUGES: dict[str, tuple[str, Callable[[QueryLag], float | None]]] = {
    "zkafka_query_min_offsets_behind_latest": (
        "Minimum offsets behind latest of the partitions that the query owns.",
        lambda lag: lag.min_offsets_behind_latest,
    ),
    "zkafka_query_max_offsets_behind_latest": (
        "Maximum offsets behind latest of the partitions that the query owns.",
        lambda lag: lag.max_offsets_behind_latest,
    ),
    "zkafka_query_avg_offsets_behind_latest": (
        "Mean offsets behind latest of the partitions that the query owns.",
        lambda lag: lag.avg_offsets_behind_latest,
    ),
    "zkafka_query_total_offsets_behind_latest": (
        "Offsets behind latest of all partitions that the query owns.",
        lambda lag: lag.total_offsets_behind_latest,
    ),
    "zkafka_query_estimated_total_bytes_behind_latest": (
        "Offsets behind latest times the mean size of the last micro-batch's records.",
        lambda lag: lag.estimated_total_bytes_behind_latest,
    ),
    "zkafka_query_owned_partitions": (
        "Partitions with a leader that the query owned when it planned the last micro-batch.",
        lambda lag: lag.owned_partitions,
    ),
    "zkafka_query_uncommitted_offsets": (
        "Offsets between the group's committed offsets and the start of the last micro-batch.",
        lambda lag: lag.uncommitted_offsets,
    ),
    "zkafka_query_batch_records": ("Records of the last micro-batch.", lambda lag: lag.records),
    "zkafka_query_batch_bytes": ("Bytes of keys and values of the last micro-batch.", lambda lag: lag.bytes),
    "zkafka_query_batch_id": ("Number of the last micro-batch.", lambda lag: lag.batch_id),
    "zkafka_query_last_batch_timestamp_seconds": (
        "Start of the last micro-batch, in seconds since the epoch.",
        lambda lag: lag.started_s,
    ),
}
_COUNTERS: dict[str, tuple[str, Callable[[QueryLag], float | None]]] = {
    "zkafka_query_records": ("Records since the query started.", lambda lag: lag.total_records),
    "zkafka_query_rebalances": (
        "Changes of the owned partitions, also by a lost or new leader, since the query started.",
        lambda lag: lag.rebalances,
    ),
    "zkafka_query_commits": ("Offsets committed to ZooKeeper since the query started.", lambda lag: lag.commits),
}


class LagMetrics:
    """Collector of the last lag of each running query, without samples for unknown values. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = Lock()
        self._lags: dict[tuple[str, int], QueryLag] = {}
        registry.register(self)

    def update(self, lag: QueryLag) -> None:
        """Replace the metrics of a query's source."""
        with self._lock:
            self._lags[lag.run_id, lag.source] = lag

    def remove(self, run_id: str) -> None:
        """Remove the metrics of a query that has ended."""
        with self._lock:
            self._lags = {key: lag for key, lag in self._lags.items() if key[0] != run_id}

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without samples. By their names, the registry recognises and refuses a second listener."""
        return self._families([])

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, for the registry."""
        with self._lock:
            lags = list(self._lags.values())
        return self._families(lags)

    def _families(self, lags: list[QueryLag]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # the extra `metrics`

        for make, metrics in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for name, (text, value) in metrics.items():
                family = make(name, text, labels=_LABELS)
                for lag in lags:
                    if (found := value(lag)) is not None:
                        family.add_metric([lag.query, str(lag.source)], found)
                yield family
