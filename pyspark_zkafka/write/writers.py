"""Spark's batch and streaming writers: tasks send rows, and the driver commits offsets when all are acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_zkafka.worker import concise_errors, prepared_worker
from pyspark_zkafka.write.task import RowWriter, count_repeated, count_rows

_log = logging.getLogger(__name__)


class ZKafkaWriter(RowWriter, DataSourceArrowWriter):
    """Writes a batch. At-least-once, unless the options say otherwise: a task that runs again writes its rows again."""

    @concise_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the offsets that the options name; called on the driver when every task has succeeded.

        Raises
        ------
        PartitionOwned
            A live member of the group owns one of the partitions; no offset is committed, the rows stay written.
        PartitionLost
            The member that commits does not own one of them; the others are committed, the rows stay written.
        """
        with prepared_worker():
            _log.info("Wrote %d rows", count_rows(messages))
            commit = self._options.commit
            if commit is None:
                return
            from pyspark_zkafka.group.claims import proof_of
            from pyspark_zkafka.group.offsets import open_group_offsets, require_none_lost

        with open_group_offsets(self._options.connection, self._planned().bootstrap_servers, commit) as offsets:
            result = offsets.commit(commit.offsets, proof_of(commit.owner))
        require_none_lost(result, commit.group)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how many rows stay in Kafka; called on the driver when the write has failed. No offset is committed."""
        failed = sum(m is None for m in messages)
        _log.warning(
            "%d task(s) of the write failed. %d rows of the other tasks stay in Kafka", failed, count_rows(messages)
        )


class ZKafkaStreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. At-least-once, unless the options say otherwise: one that Spark runs again is written again.

    Spark creates a writer for each micro-batch, so partitions added to a topic are used from the next one on.
    """

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the count of rows, which are all acknowledged; called on the driver when every task has succeeded."""
        repeated = count_repeated(messages)
        again = f". {repeated} rows were in the log already" if repeated else ""
        _log.debug("Micro-batch %d: wrote %d rows%s", batchId, count_rows(messages), again)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what stays in Kafka; called on the driver when a task failed or the query was stopped."""
        if self._options.once is not None:
            _log.warning(
                "Micro-batch %d: %d task(s) failed or were stopped, and their transactions are aborted. %d rows of the "
                "other tasks are committed, and a repeated micro-batch does not write them again",
                batchId,
                sum(m is None for m in messages),
                count_rows(messages),
            )
            return
        _log.warning(
            "Micro-batch %d: %d task(s) failed or were stopped, and may have written rows. These and %d rows of the other "
            "tasks stay in Kafka, and a repeated micro-batch writes them again",
            batchId,
            sum(m is None for m in messages),
            count_rows(messages),
        )
