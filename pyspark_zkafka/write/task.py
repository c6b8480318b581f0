"""Tasks of a write: send all rows, and return their counts to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.worker import TaskObject, concise_errors, prepared_worker
from pyspark_zkafka.write.plan import WritePlan, plan_write
from pyspark_zkafka.write.rows import RowSender, Written, first_turn

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowWriter", "count_repeated", "count_rows", "write_rows"]


def count_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Total rows written by the tasks that returned a commit message."""
    return sum(sum(m.rows.values()) for m in messages if isinstance(m, Written))


def count_repeated(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Total rows that an exactly-once write found in the log already."""
    return sum(m.repeated for m in messages if isinstance(m, Written))


class RowWriter(TaskObject):
    """Writer of rows. Its `write` implements Spark's Arrow writers, batch and streaming.

    Pickle-safe: it stores options and the plan, and opens connections inside each call. Without a plan, as a stream's
    writer that only commits, each call makes its own.
    """

    def __init__(self, options: WriteOptions, plan: WritePlan | None) -> None:
        self._options = options
        self._plan = plan

    @concise_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See `write_rows`."""
        return write_rows(self._options, self._planned(), iterator)

    def _planned(self) -> WritePlan:
        return self._plan or plan_write(self._options)


def write_rows(options: WriteOptions, plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send all rows of a task and wait until each is acknowledged; without rows, nothing is opened.

    Raises DeliveryFailed, with the first failure's topic, partition and cause, and the counts; for an exactly-once write
    also what `write_rows_once` raises.
    """
    with prepared_worker(for_task=True):
        from pyspark.taskcontext import TaskContext

        from pyspark_zkafka.records.producer import producer_properties
        from pyspark_zkafka.records.select import hash_function, open_producer

    context = TaskContext.get()
    if plan.ledger is not None:
        with prepared_worker():
            from pyspark_zkafka.write.exactly_once import write_rows_once

        return write_rows_once(options, plan, batches, context)
    first = next((batch for batch in batches if batch.num_rows > 0), None)
    if first is None:
        return Written()
    properties = producer_properties(options.connection, plan.bootstrap_servers)
    with open_producer(options.connection, properties, plan.generation) as producer:
        task = RowSender(options, plan, producer, first_turn(context), hash_function(options.connection))
        for batch in chain([first], batches):
            task.send(batch)
        producer.flush()
        return task.written()
