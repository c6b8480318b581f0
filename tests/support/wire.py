"""A proxy to a server that can be cut: a network fault for a single client."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

from pyspark_zkafka.testing.processes import LOOPBACK
from tests.support.listening import accepted

__all__ = ["Wire", "hang_up"]

_CHUNK_BYTES = 65_536


class Wire:
    """A port that leads to a server's port on loopback, open inside its ``with`` block.

    The port is a free one, unless `own_port` is given.

    Examples
    --------
    ::

        with Wire(cluster.port("zookeeper")) as wire:
            client = KazooClient(wire.address)
            client.start()
            wire.silence()  # like a pulled cable; other clients still reach the server
            wire.mend()

    Attributes
    ----------
    greetings : list of bytes
        The first bytes that the server sent on each connection.
    """

    def __init__(self, port: int, own_port: int = 0) -> None:
        self.greetings: list[bytes] = []
        self._target = (LOOPBACK, port)
        self._own_port = own_port
        self._flowing = threading.Event()
        self._flowing.set()
        self._is_cut = False
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()

    def __enter__(self) -> Wire:
        self._listener = socket.create_server((LOOPBACK, self._own_port))
        self._port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="wire", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cut()
        self._flowing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def port(self) -> int:
        """The port to use instead of the server's."""
        return self._port

    @property
    def address(self) -> str:
        """``127.0.0.1:port``, an address to use instead of the server's."""
        return f"{LOOPBACK}:{self._port}"

    def cut(self) -> None:
        """End all connections, and new ones at once, until `mend`."""
        with self._lock:
            self._is_cut = True
            for end in self._ends:
                hang_up(end)

    def silence(self) -> None:
        """Stop all bytes in both directions until `mend`; connections stay open, and new ones are accepted."""
        self._flowing.clear()

    def mend(self) -> None:
        """Pass everything on again, including withheld bytes."""
        self._is_cut = False
        self._flowing.set()

    def _accept(self) -> None:
        for client in accepted(self._listener):
            self._join(client)

    def _join(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._ends |= {client, server}
            if self._is_cut:
                hang_up(client)
                hang_up(server)
        threads = [
            threading.Thread(target=self._pump, args=(client, server), daemon=True),
            threading.Thread(target=self._answer, args=(server, client), daemon=True),
        ]
        for thread in threads:
            thread.start()
        threading.Thread(target=self._close, args=(client, server, threads), daemon=True).start()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            if greeting := server.recv(_CHUNK_BYTES):
                self.greetings.append(greeting)
                self._flowing.wait()
                client.sendall(greeting)
        self._pump(server, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._flowing.wait()
                sink.sendall(data)
        hang_up(source)
        hang_up(sink)

    def _close(self, client: socket.socket, server: socket.socket, pumps: list[threading.Thread]) -> None:
        for pump in pumps:
            pump.join()
        with self._lock:
            self._ends -= {client, server}
        client.close()
        server.close()


def hang_up(end: socket.socket) -> None:
    """End both directions of a connection."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
