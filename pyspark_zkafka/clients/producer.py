"""A producer that counts: every record handed over is acknowledged, or failed, or still on its way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pyspark_zkafka.clients.kafka_errors import UNKNOWN_TOPIC_CODES, Reports, from_exception
from pyspark_zkafka.clients.librdkafka_log import librdkafka_logger
from pyspark_zkafka.errors import DeliveryFailed, NoLeader, UnknownTopic
from pyspark_zkafka.options import Connection

__all__ = ["CountingProducer", "producer_properties"]


_DEFAULTS: dict[str, Any] = {
    "client.id": "zkafka",
    "enable.idempotence": True,
    "acks": "all",
    # Java's delivery.timeout.ms
    "message.timeout.ms": 120_000,
    # Large batches leave brokers and writer less to do for a record.
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    # As Java's producer, which creates a missing topic where the brokers allow it.
    "allow.auto.create.topics": True,
}
_MAX_QUEUED_RECORDS = 200_000
_MAX_QUEUED_BYTES = 64 * 1024 * 1024
_METADATA_TIMEOUT_S = 30.0
_CREATION_S = 10.0
_HASTEN_S = 1.0


def producer_properties(connection: Connection, bootstrap_servers: str) -> dict[str, Any]:
    """librdkafka's properties for writing: tuned defaults, then the user's."""
    properties = {**_DEFAULTS, **connection.kafka}
    return properties | {"bootstrap.servers": bootstrap_servers, "delivery.report.only.error": True}


class CountingProducer:
    """Sends records and accounts for each of them. Not pickle-safe: make it where it is used, after any fork.

    Leaving the ``with`` block normally waits for every record; leaving it by an error drops what is still queued.

    Parameters
    ----------
    properties : mapping
        As `producer_properties` makes them. Its queue limits bound memory here: librdkafka's own queue is never let run
        full, since a record that it refuses could be overtaken by the next.
    """

    def __init__(self, properties: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._properties = dict(properties)
        self._max_records = int(self._properties.pop("queue.buffering.max.messages", _MAX_QUEUED_RECORDS))
        kilobytes = self._properties.pop("queue.buffering.max.kbytes", _MAX_QUEUED_BYTES // 1024)
        self._max_bytes = int(kilobytes) * 1024
        self._clock = clock
        self._producer: Producer | None = None
        self._handed_over = 0
        self._failed = 0
        self._first_failure: tuple[str, str] | None = None
        self._reports = Reports()
        self._mean_bytes = 0.0

    def __enter__(self) -> CountingProducer:
        unlimited = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_000_000_000}
        try:
            self._producer = Producer(
                {**self._properties, **unlimited, "error_cb": self._reports}, logger=librdkafka_logger()
            )
        except KafkaException as error:
            raise from_exception(error, "making a producer") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self._drop_queued()
            self._producer = None

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged so far."""
        return self._handed_over - self._failed - len(self._handle())

    def send(self, topic: str, partition: int, rows: Sequence[dict[str, Any]], size_bytes: int, *, plain: bool) -> None:
        """Hand rows over to one partition, in order; blocks while too much is queued.

        Parameters
        ----------
        rows : sequence of dict
            ``value`` and ``key`` (bytes or None) and, unless they are plain, ``timestamp`` (ms) and ``headers``.
        size_bytes : int
            About how large they are together.
        plain : bool
            Whether all rows have key and value alone: the fast way.

        Raises
        ------
        DeliveryFailed
            A record handed over before, or one of these, cannot be delivered.
        """
        first = self._handed_over == 0
        self._make_room(len(rows), size_bytes)
        if plain:
            self._send_together(topic, partition, rows)
        else:
            self._send_one_by_one(topic, partition, rows)
        if first and self._is_on("enable.idempotence"):
            self._hasten(topic)
        self._handle().poll(0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until every record handed over is acknowledged; librdkafka gives one up after message.timeout.ms.

        Raises
        ------
        DeliveryFailed
        """
        while len(self._handle()) > 0:
            self._handle().flush(0.5)
            self._raise_failure()
        self._raise_failure()

    def partitions_of(self, topic: str) -> tuple[int, tuple[int, ...]]:
        """How many partitions a topic has, and which of them have a leader, asked from the brokers.

        They may create a missing topic on that (auto.create.topics.enable); blocks for up to 10 s until all have leaders.

        Raises
        ------
        UnknownTopic
            It does not exist, and is not created within 10 s.
        NoLeader
            It exists, and none of its partitions has a leader after 10 s.
        """
        deadline = self._clock() + _CREATION_S
        while True:
            metadata = self._metadata(topic)
            led = tuple(sorted(p.id for p in metadata.partitions.values() if p.leader >= 0))
            late = self._clock() > deadline
            if led and (late or len(led) == len(metadata.partitions)):
                return len(metadata.partitions), led
            if late and metadata.partitions:
                raise NoLeader(
                    "NO_LEADER", f"No partition of {topic} has a leader; start a broker that has a replica of it"
                )
            if late or self._is_hopeless(metadata.error):
                raise _unknown(topic)
            self._handle().poll(0.2)

    def _is_hopeless(self, error: KafkaError | None) -> bool:
        """Whether a topic is missing and nobody may create it."""
        return error is not None and error.code() in UNKNOWN_TOPIC_CODES and not self._is_on("allow.auto.create.topics")

    def _is_on(self, name: str) -> bool:
        return str(self._properties.get(name)).lower() == "true"

    def _metadata(self, topic: str) -> Any:
        try:
            return self._handle().list_topics(topic, timeout=_METADATA_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            self._handle().poll(0)
            doing = f"asking for the partitions of {topic}"
            raise self._reports.refusal(doing) or from_exception(error, doing) from error

    def _handle(self) -> Producer:
        if self._producer is None:
            raise RuntimeError("CountingProducer is used outside of its with block")
        return self._producer

    def _make_room(self, records: int, size_bytes: int) -> None:
        self._mean_bytes = max(size_bytes / max(records, 1), self._mean_bytes * 0.9)
        while (queued := len(self._handle())) > 0:
            if queued + records <= self._max_records and (queued + records) * self._mean_bytes <= self._max_bytes:
                return
            self._handle().poll(0.01)
            self._raise_failure()

    def _hasten(self, topic: str) -> None:
        """Let the first records go at once: an idempotent producer of librdkafka may wait 500 ms for its producer id.

        It looks for a broker to get the id from when metadata come in, and else when that time is over. The first answer
        may replace the brokers to begin with by the cluster's own, none of them connected; at the second, one is.
        """
        with suppress(KafkaException):  # what is wrong shows when the records are not delivered
            for _ in range(2):
                self._handle().list_topics(topic, timeout=_HASTEN_S)

    def _send_together(self, topic: str, partition: int, rows: Sequence[dict[str, Any]]) -> None:
        # Of a row, produce_batch heeds key and value alone: a partition or timestamp there is ignored without a word.
        taken = self._handle().produce_batch(topic, list(rows), partition=partition, on_delivery=self._on_failure)
        self._handed_over += taken
        if taken < len(rows):
            refused = next(row for row in rows if "_error" in row)
            self._note_failure(f"{topic}-{partition}", str(refused["_error"]))

    def _send_one_by_one(self, topic: str, partition: int, rows: Sequence[dict[str, Any]]) -> None:
        producer = self._handle()
        for row in rows:
            try:
                producer.produce(topic, partition=partition, on_delivery=self._on_failure, **row)
            except (KafkaException, BufferError) as error:
                self._note_failure(f"{topic}-{partition}", str(error))
                return
            self._handed_over += 1

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._note_failure(f"{message.topic()}-{message.partition()}", f"{error.name()}: {error.str()}")

    def _note_failure(self, partition: str, cause: str) -> None:
        self._first_failure = self._first_failure or (partition, cause)

    def _raise_failure(self) -> None:
        if (refusal := self._reports.refusal("writing")) is not None:
            self._note_failure("the brokers refuse", refusal.message)
        if self._first_failure is None:
            return
        partition, cause = self._first_failure
        self._drop_queued()
        acknowledged = self.acknowledged
        failed = self._handed_over - acknowledged
        raise DeliveryFailed(
            "DELIVERY_FAILED",
            f"{partition}: {cause}; of {self._handed_over} records handed over by this task {acknowledged} were "
            f"acknowledged and {failed} were not (last error of the connection: {self._reports.last or 'none'}); "
            "mend the cause and write again: rows that were acknowledged will be there twice",
            acknowledged=acknowledged,
            failed=failed,
        )

    def _drop_queued(self) -> None:
        """Give up what is not sent yet, and wait shortly for the fate of what is in flight."""
        producer = self._handle()
        if len(producer) > 0:
            producer.purge(in_queue=True, in_flight=False, blocking=True)
            producer.flush(5)
        if len(producer) > 0:
            producer.purge(in_queue=True, in_flight=True, blocking=True)
            producer.flush(1)


def _unknown(topic: str) -> UnknownTopic:
    return UnknownTopic(
        "UNKNOWN_TOPIC",
        f"The cluster has no topic {topic}, and does not create it by itself; create it first, or correct the name",
    )
