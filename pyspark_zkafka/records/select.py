"""Selects the transport of each read and write, and keeps open clients for later reads and writes.

Functions import their transport when they are called: each worker of Spark imports only what its tasks use.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.brokers.properties import client_key
from pyspark_zkafka.kept import ClientPool, Keep, Remembered
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records.native.library import describe, is_unbuilt_source_tree, library, require

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_zkafka.model.partitioners import HashKeys
    from pyspark_zkafka.model.planning import Split
    from pyspark_zkafka.model.rows import HashRows
    from pyspark_zkafka.records.consumer import PartitionConsumer
    from pyspark_zkafka.records.direct.client import DirectClient
    from pyspark_zkafka.records.direct.joint_fetches import JointFetches
    from pyspark_zkafka.records.producer import CountingProducer, Sender
    from pyspark_zkafka.records.transactions import TransactionalProducer
    from pyspark_zkafka.wire.protocol import LoginRefused, Unsupported

_log = logging.getLogger(__name__)

_STARTING_TO_WRITE = "beginning to write"
_FETCH_SIZE = "max.partition.fetch.bytes"
_MOST_FETCH_BYTES = 8 * 1024 * 1024
_REFUSED_FOR_S = 60.0
"""How long reads and writes fail without another attempt after a refused login: long enough for a task's repetitions."""
_PRODUCER_AGE_S = 1_500.0
"""The maximum age of a kept producer: its ``topic.metadata.propagation.max.ms``, less the time of a task."""

_PRODUCER = Keep(max_age_s=_PRODUCER_AGE_S)
# Kept longer than other clients: the next micro-batch may start a minute later, and a new producer costs more.
_TRANSACTIONAL = Keep(max_idle_s=90.0, most=16, max_age_s=_PRODUCER_AGE_S)

_clients: ClientPool[Any] = ClientPool()
# Each attempt counts towards a lock-out of the user.
_refused_logins: Remembered[Hashable, LoginRefused] = Remembered(_REFUSED_FOR_S)


def uses_native(connection: ConnectionOptions) -> bool:
    """Return whether this process uses the compiled code, and log it. Raises OptionError if required code is missing."""
    found = _is_native(connection)
    reason = "pure Python is used" if connection.transport == "librdkafka" else describe()
    _log.log(logging.DEBUG if found else logging.INFO, "transport=%s: %s", connection.transport, reason)
    if connection.transport != "librdkafka" and is_unbuilt_source_tree():
        warn_of_source_tree()
    return found


@cache
def warn_of_source_tree() -> None:
    """Warn, once in this process, that Python has imported the package from a clone without the compiled code."""
    _log.warning(
        "Reads and writes are slow, and Avro cannot be read: %s. Run pip install . in the clone and start Spark elsewhere, "
        "or run pip install -e . in the clone",
        describe(),
    )


def _is_native(connection: ConnectionOptions) -> bool:
    if connection.transport == "direct":
        require()
    return connection.transport != "librdkafka" and library() is not None


@contextmanager
def open_consumer(
    connection: ConnectionOptions,
    properties: dict[str, Any],
    split: Split,
    schema: pa.Schema,
    joint: JointFetches | None = None,
) -> Iterator[PartitionConsumer]:
    """Open a consumer of a split's partition, which builds the columns of the schema, for a ``with`` block.

    The consumer is a `DirectConsumer` if possible. If it raises Unsupported, continue with `open_fallback`. This process
    may reuse a client that had the same properties some seconds ago. `joint` is the result of `open_joint` for the task
    of the split.
    """
    with ExitStack() as opened:
        client = _lease_direct(opened, connection, properties, _level(connection), f"reading {split.partition}")
        if client is None:
            yield opened.enter_context(_open_librdkafka(properties, split, schema))
            return
        from pyspark_zkafka.records.direct.consumer import DirectConsumer

        _log.debug("The direct transport is used")
        yield opened.enter_context(DirectConsumer(client, split, schema, joint))


