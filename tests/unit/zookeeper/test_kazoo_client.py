"""kazoo's client: its handler with bounded waits, its log without secrets, and its errors as ours."""

from __future__ import annotations

import logging
import math
import pickle
import socket
import threading
import time
from contextlib import closing
from typing import Any

import pytest
from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Auth

from pyspark_zkafka.errors import ZKafkaError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.zookeeper import kazoo_client
from pyspark_zkafka.zookeeper.kazoo_client import BoundedHandler, ConnectionLog, ReadAhead
from tests.support.options import ensemble_config

CONFIG = ensemble_config("zk1:2181", "/kafka", auth=("digest", "alice:open-sesame"))


def test_the_log_has_neither_debug_lines_nor_repeated_troubles(caplog: pytest.LogCaptureFixture) -> None:
    """Debug lines, which show credentials, are dropped; repeated troubles are collected, and logged only if not quiet."""
    caplog.set_level(1)
    log = ConnectionLog(logging.getLogger("test.zookeeper"))
    log.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", "alice:open-sesame"))
    log.log(5, "BLATHER open-sesame")
    for _ in range(2):
        log.warning("Connection dropped: %s", "socket connection error: Connection refused")
    log.quiet = False
    log.warn("odd %s", "event")
    assert log.troubles == ["Connection refused"]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "WARNING"]
    assert "open-sesame" not in caplog.text


def test_the_granted_timeout_is_in_a_connections_first_answer() -> None:
    """The granted time-out is read from the first response in any pieces; a server that grants none ends the session."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ahead = ReadAhead(ours, time.monotonic)
        for piece in (b"\0\0\0\x25\0\0", b"\0\0\0\0\x0b"):
            theirs.sendall(piece)
            assert ahead.recv(100) == piece
            assert ahead.granted_ms is None
        theirs.sendall(b"\xb8" + b"\0" * 29)
        ahead.recv(100)
        assert ahead.granted_ms == 3000
        expired = ReadAhead(ours, time.monotonic)
        theirs.sendall(b"\0\0\0\x25" + b"\0" * 37)
        expired.recv(100)
        assert expired.granted_ms is None


def message(xid: int, body: bytes = b"") -> bytes:
    """A request or an answer: the length, the xid and the body."""
    return (4 + len(body)).to_bytes(4, "big") + xid.to_bytes(4, "big", signed=True) + body


def test_a_session_lives_from_the_last_message_that_was_answered() -> None:
    """A session is alive since the sending of the last message that got its answer; watch events do not count."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        now = 10.0
        ahead = ReadAhead(ours, lambda: now)
        assert ahead.alive_at == -math.inf
        for now in (11.0, 12.0, 13.0):
            assert ahead.send(message(int(now), b"ping")) == 12
        now = 14.0
        for data, alive_at in (
            (message(-1, b"event"), -math.inf),
            (message(11, bytes(range(100))), 11.0),
            (message(-1, b"event") + message(12)[:6], 11.0),
            (message(12)[6:] + message(-1, message(13)), 12.0),
            (message(13), 13.0),
        ):
            theirs.sendall(data)
            assert ahead.recv(1000) == data
            assert ahead.alive_at == alive_at


@pytest.mark.parametrize("greeting", [b"\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23", b"\0\0\0\1" * 5, b"220 ready\r\n"])
def test_bytes_of_another_server(greeting: bytes) -> None:
    """Bytes that are no messages of ZooKeeper are passed on: kazoo reports them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ahead = ReadAhead(ours, time.monotonic)
        theirs.sendall(greeting)
        assert ahead.recv(100) == greeting


def test_a_message_sent_in_pieces() -> None:
    """A message that the socket takes in two pieces is one request, sent when its first piece was."""
    pieces: list[bytes] = []

    class Narrow(socket.socket):
        def send(self, data: Any, flags: int = 0) -> int:
            pieces.append(bytes(data[:10]))
            return len(pieces[-1])

    ours, theirs = socket.socketpair()
    with theirs, Narrow(fileno=ours.detach()) as narrow:
        now = 1.0
        ahead = ReadAhead(narrow, lambda: now)
        for xid in (1, 2):
            data = memoryview(message(xid, bytes(30)))
            while data:
                data = data[ahead.send(data) :]
                now += 1
        theirs.sendall(message(1) + message(2))
        assert ahead.recv(16) == message(1) + message(2)
        assert ahead.alive_at == 5.0
    assert b"".join(pieces) == message(1, bytes(30)) + message(2, bytes(30))


def test_waits_end_at_the_deadline() -> None:
    """A socket that is never ready blocks no longer than the deadline; after it, nothing waits."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        handler = BoundedHandler(time.monotonic, time.monotonic() + 0.05)
        started = time.monotonic()
        assert handler.select([ours], [], [], 10) == ([], [], [])
        assert time.monotonic() - started < 5
        with pytest.raises(KazooTimeoutError):
            handler.select([], [ours], [], 10)
        handler.deadline = math.inf
        theirs.send(b"x")
        assert handler.select([ours], [ours], [], None) == ([ours], [ours], [])


def test_a_short_session_timeout_leaves_time_for_the_first_answer() -> None:
    """A server may take longer to answer than the session timeout that is asked of it. Later waits are as asked."""
    handler = BoundedHandler(time.monotonic)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = handler.create_connection(address=server.getsockname(), hostname="zk1", timeout=0.001)
        peer, _ = server.accept()
        with peer, closing(connected):
            answer = threading.Timer(0.1, peer.sendall, [b"\0\0\0\x25" + b"\0" * 4 + b"\0\0\x0b\xb8" + b"\0" * 29])
            answer.start()
            assert handler.select([connected], [], [], 0.001) == ([connected], [], [])
            assert len(connected.recv(100)) == 41
            started = time.monotonic()
            assert handler.select([connected], [], [], 0.001) == ([], [], [])
            assert time.monotonic() - started < 1
            answer.join()


