"""Spark's writers: tasks write rows, and the driver commits offsets when all rows are acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_zkafka.engines import DataSourceStreamArrowWriter
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.worker import TaskObject, concise_errors, prepared_worker
from pyspark_zkafka.write.plan import WritePlan, open_ledger, plan_write, read_entries
from pyspark_zkafka.write.rows import Written, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


class RowWriter(TaskObject):
    """Writer of rows. Its `write` implements Spark's Arrow writers, batch and streaming.

    Pickle-safe: it stores options and the plan, and opens connections inside each call. A stream's writer that only commits
    has no plan: each call makes one.
    """

    def __init__(self, options: WriteOptions, plan: WritePlan | None) -> None:
        self._options = options
        self._plan = plan

    @concise_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows; see `write_rows`, and for exactly-once writes `write_rows_once`."""
        plan = self._planned()
        if plan.ledger is None:
            return write_rows(self._options, plan, iterator)
        with prepared_worker(for_task=True):
            from pyspark.taskcontext import TaskContext

            from pyspark_zkafka.write.exactly_once import write_rows_once

        return write_rows_once(self._options, plan, iterator, TaskContext.get())

    def _planned(self) -> WritePlan:
        return self._plan or plan_write(self._options)


class ZKafkaWriter(RowWriter, DataSourceArrowWriter):
    """Writes a batch. At-least-once, unless the options say otherwise: a task that runs again writes its rows again."""

    @concise_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the offsets that the options name. Called on the driver when every task has succeeded.

        Raises
        ------
        PartitionOwned
            A live member of the group owns one of the partitions. No offset is committed. The rows stay written.
        PartitionLost
            The member that commits does not own some of the partitions. The offsets of its other partitions are committed.
            The rows stay written.
        """
        with prepared_worker():
            _log.info("Wrote %d rows", total(messages).rows)
            _require_repeated(self._options, messages)
            commit = self._options.commit
            if commit is None:
                return
            from pyspark_zkafka.group.offsets import open_group_offsets, require_none_lost

        with open_group_offsets(self._options.connection, self._planned().bootstrap_servers, commit) as offsets:
            result = offsets.commit(commit.offsets, commit.owner)
        require_none_lost(result, commit.group)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how many rows stay in Kafka. Called on the driver when the write has failed. Commits no offset."""
        failed = sum(m is None for m in messages)
        _log.warning(
            "%d task(s) of the write failed. %d rows of the other tasks stay in Kafka", failed, total(messages).rows
        )


class ZKafkaStreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. At-least-once, unless the options say otherwise: a repeated micro-batch is written again.

    Spark creates a writer for each micro-batch. The next micro-batch therefore uses partitions that were added to a topic.
    """

    @concise_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the number of acknowledged rows. Called on the driver when every task has succeeded.

        Raises LedgerError if the ledger records rows that the tasks have not repeated.
        """
        with prepared_worker():
            _require_repeated(self._options, messages)
        written = total(messages)
        again = f". {written.repeated} rows were in the log already" if written.repeated else ""
        _log.debug("Micro-batch %d: wrote %d rows%s", batchId, written.rows, again)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log which rows stay in Kafka. Called on the driver when a task failed or the query was stopped."""
        text = (
            "Micro-batch %d: %d task(s) failed or were stopped, and may have written rows. These and %d rows of the other "
            "tasks stay in Kafka, and a repeated micro-batch writes them again"
        )
        if self._options.once is not None:
            text = (
                "Micro-batch %d: %d task(s) failed or were stopped, and their transactions are aborted, unless already "
                "committed. %d rows of the other tasks are committed. A repeated micro-batch writes no committed rows again"
            )
        _log.warning(text, batchId, sum(m is None for m in messages), total(messages).rows)


def _require_repeated(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Compare the slots without rows with the ledger. Blocks for a few requests if there are such slots."""
    empty = [m.empty for m in messages if isinstance(m, Written) and m.empty is not None]
    if not empty:
        return
    from pyspark_zkafka.model.exactly_once import require_repeated

    one, attempts = empty[0], [slot.attempt for slot in empty]  # all slots are of one write
    ledger = open_ledger(options.connection, one.servers, one.name, one.ledger)
    may_be_another_run = any(attempt.may_be_recorded for attempt in attempts)
    slots = None if may_be_another_run else [attempt.slot for attempt in attempts]
    require_repeated(attempts, read_entries(ledger, slots))


def total(messages: Sequence[WriterCommitMessage | None]) -> Written:
    """Add up the counts of the tasks that returned a commit message."""
    written = [m for m in messages if isinstance(m, Written)]
    return Written(sum(m.rows for m in written), sum(m.repeated for m in written))
