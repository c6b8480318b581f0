"""Connections to a scripted broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from unittest.mock import MagicMock

import pytest

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE
from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.records.direct import leaders as leaders_module
from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.records.direct.leaders import LeaderConnections
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.client import Client
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.metadata_messages import METADATA
from pyspark_zkafka.wire.protocol import (
    Address,
    ConnectionLost,
    LoginRefused,
    MalformedResponse,
    Request,
    Unsupported,
)
from pyspark_zkafka.wire.settings import client_settings_of
from tests.support.scripted_broker import RANGES, Received, Script, ScriptedBroker, answered, framed

ASK = Request(METADATA, 4, b"question")
ACCEPTED_HANDSHAKE = protocol.int16(0) + protocol.int32(0)
Connect = Callable[..., tuple[Connection, ScriptedBroker]]


def connection_to(address: Address, clock: Callable[[], float] = time.monotonic, **properties: str) -> Connection:
    """Return a connection that is not open yet. Underscores in the names of properties stand for dots."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return Connection(address, client_settings_of({"bootstrap.servers": "b", **given}), None, clock)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens a connection to a broker with a script: ``connect(script, clock, ranges, **properties)``."""
    with ExitStack() as opened:

        def make(
            script: Script,
            clock: Callable[[], float] = time.monotonic,
            ranges: Mapping[int, tuple[int, int]] | None = RANGES,
            **properties: str,
        ) -> tuple[Connection, ScriptedBroker]:
            broker = opened.enter_context(ScriptedBroker(script, ranges))
            connection = connection_to(broker.address, clock, **properties)
            opened.callback(connection.close)
            connection.begin_opening(Deadline.after(10))
            assert connection.continue_opening(Deadline.after(10))
            return connection, broker

        yield make


def soon(seconds: float = 10) -> Deadline:
    return Deadline.after(seconds)


def test_versions(connect: Connect) -> None:
    """An old broker is asked for its versions twice, the second time in a version that it supports."""
    connection, broker = connect(lambda r: None)
    assert [r.version for r in broker.received] == [3, 0]
    assert connection.version(FETCH) == 11
    assert connection.is_open


def test_pipelined(connect: Connect) -> None:
    """Several requests may be sent before their responses are read, in the same order."""
    connection, broker = connect(lambda r: answered(r, b"answer %d" % r.correlation_id))
    for _ in range(3):
        connection.send(ASK)
    found = [bytes(r.span(r.left)) for _ in range(3) if (r := connection.receive(Buffer(), soon()))]
    assert found == [b"answer %d" % r.correlation_id for r in broker.received[2:]]
    assert connection.is_idle


def test_in_pieces(connect: Connect) -> None:
    """A response in pieces is awaited over several calls, each of which meets its deadline."""
    response: list[bytes] = []

    def script(request: Received) -> bytes:
        if not response:
            response.extend(bytes([b]) for b in answered(request, b"abc"))
        return response.pop(0)

    connection, _ = connect(script)
    buffer = Buffer()
    connection.send(ASK)
    for _ in range(10):
        assert connection.receive(buffer, soon(0.05)) is None
        connection.send(ASK)  # makes the broker send one more byte
    found = connection.receive(buffer, soon())
    assert found is not None
    assert found.span(found.left) == b"abc"


def test_a_question_drops_earlier_answers(connect: Connect) -> None:
    """`ask` returns its own response, and drops earlier ones."""
    connection, _ = connect(lambda r: answered(r, b"%d" % r.correlation_id))
    connection.send(ASK)
    found = connection.ask(ASK, soon())
    assert int(bytes(found.span(found.left))) == 4


def test_silence(connect: Connect) -> None:
    """A silent broker is awaited until each deadline, and given up after the request time-out."""
    ticks = count(0, 25)  # a clock that advances 25 s per call
    connection, _ = connect(lambda r: b"", lambda: next(ticks), socket_timeout_ms="60000")
    connection.send(ASK)
    begin = time.monotonic()
    for _ in range(2):
        assert connection.receive(Buffer(), soon(0.1)) is None
        next(ticks)  # time without a call does not count as silence
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:\d+: no response for 60 s"):
        connection.receive(Buffer(), soon(0.1))
    assert 0.3 <= time.monotonic() - begin < 30
    assert not connection.is_open


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", framed(bytes(100))[:50]])
def test_cut(connect: Connect, sent: bytes) -> None:
    """A connection that ends before or within a response is reported as lost."""
    answers = [sent, None]
    connection, _ = connect(lambda r: answers.pop(0))
    connection.send(ASK)
    connection.send(ASK)
    with pytest.raises(ConnectionLost, match=r"the broker closed the connection|Connection reset"):
        connection.receive(Buffer(), soon())
    assert not connection.is_open
    with pytest.raises(ConnectionLost, match="the connection is closed"):
        connection.send(ASK)


@pytest.mark.parametrize("length", [-1, 0, 3, 1001, 2**31 - 1])
def test_lengths(connect: Connect, length: int) -> None:
    """A response longer than allowed, or too short for a header, is malformed and closes the connection."""
    connection, _ = connect(lambda r: protocol.int32(length), receive_message_max_bytes="1000")
    connection.send(ASK)
    with pytest.raises(MalformedResponse, match=f"a response of {length} bytes"):
        connection.receive(Buffer(), soon())
    assert not connection.is_open