def open_fallback(
    connection: ConnectionOptions,
    properties: dict[str, Any],
    split: Split,
    schema: pa.Schema,
    why: Unsupported,
    offset: int,
) -> AbstractContextManager[PartitionConsumer]:
    """Open librdkafka's consumer for a ``with`` block, and log why the direct transport cannot continue at an offset.

    Raises ClusterStateError if brokers have refused the login or the certificate: they would refuse librdkafka as well.
    """
    _raise_refusal(properties, why, f"reading {split.partition}")
    _log.log(_level(connection), "%s: librdkafka continues at offset %d: %s", split.partition, offset, why)
    return _open_librdkafka(properties, split, schema)


@contextmanager
def open_joint(
    connection: ConnectionOptions, properties: Mapping[str, Any], splits: Sequence[Split]
) -> Iterator[JointFetches | None]:
    """Open the joint fetches of a task, for a ``with`` block around its consumers. Yields None without joint fetches."""
    with ExitStack() as opened:
        doing = f"reading {len(splits)} ranges"
        client = None if len(splits) < 2 else _lease_direct(opened, connection, properties, logging.DEBUG, doing)
        if client is None:
            yield None
            return
        from pyspark_zkafka.records.direct.joint_fetches import JointFetches

        yield opened.enter_context(closing(JointFetches(client, splits)))


def _level(connection: ConnectionOptions) -> int:
    """The log level for reasons not to use the direct transport."""
    return logging.WARNING if connection.transport == "direct" else logging.INFO


def _lease_direct(
    opened: ExitStack, connection: ConnectionOptions, properties: Mapping[str, Any], log_level: int, doing: str
) -> DirectClient | None:
    """Lease a client of the direct transport. If that is not possible, logs why and returns None."""
    if not _is_native(connection):
        return None
    from pyspark_zkafka.records.direct.client import DirectClient
    from pyspark_zkafka.records.direct.settings import settings_of
    from pyspark_zkafka.wire.protocol import Unsupported

    _require_login(properties, doing)
    most = 0 if _FETCH_SIZE in connection.kafka else _MOST_FETCH_BYTES
    key = DirectClient, client_key(properties), most
    try:
        client: DirectClient = opened.enter_context(
            _clients.lease(key, lambda: DirectClient(settings_of(properties), most_fetch_bytes=most))
        )
        return client
    except Unsupported as why:
        _log.log(log_level, "The direct transport is not used: it does not support %s", why)
        return None


def _require_login(properties: Mapping[str, Any], doing: str) -> None:
    """Raise ClusterStateError if a broker has refused the login of this process recently. `doing` is the request."""
    if (why := _refused_logins.get(_login_of(properties))) is not None:
        from pyspark_zkafka.brokers.errors import connection_error

        raise connection_error(why, f"{doing}, without another attempt for a minute after a refusal")


def _raise_refusal(properties: Mapping[str, Any], why: Unsupported, doing: str) -> None:
    """Raise ClusterStateError for a refused login, which is remembered, or a refused certificate.

    Does nothing after a refused token: the next login, also librdkafka's, gets a new token.
    """
    from pyspark_zkafka.brokers.errors import connection_error
    from pyspark_zkafka.wire.protocol import LoginRefused, TlsRefused, TokenRefused

    if isinstance(why, TokenRefused):
        return
    if isinstance(why, LoginRefused):
        _refused_logins.put(_login_of(properties), why)
    if isinstance(why, (LoginRefused, TlsRefused)):
        raise connection_error(why, doing) from why


def _login_of(properties: Mapping[str, Any]) -> Hashable:
    """The bootstrap servers, regardless of order, and the login."""
    return client_key({n: v for n, v in properties.items() if n == "bootstrap.servers" or n.startswith("sasl.")})


@contextmanager
def _open_librdkafka(properties: Mapping[str, Any], split: Split, schema: pa.Schema) -> Iterator[PartitionConsumer]:
    """Open librdkafka's consumer. Reuses a client only for the same topic, by its id or the czxid of its znode.

    librdkafka would mistake a topic that was created again for an outdated state of the topic that it knows.
    """
    from pyspark_zkafka.brokers.clients import MessageClient
    from pyspark_zkafka.brokers.dialects import with_dialect
    from pyspark_zkafka.records.message_consumer import MessageConsumer

    properties = with_dialect(properties)
    has_identity = split.topic_id is not None or split.czxid is not None
    key = MessageClient, split.partition.topic, split.topic_id, split.czxid, client_key(properties)
    with (
        _clients.lease(key if has_identity else None, lambda: MessageClient(properties)) as client,
        MessageConsumer(client, split.partition, schema) as consumer,
    ):
        yield consumer


