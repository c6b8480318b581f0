"""A member of a group in Kafka whose assignment the test chooses, byte by byte, as frameworks other than consumers do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark_zkafka.wire.protocol import Reader, array, int16, int32, nullable_bytes, string

__all__ = ["odd_member"]

_FIND_COORDINATOR, _JOIN_GROUP, _HEARTBEAT, _SYNC_GROUP = 10, 11, 12, 14
_SESSION_MS = 30_000
_NOT_COORDINATORS = (14, 15, 16)
_NO_TOPICS = int16(0) + array([]) + nullable_bytes(b"")


class _Connection:
    """A connection to one broker, for one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, 30)

    def ask(self, api: int, body: bytes, version: int = 0) -> Reader:
        """Send a request, and return its response after the correlation id."""
        request = int16(api) + int16(version) + int32(1) + string("odd") + body
        self._socket.sendall(int32(len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        return Reader(self._read(size)[4:])

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the broker closed the connection"
            found += part
        return found


def _coordinator(servers: str, group: str) -> tuple[str, int]:
    host, _, port = servers.split(",")[0].rpartition(":")
    for _ in range(100):
        connection = _Connection((host, int(port)))
        found = connection.ask(_FIND_COORDINATOR, string(group))
        connection.close()
        code, _, address = found.int16(), found.int32(), (found.required_string(), found.int32())
        if code == 0:
            return address
        assert code in _NOT_COORDINATORS, code
        threading.Event().wait(0.2)
    raise AssertionError(f"no broker coordinates {group}")


@contextmanager
def odd_member(servers: str, group: str, assignment: bytes, protocol_type: str = "consumer") -> Iterator[str]:
    """Be the only member of a group, with this assignment, for a ``with`` block; yields the member's id."""
    connection = _Connection(_coordinator(servers, group))
    protocols = array([string("odd") + nullable_bytes(_NO_TOPICS)])
    joining = string(group) + int32(_SESSION_MS) + string("") + string(protocol_type) + protocols
    joined = connection.ask(_JOIN_GROUP, joining)
    code, generation, _, _, member = (
        joined.int16(),
        joined.int32(),
        joined.string(),
        joined.string(),
        joined.required_string(),
    )
    assert code == 0, code
    shares = array([string(member) + nullable_bytes(assignment)])
    assert connection.ask(_SYNC_GROUP, string(group) + int32(generation) + string(member) + shares).int16() == 0
    ends = threading.Event()

    def beat() -> None:
        with suppress(OSError, AssertionError):
            while not ends.wait(3):
                connection.ask(_HEARTBEAT, string(group) + int32(generation) + string(member))

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield member
    finally:
        ends.set()
        beating.join()
        connection.close()
