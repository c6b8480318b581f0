"""Listener for streaming queries that reports their lag, as Spark's own Kafka source does in its metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_zkafka.protocol.query_lag import LagHistory, QueryLag, parse_source_offsets, query_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

    from pyspark_zkafka.lag_metrics import LagMetrics

__all__ = ["LagListener"]

_log = logging.getLogger(__name__)

_OBSERVED = "zkafka"
_MEASURED = ("key", "value")


class LagListener(StreamingQueryListener):
    """Report the lag of each streaming query that reads ``zkafka``, after each of its micro-batches.

    Add it once to a session: ``spark.streams.addListener(LagListener())``. Other sources are passed over. Spark calls a
    listener one event after the other, in a thread of the driver, and some time after the micro-batch.

    Parameters
    ----------
    callback : callable, optional
        Called with a `QueryLag` for each source. It delays the events of other queries while it runs. Spark logs what it
        raises, and goes on.
    registry : prometheus_client.CollectorRegistry, optional
        Where metrics are registered; needs the extra ``metrics``. A listener needs a registry of its own, or the only
        listener in it.
    log : bool
        Whether each lag becomes a line in the log, of the logger ``pyspark_zkafka.lag_listener`` at level INFO.

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
        self._metrics = None if registry is None else _metrics(registry)
        self._histories: dict[tuple[str, int], LagHistory] = {}

    @staticmethod
    def observe_bytes(frame: DataFrame) -> DataFrame:
        """A stream whose micro-batches count their bytes for the listener, which estimates the bytes behind latest from it.

        Apply it to the frame that `load` returned, before anything else: once a query, as Spark wants names of observed
        metrics to be unique. The bytes are those of the columns `key` and `value`, as far as the frame has them.
        """
        from pyspark.sql import functions as f

        sizes = [f.coalesce(f.octet_length(f.col(name)), f.lit(0)) for name in _MEASURED if name in frame.columns]
        return frame.observe(_OBSERVED, f.sum(sum(sizes, f.lit(0))).cast("long").alias("bytes"))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag of each source of the query that is of this package."""
        for lag in self._lags(event.progress):
            if self._logs:
                _log.info("%s", log_line(lag))
            if self._metrics is not None:
                self._metrics.update(lag)
            if self._callback is not None:
                self._callback(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the query has read all there was at its last micro-batch's end, or owns nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Drop the query's metrics."""
        run = str(event.runId)
        self._histories = {key: found for key, found in self._histories.items() if key[0] != run}
        if self._metrics is not None:
            self._metrics.remove(run)

    def _lags(self, progress: StreamingQueryProgress) -> Iterator[QueryLag]:
        run, observed = str(progress.runId), progress.observedMetrics.get(_OBSERVED)
        for number, source in enumerate(progress.sources):
            offsets = parse_source_offsets(source.endOffset, source.latestOffset)
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


def _metrics(registry: CollectorRegistry) -> LagMetrics:
    try:
        from pyspark_zkafka.lag_metrics import LagMetrics
    except ImportError as error:
        raise ImportError(
            "LagListener(registry=...) needs prometheus-client: pip install pyspark-zkafka[metrics]"
        ) from error
    return LagMetrics(registry)


def log_line(lag: QueryLag) -> str:
    """The line of the log for a lag: names as Spark's metrics have them, without unknown values.

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
