"""Spark's streaming writer: one micro-batch of a query, written as a batch is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_zkafka.write.task import RowWriter, count_repeated, count_rows

__all__ = ["ZKafkaStreamWriter"]

_log = logging.getLogger(__name__)


class ZKafkaStreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. At-least-once, unless the options say otherwise: one that Spark runs again is written again.

    Spark creates a writer for each micro-batch, so partitions added to a topic are used from the next one on.
    """

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the count of rows, which are all acknowledged; called on the driver when every task has succeeded."""
        repeated = count_repeated(messages)
        again = f"; {repeated} rows were in the log already" if repeated else ""
        _log.info("micro-batch %d: wrote %d rows%s", batchId, count_rows(messages), again)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what stays in Kafka; called on the driver when a task failed or the query was stopped."""
        if self._options.once is not None:
            _log.warning(
                "micro-batch %d: %d task(s) failed or were stopped, and their transactions are aborted; %d rows of the "
                "others "
                "are committed, and will not be written again when the query runs the micro-batch again",
                batchId,
                sum(m is None for m in messages),
                count_rows(messages),
            )
            return
        _log.warning(
            "micro-batch %d: %d task(s) failed or were stopped, and may have written some of their rows; %d rows of the "
            "others are written; all of them stay, and will be there twice when the query runs the micro-batch again",
            batchId,
            sum(m is None for m in messages),
            count_rows(messages),
        )
