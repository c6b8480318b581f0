"""Spark's streaming writer: one micro-batch of a query, written as a batch is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_zkafka.write.task import RowWriter, count_rows

__all__ = ["ZKafkaStreamWriter"]

_log = logging.getLogger(__name__)


class ZKafkaStreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. At-least-once: a micro-batch that Spark runs again writes its rows again.

    Spark creates a writer for each micro-batch, so partitions added to a topic are used from the next one on.
    """

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the count of rows, which are all acknowledged; called on the driver when every task has succeeded."""
        _log.info("micro-batch %d: wrote %d rows", batchId, count_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what stays in Kafka; called on the driver when a task failed or the query was stopped."""
        _log.warning(
            "micro-batch %d: %d task(s) failed or were stopped, and may have written some of their rows; %d rows of the "
            "others are written; all of them stay, and will be there twice when the query runs the micro-batch again",
            batchId,
            sum(m is None for m in messages),
            count_rows(messages),
        )
