"""Servers of tests on loopback: their connections, and one that echoes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_zkafka.testing.ports import LOOPBACK

__all__ = ["accepted", "echo_server"]


def accepted(listener: socket.socket) -> Iterator[socket.socket]:
    """One connection after the other, until the listener is shut down."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        yield client


@contextmanager
def echo_server() -> Iterator[int]:
    """The port of a server that sends back what it gets, for one client at a time."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        server = threading.Thread(target=_echo, args=(listener,))
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


def _echo(listener: socket.socket) -> None:
    for client in accepted(listener):
        with client:
            while data := client.recv(1000):
                client.sendall(data)
