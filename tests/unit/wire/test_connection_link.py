"""Sockets to local test servers: steps of connecting, TLS, and bytes in and out."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from cryptography import x509

from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.link import Link
from pyspark_zkafka.wire.protocol import Address, ConnectionLost, Unsupported
from pyspark_zkafka.wire.settings import client_settings_of
from tests.support.certificates import Authority
from tests.support.listening import silent_address

LOOPBACK = "127.0.0.1"
LOCALHOST = x509.DNSName("localhost")


class Clock:
    """A monotonic clock in seconds, set by tests."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def link(address: Address, context: ssl.SSLContext | None = None, **properties: str) -> Link:
    """Return a link that is not connected yet."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return Link(address, client_settings_of({"bootstrap.servers": "b", **given}).socket, context)


def connect(opened: Link) -> None:
    """Connect, including the TLS handshake, without a pause."""
    for _ in opened.open(Deadline.after(10)):
        pass


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket that accepts no connection on its own."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield listening


@pytest.fixture
def pair(server: socket.socket) -> Iterator[tuple[Link, socket.socket]]:
    """An open link, and the server's end of it."""
    opened = link(server.getsockname())
    connect(opened)
    peer, _ = server.accept()
    with peer:
        yield opened, peer
        opened.close()


def test_address(server: socket.socket) -> None:
    """A link is closed until it is opened, is named by its address, and may be closed twice."""
    opened = link(server.getsockname())
    assert not opened.is_open
    connect(opened)
    assert opened.is_open
    assert str(opened) == f"127.0.0.1:{server.getsockname()[1]}"
    opened.close()
    opened.close()
    assert not opened.is_open


def test_bytes_in_and_out(pair: tuple[Link, socket.socket]) -> None:
    """Bytes are sent and received unchanged, however they are divided."""
    opened, peer = pair
    opened.send(b"question")
    assert peer.recv(8, socket.MSG_WAITALL) == b"question"
    peer.sendall(b"ans")
    peer.sendall(b"wer!")
    target = bytearray(6)
    assert opened.fill(memoryview(target), Deadline.after(10)) == 6
    assert target == b"answer"
    assert opened.fill(memoryview(target)[:1], Deadline.after(10)) == 1
    assert target == b"!nswer"


def test_bytes_that_have_arrived(pair: tuple[Link, socket.socket]) -> None:
    """At the deadline, even one in the past, `fill` returns the bytes that have arrived; the link stays open."""
    opened, peer = pair
    target = memoryview(bytearray(4))
    assert opened.fill(target, Deadline.after(0)) == 0
    peer.sendall(b"abc")
    assert opened.fill(target[:1], Deadline.after(10)) == 1
    assert opened.fill(target, Deadline.after(-1)) == 2
    assert opened.is_open


