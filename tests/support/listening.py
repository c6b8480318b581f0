"""Test servers on loopback, and their connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark_zkafka.testing.processes import LOOPBACK

__all__ = ["accepted", "echo", "server", "silent_address"]


def accepted(listener: socket.socket) -> Iterator[socket.socket]:
    """Yield connections until the listener is shut down."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        yield client


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server for one client at a time, and yield its port; a connection is closed when `serve` returns."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve_all() -> None:
            for client in accepted(listener):
                with client:
                    serve(client)

        serving = threading.Thread(target=serve_all)
        serving.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()


def echo(client: socket.socket) -> None:
    """Send back everything that the client sends."""
    while data := client.recv(1000):
        client.sendall(data)


@contextmanager
def silent_address() -> Iterator[tuple[str, int]]:
    """Yield the address of a listener with a full queue: the system does not answer a further attempt to connect."""
    with socket.create_server((LOOPBACK, 0), backlog=0) as listener, ExitStack() as waiting:
        address: tuple[str, int] = listener.getsockname()
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        yield address
