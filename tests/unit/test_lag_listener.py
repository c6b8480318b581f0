"""The listener, called with the progress of queries as by Spark."""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent
from pyspark.sql.types import StructType

from pyspark_zkafka.lag_listener import LagListener, LagMetrics, measured_columns
from pyspark_zkafka.model.query_lag import QueryLag

ID, RUN = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
OTHER: dict[str, Any] = {"startOffset": 1, "endOffset": 2, "latestOffset": 2}


def source(until: int, latest: int | None) -> dict[str, Any]:
    end = {"version": 1, "topics": {"t": {"known": 1, "partitions": {"0": [0, until]}}}}
    return {"startOffset": None, "endOffset": end, "latestOffset": None if latest is None else {"t": {"0": latest}}}


def progress(*sources: dict[str, Any], name: str | None = "orders", observed: int | None = None) -> QueryProgressEvent:
    rates = {"inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    found = {
        "id": ID,
        "runId": RUN,
        "name": name,
        "timestamp": "2026-11-21T02:41:05.441Z",
        "batchId": 3,
        "batchDuration": 7,
        "stateOperators": [],
        "sources": [{"description": "d", "numInputRows": 10, **rates, **given} for given in sources],
        "sink": {"description": "s", "numOutputRows": -1},
        **({} if observed is None else {"observedMetrics": {"zkafka": {"bytes": observed}}}),
    }
    return QueryProgressEvent.fromJson({"progress": json.loads(json.dumps(found))})


def test_each_source_of_the_package_is_reported() -> None:
    """The callback gets the lag of each source of this package in a query, by the source's number."""
    lags: list[QueryLag] = []
    LagListener(lags.append).onQueryProgress(progress(source(5, 15), OTHER, source(7, 8)))
    assert [(lag.query, lag.source, lag.total_offsets_behind_latest) for lag in lags] == [
        ("orders", 0, 10),
        ("orders", 2, 1),
    ]


def test_a_callback_that_fails() -> None:
    """If the callback raises, the counts of all sources are kept."""
    registry = CollectorRegistry()

    def fail(lag: QueryLag) -> None:
        raise ConnectionError(lag.source)

    listener = LagListener(fail, registry=registry)
    with pytest.raises(ConnectionError, match="0"):
        listener.onQueryProgress(progress(source(5, 15), OTHER, source(7, 8)))
    samples = [s for metric in registry.collect() for s in metric.samples if s.name == "zkafka_query_records_total"]
    assert {sample.labels["source"] for sample in samples} == {"0", "2"}


def test_a_query_without_a_name_goes_by_its_id() -> None:
    """A query without a name is reported by its id."""
    lags: list[QueryLag] = []
    LagListener(lags.append).onQueryProgress(progress(source(5, 15), name=None))
    assert lags[0].query == ID


def test_observed_bytes() -> None:
    """Bytes are those that Spark observed, and are unknown if a query has several sources."""
    lags: list[QueryLag] = []
    listener = LagListener(lags.append)
    listener.onQueryProgress(progress(source(5, 15), observed=300))
    listener.onQueryProgress(progress(source(5, 15), OTHER, observed=300))
    assert [(lag.bytes, lag.estimated_total_bytes_behind_latest) for lag in lags] == [(300, 300.0), (None, None)]


def test_measured_columns() -> None:
    """Only keys and values of strings or bytes have a size in bytes."""
    decoded = StructType().add("key", "string").add("value", StructType().add("id", "long")).add("topic", "string")
    assert measured_columns(decoded) == ["key"]
    assert measured_columns(StructType().add("value", "binary").add("offset", "long")) == ["value"]
    assert measured_columns(StructType().add("key", "long")) == []


def test_the_log_has_a_line_for_each_lag(caplog: pytest.LogCaptureFixture) -> None:
    """The log's line has the query and its metrics under Spark's names, and can be switched off."""
    caplog.set_level(logging.INFO)
    LagListener(log=False).onQueryProgress(progress(source(5, 15)))
    assert not caplog.records
    LagListener().onQueryProgress(progress(source(5, 15)))
    assert caplog.messages == [
        "query orders, batch 3, source 0: records=10 minOffsetsBehindLatest=10 maxOffsetsBehindLatest=10 "
        "avgOffsetsBehindLatest=10.0 ownedPartitions=1 rebalances=0"
    ]


def test_metrics_live_as_long_as_the_query() -> None:
    """A registry has the last lag of each running query, without samples of unknown values and ended queries."""
    registry = CollectorRegistry()
    listener = LagListener(registry=registry, log=False)
    labels = {"query": "orders", "source": "0"}
    for latest in (15, 6):
        listener.onQueryProgress(progress(source(5, latest)))
    assert registry.get_sample_value("zkafka_query_max_offsets_behind_latest", labels) == 1
    assert registry.get_sample_value("zkafka_query_records_total", labels) == 20
    assert registry.get_sample_value("zkafka_query_last_batch_timestamp_seconds", labels) == 1795228865.441
    assert registry.get_sample_value("zkafka_query_batch_bytes", labels) is None
    listener.onQueryTerminated(QueryTerminatedEvent(uuid.UUID(ID), uuid.UUID(RUN), None, None))
    assert registry.get_sample_value("zkafka_query_max_offsets_behind_latest", labels) is None


# --- metrics for Prometheus --------------------------------------------------------------------------------------------

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
    """Return the value of each sample by its name without the common prefix, its query and its source."""
    return {
        (sample.name.removeprefix("zkafka_query_"), sample.labels["query"], sample.labels["source"]): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_second_listener(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """A registry accepts only one listener: two would return each metric twice."""
    with pytest.raises(ValueError, match="Duplicated"):
        LagMetrics(registry)


def test_samples_of_a_lag(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """Each value of a lag is a sample of its own metric, and totals since the query's start are counters."""
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
    """An unknown value has no sample, unlike 0, and an update removes earlier values."""
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
    """Each source of each query has its own samples."""
    metrics.update(LAG)
    metrics.update(replace(LAG, source=1, records=1))
    metrics.update(replace(LAG, query="audit", run_id="another", records=2))
    found = {key[1:]: value for key, value in samples(registry).items() if key[0] == "batch_records"}
    assert found == {("orders", "0"): 70, ("orders", "1"): 1, ("audit", "0"): 2}


def test_query_that_has_ended(registry: CollectorRegistry, metrics: LagMetrics) -> None:
    """The samples of all sources of an ended run are removed, and those of another run stay."""
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
    """Without a query, each metric still has its help and type in a scrape."""
    text = generate_latest(registry).decode()
    assert "# TYPE zkafka_query_records_total counter" in text
    assert "# HELP zkafka_query_owned_partitions Partitions with a leader that the query owned" in text
    assert text.count("# TYPE") == text.count("# HELP") == 14
