"""Rows of a task on their way: routed as whole Arrow arrays, sent, and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.conditions import DELIVERY_MISCOUNTED
from pyspark_zkafka.formats.encoding import row_encoder
from pyspark_zkafka.model.key_hashes import HashKeys
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.rows import OutgoingBatch, outgoing
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.write.plan import WritePlan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.taskcontext import TaskContext

    from pyspark_zkafka.records.producer import CountingProducer

__all__ = ["RowSender", "Written", "first_turn"]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: acknowledged rows by (topic, partition).

    `repeated` counts the rows that an exactly-once write found in the log already, and did not write again.
    """

    rows: Mapping[tuple[str, int], int] = field(default_factory=dict)
    repeated: int = 0


def first_turn(context: TaskContext | None) -> int:
    """Vary the first partition by task and micro-batch: otherwise the first ones would receive all small batches."""
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty("streaming.sql.batchId") or 0)


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
