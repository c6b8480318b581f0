"""A proxy that changes, delays or cuts a server's responses."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from tests.support.wire import Wire, hang_up

__all__ = ["FaultyWire", "cut_after", "flip", "in_pieces"]

Fault = Callable[[int, bytes], "bytes | None"]
"""Returns the bytes to pass on, given the number of bytes sent before on a connection and the next bytes.

None cuts the connection.
"""


class FaultyWire(Wire):
    """A `Wire` with a fault on its first connections; later connections work normally.

    Attributes
    ----------
    faulty : int
        The number of next connections with the fault.
    """

    def __init__(self, port: int, fault: Fault, faulty: int = 1) -> None:
        super().__init__(port)
        self.faulty = faulty
        self._fault = fault

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        is_faulty, self.faulty = self.faulty > 0, self.faulty - 1
        if not is_faulty:
            super()._answer(server, client)
            return
        sent = 0
        with suppress(OSError):
            while data := server.recv(65_536):
                passed = self._fault(sent, data)
                if passed is None:
                    break
                sent += len(data)
                client.sendall(passed)
        hang_up(server)
        hang_up(client)


def cut_after(size: int) -> Fault:
    """Cut a connection after this many bytes."""
    return lambda sent, data: data if sent < size else None


def flip(place: int) -> Fault:
    """Flip a bit of the byte at a position."""

    def fault(sent: int, data: bytes) -> bytes:
        if not sent <= place < sent + len(data):
            return data
        found = bytearray(data)
        found[place - sent] ^= 0x10
        return bytes(found)

    return fault


def in_pieces(size: int, pause_s: float) -> Fault:
    """Pause for each `size` bytes."""

    def fault(sent: int, data: bytes) -> bytes:
        time.sleep(pause_s * len(data) / size)
        return data

    return fault