def parts(size: int) -> tuple[bytes, list[memoryview]]:
    """Return random bytes, and the same bytes in small and large parts."""
    data = Random(size).randbytes(size)
    edges = sorted({0, 1, 2, 9, *range(0, size // 2, 3_000), size // 2 + 5, size})
    return data, [memoryview(data)[begin:end] for begin, end in pairwise(edges)]


def test_sending_without_waiting(pair: tuple[Link, socket.socket]) -> None:
    """A peer that does not read gets part of the data, and the rest once it reads."""
    opened, peer = pair
    data, left = parts(20_000_000)
    opened.send_some(left)
    assert left
    received = bytearray()
    while len(received) < len(data):
        received += peer.recv(1_000_000)
        opened.send_some(left)
    assert not left
    assert received == data
    opened.close()
    with pytest.raises(ConnectionLost, match="the connection is closed"):
        opened.send_some([memoryview(b"x")])


def test_end_of_the_connection(pair: tuple[Link, socket.socket]) -> None:
    """A connection closed by the broker is lost, and can no longer send or receive."""
    opened, peer = pair
    peer.close()
    target = memoryview(bytearray(4))
    with pytest.raises(ConnectionLost, match=r"^127\.0\.0\.1:\d+: the broker closed the connection$"):
        opened.fill(target, Deadline.after(10))
    assert not opened.is_open
    for call in (lambda: opened.send(b"x"), lambda: opened.fill(target, Deadline.after(10))):
        with pytest.raises(ConnectionLost, match="the connection is closed"):
            call()


def test_reset(pair: tuple[Link, socket.socket]) -> None:
    """A reset connection is lost, with the system's error text."""
    opened, peer = pair
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    with pytest.raises(ConnectionLost, match="receiving failed: Connection reset by peer"):
        opened.fill(memoryview(bytearray(4)), Deadline.after(10))


def test_failure_that_a_caller_finds(pair: tuple[Link, socket.socket]) -> None:
    """`lost` closes the socket and returns the error to raise."""
    opened, _ = pair
    assert str(opened.lost("no response in time")) == f"{opened}: no response in time"
    assert not opened.is_open


def test_shown_address() -> None:
    """Errors show an address as options have it: one of IPv6 in brackets."""
    assert str(link(("::1", 9092)).lost("lost")) == "[::1]:9092: lost"


def test_port_without_a_listener() -> None:
    """A port without a listener is a lost connection, with the system's error text."""
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1: connecting failed: Connection refused"):
        connect(link((LOOPBACK, 1)))


def test_host_that_is_none() -> None:
    """A host that is not a valid DNS name is left to librdkafka."""
    with pytest.raises(Unsupported, match=r"a\.\.b:9092: "):
        connect(link(("a..b", 9092)))


def test_other_address_family(server: socket.socket) -> None:
    """A host without an address of the family is a lost connection."""
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:\d+: connecting failed: "):
        connect(link(server.getsockname(), broker_address_family="v6"))


def test_address_that_is_silent(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent address leaves time for the host's next address."""
    with silent_address() as silent:
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", where) for where in (silent, server.getsockname())]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args: addresses)
        found, deadline = link(("host", 9092)), Deadline.after(3)
        for _ in found.open(deadline):
            pass
        assert found.is_open
        assert not deadline.has_passed
        found.close()


def test_resolver_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a host is resolved, connecting returns to the caller at each pause; it fails at the deadline."""
    clock, answers = Clock(), threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args: answers.wait(30))
    found = link(("host", 9092))
    steps = found.open(Deadline.after(5, clock))
    found.pause = Deadline.after(0, clock)
    for _ in range(3):
        next(steps)
    clock.now += 5
    with pytest.raises(ConnectionLost, match="host:9092: resolving the host took too long"):
        next(steps)
    answers.set()
    assert not found.is_open


def test_end_of_a_call(pair: tuple[Link, socket.socket]) -> None:
    """The end of a blocking call wakes the caller, who gets its result."""
    opened, _ = pair
    answers = threading.Event()
    steps = opened.call(lambda: answers.wait(30), "waiting", Deadline.after(30))
    opened.pause = Deadline(0)
    next(steps)
    assert not select.select([opened], [], [], 0)[0]
    answers.set()
    assert select.select([opened], [], [], 30)[0]
    opened.pause = Deadline.after(30)
    with pytest.raises(StopIteration) as result:
        next(steps)
    assert result.value.value is True
    assert opened.is_open


def test_call_left_alone(pair: tuple[Link, socket.socket]) -> None:
    """The end of a call that nobody waits for any more changes nothing, and wakes nobody."""
    opened, _ = pair
    answers = threading.Event()
    opened.pause = Deadline(0)
    left = opened.call(lambda: answers.wait(30), "waiting", Deadline.after(30))
    next(left)
    left.close()
    answers.set()
    assert opened.is_open
    assert not select.select([opened], [], [], 0.2)[0]


def test_call_without_threads(pair: tuple[Link, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the interpreter ends, which allows no new thread, a call blocks."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("at shutdown")))
    with pytest.raises(StopIteration) as result:
        next(pair[0].call(lambda: 7, "counting", Deadline.after(30)))
    assert result.value.value == 7


def test_connecting_in_steps() -> None:
    """Connecting returns to the caller at each pause, and fails at the deadline."""
    clock = Clock()
    with silent_address() as silent:
        found = link(silent)
        steps = found.open(Deadline.after(5, clock))
        for _ in range(3):
            found.pause = Deadline.after(0, clock)
            next(steps)
            assert found.is_open
        clock.now += 5
        with pytest.raises(ConnectionLost, match="connecting failed: Connection timed out"):
            next(steps)
        assert not found.is_open


def test_tls_handshake_in_steps(server: socket.socket) -> None:
    """A TLS handshake with a silent server returns at each pause, and fails at the deadline as a lost connection."""
    clock = Clock()
    found = link(server.getsockname(), ssl.create_default_context())
    steps = found.open(Deadline.after(5, clock))
    found.pause = Deadline.after(0, clock)
    for _ in range(3):
        next(steps)
    clock.now += 5
    with pytest.raises(ConnectionLost, match="the TLS handshake was broken off: Connection timed out"):
        next(steps)
    assert not found.is_open


def test_tls_handshake_that_is_cut(server: socket.socket) -> None:
    """A connection that ends during the handshake is lost."""
    found = link(server.getsockname(), ssl.create_default_context())
    found.pause = Deadline(0.0)
    steps = found.open(Deadline.after(10))
    next(steps)
    server.accept()[0].close()
    found.pause = Deadline.after(10)
    with pytest.raises(ConnectionLost, match="the TLS handshake was broken off"):
        next(steps)


class TlsServer:
    """A server with a certificate for localhost, which echoes what it receives on one connection."""

    def __init__(self, file: str) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(file)

    def __enter__(self) -> Address:
        self._listener = socket.create_server((LOOPBACK, 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return "localhost", self._listener.getsockname()[1]

    def __exit__(self, *exc: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, suppress(OSError), self._context.wrap_socket(client, server_side=True) as secured:
            while data := secured.recv(100):
                secured.sendall(data)


def trusting(*files: str) -> ssl.SSLContext:
    """Return a context that trusts only the authorities in these files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for file in files:
        context.load_verify_locations(cafile=file)
    return context


def test_bytes_through_tls(authority: Authority) -> None:
    """With TLS, bytes are sent and received unchanged, and a past deadline returns the bytes that have arrived."""
    with TlsServer(authority.issue("server", LOCALHOST)) as address:
        opened = link(address, trusting(authority.file), broker_address_family="v4")
        connect(opened)
        target = bytearray(6)
        assert opened.fill(memoryview(target), Deadline.after(0)) == 0
        opened.send(b"answer")
        assert opened.fill(memoryview(target), Deadline.after(10)) == 6
        assert target == b"answer"
        opened.close()


def test_sending_through_tls_without_waiting(authority: Authority) -> None:
    """With TLS, a peer that does not read gets part of the data, and the rest once it reads."""
    with TlsServer(authority.issue("server", LOCALHOST)) as address:
        small = {"broker_address_family": "v4", "socket_send_buffer_bytes": "20000"}
        opened = link(address, trusting(authority.file), **small)
        connect(opened)
        data, left = parts(1_000_000)
        opened.send_some(left)
        assert left  # the server is slow
        received, target = bytearray(), bytearray(100_000)
        while len(received) < len(data):
            opened.send_some(left)
            count = opened.fill(memoryview(target)[: len(data) - len(received)], Deadline.after(0.01))
            received += target[:count]
        assert received == data
        opened.close()


@pytest.mark.parametrize(
    ("is_trusted", "host", "why"),
    [(False, LOCALHOST, "certificate verify failed"), (True, x509.DNSName("other"), "Hostname mismatch")],
)
def test_certificate_that_does_not_hold(
    authority: Authority, tmp_path: Path, is_trusted: bool, host: x509.DNSName, why: str
) -> None:
    """A certificate of an untrusted authority or for another host is left to librdkafka, with the reason."""
    trusted = authority if is_trusted else Authority(tmp_path, "another")
    with TlsServer(authority.issue("server", host)) as address:
        opened = link(address, trusting(trusted.file), broker_address_family="v4")
        with pytest.raises(Unsupported, match=rf"^localhost:\d+: the TLS handshake failed: .*{why}"):
            connect(opened)
        opened.close()
