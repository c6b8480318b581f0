"""A proxy that delays, drops or half-closes a server's responses."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from tests.support.wire import Wire, hang_up

__all__ = ["RoughWire"]

_CHUNK_BYTES = 65_536
_GREETING_BYTES = 64


class RoughWire(Wire):
    """A `Wire` that can also delay, drop and half-close.

    Attributes
    ----------
    delay_s : float
        The delay of each piece of a response.
    is_dropping : bool
        While set, responses are lost. A connection that has lost data ends with its next response, since no TCP connection
        continues after lost bytes.
    dropped : int
        The number of lost pieces of responses.
    """

    def __init__(self, port: int, own_port: int = 0) -> None:
        super().__init__(port, own_port)
        self.delay_s = 0.0
        self.is_dropping = False
        self.dropped = 0
        self._clients: set[socket.socket] = set()

    def half_close(self) -> None:
        """Close the servers' direction of all connections: clients see the end of the stream, and can still send."""
        with self._lock:
            for client in self._clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)

    def mend(self) -> None:
        """Pass everything on again, without delay."""
        self.delay_s, self.is_dropping = 0.0, False
        super().mend()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with self._lock:
            self._clients.add(client)
        with suppress(OSError):
            self._carry(server, client)
        with self._lock:
            self._clients.discard(client)
        hang_up(server)
        hang_up(client)

    def _carry(self, server: socket.socket, client: socket.socket) -> None:
        is_greeting, is_torn = True, False
        while data := server.recv(_CHUNK_BYTES):
            if is_greeting:
                self.greetings.append(data[:_GREETING_BYTES])
            is_greeting = False
            self._flowing.wait()
            time.sleep(self.delay_s)
            if self.is_dropping:
                is_torn = True
                self.dropped += 1
            elif is_torn:
                return
            else:
                client.sendall(data)
