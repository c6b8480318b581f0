"""confluent-kafka's consumer, without a group: opened, warmed up, and closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from pyspark_zkafka.kafka.errors import from_exception
from pyspark_zkafka.kafka.log import librdkafka_logger
from pyspark_zkafka.kafka.warm_up import INTRODUCTION_S

__all__ = ["MessageClient", "ignore"]


class MessageClient:
    """confluent-kafka's consumer, open for the time of a ``with`` block; it serves one `MessageConsumer` after the other.

    Create it where it is used, after any fork.

    Parameters
    ----------
    properties : mapping
        Those of `pyspark_zkafka.kafka.consumer_properties.consumer_properties`.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)
        self._open: Consumer | None = None
        self._is_warm = False
        self.note: Callable[[KafkaError], None] = ignore

    def __enter__(self) -> MessageClient:
        settings = {**self._properties, "error_cb": lambda error: self.note(error)}
        try:
            self._open = Consumer(settings, logger=librdkafka_logger())
            self._is_warm = False
        except KafkaException as error:
            raise from_exception(error, "making a consumer") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
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
