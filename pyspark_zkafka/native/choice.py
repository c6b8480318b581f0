"""Which path records take: the compiled one, or pure Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from pyspark_zkafka.clients.consumer import MessageClient, MessageConsumer, PartitionConsumer
from pyspark_zkafka.clients.message_sender import MessageSender
from pyspark_zkafka.clients.pooled import ClientPool, configuration
from pyspark_zkafka.clients.producer import CountingProducer
from pyspark_zkafka.native.library import describe, library, require
from pyspark_zkafka.option_values import Connection
from pyspark_zkafka.protocol.key_hashes import HashKeys, hash_keys
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Split

__all__ = ["hash_function", "open_consumer", "open_producer", "uses_native"]

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
    connection: Connection, properties: Mapping[str, Any], split: Split, schema: pa.Schema
) -> AbstractContextManager[PartitionConsumer]:
    """A consumer of a split's partition for the time of a ``with`` block, that builds the schema's columns.

    librdkafka's consumer in it may be one that read another split some seconds ago, in this process, by the same
    properties and of the very same topic (by its id or its znode's czxid, not only by its name: librdkafka would take a
    topic created again for an old state of the one that it knows).
    """
    if uses_native(connection):
        from pyspark_zkafka.native.consumer import ArrowClient, ArrowConsumer

        return _borrowed(ArrowClient, ArrowConsumer, properties, split, schema)
    return _borrowed(MessageClient, MessageConsumer, properties, split, schema)


_idle_consumers: ClientPool[Any] = ClientPool()


@contextmanager
def _borrowed(
    make_client: Callable[[Mapping[str, Any]], Any],
    make_consumer: Callable[[Any, TopicPartition, pa.Schema], AbstractContextManager[PartitionConsumer]],
    properties: Mapping[str, Any],
    split: Split,
    schema: pa.Schema,
) -> Iterator[PartitionConsumer]:
    with ExitStack() as stack:
        if split.topic_id is None and split.czxid is None:
            client = stack.enter_context(make_client(properties))
        else:
            others = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
            configured = configuration(str(properties["bootstrap.servers"]), others)
            key = make_client, split.partition.topic, split.topic_id, split.czxid, configured
            client = stack.enter_context(_idle_consumers.lease(key, lambda: make_client(properties)))
        yield stack.enter_context(make_consumer(client, split.partition, schema))


def hash_function(connection: Connection) -> HashKeys:
    """What hashes keys for routing: the same numbers, whichever way."""
    if uses_native(connection):
        from pyspark_zkafka.native.hashes import hash_keys as compiled

        return compiled
    return hash_keys


def open_producer(connection: Connection, properties: Mapping[str, Any]) -> CountingProducer:
    """A producer for the time of a ``with`` block, with librdkafka's properties."""
    if uses_native(connection):
        from pyspark_zkafka.native.producer import ArrowSender

        return CountingProducer(properties, ArrowSender)
    return CountingProducer(properties, MessageSender)
