"""Rows of a task: routed, sent and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.conditions import DELIVERY_MISCOUNTED
from pyspark_zkafka.formats.encoding import row_encoder
from pyspark_zkafka.model.ledger import QueryName
from pyspark_zkafka.model.partitioners import HashKeys, Router
from pyspark_zkafka.model.rows import OutgoingBatch, gathered, outgoing
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.worker import is_within_pyspark, prepared_worker
from pyspark_zkafka.write.plan import LedgerPlan, WritePlan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.taskcontext import TaskContext

    from pyspark_zkafka.model.exactly_once import Attempt
    from pyspark_zkafka.records.producer import CountingProducer


@dataclass(frozen=True, slots=True)
class EmptySlot:
    """A slot of an exactly-once write without rows. The driver checks the ledger for entries of the same batch."""

    name: QueryName
    attempt: Attempt
    servers: str
    ledger: LedgerPlan


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: the number of acknowledged rows.

    `repeated` counts the rows that an exactly-once write found in the log already, and did not write again. `empty` is the
    slot of a task without rows, which could not compare the ledger.
    """

    rows: int = 0
    repeated: int = 0
    empty: EmptySlot | None = None


def write_rows(options: WriteOptions, plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send all rows of a task at least once, and wait until each row is acknowledged. Without rows, opens no client.

    Raises DeliveryFailed, with the first failure's topic, partition and cause, and the counts.
    """
    with prepared_worker(for_task=True):
        from pyspark.taskcontext import TaskContext

        from pyspark_zkafka.records.producer import producer_properties
        from pyspark_zkafka.records.select import hash_function, open_producer

    first = next((batch for batch in batches if batch.num_rows > 0), None)
    if first is None:
        return Written()
    properties = producer_properties(options.connection, plan.bootstrap_servers)
    with open_producer(options.connection, properties, plan.generation) as producer:
        task = RowSender(options, plan, producer, first_turn(TaskContext.get()), hash_function(options.connection))
        rows = chain([first], batches)
        for batch in rows if is_within_pyspark() else gathered(rows):
            task.send(batch)
        return task.finish()


class RowSender:
    """Routes and sends batches, and counts rows. Calls `observe` with each batch before sending it."""

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
        self._hash_keys = hash_keys
        self._observe = observe
        self._encode = row_encoder(plan.encoding)
        self._turns = defaultdict[str, int](lambda: turn)
        self._sent = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Route all rows of a batch, then send them. An invalid row is thus found before any row is sent."""
        routed = [(part, self._route(part)) for part in outgoing(batch, self._options.topic, self._encode)]
        for part, partitions in routed:
            if self._observe is not None:
                self._observe(part)
            self._producer.send(part, partitions)
            self._sent += len(partitions)

    def finish(self) -> Written:
        """Wait until each row is acknowledged, and return the counts."""
        self._producer.flush()
        acknowledged = self._producer.acknowledged
        if self._sent != acknowledged:
            raise DELIVERY_MISCOUNTED(
                f"{self._sent} rows were sent and {acknowledged} acknowledged, without an error from the brokers. Write "
                "again, and report this with the transport's log; for librdkafka, set kafka.debug=msg, and the logger "
                "pyspark_zkafka.librdkafka to DEBUG",
            )
        return Written(acknowledged)

    def _route(self, part: OutgoingBatch) -> npt.NDArray[np.int32]:
        router = self._routers.get(part.topic)
        if router is None:
            found = self._producer.partitions_of(part.topic)
            router = self._routers[part.topic] = Router(part.topic, *found, self._options.partitioner)
        turn = self._turns[part.topic]
        partitions, self._turns[part.topic] = router.route(len(part.value), part.key, part.partition, turn, self._hash_keys)
        return partitions


def first_turn(context: TaskContext | None) -> int:
    """Vary the first partition by task and micro-batch. Otherwise the first partitions would receive all small batches."""
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty("streaming.sql.batchId") or 0)
