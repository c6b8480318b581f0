"""confluent-kafka's consumer, without a group: opened, warmed up, and closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from pyspark_zkafka.kafka.errors import from_exception
from pyspark_zkafka.kafka.log import librdkafka_logger
from pyspark_zkafka.kafka.warm_up import INTRODUCTION_S

__all__ = ["MessageClient", "ignore", "make_consumer"]


def make_consumer(properties: Mapping[str, Any], note: Callable[[KafkaError], None]) -> Consumer:
    """confluent-kafka's consumer; `note` is called with errors of the client as a whole. ZKafkaError if it is refused."""
    try:
        return Consumer({**properties, "error_cb": note}, logger=librdkafka_logger())
    except KafkaException as error:
        raise from_exception(error, "making a consumer") from error


class MessageClient:
    """confluent-kafka's consumer, open for the time of a ``with`` block; it serves one `MessageConsumer` after the other.

    Create it where it is used, after any fork.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._open: Consumer | None = None
        self._is_warm = False
        self.note: Callable[[KafkaError], None] = ignore

    def __enter__(self) -> MessageClient:
        self._open = make_consumer(self._properties, lambda error: self.note(error))
        self._is_warm = False
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def warm_up(self, topic: str) -> None:
        """Request a topic's metadata, once, after its assignment: else a new client may begin a second late.

        Blocks for up to a second; see `pyspark_zkafka.kafka.warm_up`.
        """
        if not self._is_warm:
            self._is_warm = True
            with suppress(KafkaException):
                self.consumer.list_topics(topic, timeout=INTRODUCTION_S)

    @property
    def consumer(self) -> Consumer:
        """The consumer itself."""
        if self._open is None:
            raise RuntimeError("MessageClient is used outside of its with block")
        return self._open


def ignore(error: KafkaError) -> None:
    """Ignore an error of an idle client: its next user gets the error again."""
