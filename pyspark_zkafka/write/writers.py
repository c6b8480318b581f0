"""Spark's writers: tasks route, send and count rows, and the driver commits offsets when all are acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_zkafka.conditions import DELIVERY_MISCOUNTED
from pyspark_zkafka.formats.encoding import row_encoder
from pyspark_zkafka.model.key_hashes import HashKeys
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.rows import OutgoingBatch, outgoing
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.worker import TaskObject, concise_errors, prepared_worker
from pyspark_zkafka.write.plan import WritePlan, plan_write

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.taskcontext import TaskContext

    from pyspark_zkafka.records.producer import CountingProducer

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: acknowledged rows by (topic, partition).

    `repeated` counts the rows that an exactly-once write found in the log already, and did not write again.
    """

    rows: Mapping[tuple[str, int], int] = field(default_factory=dict)
    repeated: int = 0


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
        """Log which rows stay in Kafka; called on the driver when a task failed or the query was stopped."""
        text = (
            "Micro-batch %d: %d task(s) failed or were stopped, and may have written rows. These and %d rows of the other "
            "tasks stay in Kafka, and a repeated micro-batch writes them again"
        )
        if self._options.once is not None:
            text = (
                "Micro-batch %d: %d task(s) failed or were stopped, and their transactions are aborted, unless already "
                "committed. %d rows of the other tasks are committed. A repeated micro-batch writes no committed rows again"
            )
        _log.warning(text, batchId, sum(m is None for m in messages), count_rows(messages))


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


class RowSender:
    """Routes and sends batches, and counts rows; `observe` is called with all that is sent."""

    def __init__(
        self,
        options: WriteOptions,
        plan: WritePlan,
        producer: CountingProducer,
        turn: int,
        hash_keys: HashKeys,
        observe: Callable[[OutgoingBatch], None] | None = None,
    ) -> None:
        self._options = options
        self._routers = dict(plan.routers)
        self._producer = producer
        self._first_turn = turn
        self._hash_keys = hash_keys
        self._observe = observe
        self._encode = row_encoder(plan.encoding)
        self._turns: dict[str, int] = {}
        self._sent = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Route all rows of a batch, then send them: an invalid row is found before any is sent."""
        routed = [(part, self._route(part)) for part in outgoing(batch, self._options.topic, self._encode)]
        for part, partitions in routed:
            if self._observe is not None:
                self._observe(part)
            self._producer.send(part, partitions, self._routers[part.topic].partitions)
            self._sent += len(partitions)

    def written(self) -> Written:
        """The counts; call after flushing the producer."""
        rows = {(t, p): n for t in self._routers for p, n in self._producer.delivered(t).items()}
        acknowledged = self._producer.acknowledged
        if not self._sent == acknowledged == sum(rows.values()):
            raise DELIVERY_MISCOUNTED(
                f"{self._sent} rows were sent and {acknowledged} acknowledged, without an error from the brokers; "
                "write again, and report this with the transport's log; for librdkafka, set kafka.debug=msg",
            )
        return Written(rows)

    def _route(self, part: OutgoingBatch) -> npt.NDArray[np.int32]:
        router = self._routers.get(part.topic)
        if router is None:
            found = self._producer.partitions_of(part.topic)
            router = self._routers[part.topic] = Router(part.topic, *found, self._options.partitioner)
        turn = self._turns.get(part.topic, self._first_turn)
        partitions, self._turns[part.topic] = router.route(len(part.value), part.key, part.partition, turn, self._hash_keys)
        return partitions


def first_turn(context: TaskContext | None) -> int:
    """Vary the first partition by task and micro-batch: otherwise the first ones would receive all small batches."""
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty("streaming.sql.batchId") or 0)


def count_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Total rows written by the tasks that returned a commit message."""
    return sum(sum(m.rows.values()) for m in messages if isinstance(m, Written))


def count_repeated(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Total rows that an exactly-once write found in the log already."""
    return sum(m.repeated for m in messages if isinstance(m, Written))
