"""Prometheus metrics of streaming queries, in the registry of the process that runs them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from pyspark_zkafka.protocol.query_lag import QueryLag

__all__ = ["LagMetrics"]

_LABELS = ("query", "source")
_GAUGES: dict[str, tuple[str, Callable[[QueryLag], float | None]]] = {
    "zkafka_query_min_offsets_behind_latest": (
        "Fewest offsets behind latest of a partition that the query owns.",
        lambda lag: lag.min_offsets_behind_latest,
    ),
    "zkafka_query_max_offsets_behind_latest": (
        "Most offsets behind latest of a partition that the query owns.",
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
        "Changes of the set of owned partitions since the query started.",
        lambda lag: lag.rebalances,
    ),
    "zkafka_query_commits": ("Offsets committed to ZooKeeper since the query started.", lambda lag: lag.commits),
}


class LagMetrics:
    """Collector of the last lag of each running query; unknown values have no sample. Thread-safe."""

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

    def collect(self) -> Iterator[Metric]:
        """The metrics, for the registry."""
        with self._lock:
            lags = list(self._lags.values())
        for name, (text, value) in _GAUGES.items():
            yield _filled(GaugeMetricFamily(name, text, labels=_LABELS), lags, value)
        for name, (text, value) in _COUNTERS.items():
            yield _filled(CounterMetricFamily(name, text, labels=_LABELS), lags, value)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, lags: list[QueryLag], value: Callable[[QueryLag], float | None]
) -> Metric:
    for lag in lags:
        found = value(lag)
        if found is not None:
            family.add_metric([lag.query, str(lag.source)], found)
    return family
