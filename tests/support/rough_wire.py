"""A proxy whose server answers late, in vain, or no more."""

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
        The time by which each piece of an answer is late.
    is_dropping : bool
        Answers are lost while it is set. A connection that has lost some ends with its next answer, as no TCP connection
        goes on without its lost bytes.
    dropped : int
        The number of pieces of answers that were lost.
    """

    def __init__(self, port: int, own_port: int = 0) -> None:
        super().__init__(port, own_port)
        self.delay_s = 0.0
        self.is_dropping = False
        self.dropped = 0
        self._clients: set[socket.socket] = set()

    def half_close(self) -> None:
        """End the servers' direction of all connections: clients see the end, and can still send."""
        with self._lock:
            for client in self._clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)

    def mend(self) -> None:
        """Let all through again, in time."""
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
