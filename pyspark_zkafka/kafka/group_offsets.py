"""A group's offsets in Kafka's own topic, ``__consumer_offsets``, as a consumer without a subscription commits them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.clients import make_consumer
from pyspark_zkafka.kafka.consumer_properties import lookup_properties
from pyspark_zkafka.kafka.errors import REFUSED_FOR_S, ErrorReports, from_kafka
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["KafkaGroupOffsets", "offset_metadata"]

T = TypeVar("T")

_TIMEOUT_S = 30.0
# Errors are only reported between requests: a refusal is recorded after the first, and old enough after the second. There
# are no more requests than these, as the answer to one that has timed out is lost.
_LOOK_AFTER_S = (1.0, 3.0)
_UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)


def offset_metadata(found: KafkaTopicPartition) -> str:
    """The metadata of a committed offset, perhaps with other bytes behind it; empty without one.

    librdkafka copies metadata without the zero byte that confluent-kafka then looks for, and reads on to the next one in
    memory. A reader must know where its text ends.
    """
    try:
        return found.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


class KafkaGroupOffsets:
    """The offsets that a group has committed to Kafka; not pickle-safe, and only for the process that created it.

    A commit is a simple one, without member and generation, as by the JVM's old consumer with ``offsets.storage=kafka``:
    brokers accept it while no consumer of the new kind is in the group. Of librdkafka's `properties` only those of the
    connection are used; `timeout_s` is the wait for requested offsets, and for the group's coordinator.
    """

    def __init__(
        self, bootstrap_servers: str, properties: Mapping[str, Any], group: str, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._group = group
        self._timeout_s = timeout_s
        self._reports = ErrorReports()
        self._consumer: Consumer | None = None
        own: dict[str, Any] = {"group.id": group, "enable.auto.commit": False}
        own["session.timeout.ms"] = int(timeout_s * 1000)  # the time that a commit waits for a coordinator
        self._config = {**lookup_properties(properties), "bootstrap.servers": bootstrap_servers, **own}

    def __enter__(self) -> KafkaGroupOffsets:
        self._consumer = make_consumer(self._config, self._reports)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offsets to read; partitions without one are absent.

        Blocks for a request: `timeout_s` at the most, some seconds if the brokers refuse the connection.
        """
        return {tp: offset for tp, (offset, _) in self.committed_with_metadata(partitions).items()}

    def committed_with_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The next offsets to read, each with its metadata (see `offset_metadata`); otherwise as `committed`.

        An offset of a transaction that is being committed is waited for, by brokers from 2.5 on.
        """
        if not partitions:
            return {}
        asked = [KafkaTopicPartition(*tp) for tp in partitions]
        found = self._call("reading", lambda consumer: self._ask(consumer, asked))
        self._require_success("reading", found)
        return {TopicPartition(tp.topic, tp.partition): (tp.offset, offset_metadata(tp)) for tp in found if tp.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the next offsets to read, whatever is stored.

        Blocks for a request: up to `timeout_s` for the group's coordinator, and ``socket.timeout.ms`` for its answer.
        Raises ClusterStateError if brokers refuse (consumers of the new kind are in the group, or an ACL forbids it), and
        BrokersUnavailable without an answer: whether the offsets were committed is unknown.
        """
        if not offsets:
            return
        positions = [KafkaTopicPartition(*tp, offset) for tp, offset in offsets.items()]
        done = self._call("committing", lambda consumer: consumer.commit(offsets=positions, asynchronous=False))
        self._require_success("committing", done)

    def _ask(self, consumer: Consumer, asked: list[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        """The committed offsets; requested again after some seconds, unless the brokers have refused the connection."""
        left_s = self._timeout_s
        for look_s in _LOOK_AFTER_S:
            if left_s <= look_s:
                break
            try:
                return list(consumer.committed(asked, timeout=look_s))
            except KafkaException as error:
                _raise_denial(consumer)
                if error.args[0].code() not in _UNANSWERED or self._reports.refusal("", REFUSED_FOR_S) is not None:
                    raise
            left_s -= look_s
        return list(consumer.committed(asked, timeout=left_s))

    def _call(self, doing: str, call: Callable[[Consumer], T]) -> T:
        if self._consumer is None:
            raise RuntimeError("KafkaGroupOffsets is used outside of its with block")
        self._consumer.poll(0)
        self._reports.begin()
        try:
            answer = call(self._consumer)
        except KafkaException as error:
            self._consumer.poll(0)
            raise self._reports.error(error, f"{doing} the offsets of group {self._group}") from error
        self._reports.answered()
        return answer

    def _require_success(self, doing: str, answers: list[KafkaTopicPartition]) -> None:
        for answer in answers:
            if answer.error is not None:
                place = f"{answer.topic}-{answer.partition}"
                raise from_kafka(answer.error, f"{doing} the offset of group {self._group} in {place}")


def _raise_denial(consumer: Consumer) -> None:
    """Handle reports; raise the coordinator's refusal of the group, which librdkafka reports like a record, and asks on."""
    while (reported := consumer.poll(0)) is not None:
        error = reported.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)