def test_other_correlation(connect: Connect) -> None:
    """A response to another request is malformed and closes the connection."""
    connection, _ = connect(lambda r: framed(protocol.int32(r.correlation_id + 1)))
    with pytest.raises(MalformedResponse, match="the response to request"):
        connection.ask(ASK, soon())
    assert not connection.is_open


LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "open-sesame",
}


def authentication(error: int = 0, message: str | None = None, lifetime_ms: int = 0) -> bytes:
    """Return the body of a response to SaslAuthenticate 1."""
    return protocol.int16(error) + protocol.string(message) + protocol.nullable_bytes(b"") + protocol.int64(lifetime_ms)


def test_plain(connect: Connect) -> None:
    """PLAIN sends user and password once; the end of the login session ends the connection."""

    def script(request: Received) -> bytes:
        if request.api == 17:
            return answered(request, ACCEPTED_HANDSHAKE)
        return answered(request, authentication(lifetime_ms=300))

    now = 0.0
    connection, broker = connect(script, lambda: now, **LOGIN)
    assert broker.received[-1].rest.endswith(b"\0alice\0open-sesame")
    assert connection.is_open
    now = 0.3
    assert not connection.is_open


@pytest.mark.parametrize(("handshake", "why"), [(33, "has the mechanisms GSSAPI"), (0, "refuses the login")])
def test_refused_login(connect: Connect, handshake: int, why: str) -> None:
    """A refused login is left to librdkafka, without the broker's text, which may repeat the credentials."""

    def script(request: Received) -> bytes:
        if request.api == 17:
            return answered(request, protocol.int16(handshake) + protocol.int32(1) + protocol.string("GSSAPI"))
        return answered(request, authentication(58, "alice open-sesame"))

    with pytest.raises(Unsupported, match=why) as caught:
        connect(script, **LOGIN)
    assert "sesame" not in str(caught.value)


OF_0_10 = {api: versions for api, versions in RANGES.items() if api != 36} | {17: (0, 0)}


@pytest.mark.parametrize("is_accepted", [True, False])
def test_login_before_kafka_1_0(connect: Connect, is_accepted: bool) -> None:
    """Tokens stand alone after SaslHandshake 0. A broker that refuses the login closes the connection."""

    def script(request: Received) -> bytes | None:
        if request.api == 17:
            return answered(request, ACCEPTED_HANDSHAKE)
        return framed(b"") if is_accepted else None

    if not is_accepted:
        with pytest.raises(LoginRefused, match="refuses the login by PLAIN"):
            connect(script, ranges=OF_0_10, **LOGIN)
        return
    connection, broker = connect(script, ranges=OF_0_10, **LOGIN)
    assert connection.is_open
    assert [request.version for request in broker.received if request.api == 17] == [0]
    assert broker.received[-1].rest.endswith(b"pen-sesame")


NODE = protocol.int32(1) + protocol.string("b") + protocol.int32(9092)
OF_VERSION_0 = protocol.array([NODE]) + protocol.array([])
OF_VERSION_1 = protocol.array([NODE + protocol.string("rack")]) + protocol.int32(1) + protocol.array([])
CLOSED, SILENT, LIST_GROUPS = None, b"", 16


@pytest.mark.parametrize(
    ("without_versions", "metadata", "release"),
    [
        (CLOSED, OF_VERSION_0, "0.8.2.2"),
        (SILENT, OF_VERSION_0, "0.9.0.1"),
        (CLOSED, OF_VERSION_1, None),
        (SILENT, OF_VERSION_1, None),
        (CLOSED, None, None),
        (SILENT, b"?", None),
    ],
)
def test_brokers_before_0_10(without_versions: bytes | None, metadata: bytes | None, release: str | None) -> None:
    """Brokers that do not answer ApiVersions, but any version of Metadata as version 0, are old. Others may be slow."""

    def script(request: Received) -> bytes | None:
        if request.api != METADATA.key:
            return without_versions
        return None if metadata is None else answered(request, metadata)

    with ScriptedBroker(script, ranges=None) as broker:
        for _ in range(2):  # the second time, the protocol is known
            connection = connection_to(broker.address)
            connection.begin_opening(soon(1))
            if release is None:
                with pytest.raises(ConnectionLost, match=r"closed the connection|no response in time"):
                    open_in_steps(connection)
                continue
            open_in_steps(connection)
            assert connection.is_open
            assert connection.dialect == release
            assert connection.version(METADATA) == 0
            assert connection.newest(LIST_GROUPS) == (0 if "0.9" in release else -1)
            connection.close()
        versions = [request for request in broker.received if request.api != METADATA.key]
        assert len(versions) == (2 if release is None else 1)


