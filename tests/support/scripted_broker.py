"""A broker in the test process that answers requests byte for byte as scripted."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pyspark_zkafka.testing.processes import LOOPBACK
from tests.support.listening import accepted

__all__ = ["API_VERSIONS", "RANGES", "Received", "Script", "ScriptedBroker", "answered", "framed"]

RANGES: Mapping[int, tuple[int, int]] = {1: (0, 11), 2: (0, 5), 3: (0, 7), 17: (0, 1), 18: (0, 0), 36: (0, 1)}
API_VERSIONS = 18


class Received(NamedTuple):
    """A request: fields of its header, and the remaining bytes."""

    api: int
    version: int
    correlation_id: int
    rest: bytes


Script = Callable[[Received], "bytes | None"]


def framed(data: bytes) -> bytes:
    """Return bytes preceded by their length."""
    return struct.pack(">i", len(data)) + data


def answered(request: Received, body: bytes) -> bytes:
    """Return a response without tagged fields in its header."""
    return framed(struct.pack(">i", request.correlation_id) + body)


def versions(ranges: Mapping[int, tuple[int, int]]) -> bytes:
    """Return the body of a response to ApiVersions 0."""
    rows = b"".join(struct.pack(">hhh", key, *pair) for key, pair in ranges.items())
    return struct.pack(">hi", 0, len(ranges)) + rows


class ScriptedBroker:
    """A server on loopback, open within its ``with`` block, which answers each request with a test's function.

    The function returns the bytes of a response with their length; None closes the connection, and empty bytes are no
    response. ApiVersions is answered like a broker with only its version 0, with `ranges` of versions by API; without
    `ranges`, by the function.

    Attributes
    ----------
    received : list of Received
        All requests.
    """

    def __init__(self, script: Script, ranges: Mapping[int, tuple[int, int]] | None = RANGES) -> None:
        self._script = script
        self._ranges = ranges
        self.received: list[Received] = []
        self.connections = 0
        self._serving: list[threading.Thread] = []

    def __enter__(self) -> ScriptedBroker:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def finish(self) -> None:
        """Wait until all requests on connections closed by clients are processed."""
        for thread in self._serving:
            thread.join(10)
            assert not thread.is_alive(), "a client has not closed its connection"

    def _accept(self) -> None:
        for client in accepted(self._listener):
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()
            self._serving.append(thread)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, struct.error), client, client.makefile("rb") as stream:
            while True:
                (length,) = struct.unpack(">i", stream.read(4))
                data = stream.read(length)
                request = Received(*struct.unpack_from(">hhi", data), data[8:])
                self.received.append(request)
                response = self._respond(request)
                if response is None:
                    return
                client.sendall(response)

    def _respond(self, request: Received) -> bytes | None:
        if request.api != API_VERSIONS or self._ranges is None:
            return self._script(request)
        return answered(request, versions(self._ranges) if request.version == 0 else struct.pack(">hi", 35, 0))
