"""The metrics of streaming queries in a registry, by lags of values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pyspark_zkafka.lag_metrics import LagMetrics
from pyspark_zkafka.protocol.query_lag import QueryLag

LAG = QueryLag(
    "orders",
    "id",
    "run",
    batch_id=3,
    timestamp="2026-11-21T02:41:05.441Z",
    source=0,
    records=70,
    bytes=700,
    owned_partitions=2,
    min_offsets_behind_latest=1,
    max_offsets_behind_latest=9,
    avg_offsets_behind_latest=5.0,
    total_offsets_behind_latest=10,
    estimated_total_bytes_behind_latest=100.0,
    rebalances=4,
    commits=6,
    uncommitted_offsets=0,
    total_records=170,
)
UNKNOWN = QueryLag("orders", "id", "run", batch_id=3, timestamp="2026-11-21T02:41:05.441Z", source=0, records=70)


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry without other collectors."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> LagMetrics:
    """The metrics in the registry."""
    return LagMetrics(registry)


def samples(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    """The value of each sample by its name, without what all names begin with, its query and its source."""
    return {
        (sample.name.removeprefix("zkafka_query_"), sample.labels["query"], sample.labels["source"]): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_samples_of_a_lag(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """Each value of a lag is a sample of its own metric, totals since the query's start as counters."""
    metrics.update(LAG)
    found = {
        name: value for (name, query, source), value in samples(registry).items() if (query, source) == ("orders", "0")
    }
    assert found == {
        "min_offsets_behind_latest": 1,
        "max_offsets_behind_latest": 9,
        "avg_offsets_behind_latest": 5,
        "total_offsets_behind_latest": 10,
        "estimated_total_bytes_behind_latest": 100,
        "owned_partitions": 2,
        "uncommitted_offsets": 0,
        "batch_records": 70,
        "batch_bytes": 700,
        "batch_id": 3,
        "last_batch_timestamp_seconds": 1795228865.441,
        "records_total": 170,
        "rebalances_total": 4,
        "commits_total": 6,
    }


def test_unknown_values(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """A value that is unknown has no sample, and 0 is none of these; an update replaces what was known before."""
    metrics.update(LAG)
    metrics.update(UNKNOWN)
    assert {name for name, *_ in samples(registry)} == {
        "batch_records",
        "batch_id",
        "last_batch_timestamp_seconds",
        "records_total",
        "rebalances_total",
    }


def test_sources_and_queries_are_apart(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """Each source of a query has samples of its own, as has each query."""
    metrics.update(LAG)
    metrics.update(replace(LAG, source=1, records=1))
    metrics.update(replace(LAG, query="audit", run_id="another", records=2))
    found = {key[1:]: value for key, value in samples(registry).items() if key[0] == "batch_records"}
    assert found == {("orders", "0"): 70, ("orders", "1"): 1, ("audit", "0"): 2}


def test_query_that_has_ended(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """The samples of a run that has ended are removed, with all of its sources, and those of another run stay."""
    metrics.update(LAG)
    metrics.update(replace(LAG, source=1))
    metrics.update(replace(LAG, run_id="next", batch_id=4))
    metrics.remove("run")
    assert {key[1:] for key in samples(registry)} == {("orders", "0")}
    assert samples(registry)["batch_id", "orders", "0"] == 4
    metrics.remove("unknown")
    metrics.remove("next")
    assert samples(registry) == {}


def test_metrics_without_samples(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """Without a query, each metric has its help and its type, as a scrape shows them."""
    text = generate_latest(registry).decode()
    assert "# TYPE zkafka_query_records_total counter" in text
    assert "# HELP zkafka_query_owned_partitions Partitions with a leader that the query owned" in text
    assert text.count("# TYPE") == text.count("# HELP") == 14
