"""The listener, called with the progress of queries as Spark passes it."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

from pyspark_zkafka.lag_listener import LagListener
from pyspark_zkafka.protocol.query_lag import QueryLag

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
    """The callback gets the lag of each of the query's sources that is of this package, by its place."""
    lags: list[QueryLag] = []
    LagListener(lags.append).onQueryProgress(progress(source(5, 15), OTHER, source(7, 8)))
    assert [(lag.query, lag.source, lag.total_offsets_behind_latest) for lag in lags] == [
        ("orders", 0, 10),
        ("orders", 2, 1),
    ]


def test_a_query_without_a_name_goes_by_its_id() -> None:
    """A query without a name is reported under its id."""
    lags: list[QueryLag] = []
    LagListener(lags.append).onQueryProgress(progress(source(5, 15), name=None))
    assert lags[0].query == ID


def test_observed_bytes() -> None:
    """Bytes are those that Spark observed; with several sources it is unknown whose they are."""
    lags: list[QueryLag] = []
    listener = LagListener(lags.append)
    listener.onQueryProgress(progress(source(5, 15), observed=300))
    listener.onQueryProgress(progress(source(5, 15), OTHER, observed=300))
    assert [(lag.bytes, lag.estimated_total_bytes_behind_latest) for lag in lags] == [(300, 300.0), (None, None)]


def test_the_log_has_a_line_for_each_lag(caplog: pytest.LogCaptureFixture) -> None:
    """The log's line names the query and has the metrics as Spark's own source names them; it can be switched off."""
    caplog.set_level(logging.INFO)
    LagListener(log=False).onQueryProgress(progress(source(5, 15)))
    assert not caplog.records
    LagListener().onQueryProgress(progress(source(5, 15)))
    assert caplog.messages == [
        "query orders, batch 3, source 0: records=10 minOffsetsBehindLatest=10 maxOffsetsBehindLatest=10 "
        "avgOffsetsBehindLatest=10.0 ownedPartitions=1 rebalances=0"
    ]


def test_metrics_live_as_long_as_the_query() -> None:
    """A registry has the last lag of each running query; unknown values have no sample, nor have queries that ended."""
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
