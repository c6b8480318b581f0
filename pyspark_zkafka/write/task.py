"""A write's plan, made once on the driver, and its execution in each task: route whole Arrow arrays, send, count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.errors import DeliveryFailed
from pyspark_zkafka.options.model import WriteOptions
from pyspark_zkafka.protocol.key_hashes import HashKeys
from pyspark_zkafka.protocol.model import Topic
from pyspark_zkafka.protocol.partitioners import Router
from pyspark_zkafka.protocol.rows import OutgoingBatch, outgoing
from pyspark_zkafka.worker import prepared_worker

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.taskcontext import TaskContext

    from pyspark_zkafka.transport.producer import CountingProducer

__all__ = ["RowWriter", "WritePlan", "Written", "count_rows", "plan_write", "write_rows"]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a write, shared by its tasks: a router for each topic, and the bootstrap servers.

    `generation` distinguishes these topics from others of the same names; None where they have no identity.
    """

    bootstrap_servers: str
    routers: Mapping[str, Router]
    generation: frozenset[tuple[str, str | int, int]] | None = None


def plan_write(options: WriteOptions) -> WritePlan:
    """Plan a write. Blocks for a few round trips; looks up only the option's topic if there is one.

    Raises ZKafkaError if the cluster cannot be reached, or the topic does not exist.
    """
    from pyspark_zkafka.cluster import bootstrap_servers, open_cluster
    from pyspark_zkafka.transport.producer import producer_properties
    from pyspark_zkafka.transport.select import open_producer, uses_native

    uses_native(options.connection)  # report a missing native path here, not in each task
    with open_cluster(options.connection) as cluster:
        snapshot = cluster.snapshot(None if options.topic is None else [options.topic])
    servers = bootstrap_servers(options.connection, snapshot)
    routers = {
        name: Router(name, len(topic.partitions), snapshot.led(name), options.partitioner)
        for name, topic in snapshot.topics.items()
    }
    if options.topic is not None and options.topic not in routers:
        with open_producer(options.connection, producer_properties(options.connection, servers)) as producer:
            routers[options.topic] = Router(options.topic, *producer.partitions_of(options.topic), options.partitioner)
        return WritePlan(servers, routers)
    return WritePlan(servers, routers, _generation(snapshot.topics.values()))


def _generation(topics: Iterable[Topic]) -> frozenset[tuple[str, str | int, int]] | None:
    found = {(topic.name, topic.topic_id or topic.czxid, len(topic.partitions)) for topic in topics}
    return None if any(identity is None for _, identity, _ in found) else frozenset(found)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: acknowledged rows by (topic, partition)."""

    rows: Mapping[tuple[str, int], int] = field(default_factory=dict)


def count_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Total rows written by the tasks that returned a commit message."""
    return sum(sum(m.rows.values()) for m in messages if isinstance(m, Written))


class RowWriter:
    """Writer of rows, whose `write` is that of Spark's Arrow writers, batch and streaming.

    Pickle-safe: it stores options and the plan, and opens connections inside each call. Without a plan, as a stream's
    writer that only commits, each call makes its own.
    """

    def __init__(self, options: WriteOptions, plan: WritePlan | None) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See `write_rows`."""
        return write_rows(self._options, self._planned(), iterator)

    def _planned(self) -> WritePlan:
        return self._plan or plan_write(self._options)


def write_rows(options: WriteOptions, plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send all rows of a task and wait until each is acknowledged; without rows, nothing is opened.

    Raises DeliveryFailed, with the first failure's topic, partition and cause, and the counts.
    """
    with prepared_worker(for_task=True):
        from pyspark.taskcontext import TaskContext

        from pyspark_zkafka.transport.producer import producer_properties
        from pyspark_zkafka.transport.select import hash_function, open_producer

    first = next((batch for batch in batches if batch.num_rows > 0), None)
    if first is None:
        return Written()
    properties = producer_properties(options.connection, plan.bootstrap_servers)
    with open_producer(options.connection, properties, plan.generation) as producer:
        task = _WriteTask(options, plan, producer, _first_turn(TaskContext.get()), hash_function(options.connection))
        for batch in chain([first], batches):
            task.send(batch)
        producer.flush()
        return task.written()


def _first_turn(context: TaskContext | None) -> int:
    """Vary the first partition by task and micro-batch: otherwise the first ones would receive all small batches."""
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty("streaming.sql.batchId") or 0)


class _WriteTask:
    """Routes and sends batches, and counts rows."""

    def __init__(
        self, options: WriteOptions, plan: WritePlan, producer: CountingProducer, first_turn: int, hash_keys: HashKeys
    ) -> None:
        self._options = options
        self._routers = dict(plan.routers)
        self._producer = producer
        self._first_turn = first_turn
        self._hash_keys = hash_keys
        self._turns: dict[str, int] = {}
        self._sent = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Route all rows of a batch, then send them: an invalid row is found before any is sent."""
        routed = [(part, self._route(part)) for part in outgoing(batch, self._options.topic)]
        for part, partitions in routed:
            self._producer.send(part, partitions, self._routers[part.topic].partitions)
            self._sent += len(partitions)

    def written(self) -> Written:
        """The counts; call after flushing the producer."""
        rows = {(t, p): n for t in self._routers for p, n in self._producer.delivered(t).items()}
        acknowledged = self._producer.acknowledged
        if not self._sent == acknowledged == sum(rows.values()):
            raise DeliveryFailed(
                "DELIVERY_MISCOUNTED",
                f"{self._sent} rows were sent and {acknowledged} acknowledged, without an error from the brokers; "
                "write again, and report this with the log of librdkafka (kafka.debug=msg)",
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
