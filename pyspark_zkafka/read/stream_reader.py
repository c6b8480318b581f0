"""Spark's streaming reader: plans in one process for the whole query, and reads in tasks."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyspark_zkafka.read.batch_reader import ZKafkaReader, split_partitions
from pyspark_zkafka.worker import TaskObject, concise_errors, exit_on_sigterm, ignoring_sigterm, prepared_worker

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_zkafka.errors import ZKafkaError
    from pyspark_zkafka.formats.decoding import PinnedFormats
    from pyspark_zkafka.options.values import StreamOptions
    from pyspark_zkafka.read.stream_driver import StreamDriver

_NO_ROW_LIMIT = 2**63 - 1


class ZKafkaStreamReader(TaskObject, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Pickle-safe until its first planning call: it stores only options and Spark's exact schema.

    The planning calls of a query come one after the other, in one process. The first one connects and joins the group.
    `stop` leaves the group.
    """

    def __init__(self, options: StreamOptions, schema: pa.Schema, formats: PinnedFormats | None = None) -> None:
        self._options = options
        self._schema = schema
        self._formats = formats
        self._driver: StreamDriver | None = None

    @concise_errors()
    def initialOffset(self) -> dict[str, Any]:
        """Return the start offset of a new query: the group's committed offsets, if there is a group."""
        return self._opened_driver().initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`. The trigger Once requests all records instead."""
        limits = self._options.limits
        if limits.is_unlimited:
            return ReadAllAvailable()
        return ReadMaxRows(_NO_ROW_LIMIT if limits.max_records is None else limits.max_records)

    @concise_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit the positions in `start`. Returns the end of the next micro-batch, or `start` if there are no records."""
        return self._opened_driver().latest(start, limited=not isinstance(limit, ReadAllAvailable))

    @concise_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the present ends of the logs as the query's end. The limits determine the number of micro-batches."""
        self._opened_driver().fix_bounds()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs, for the query's progress."""
        return None if self._driver is None else self._driver.report()

    @concise_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits of the micro-batch. They follow from `end` alone, whatever has changed since it was planned."""
        if start == end:
            return []
        splits, servers = self._opened_driver().splits(end)
        return split_partitions(self._options.read, splits, servers)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a split as Arrow batches, in offset order."""
        return ZKafkaReader(self._options.read, self._schema, self._formats).read(partition)

    @concise_errors()
    def commit(self, end: dict[str, Any]) -> None:
        """Commit finished positions that `latestOffset` could not commit."""
        self._opened_driver().commit()

    def stop(self) -> None:
        """Leave the group, and close all connections. Blocks for at most some seconds."""
        with ignoring_sigterm():
            if self._driver is not None:
                self._driver.close()
                self._driver = None
                atexit.unregister(self.stop)

    def _opened_driver(self) -> StreamDriver:
        if self._driver is None:
            with prepared_worker():
                from pyspark_zkafka.read.stream_driver import StreamDriver
                from pyspark_zkafka.records.select import uses_native

            uses_native(self._options.read.connection)  # report a missing native path here, not in each task
            exit_on_sigterm()
            self._driver = StreamDriver(self._options)
            atexit.register(self.stop)  # for a SIGTERM before `stop` runs
        return self._driver


class RefusedStream(ZKafkaStreamReader):
    """Stands for a stream with refused options: every planning call raises the error.

    Spark loses an error of `streamReader` itself: it then stops a reader that does not exist, and reports this failure.
    """

    def __init__(self, error: ZKafkaError) -> None:
        self._error = error
        self._driver = None

    @concise_errors()
    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error, in the first call of most queries."""
        raise self._error

    def _opened_driver(self) -> StreamDriver:
        raise self._error
