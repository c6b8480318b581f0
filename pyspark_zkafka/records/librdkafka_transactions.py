"""Transactions of the sender in pure Python, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from pyspark_zkafka.brokers.clients import librdkafka_logger
from pyspark_zkafka.records.sender import GroupOffset, Transactions

__all__ = ["MessageTransactions", "kafka_errors"]


@contextmanager
def kafka_errors() -> Iterator[None]:
    """Raise a fatal error of the client as KafkaException, always.

    confluent-kafka raises it out of any call that handles events, and some of these make it the cause of a SystemError.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


class MessageTransactions(Transactions):
    """The `Transactions` of confluent-kafka's producer."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def init(self, timeout_s: float) -> None:
        with kafka_errors():
            self._producer.init_transactions(timeout_s)

    def begin(self) -> None:
        with kafka_errors():
            self._producer.begin_transaction()

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        position = TopicPartition(offset.topic, offset.partition, offset.offset, offset.metadata)
        with kafka_errors():
            self._producer.send_offsets_to_transaction([position], _group_metadata(offset.group), timeout_s)

    def commit(self, timeout_s: float) -> None:
        with kafka_errors():
            self._producer.commit_transaction(timeout_s)

    def abort(self, timeout_s: float) -> None:
        with kafka_errors():
            self._producer.abort_transaction(timeout_s)


@lru_cache(maxsize=64)
def _group_metadata(group: str) -> Any:
    """A group's metadata as of a producer that is no member, which only a consumer makes; this one connects to nothing."""
    with closing(Consumer({"group.id": group}, logger=librdkafka_logger())) as consumer:
        return consumer.consumer_group_metadata()