def test_malformed_versions() -> None:
    """A broker with a malformed answer to ApiVersions is not asked again as an old broker, and its socket is closed."""
    with ScriptedBroker(lambda request: answered(request, b"?"), ranges=None) as broker:
        connection = connection_to(broker.address)
        connection.begin_opening(soon())
        with pytest.raises(MalformedResponse):
            open_in_steps(connection)
        assert not connection.is_open
        assert (broker.connections, [request.api for request in broker.received]) == (1, [18])


def open_in_steps(connection: Connection) -> None:
    """Open a connection in many calls."""
    while not connection.continue_opening(soon(0)):
        assert connection.is_opening


def test_opened_step_by_step() -> None:
    """A connection that takes longer than one call allows is opened by further calls, each within its own time."""
    allowed = threading.Semaphore(0)

    def script(request: Received) -> bytes:
        allowed.acquire()
        if request.api == 17:
            return answered(request, ACCEPTED_HANDSHAKE)
        return answered(request, authentication())

    with ScriptedBroker(script) as broker:
        connection = connection_to(broker.address, **LOGIN)
        connection.begin_opening(soon())
        calls = 1
        while not connection.continue_opening(pause := soon(0.05)):
            assert pause.has_passed
            assert connection.is_opening
            assert not connection.is_open
            calls += 1
            if calls in (4, 7):  # the broker answers the third and the fourth request
                allowed.release()
        assert connection.is_open
        connection.close()
        assert calls > 6
        assert [r.api for r in broker.received] == [18, 18, 17, 36]
        assert broker.connections == 1


def test_ticket_server_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a login waits for its ticket, the caller is free. It then continues, or gets the error of the ticket server."""
    answers = threading.Event()

    def exchange(login: object, host: str) -> Iterator[bytes]:
        assert answers.wait(30)
        raise LoginRefused("GSSAPI: no KDC answers")
        yield b""

    monkeypatch.setattr("pyspark_zkafka.wire.connection.exchange", exchange)
    with ScriptedBroker(lambda request: answered(request, ACCEPTED_HANDSHAKE)) as broker:
        connection = connection_to(broker.address, **LOGIN)
        connection.begin_opening(soon(0.5))
        began = time.monotonic()
        for _ in range(4):  # also beyond the time to open a connection
            assert not connection.continue_opening(soon(0.2))
        assert time.monotonic() - began < 5
        answers.set()
        with pytest.raises(LoginRefused, match="no KDC answers"):
            connection.continue_opening(soon())
        assert not connection.is_open


def test_login_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a token for its login is closed: the next call does not take it for open."""

    def exchange(login: object, host: str) -> Iterator[bytes]:
        raise BROKERS_UNAVAILABLE("no token")
        yield b""

    monkeypatch.setattr("pyspark_zkafka.wire.connection.exchange", exchange)
    with ScriptedBroker(lambda request: answered(request, ACCEPTED_HANDSHAKE)) as broker:
        connection = connection_to(broker.address, **LOGIN)
        connection.begin_opening(soon())
        with pytest.raises(BrokersUnavailable, match="no token"):
            list(iter(lambda: connection.continue_opening(soon()), True))
        assert not connection.is_open


def test_opening_has_an_end() -> None:
    """Opening a connection to a silent server fails at the deadline, over any number of calls."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = connection_to(server.getsockname())
        begin = time.monotonic()
        connection.begin_opening(soon(0.3))
        with pytest.raises(ConnectionLost, match="no response in time"):
            list(iter(lambda: connection.continue_opening(soon(0.05)), True))
        assert 0.3 <= time.monotonic() - begin < 2.5  # a connection may take three seconds
        assert not connection.is_opening


def test_leaders_that_nobody_asks_for() -> None:
    """A wait ends early only for connections with requests, or that are being opened on behalf of a caller."""
    with socket.create_server(("127.0.0.1", 0)) as server, Client(client_settings_of({"bootstrap.servers": "b"})) as client:
        client.brokers = {1: server.getsockname()}
        leaders = LeaderConnections(client, MagicMock(), MagicMock(), time.monotonic, lambda: 1, lambda error: None)
        assert not leaders.is_ready(1)
        peer, _ = server.accept()
        peer.close()  # from now on, the connection can be read all the time
        assert leaders.wait(1)
        assert not leaders.wait(1)
        leaders.is_ready(1)
        leaders.close()


def test_leader_whose_login_expires() -> None:
    """No further request is sent by a login that expires, and the connection is opened again when all are answered."""
    with socket.create_server(("127.0.0.1", 0)) as server, Client(client_settings_of({"bootstrap.servers": "b"})) as client:
        client.brokers = {1: server.getsockname()}
        leaders = LeaderConnections(client, MagicMock(), MagicMock(), time.monotonic, lambda: 1, lambda error: None)
        connection = MagicMock(is_opening=False, is_open=True, is_expiring=False, has_unsent=False)
        leader = leaders._leaders[1] = leaders_module._Leader(connection)
        leader.in_flight.append(MagicMock())
        assert leaders.is_ready(1)
        connection.is_expiring = True
        assert not leaders.is_ready(1)
        assert 1 in leaders._leaders
        leader.in_flight.clear()
        connection.is_open = False
        assert not leaders.is_ready(1)
        connection.close.assert_called_once_with()
        assert leaders._leaders[1].connection.is_opening
        leaders.close()
