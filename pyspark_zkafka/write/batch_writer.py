"""Spark's batch writer: its tasks send rows, and the driver commits offsets when all of them are acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_zkafka.options.model import WriteOptions
from pyspark_zkafka.worker.collector import freeze_imports
from pyspark_zkafka.write.task import WritePlan, Written, count_rows, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ZKafkaWriter"]

_log = logging.getLogger(__name__)


class ZKafkaWriter(DataSourceArrowWriter):
    """Writes a batch. Pickle-safe: it stores options and the plan, and opens connections inside each call.

    At-least-once: a task that Spark runs again writes its rows again.
    """

    def __init__(self, options: WriteOptions, plan: WritePlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send all rows of a task and wait until each is acknowledged.

        Raises
        ------
        DeliveryFailed
            With the first failure's topic, partition and cause, and the counts.
        """
        return write_rows(self._options, self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the offsets that the options name; called on the driver when every task has succeeded.

        Raises
        ------
        PartitionOwned
            A live member of the group owns one of the partitions; no offset is committed, the rows stay written.
        PartitionLost
            The member that commits does not own one of them; the others are committed, the rows stay written.
        """
        freeze_imports()
        _log.info("wrote %d rows", count_rows(messages))
        commit = self._options.commit
        if commit is None:
            return
        from pyspark_zkafka.group.offset_store import GroupOffsets, require_none_lost
        from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

        connection = self._options.connection
        with ExitStack() as opened:
            client = None
            if connection.zookeeper is not None:
                client = opened.enter_context(ZooKeeperClient(connection.zookeeper))
            offsets = GroupOffsets(connection, self._plan.bootstrap_servers, commit.group, commit.stores, client)
            result = opened.enter_context(offsets).commit(commit.offsets, commit.owner)
        require_none_lost(result, commit.group)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how many rows stay in Kafka; called on the driver when the write has failed. No offset is committed."""
        failed = sum(m is None for m in messages)
        _log.warning(
            "%d task(s) of the write failed; %d rows of the others are written and stay", failed, count_rows(messages)
        )
