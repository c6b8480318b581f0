"""Sessions of ZooKeeper as its servers know them."""

from __future__ import annotations

import socket
import struct

from pyspark_zkafka.testing.processes import LOOPBACK

__all__ = ["connections", "session_of"]

_CONNECT_RESPONSE = struct.Struct(">iiiqi16s")  # length, protocol version, timeout, session id, length, password


def session_of(greeting: bytes) -> tuple[int, bytes]:
    """Id and password of a session, from the first bytes that a server sends: its answer to the client's request."""
    _, _, _, session, _, password = _CONNECT_RESPONSE.unpack_from(greeting)
    return session, password


def connections(port: int) -> list[str]:
    """A line for each connection of a server on loopback, with its session's id and timeout."""
    with socket.create_connection((LOOPBACK, port), timeout=10) as console:
        console.sendall(b"cons")
        return b"".join(iter(lambda: console.recv(65_536), b"")).decode().splitlines()
