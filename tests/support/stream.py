"""A streaming query controlled by a test, and the rows of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Stream", "is_late", "run_to_end", "start_until"]

_STARTS, _BEGIN_S, _RUN_S = 5, 120, 60
_LATE_PLANNER = "Python worker failed to connect back"


class Stream:
    """A checkpoint, the queries that run on it in turn, and the rows of their micro-batches.

    `batches` has the rows of every micro-batch that foreachBatch got, also of failed and repeated ones. `in_batch` is
    called with each micro-batch's frame and number after its rows were collected; it may raise.

    Spark waits only 10 s for the planner's process to connect, too short on a busy machine. `begin`, `run` and the waits
    restart a query that ended for this reason: it has done nothing yet. Use the query that they return.
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
        return start_until(lambda: self.start(**trigger), lambda query: query.lastProgress or query.exception(), _BEGIN_S)

    def run(self, *, schema: str | None = None, timeout_s: float = _RUN_S, **trigger: Any) -> StreamingQuery:
        """Run a query to its end, by default until it has read all available records. Raises its error."""
        how = {"schema": schema, **(trigger or {"availableNow": True})}
        return run_to_end(lambda: self.start(**how), timeout_s)

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

    def wait_for_start(self, timeout_s: float = 60) -> StreamingQuery:
        """Wait until the query has looked for records once, so that it knows its start."""
        return self.wait_until(lambda: self._queries[-1].lastProgress, timeout_s, "the query has not begun")

    def wait_for(self, records: int, timeout_s: float = 60) -> StreamingQuery:
        """Wait for this many records."""
        message = lambda: f"{len(self.rows)} of {records} records have come"  # noqa: E731
        return self.wait_until(lambda: len(self.rows) >= records, timeout_s, message)

    def wait_until(
        self,
        probe: Callable[[], object],
        timeout_s: float = 60,
        message: str | Callable[[], object] = "the condition did not come true",
        poll_s: float = 0.02,
    ) -> StreamingQuery:
        """Wait until a condition is true, and return the running query. Raises the query's error, like all waits."""

        def reached() -> object:
            if (error := self._failure()) is not None:
                raise error
            return probe()

        eventually(reached, timeout_s, message, poll_s)
        return self._queries[-1]

    def wait_for_error(self, timeout_s: float = 60) -> Exception:
        """Wait until the query fails, and return its error."""
        return eventually(self._failure, timeout_s, "the query has not failed")  # type: ignore[return-value]

    def _failure(self) -> Exception | None:
        """Return the error of the last query, or restart it if it was late."""
        error = self.error
        if is_late(error) and sum(is_late(query.exception()) for query in self._queries) < _STARTS:
            self.start(**self._how)
            return None
        return error


def is_late(error: Exception | None) -> bool:
    """Return True if Spark gave up on the planner's process: the query has done nothing yet."""
    return error is not None and _LATE_PLANNER in str(error)


def start_until(
    start: Callable[[], StreamingQuery], probe: Callable[[StreamingQuery], object], timeout_s: float
) -> StreamingQuery:
    """Start a query and wait for the probe. Starts another query whenever Spark gave up on the planner's process."""
    for _ in range(_STARTS):
        query = start()
        eventually(lambda query=query: probe(query), timeout_s, "the query has neither begun nor ended")  # type: ignore[misc]
        if not is_late(query.exception()):
            break
    return query


def run_to_end(start: Callable[[], StreamingQuery], timeout_s: float = _RUN_S) -> StreamingQuery:
    """Run a query to its end. Starts it again if its planner was late, and raises any other error."""
    query = start_until(start, lambda query: not query.isActive, timeout_s)
    assert query.awaitTermination(timeout_s)
    return query
