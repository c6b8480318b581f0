"""A streaming query controlled by a test, and the rows of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Stream", "is_late"]

_STARTS, _BEGIN_S, _RUN_S = 5, 120, 60
_LATE_PLANNER = "Python worker failed to connect back"


class Stream:
    """A checkpoint, the queries that run on it in turn, and the rows of their micro-batches.

    `batches` has the rows of every micro-batch that foreachBatch got, also of failed and repeated ones. `in_batch` is
    called with each micro-batch's frame and number after its rows were collected; it may raise.

    Spark waits only 10 s for the planner's process to connect, too short on a busy machine. `begin`, `run` and the waits
    restart a query that ended for this reason: it has done nothing yet.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
        self.options = options
        self.checkpoint = checkpoint
        self.batches: list[list[Row]] = []
        self.in_batch: Callable[[DataFrame, int], None] = lambda frame, number: None
        self._spark = spark
        self._queries: list[StreamingQuery] = []
        self._how: dict[str, Any] = {}

    def start(self, *, schema: str | None = None, **trigger: Any) -> StreamingQuery:
        """Start a query, with Spark's default trigger or for example ``availableNow=True``."""
        self._how = {"schema": schema, **trigger}
        reader = self._spark.readStream.format("zkafka").options(**self.options)
        frame = (reader if schema is None else reader.schema(schema)).load()
        writer = frame.writeStream.foreachBatch(self._gather).option("checkpointLocation", str(self.checkpoint))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self._queries.append(query)
        return query

    def begin(self, **trigger: Any) -> StreamingQuery:
        """Start a query, and wait until it has looked for records once, or failed."""
        return self._start_until(lambda query: query.lastProgress or query.exception(), _BEGIN_S, **trigger)

    def run(self, *, schema: str | None = None) -> StreamingQuery:
        """Run a query until it has read all available records."""
        query = self._start_until(lambda query: not query.isActive, _RUN_S, schema=schema, availableNow=True)
        assert query.awaitTermination(_RUN_S)
        return query

    def _start_until(self, probe: Callable[[StreamingQuery], object], timeout_s: float, **how: Any) -> StreamingQuery:
        """Start a query and wait for the probe, restarting the query while Spark gives up on its planner."""
        for _ in range(_STARTS):
            query = self.start(**how)
            eventually(lambda query=query: probe(query), timeout_s, "the query has neither begun nor ended")  # type: ignore[misc]
            if not is_late(query.exception()):
                break
        return query

    def stop(self) -> None:
        """Stop all queries."""
        for query in self._queries:
            query.stop()

    def _gather(self, frame: DataFrame, number: int) -> None:
        self.batches.append(frame.collect())
        self.in_batch(frame, number)

    @property
    def error(self) -> Exception | None:
        """The error of the last query; None while it runs."""
        return self._queries[-1].exception()

    @property
    def rows(self) -> list[Row]:
        """The rows of all micro-batches, in order of arrival."""
        return [row for batch in self.batches for row in batch]

    def offsets(self, partition: int = 0, topic: str | None = None) -> list[int]:
        """Return the offsets of one partition, in order of arrival."""
        return [r.offset for r in self.rows if r.partition == partition and topic in (None, r.topic)]

    def wait_for_start(self, timeout_s: float = 60) -> None:
        """Wait until the query has looked for records once, so that it knows its start. Raises its error."""
        eventually(lambda: self._running().lastProgress, timeout_s, "the query has not begun")

    def wait_for(self, records: int, timeout_s: float = 60) -> None:
        """Wait for this many records. Raises the query's error."""

        def enough() -> bool:
            self._running()
            return len(self.rows) >= records

        eventually(enough, timeout_s, lambda: f"{len(self.rows)} of {records} records have come")

    def _running(self) -> StreamingQuery:
        """Return the last query, restarted if it was late. Raises its error."""
        error = self.error
        if is_late(error) and sum(is_late(query.exception()) for query in self._queries) < _STARTS:
            return self.start(**self._how)
        if error is not None:
            raise error
        return self._queries[-1]


def is_late(error: Exception | None) -> bool:
    """Return True if Spark gave up on the planner's process: the query has done nothing yet."""
    return error is not None and _LATE_PLANNER in str(error)
