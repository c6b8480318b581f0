"""Selection of the compiled path or pure Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.kafka.pool import ClientPool, configuration
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.transport.native.library import describe, library, require

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_zkafka.protocol.key_hashes import HashKeys
    from pyspark_zkafka.protocol.model import TopicPartition
    from pyspark_zkafka.protocol.planning import Split
    from pyspark_zkafka.transport.consumer import PartitionConsumer
    from pyspark_zkafka.transport.producer import CountingProducer
    from pyspark_zkafka.transport.sender import Sender

__all__ = ["hash_function", "open_consumer", "open_producer", "uses_native"]

_log = logging.getLogger(__name__)


def uses_native(connection: Connection) -> bool:
    """True if this process uses the compiled path; logs which one is used.

    Raises
    ------
    OptionError
        NO_NATIVE_PATH: the compiled path is required, and unavailable.
    """
    if connection.native_path is False:
        _log.info("nativePath is off: pure Python is used")
        return False
    if connection.native_path:
        require()
    _log.info("%s", describe())
    return _is_native(connection)


def _is_native(connection: Connection) -> bool:
    return connection.native_path is not False and library() is not None


def open_consumer(
    connection: Connection, properties: Mapping[str, Any], split: Split, schema: pa.Schema
) -> AbstractContextManager[PartitionConsumer]:
    """A consumer of a split's partition for a ``with`` block, which builds the schema's columns.

    It may reuse a librdkafka consumer that read another split some seconds ago, in this process, with the same properties
    and from the same topic (by its id or its znode's czxid, not only by its name: librdkafka would treat a topic created
    again as an old state of the one that it knows).
    """
    if uses_native(connection):
        from pyspark_zkafka.transport.native.consumer import ArrowClient, ArrowConsumer

        return _borrowed(ArrowClient, ArrowConsumer, properties, split, schema)
    from pyspark_zkafka.kafka.consumer_client import MessageClient
    from pyspark_zkafka.transport.python_consumer import MessageConsumer

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
            key = make_client, split.partition.topic, split.topic_id, split.czxid, _configured(properties)
            client = stack.enter_context(_idle_consumers.lease(key, lambda: make_client(properties)))
        yield stack.enter_context(make_consumer(client, split.partition, schema))


def hash_function(connection: Connection) -> HashKeys:
    """The hash function of keys for routing; both implementations return the same numbers."""
    if _is_native(connection):
        from pyspark_zkafka.transport.native.hashes import hash_keys as compiled

        return compiled
    from pyspark_zkafka.protocol.key_hashes import hash_keys

    return hash_keys


_idle_producers: ClientPool[CountingProducer] = ClientPool()


@contextmanager
def open_producer(
    connection: Connection, properties: Mapping[str, Any], generation: Hashable = None
) -> Iterator[CountingProducer]:
    """A producer for a ``with`` block, at the normal end of which all records sent are acknowledged.

    Parameters
    ----------
    properties : mapping
        librdkafka's, as `producer_properties` returns them.
    generation : hashable
        The topics' present state, by id and number of partitions. If given, the producer may be one that wrote some seconds
        ago, in this process, with the same properties and to the same generation of topics: it already has its connections
        and its producer id.
    """
    from pyspark_zkafka.transport.producer import CountingProducer

    make_sender: Callable[..., Sender]
    if uses_native(connection):
        from pyspark_zkafka.transport.native.producer import ArrowSender

        make_sender = ArrowSender
    else:
        from pyspark_zkafka.transport.python_sender import MessageSender

        make_sender = MessageSender

    def make() -> CountingProducer:
        return CountingProducer(properties, make_sender)

    with ExitStack() as stack:
        if generation is None:
            producer = stack.enter_context(make())
        else:
            key = make_sender, generation, _configured(properties)
            producer = stack.enter_context(_idle_producers.lease(key, make))
        stack.enter_context(producer.counting())
        yield producer


def _configured(properties: Mapping[str, Any]) -> Hashable:
    others = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
    return configuration(str(properties["bootstrap.servers"]), others)
