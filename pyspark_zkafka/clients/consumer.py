"""A consumer of one partition: no group, no commits, no opinion on what a gap means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.clients.kafka_errors import UNKNOWN_TOPIC_CODES, Reports, from_exception, from_kafka
from pyspark_zkafka.clients.librdkafka_log import librdkafka_logger
from pyspark_zkafka.options import Connection
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["PartitionConsumer", "Poll", "consumer_properties"]


_DEFAULTS: dict[str, Any] = {
    "client.id": "zkafka",
    "allow.auto.create.topics": False,
    # Java's default; librdkafka's own is read_committed.
    "isolation.level": "read_uncommitted",
    # Java checks them; librdkafka would not.
    "check.crcs": True,
    # A planned topic exists: what the brokers do not know for so long is gone (the reader makes sure of that).
    "topic.metadata.propagation.max.ms": 3000,
    # Large fetches and a short pause between them leave brokers and reader less to do for a record.
    "fetch.message.max.bytes": 8 * 1024 * 1024,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 64 * 1024,
}
_FORCED: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Anything else would skip data without a word.
    "auto.offset.reset": "error",
    # The only way to learn that nothing visible is left before the end of a range.
    "enable.partition.eof": True,
}
_RESPONSE_OVERHEAD_BYTES = 512


def consumer_properties(connection: Connection, bootstrap_servers: str, group: str) -> dict[str, Any]:
    """librdkafka's properties for reading: tuned defaults, then the user's, then what the proof of a range needs."""
    properties = {**_DEFAULTS, **connection.kafka, **_FORCED}
    properties |= {"bootstrap.servers": bootstrap_servers, "group.id": group}
    # librdkafka wants room for a whole response; its default suits fetches of up to 95 MiB.
    room = int(properties["fetch.max.bytes"]) + _RESPONSE_OVERHEAD_BYTES
    properties.setdefault("receive.message.max.bytes", max(100_000_000, room))
    return properties


@dataclass(slots=True)
class Poll:
    """What one poll brought, in the order in which it must be looked at.

    `messages` are records in offset order. `end` is the offset of the log's end if it was reached after them.
    `out_of_range` says that the position lies outside the log, `gone` that the brokers do not know the partition, and
    `error` is the last passing error, for the text of a time-out.
    """

    messages: list[Message] = field(default_factory=list)
    end: int | None = None
    out_of_range: bool = False
    gone: bool = False
    error: str | None = None


class PartitionConsumer:
    """Fetches one partition from an offset on. Not thread-safe, not pickle-safe: make it where it is used, after any fork.

    Parameters
    ----------
    properties : mapping
        As `consumer_properties` makes them.
    partition : TopicPartition
    """

    def __init__(self, properties: Mapping[str, Any], partition: TopicPartition) -> None:
        self._properties = dict(properties)
        self._partition = partition
        self._consumer: Consumer | None = None
        self._reports = Reports()
        self._gone = False

    def __enter__(self) -> PartitionConsumer:
        try:
            self._consumer = Consumer({**self._properties, "error_cb": self._note}, logger=librdkafka_logger())
        except KafkaException as error:
            raise from_exception(error, "making a consumer") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def seek(self, offset: int) -> None:
        """Fetch from `offset` on; what was fetched before is dropped. Does not block."""
        tp = self._partition
        self._handle().assign([KafkaTopicPartition(tp.topic, tp.partition, offset)])

    def poll(self, max_messages: int, timeout_s: float) -> Poll:
        """The next messages: returns when there are `max_messages`, or after `timeout_s` with those that came.

        Raises
        ------
        ClusterStateError
            For an error that waiting does not mend: refused, corrupt, unsupported.
        """
        found = self._handle().consume(max_messages, timeout_s)
        poll = Poll(found, gone=self._gone)
        self._gone = False
        if any(map(Message.error, found)):
            poll.messages = [m for m in found if m.error() is None]
            for message in found:
                if (error := message.error()) is not None:
                    self._take_event(error, message, poll)
        poll.error = self._reports.last
        if not found and (refusal := self._reports.refusal(f"reading {self._partition}")) is not None:
            raise refusal
        return poll

    def log_range(self, timeout_s: float) -> tuple[int, int]:
        """The log's earliest offset and its end, asked from the leader."""
        tp = KafkaTopicPartition(self._partition.topic, self._partition.partition)
        try:
            low, high = self._handle().get_watermark_offsets(tp, timeout=timeout_s, cached=False)
        except KafkaException as error:
            raise from_exception(error, f"asking the leader of {self._partition} for the ends of its log") from error
        return low, high

    def _handle(self) -> Consumer:
        if self._consumer is None:
            raise RuntimeError("PartitionConsumer is used outside of its with block")
        return self._consumer

    def _note(self, error: KafkaError) -> None:
        self._reports(error)
        self._gone = self._gone or error.code() in UNKNOWN_TOPIC_CODES

    def _take_event(self, error: KafkaError, message: Message, poll: Poll) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            poll.end = message.offset()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            poll.out_of_range = True
        elif error.code() in UNKNOWN_TOPIC_CODES:
            poll.gone = True
        elif error.retriable() or error.code() in _PASSING:
            self._note(error)
        else:
            raise from_kafka(error, f"reading {self._partition}")


_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
