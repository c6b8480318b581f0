"""confluent-kafka's consumer, and librdkafka's logger."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.brokers.clients import MessageClient, librdkafka_logger
from pyspark_zkafka.errors import OptionError

PROPERTIES = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}


def test_logger(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka's messages are not logged unless the application has set a level."""
    logger = librdkafka_logger()
    assert not logger.isEnabledFor(logging.ERROR)
    caplog.set_level(logging.DEBUG, logger.name)
    assert librdkafka_logger().isEnabledFor(logging.DEBUG)


def test_refused_properties() -> None:
    """Properties that librdkafka refuses raise an option error."""
    with (
        pytest.raises(OptionError, match="UNUSABLE_KAFKA_PROPERTY"),
        MessageClient({**PROPERTIES, "security.protocol": "ssl", "ssl.ca.location": "/no"}),
    ):
        pass


def test_closed() -> None:
    """A client is usable only inside its with block, and can be opened again."""
    client = MessageClient(PROPERTIES)
    for _ in range(2):
        with client:
            assert client.consumer.assignment() == []
        with pytest.raises(RuntimeError, match="with block"):
            _ = client.consumer
