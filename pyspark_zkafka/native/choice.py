"""Which path records take: the compiled one, or pure Python."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from pyspark_zkafka.clients.consumer import PartitionConsumer
from pyspark_zkafka.clients.producer import CountingProducer, MessageSender
from pyspark_zkafka.native.library import describe, library, require
from pyspark_zkafka.option_values import Connection
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["open_consumer", "open_producer", "uses_native"]

_log = logging.getLogger(__name__)


def uses_native(connection: Connection) -> bool:
    """Whether records go the compiled way in this process.

    Raises
    ------
    OptionError
        NO_NATIVE_PATH: it is asked for, and not there.
    """
    if connection.native_path is False:
        _log.info("nativePath is off: pure Python is used")
        return False
    if connection.native_path:
        require()
    _log.info("%s", describe())
    return library() is not None


def open_consumer(
    connection: Connection, properties: Mapping[str, Any], partition: TopicPartition, schema: pa.Schema
) -> AbstractContextManager[PartitionConsumer]:
    """A consumer for the time of a ``with`` block, with librdkafka's properties, that builds the schema's columns."""
    if uses_native(connection):
        from pyspark_zkafka.native.consumer import ArrowConsumer

        return ArrowConsumer(properties, partition, schema)
    from pyspark_zkafka.clients.consumer import MessageConsumer

    return MessageConsumer(properties, partition, schema)


def open_producer(connection: Connection, properties: Mapping[str, Any]) -> CountingProducer:
    """A producer for the time of a ``with`` block, with librdkafka's properties."""
    if uses_native(connection):
        from pyspark_zkafka.native.producer import ArrowSender

        return CountingProducer(properties, ArrowSender)
    return CountingProducer(properties, MessageSender)