def hash_function(connection: ConnectionOptions) -> HashKeys:
    """The hash function of keys, for routing. Both implementations return the same numbers."""
    if _is_native(connection):
        from pyspark_zkafka.records.native.record_encoder import hash_keys as compiled

        return compiled
    from pyspark_zkafka.model.partitioners import hash_keys

    return hash_keys


def row_hash_function(connection: ConnectionOptions) -> HashRows:
    """The hash function of rows, for digests. Both implementations return the same numbers."""
    if _is_native(connection):
        from pyspark_zkafka.records.native.record_encoder import hash_rows as compiled

        return compiled
    from pyspark_zkafka.model.rows import hash_rows

    return hash_rows


@contextmanager
def open_producer(
    connection: ConnectionOptions, properties: Mapping[str, Any], generation: Hashable = None
) -> Iterator[CountingProducer]:
    """Open a producer for a ``with`` block. At its normal end, all records sent are acknowledged.

    `generation` is the state of the topics, by id and number of partitions. With it, this process may reuse a producer
    that had the same properties and generation some seconds ago, with its connections and its producer id.
    """
    from pyspark_zkafka.records.producer import CountingProducer

    def lease(make_sender: type[Sender], properties: Mapping[str, Any]) -> AbstractContextManager[CountingProducer]:
        key = None if generation is None else (CountingProducer, make_sender, generation, client_key(properties))
        return _clients.lease(key, lambda: CountingProducer(properties, make_sender), _PRODUCER)

    with ExitStack() as opened:
        producer: CountingProducer | None = None
        if uses_native(connection):
            from pyspark_zkafka.records.direct.sender import DirectSender
            from pyspark_zkafka.wire.protocol import Unsupported

            _require_login(properties, _STARTING_TO_WRITE)

            try:
                producer = opened.enter_context(lease(DirectSender, properties))
                _log.debug("The direct transport is used")
            except Unsupported as why:
                _raise_refusal(properties, why, _STARTING_TO_WRITE)
                _log.log(_level(connection), "The direct transport is not used: %s", why)
        if producer is None:
            from pyspark_zkafka.brokers.dialects import with_dialect
            from pyspark_zkafka.records.librdkafka_sender import MessageSender

            producer = opened.enter_context(lease(MessageSender, with_dialect(properties)))
        with producer.counting():
            yield producer


@contextmanager
def open_transactional(properties: Mapping[str, Any], generation: Hashable = None) -> Iterator[TransactionalProducer]:
    """Open a producer for one transaction of the properties' ``transactional.id``, for a ``with`` block.

    Fences earlier producers of the id. No transaction may be open at the end of the block. This process may reuse a
    producer of any id, with its connections, if the generation (see `open_producer`) and all other properties are equal.
    An error in the block closes the producer.

    Raises ZKafkaError without the compiled code, for an unsupported property, and for a refused login. After a refused
    login, raises the same error for a minute, without another attempt.
    """
    require()
    from pyspark_zkafka.records.direct.sender import DirectSender
    from pyspark_zkafka.records.transactions import TransactionalProducer, unsupported
    from pyspark_zkafka.wire.protocol import Unsupported

    _require_login(properties, _STARTING_TO_WRITE)
    others = {name: value for name, value in properties.items() if name != "transactional.id"}
    key = None if generation is None else (TransactionalProducer, generation, client_key(others))
    with ExitStack() as opened:
        try:
            producer: TransactionalProducer = opened.enter_context(
                _clients.lease(key, lambda: TransactionalProducer(properties, DirectSender), _TRANSACTIONAL)
            )
        except Unsupported as why:
            _raise_refusal(properties, why, _STARTING_TO_WRITE)
            raise unsupported(why) from why
        producer.start(str(properties["transactional.id"]))
        yield producer
        if producer.is_open:
            raise RuntimeError("a transaction was neither committed nor aborted")
