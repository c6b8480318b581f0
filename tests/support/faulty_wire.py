"""A proxy that changes, delays or cuts what a server answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from tests.support.wire import Wire, hang_up

__all__ = ["FaultyWire", "cut_after", "flip", "in_pieces"]

Fault = Callable[[int, bytes], "bytes | None"]
"""Given the number of bytes that the server has sent before on a connection, and its next ones, those to pass on.

None cuts the connection.
"""


class FaultyWire(Wire):
    """A `Wire` with a fault on its first connections; later ones are as they should be.

    Attributes
    ----------
    faulty : int
        The number of connections, from now on, with the fault.
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
    """Cut the connection when it has carried so many bytes."""
    return lambda sent, data: data if sent < size else None


def flip(place: int) -> Fault:
    """Flip a bit of the byte at a place."""

    def fault(sent: int, data: bytes) -> bytes:
        if not sent <= place < sent + len(data):
            return data
        found = bytearray(data)
        found[place - sent] ^= 0x10
        return bytes(found)

    return fault


def in_pieces(size: int, pause_s: float) -> Fault:
    """Delay each so many bytes."""

    def fault(sent: int, data: bytes) -> bytes:
        time.sleep(pause_s * len(data) / size)
        return data

    return fault
