"""The way to a server that can be cut, with a server that echoes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.wire import Wire


def echo(listener: socket.socket) -> None:
    """Serve until the listener is shut down."""
    while True:
        try:
            end, _ = listener.accept()
        except OSError:
            return
        with end:
            while data := end.recv(1000):
                end.sendall(data)


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A way to a server that sends back what it gets, for one client at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=echo, args=(listener,))
        server.start()
        with Wire(listener.getsockname()[1]) as way:
            yield way
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


def connect(wire: Wire) -> socket.socket:
    """A connection through it."""
    host, port = wire.address.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_lets_all_through(wire: Wire) -> None:
    """Bytes arrive unchanged, both ways."""
    with connect(wire) as client:
        client.sendall(b"one")
        assert client.recv(1000) == b"one"


def test_cut(wire: Wire) -> None:
    """A cut ends the connection and each new one, until it is mended."""
    with connect(wire) as client:
        wire.cut()
        assert client.recv(1000) == b""
    with connect(wire) as client:
        assert client.recv(1000) == b""
    wire.mend()
    with connect(wire) as client:
        client.sendall(b"two")
        assert client.recv(1000) == b"two"


def test_silence(wire: Wire) -> None:
    """In silence nothing comes, the connection stays, and all arrives later."""
    with connect(wire) as client:
        wire.silence()
        client.sendall(b"three")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1000)
        wire.mend()
        client.settimeout(5)
        assert client.recv(1000) == b"three"
