"""librdkafka's clients: their defaults, their logger, and confluent-kafka's consumer without a group.

A new client knows the bootstrap servers, and connects to one of them for its first request. For half of
``reconnect.backoff.ms`` it then tries no other. The first answer replaces the bootstrap servers by the cluster's brokers,
none of them connected. A request that is in flight then (for a partition's leader, or the producer's id), or a partition
that is assigned just then, waits for librdkafka's next periodic check: half a second, a second, or three.

A metadata request is sent again at once, and leaves an open connection. So each client requests a topic's metadata first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from pyspark_zkafka.brokers.librdkafka_errors import from_exception

CLIENT_DEFAULTS: dict[str, Any] = {"client.id": "zkafka", "reconnect.backoff.ms": 20}
"""Defaults of consumers and producers; a user's settings override them."""

INTRODUCTION_S = 1.0
"""The wait for the brokers' first metadata of a topic; the next request reports any error."""


def librdkafka_logger() -> logging.Logger:
    """The logger of librdkafka's own messages, above level CRITICAL unless the application has set another.

    librdkafka repeats itself, hundreds of lines a minute while a broker is down, and recovers from most of the errors that
    it logs. The others are raised as an error of ours, with its last one in the text; so are those that it calls fatal, as
    when a producer was replaced by the next one of its transactional id.
    """
    logger = logging.getLogger("pyspark_zkafka.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)
    return logger


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

        Blocks for up to a second; see above.
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
