"""librdkafka's clients: configuration, logger, and confluent-kafka's consumer without a group.

A new client connects to one bootstrap server for its first request, and tries no other for half of
``reconnect.backoff.ms``. The first answer replaces the bootstrap servers by the cluster's brokers, not connected yet. A
request in flight (for a partition's leader, or the producer's id), or a partition that is assigned just then, waits for
librdkafka's next periodic check: half a second, a second, or three.

A metadata request is sent again at once, and leaves an open connection. Each client therefore requests metadata first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from pyspark_zkafka import token_providers
from pyspark_zkafka.brokers.librdkafka_errors import is_refusal, kafka_errors
from pyspark_zkafka.brokers.properties import CLIENT_DEFAULTS, require_files

_BACKOFF, _LOGIN_BACKOFF_MS = "reconnect.backoff.ms", 500
INTRODUCTION_S = 1.0
"""The time-out of the first metadata request. The next request reports any error."""


def client_config(properties: Mapping[str, Any], note: Callable[[KafkaError], None]) -> dict[str, Any]:
    """Return the configuration of a client of confluent-kafka. `note` receives the client's errors.

    First checks that the files can be read. With a token provider, then fetches a token, since confluent-kafka would hide
    the reason for the provider's error. A client made after a refused login gets a new token.
    """
    require_files(properties)
    config = {**properties, "error_cb": note}
    has_login = str(config.get("security.protocol", "")).lower().startswith("sasl")
    if has_login and config.get(_BACKOFF) == CLIENT_DEFAULTS[_BACKOFF]:
        # After a refused login, librdkafka connects again at this interval. Each attempt counts towards a lock-out.
        config[_BACKOFF] = min(_LOGIN_BACKOFF_MS, int(config.get("reconnect.backoff.max.ms", _LOGIN_BACKOFF_MS)))
    provider = config.pop(token_providers.PROVIDER, None)
    if provider is None:
        return config
    provided = provider, config.get(token_providers.CONFIG, "")

    def note_refusal(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION and is_refusal(error):
            token_providers.forget_token(*provided)
        note(error)

    token_providers.fetch_token(*provided)
    return {**config, "error_cb": note_refusal, "oauth_cb": token_providers.oauth_callback(provider)}


def librdkafka_logger() -> logging.Logger:
    """The logger of librdkafka's own messages, disabled unless the application has set a level.

    librdkafka logs hundreds of lines a minute while a broker is down, and recovers from most of these errors. This package
    raises the remaining errors as ZKafkaError.
    """
    logger = logging.getLogger("pyspark_zkafka.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)
    return logger


def make_consumer(properties: Mapping[str, Any], note: Callable[[KafkaError], None]) -> Consumer:
    """Create confluent-kafka's consumer. `note` receives its errors. Raises ZKafkaError if it cannot be created."""
    with kafka_errors("making a consumer"):
        return Consumer(client_config(properties, note), logger=librdkafka_logger())


class MessageClient:
    """confluent-kafka's consumer, open in a ``with`` block. It serves one `MessageConsumer` after the other.

    Create it after any fork.
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
        """Request a topic's metadata once, after its assignment: otherwise a new client may start a second late.

        Blocks for up to a second. See the module's docstring.
        """
        if not self._is_warm:
            self._is_warm = True
            with suppress(KafkaException):
                self.consumer.list_topics(topic, timeout=INTRODUCTION_S)

    @property
    def consumer(self) -> Consumer:
        """confluent-kafka's consumer."""
        if self._open is None:
            raise RuntimeError("MessageClient is used outside of its with block")
        return self._open


def ignore(error: KafkaError) -> None:
    """Ignore an error of an idle client: its next user receives it again."""
