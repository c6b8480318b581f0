"""The connection to an echoing server that can be cut."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.listening import echo, server
from tests.support.wire import Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A wire to a server that echoes, for one client at a time."""
    with server(echo) as port, Wire(port) as way:
        yield way


def connect(wire: Wire) -> socket.socket:
    """Connect to the wire."""
    host, port = wire.address.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_cut(wire: Wire) -> None:
    """A cut ends the connection and all new ones until it is mended."""
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
    """During silence, nothing arrives, but the connection stays, and everything arrives afterwards."""
    with connect(wire) as client:
        wire.silence()
        client.sendall(b"three")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1000)
        wire.mend()
        client.settimeout(5)
        assert client.recv(1000) == b"three"
