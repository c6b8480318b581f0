"""Choice of transport, and reuse of clients, without real brokers."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import ClusterStateError, OptionError
from pyspark_zkafka.model.partitioners import hash_keys
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.rows import hash_rows
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.librdkafka_sender import MessageSender
from pyspark_zkafka.records.message_consumer import MessageConsumer
from pyspark_zkafka.records.native import record_encoder
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.records.select import (
    hash_function,
    open_consumer,
    open_fallback,
    open_producer,
    open_transactional,
    row_hash_function,
    uses_native,
)
from pyspark_zkafka.records.transactions import transactional_properties
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import TokenRefused, Unsupported
from tests.support.eventually import eventually
from tests.support.fake_partition import FETCH, TP, FakePartition, records
from tests.support.scripted_broker import RANGES, Received, ScriptedBroker, answered

SCHEMA = pa.schema([("offset", pa.int64())])
NOBODY = "127.0.0.1:1"
METADATA, FIND_COORDINATOR, HANDSHAKE, INIT_PRODUCER_ID = 3, 10, 17, 22
OF_PRODUCERS = {0: (0, 8), 10: (0, 2), **dict.fromkeys(range(22, 29), (0, 1))}
MOCK = {"test.mock.num.brokers": 1}


def connection(transport: str = "auto", scope: Any = "read", **kafka: str) -> ConnectionOptions:
    """Return the options' connection."""
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    return parse_connection({"kafka.bootstrap.servers": NOBODY, "transport": transport, **given}, scope)


def split(server: str = NOBODY) -> Split:
    return Split(TP, 0, 10**6, 0, 1, (0,), (server,))


@pytest.fixture
def partition() -> Iterator[tuple[FakePartition, ScriptedBroker]]:
    """A partition with ten records, and its broker."""
    found = FakePartition(records(0, 10), b"")
    with ScriptedBroker(found) as broker:
        found.port = broker.address[1]
        yield found, broker


def server(broker: ScriptedBroker) -> str:
    return f"127.0.0.1:{broker.address[1]}"


def read(broker: ScriptedBroker, options: ConnectionOptions, records: int = 10**6) -> None:
    """Read some records with the transport that the options select."""
    properties = consumer_properties(options, server(broker), "g", records)
    with open_consumer(options, properties, split(server(broker)), SCHEMA) as consumer:
        consumer.seek(0)
        assert consumer.poll(100, 10_000, 10, Deadline.after(5)).records == 10


class TestPaths:
    """The choice between compiled code and pure Python."""

    def test_functions(self) -> None:
        """Hash functions match the transport."""
        python, compiled = connection("librdkafka"), connection("auto")
        assert hash_function(python) == hash_keys
        assert hash_function(compiled) == record_encoder.hash_keys
        assert row_hash_function(python) == hash_rows
        assert row_hash_function(compiled) == record_encoder.hash_rows

    @pytest.mark.parametrize(
        ("transport", "is_native", "level", "text"),
        [
            ("librdkafka", False, logging.INFO, "transport=librdkafka: pure Python is used"),
            ("auto", True, logging.DEBUG, "transport=auto: the compiled code is used"),
            ("direct", True, logging.DEBUG, "transport=direct: the compiled code is used"),
        ],
    )
    def test_log(self, caplog: pytest.LogCaptureFixture, transport: str, is_native: bool, level: int, text: str) -> None:
        """The log names the chosen code."""
        with caplog.at_level(logging.DEBUG, "pyspark_zkafka"):
            assert uses_native(connection(transport)) is is_native
        assert [(record.levelno, record.message) for record in caplog.records] == [(level, text)]


