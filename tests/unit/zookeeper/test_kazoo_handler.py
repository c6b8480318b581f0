"""The parts of the ZooKeeper client that need no server: errors, the log, and how large a transaction is."""

from __future__ import annotations

import logging
import math
import pickle
import socket
import time

import pytest
from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Auth, Transaction

from pyspark_zkafka.errors import ZKafkaError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.zookeeper import errors
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.kazoo_handler import BoundedHandler, ConnectionLog, ReadAhead
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, request_bytes, to_wire

CONFIG = ZooKeeperConfig("zk1:2181", "/kafka", auth=("digest", "alice:open-sesame"))


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
    """Each says what was tried and what to do, hides the credentials, and survives pickling."""
    ours = errors.translate(error, "Reading /x", CONFIG)
    assert type(ours) is kind
    assert "open-sesame" not in str(ours)
    assert str(pickle.loads(pickle.dumps(ours))) == str(ours)
    with pytest.raises(kind, match=text):
        raise ours


def test_only_losses_of_connection_or_session_are_passing() -> None:
    """A closed client and a refusal are not worth another try."""
    assert errors.is_passing(kazoo.ConnectionLoss())
    assert errors.is_passing(kazoo.SessionExpiredError())
    assert not errors.is_passing(kazoo.ConnectionClosedError())
    assert not errors.is_passing(kazoo.NoAuthError())


def test_the_log_has_neither_debug_lines_nor_repeated_troubles(caplog: pytest.LogCaptureFixture) -> None:
    """Debug lines show credentials and are dropped; troubles are gathered once, and loud only when not quiet."""
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
    """It is known as soon as its bytes have come, in whatever pieces; a server that grants none has ended the session."""
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


def test_a_session_lives_from_the_last_message_that_was_answered() -> None:
    """A message counts from when it was sent, once something came after it; events that nobody asked for do not count."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        now = 10.0
        ahead = ReadAhead(ours, lambda: now)
        assert ahead.alive_at == -math.inf
        for sent_at in (11.0, 12.0):  # two messages, which the answer may have crossed
            now = sent_at
            assert ahead.send(b"ping") == 4
        theirs.sendall(b"answer")
        now = 13.0
        assert ahead.recv(100) == b"answer"
        assert ahead.alive_at == 11.0
        theirs.sendall(b"event")
        assert ahead.recv(100) == b"event"
        assert ahead.alive_at == 11.0


def test_waits_end_at_the_deadline() -> None:
    """A socket that is never ready holds nobody longer than the deadline; past it, nothing waits at all."""
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


def test_what_was_received_ahead_is_read_first() -> None:
    """A socket hands out in pieces what came at once, is ready as long as some of it is left, and then ends as it does."""
    handler = BoundedHandler(time.monotonic)
    ours, theirs = socket.socketpair()
    ahead = ReadAhead(ours, time.monotonic)
    with ours, theirs:
        theirs.sendall(b"0123456789")
        assert handler.select([ahead], [], [], 10) == ([ahead], [], [])
        assert (ahead.recv(4), ahead.pending()) == (b"0123", 6)
        theirs.sendall(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        assert handler.select([ahead], [], [], 10) == ([ahead], [], [])
        assert (ahead.recv(100), ahead.pending()) == (b"456789", 0)
        assert [ahead.recv(2), ahead.recv(2), ahead.recv(2)] == [b"ab", b"c", b""]


def test_what_was_received_ahead_hides_nothing_else() -> None:
    """Another socket that is ready is told of at the same time, and one that is not is not waited for."""
    handler = BoundedHandler(time.monotonic)
    (ours, theirs), (wake, waker) = socket.socketpair(), socket.socketpair()
    ahead = ReadAhead(ours, time.monotonic)
    with ours, theirs, wake, waker:
        theirs.sendall(b"01")
        ahead.recv(1)
        assert handler.select([ahead, wake], [], [], None) == ([ahead], [], [])
        waker.sendall(b"x")
        assert handler.select([ahead, wake], [], [], None) == ([ahead, wake], [], [])


def test_a_request_is_never_larger_than_reckoned() -> None:
    """The estimate covers all that is sent for each kind of operation, with data, chroot and characters beyond ASCII."""

    def sent(*operations: Operation) -> int:
        """As kazoo sends a request: its length, its number, its type, and the operations."""
        return 3 * 4 + len(Transaction([to_wire(operation, "/chroot") for operation in operations]).serialize())

    operations = [
        Create("/a", None),
        Create("/b", b"x" * 100, ephemeral=True),
        SetData("/ü/c", b"1", 3),
        Delete("/a"),
        Check("/b"),
    ]
    for operation in operations:
        assert sent(operation) <= request_bytes([operation], "/chroot") < sent(operation) + 40
        some = [operation] * 3
        assert sent(*some) <= request_bytes(some, "/chroot")


def test_constructing_a_client_does_nothing() -> None:
    """No connection, no thread: only the block opens it; outside of it each call fails, and no retry repeats it."""
    client = ZooKeeperClient(CONFIG)
    client.close()
    retry = Retry(3, 0.5, lambda pause_s: pytest.fail("a programming error was repeated"))
    with pytest.raises(ZooKeeperError, match="use it inside its with block"):
        retry(lambda: client.get_many(["/"]))


@pytest.mark.parametrize(
    "error",
    [
        errors.not_open(),
        errors.already_open(),
        *(
            errors.translate(kind(), "Reading /x", CONFIG)
            for kind in (
                kazoo.BadArgumentsError,
                kazoo.MarshallingError,
                kazoo.UnimplementedError,
                kazoo.ConnectionClosedError,
            )
        ),
    ],
    ids=str,
)
def test_what_the_program_does_wrong_is_not_retriable(error: ZKafkaError) -> None:
    """A client that is not open, or open already, or a request that no server understands is the same the next time."""
    assert isinstance(error, ZooKeeperError)
    assert not error.retriable


def test_missing_sasl_support_says_what_to_install() -> None:
    """The advice names the extra."""
    assert "pip install 'pyspark-zkafka[sasl]'" in str(errors.sasl_missing())


def test_a_request_that_is_probably_too_large() -> None:
    """Servers do not say why they end a connection: neither the reason nor the outcome is known for certain."""
    error = errors.too_large(2_000_000, "A transaction at /consumers (9 operations)", CONFIG)
    assert "closed the connection at a request of some 2000000 bytes, probably because" in error.message
    assert "whether it was applied is unknown" in error.message
    assert not error.retriable
