"""The connection to a server that delays, drops or ends responses."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.eventually import eventually
from tests.support.listening import server
from tests.support.rough_wire import RoughWire


@pytest.fixture
def received() -> list[bytes]:
    """Everything that has reached the server."""
    return []


@pytest.fixture
def wire(received: list[bytes]) -> Iterator[RoughWire]:
    """A wire to a server that echoes."""

    def echo(client: socket.socket) -> None:
        while data := client.recv(1000):
            received.append(data)
            client.sendall(data)

    with server(echo) as port, RoughWire(port) as way:
        yield way


@pytest.fixture
def client(wire: RoughWire) -> Iterator[socket.socket]:
    """A connection through the wire that has already carried data."""
    host, port = wire.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as end:
        end.sendall(b"hello")
        assert end.recv(10) == b"hello"
        yield end


def test_delay(wire: RoughWire, client: socket.socket) -> None:
    """A response is delayed until `mend` is called."""
    wire.delay_s = 0.3
    begin = time.monotonic()
    client.sendall(b"a")
    assert client.recv(10) == b"a"
    assert time.monotonic() - begin >= 0.3
    wire.mend()
    assert wire.delay_s == 0


def test_dropped_answers(wire: RoughWire, client: socket.socket) -> None:
    """A dropped response never comes, and the connection ends with the next one."""
    wire.is_dropping = True
    client.sendall(b"a")
    eventually(lambda: wire.dropped)
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(10)
    wire.mend()
    client.settimeout(10)
    client.sendall(b"b")
    assert client.recv(10) == b""


def test_half_close(wire: RoughWire, client: socket.socket, received: list[bytes]) -> None:
    """A half-closed connection shows the client its end, but the client can still send."""
    wire.half_close()
    assert client.recv(10) == b""
    client.sendall(b"a")
    eventually(lambda: b"".join(received) == b"helloa", message=lambda: received)