class TestReads:
    """The consumer of a split."""

    @pytest.mark.parametrize(
        ("transport", "kind"),
        [
            ("librdkafka", MessageConsumer),
            ("auto", DirectConsumer),
            ("direct", DirectConsumer),
        ],
    )
    def test_kinds(self, transport: str, kind: type) -> None:
        """The direct transport reads, with librdkafka as its fallback, unless the options say otherwise."""
        options = connection(transport)
        with open_consumer(options, consumer_properties(options, NOBODY, "g"), split(), SCHEMA) as consumer:
            assert isinstance(consumer, kind)

    @pytest.mark.parametrize(("transport", "level"), [("auto", logging.INFO), ("direct", logging.WARNING)])
    def test_unsupported_property(self, caplog: pytest.LogCaptureFixture, transport: str, level: int) -> None:
        """A property that the direct transport does not honour leaves the read to librdkafka, with a log line."""
        options = connection(transport, debug="fetch")
        with (
            caplog.at_level(logging.INFO),
            open_consumer(options, consumer_properties(options, NOBODY, "g"), split(), SCHEMA) as consumer,
        ):
            assert isinstance(consumer, MessageConsumer)
        found = [(record.levelno, record.message) for record in caplog.records if "direct" in record.message]
        assert found == [(level, "The direct transport is not used: it does not support debug")]

    def test_connections_are_used_again(self, partition: tuple[FakePartition, ScriptedBroker]) -> None:
        """Consecutive splits share a connection, unless the properties differ."""
        found, broker = partition
        for expected, options in ((1, connection()), (1, connection()), (2, connection(client_id="other"))):
            found.fetches = [records(0, 10), b""]
            read(broker, options)
            assert broker.connections == expected

    @pytest.mark.parametrize(
        ("count", "kafka", "sizes"),
        [
            (10**6, {}, [2 * 1024**2, 8 * 1024**2]),
            (1, {}, [128 * 1024, 8 * 1024**2]),
            (10**6, {"max_partition_fetch_bytes": "3000000"}, [3_000_000, 3_000_000]),
        ],
    )
    def test_size_of_a_fetch(
        self, partition: tuple[FakePartition, ScriptedBroker], count: int, kafka: dict[str, str], sizes: list[int]
    ) -> None:
        """Fetches grow with the rest of a range once the size of records is known, unless the user sets their size."""
        found, broker = partition
        for _ in sizes:
            found.fetches = [records(0, 10), b""]
            read(broker, connection(**kafka), count)
        after = protocol.int32(0) + protocol.string("")
        requests = [request.rest.removesuffix(after) for request in broker.received if request.api == FETCH]
        assert [struct.unpack(">i", each[-4:])[0] for each in requests] == sizes

    def test_refused_login(self, caplog: pytest.LogCaptureFixture) -> None:
        """A refused login fails a read, and the repetitions of its task do not log in again; another user does."""

        def attempt(broker: ScriptedBroker, user: str, servers: str) -> None:
            login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": user}
            options = connection(**login, sasl_password="open-sesame")
            properties = consumer_properties(options, servers, "g")
            where = split(server(broker))

            def read() -> None:
                with open_consumer(options, properties, where, SCHEMA) as consumer:
                    consumer.seek(0)
                    with pytest.raises(Unsupported) as refused:
                        eventually(lambda: consumer.poll(1, 1, 10, Deadline.after(0.2)).records)
                    open_fallback(options, properties, where, SCHEMA, refused.value, 7)

            with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER.*reading t-0.*: .*check the user and password"):
                read()

        with ScriptedBroker(refuse_login) as broker, caplog.at_level(logging.DEBUG):
            both = f"{server(broker)},{NOBODY}"
            attempt(broker, "alice", both)
            logins = broker.connections
            attempt(broker, "alice", f"{NOBODY},{server(broker)}")
            assert broker.connections == logins
            attempt(broker, "bob", both)
            assert broker.connections > logins
        assert "open-sesame" not in caplog.text

    def test_refused_token(self) -> None:
        """After a refused token, librdkafka continues with a new token, and later tasks log in directly again."""
        options = connection()
        properties = consumer_properties(options, NOBODY, "g")
        with open_fallback(options, properties, split(NOBODY), SCHEMA, TokenRefused("expired"), 7) as consumer:
            assert isinstance(consumer, MessageConsumer)
        with open_consumer(options, properties, split(NOBODY), SCHEMA) as consumer:
            assert isinstance(consumer, DirectConsumer)


class Writes:
    """Options and properties of writes, to a scripted broker (direct transport) or a mock cluster (librdkafka)."""

    def __init__(self, transport: str, servers: str) -> None:
        self.transport = transport
        self._servers = servers
        self._mock = MOCK if transport == "librdkafka" else {}
        self.sender = MessageSender if transport == "librdkafka" else DirectSender

    def options(self, **kafka: str) -> ConnectionOptions:
        return connection(self.transport, "write", **kafka)

    def properties(self, name: str) -> dict[str, Any]:
        """Return properties of a write with a separate client name."""
        return {**producer_properties(self.options(client_id=f"{self.transport}-{name}"), self._servers), **self._mock}

    def transactional(self, slot: int) -> dict[str, Any]:
        return transactional_properties(self.options(), self._servers, f"zkafka-{slot}")