def test_what_was_received_ahead_is_read_first() -> None:
    """A socket returns bytes received ahead in pieces, is ready while some are left, and then ends like its own socket."""
    handler = BoundedHandler(time.monotonic)
    ours, theirs = socket.socketpair()
    ahead = ReadAhead(ours, time.monotonic)
    with ours, theirs:
        theirs.sendall(b"0123456789")
        assert handler.select([ahead], [], [], 10) == ([ahead], [], [])
        assert ahead.recv(4) == b"0123"
        assert ahead.pending() == 6
        theirs.sendall(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        assert handler.select([ahead], [], [], 10) == ([ahead], [], [])
        assert ahead.recv(100) == b"456789"
        assert ahead.pending() == 0
        assert [ahead.recv(2), ahead.recv(2), ahead.recv(2)] == [b"ab", b"c", b""]


def test_what_was_received_ahead_hides_nothing_else() -> None:
    """Other ready sockets are reported at the same time, and others are not waited for."""
    handler = BoundedHandler(time.monotonic)
    (ours, theirs), (wake, waker) = socket.socketpair(), socket.socketpair()
    ahead = ReadAhead(ours, time.monotonic)
    with ours, theirs, wake, waker:
        theirs.sendall(b"01")
        ahead.recv(1)
        assert handler.select([ahead, wake], [], [], None) == ([ahead], [], [])
        waker.sendall(b"x")
        assert handler.select([ahead, wake], [], [], None) == ([ahead, wake], [], [])


def test_requests_that_nobody_reads_do_not_block() -> None:
    """Requests are counted while kazoo's thread reconnects, and each wakes it once later; after the end, they fail."""
    handler = BoundedHandler(time.monotonic)
    reader, writer = handler.create_socket_pair()
    for _ in range(5000):
        writer.send(b"\0")
    for _ in range(5000):
        assert handler.select([reader], [], [], 10) == ([reader], [], [])
        assert reader.recv(1) == b"\0"
    assert handler.select([reader], [], [], 0) == ([], [], [])
    assert reader.recv(1) == b""
    writer.send(b"\0")
    for end in (writer, reader):
        end.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        writer.send(b"\0")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (kazoo.NoAuthError(), ZooKeeperRefused, "Reading /x was refused: an ACL forbids it, asked as the digest user"),
        (kazoo.AuthFailedError(), ZooKeeperRefused, "does not accept the credentials"),
        (kazoo.NotReadOnlyCallError(), ZooKeeperRefused, "read-only mode"),
        (kazoo.QuotaExceededError(), ZooKeeperRefused, "a quota is exceeded"),
        (KazooTimeoutError(), ZooKeeperError, "zk1:2181 got no answer within 6000 ms"),
        (kazoo.ConnectionLoss(), ZooKeeperError, r"the connection or the session was lost \(ConnectionLoss\)"),
        (kazoo.SessionExpiredError(), ZooKeeperError, "SessionExpiredError"),
        (kazoo.SystemZookeeperError(), ZooKeeperError, "SystemZookeeperError"),
    ],
)
def test_errors_of_kazoo_become_ours(error: Exception, kind: type[ZKafkaError], text: str) -> None:
    """Each error names the action and the remedy, hides credentials, and survives pickling."""
    ours = kazoo_client.from_kazoo(error, "Reading /x", CONFIG)
    assert type(ours) is kind
    assert "open-sesame" not in str(ours)
    assert str(pickle.loads(pickle.dumps(ours))) == str(ours)
    with pytest.raises(kind, match=text):
        raise ours


def test_only_losses_of_connection_or_session_are_passing() -> None:
    """Only losses of connection or session are temporary; a closed client and a refusal are not."""
    assert kazoo_client.is_passing(kazoo.ConnectionLoss())
    assert kazoo_client.is_passing(kazoo.SessionExpiredError())
    assert not kazoo_client.is_passing(kazoo.ConnectionClosedError())
    assert not kazoo_client.is_passing(kazoo.NoAuthError())


@pytest.mark.parametrize(
    "cause",
    [
        kazoo.BadArgumentsError(),
        kazoo.MarshallingError(),
        kazoo.UnimplementedError(),
        kazoo.ConnectionClosedError(),
    ],
)
def test_what_the_program_does_wrong_is_not_retriable(cause: Exception) -> None:
    """Errors of the program, such as using a client that is not open, are not retriable."""
    error = kazoo_client.from_kazoo(cause, "Reading /x", CONFIG)
    assert isinstance(error, ZooKeeperError)
    assert not error.retriable


def test_a_request_that_is_probably_too_large() -> None:
    """The error of a probably too large request says that neither reason nor outcome is certain."""
    error = kazoo_client.too_large(2_000_000, "A transaction at /consumers (9 operations)", CONFIG)
    assert "closed the connection at a request of some 2000000 bytes, probably because" in error.message
    assert "whether it was applied is unknown" in error.message
    assert not error.retriable


def test_no_session() -> None:
    """Without a session, the error quotes the troubles meanwhile. Servers without a quorum drop each connection."""
    ours = kazoo_client.no_session(KazooTimeoutError(), CONFIG, ["socket connection broken"])
    assert str(ours).startswith("[ZOOKEEPER_UNREACHABLE] No connection to ZooKeeper at zk1:2181")
    assert "6000 ms: socket connection broken; check" in ours.message
    assert "that the servers run and have a quorum, or raise" in ours.message
