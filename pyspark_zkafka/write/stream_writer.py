"""Spark's streaming writer: one micro-batch of a query, written as a batch is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.model import WriteOptions
from pyspark_zkafka.write.task import WritePlan, Written, count_rows, plan_write, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ZKafkaStreamWriter", "parse_stream_write"]

_log = logging.getLogger(__name__)

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})


def parse_stream_write(raw: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """Parse the options of a streaming write: those of a batch write, without the ones that Spark itself reads.

    Parameters
    ----------
    overwrite : bool
        Spark's form of the output mode: True for complete, False for append.

    Raises
    ------
    OptionError
        Also for the output mode complete and for commitOffsets.
    """
    if overwrite:
        raise OptionError(
            "OUTPUT_MODE",
            "The output mode complete replaces the whole result with each micro-batch, and records of a topic cannot be "
            "replaced; use append (with a watermark, if the query aggregates), or write what has "
            "changed with outputMode('update') and foreachBatch",
        )
    if any(name.lower() == "commitoffsets" for name in raw):
        raise OptionError(
            "INVALID_OPTIONS",
            "commitOffsets is an option of batch writes, and names fixed offsets; a stream commits its offsets on the "
            "reading side, after each micro-batch; give group.id to readStream, and leave commitOffsets out",
        )
    from pyspark_zkafka.options.batch import parse_write

    return parse_write({name: value for name, value in raw.items() if name.lower() not in _SPARKS_OWN})


class ZKafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch. Pickle-safe: it stores options and the plan, and opens connections inside each call.

    At-least-once: a micro-batch that Spark runs again writes its rows again.

    Parameters
    ----------
    options : WriteOptions
    plan : WritePlan or None
        Spark creates a writer for each micro-batch, so each micro-batch has a new plan: partitions added to a topic are
        used from the next one on. It creates another writer to commit, which needs no plan; if that one ever writes, each
        task makes its own plan.
    """

    def __init__(self, options: WriteOptions, plan: WritePlan | None) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send all rows of a task and wait until each is acknowledged.

        Raises
        ------
        DeliveryFailed
            With the first failure's topic, partition and cause, and the counts.
        """
        return write_rows(self._options, self._plan or plan_write(self._options), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the count of rows, which are all acknowledged; called on the driver when every task has succeeded."""
        _log.info("micro-batch %d: wrote %d rows", batchId, count_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what stays in Kafka; called on the driver when a task failed or the query was stopped."""
        unfinished = sum(m is None for m in messages)
        _log.warning(
            "micro-batch %d: %d task(s) failed or were stopped, and may have written some of their rows; %d rows of the "
            "others are written; all of them stay, and will be there twice when the query runs the micro-batch again",
            batchId,
            unfinished,
            count_rows(messages),
        )