@pytest.fixture
def direct_writes() -> Iterator[Writes]:
    """Writes of the direct transport. No row is written, so the broker only leads, coordinates and assigns producer ids."""

    def answer(asked: Received) -> bytes | None:
        place = protocol.int32(1), protocol.string("127.0.0.1") + protocol.int32(broker.address[1])
        bodies = {
            INIT_PRODUCER_ID: protocol.int32(0) + protocol.int16(0) + protocol.int64(7) + protocol.int16(0),
            FIND_COORDINATOR: protocol.int32(0) + protocol.int16(0) + protocol.string(None) + b"".join(place),
            METADATA: protocol.int32(0)
            + protocol.int32(1)
            + b"".join(place)
            + protocol.string(None)
            + protocol.string(None)
            + 2 * protocol.int32(1)
            + (protocol.int16(0) + protocol.string("t") + protocol.int8(0) + protocol.int32(1))
            + (protocol.int16(0) + protocol.int32(0) + protocol.int32(1) + 4 * protocol.int32(0)),
        }
        return answered(asked, bodies[asked.api])

    with ScriptedBroker(answer, {**RANGES, **OF_PRODUCERS}) as broker:
        yield Writes("auto", server(broker))


@pytest.fixture(params=["librdkafka", "auto"])
def writes(request: pytest.FixtureRequest, direct_writes: Writes) -> Writes:
    """Writes with each transport."""
    return Writes("librdkafka", "mock") if request.param == "librdkafka" else direct_writes


def refuse_login(request: Received) -> bytes | None:
    """Answer as a broker that refuses each login."""
    if request.api == HANDSHAKE:
        return answered(request, protocol.int16(0) + protocol.int32(0))
    return answered(request, protocol.int16(58) + protocol.string(None) + protocol.nullable_bytes(b"") + protocol.int64(0))


class TestWrites:
    """The producer of a task."""

    def test_producers_are_used_again(self, writes: Writes) -> None:
        """A producer is reused only for the same generation of topics, and not after an error."""
        options, given = writes.options(), writes.properties("again")
        with open_producer(options, given, "one") as first:
            assert isinstance(first._sender, writes.sender)
        with open_producer(options, given, "one") as again:
            assert again is first
        with open_producer(options, given, "two") as other:
            assert other is not first
        with pytest.raises(ValueError, match="of the task"), open_producer(options, given, "one"):
            raise ValueError("of the task")
        with open_producer(options, given, "one") as anew:
            assert anew is not first

    def test_producers_of_topics_without_identity(self, writes: Writes) -> None:
        """Without a generation of topics, each task gets a new producer."""
        options, given = writes.options(), writes.properties("once")
        with open_producer(options, given) as first, open_producer(options, given) as second:
            assert first is not second

    def test_transactional_producers(self, direct_writes: Writes) -> None:
        """A transactional producer is reused for any id, with the same generation of topics."""
        given = direct_writes.transactional
        with open_transactional(given(0), "one") as first, open_transactional(given(1), "one") as second:
            assert second is not first
        with open_transactional(given(1), "one") as again:
            assert again is first
        with open_transactional(given(0), "two") as other:
            assert other not in (first, second)
        with open_transactional(given(0)) as anew:
            assert anew not in (first, second, other)

    def test_transaction_that_is_left_open(self, direct_writes: Writes) -> None:
        """A transaction that a task neither commits nor aborts raises RuntimeError, and its producer is closed."""
        given = direct_writes.transactional(2)
        with (
            pytest.raises(RuntimeError, match="a transaction was neither committed nor aborted"),
            open_transactional(given, "one") as first,
        ):
            first.begin()
        with open_transactional(given, "one") as second:
            assert second is not first

    def test_unsupported_property_of_a_transaction(self) -> None:
        """A property that the direct transport does not honour fails a transaction, and the error names it."""
        given = {**transactional_properties(connection(scope="write"), NOBODY, "zkafka-0"), "debug": "msg"}
        with pytest.raises(OptionError, match="does not support debug"), open_transactional(given):
            pass

    def test_refused_login_of_a_transaction(self) -> None:
        """A refused login fails a transaction, and the repetitions of its task do not log in again."""
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "carol"}
        options = connection(scope="write", sasl_password="open-sesame", **login)
        with ScriptedBroker(refuse_login) as broker:
            given = transactional_properties(options, server(broker), "zkafka-0")
            for _ in range(3):
                with (
                    pytest.raises(ClusterStateError, match="check the user and password"),
                    open_transactional(given),
                ):
                    pass
            assert broker.connections == 1

    @pytest.mark.parametrize(("transport", "level"), [("auto", logging.INFO), ("direct", logging.WARNING)])
    def test_unsupported_property(self, caplog: pytest.LogCaptureFixture, transport: str, level: int) -> None:
        """A property that the direct transport does not honour leaves the write to librdkafka, with a log line."""
        options = connection(transport, "write")
        given = {**producer_properties(options, "mock"), **MOCK}
        with caplog.at_level(logging.INFO), open_producer(options, given) as producer:
            assert isinstance(producer._sender, MessageSender)
        found = [(record.levelno, record.message) for record in caplog.records if "direct" in record.message]
        assert found == [(level, "The direct transport is not used: test.mock.num.brokers")]
