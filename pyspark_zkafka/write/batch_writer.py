"""Spark's batch writer: its tasks send rows, and the driver commits offsets when all of them are acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_zkafka.worker import prepared_worker
from pyspark_zkafka.write.task import RowWriter, count_rows

__all__ = ["ZKafkaWriter"]

_log = logging.getLogger(__name__)


class ZKafkaWriter(RowWriter, DataSourceArrowWriter):
    """Writes a batch. At-least-once, unless the options say otherwise: a task that runs again writes its rows again."""

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
            _log.info("wrote %d rows", count_rows(messages))
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
            "%d task(s) of the write failed; %d rows of the others are written and stay", failed, count_rows(messages)
        )
