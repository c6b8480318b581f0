"""A socket to a broker: its addresses, TLS, and bytes in and out within the caller's time."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from pyspark_zkafka.transport.direct.errors import ConnectionLost, Unsupported
from pyspark_zkafka.transport.direct.settings import SocketSettings

__all__ = ["Address", "Link", "Waiting"]

A = TypeVar("A")
Address = tuple[str, int]
Waiting: TypeAlias = Generator[None, None, A]
"""Steps that yield where the caller's time is over before they are done."""

_SEND_TIMEOUT_S = 10.0


class Link:
    """A socket to an address, not connected yet. Not thread-safe.

    All methods raise ConnectionLost where the connection fails, and Unsupported for what this transport does not do; the
    socket is closed then. The steps of `open` take no longer than until `wait_until` at a time.
    """

    def __init__(
        self,
        address: Address,
        settings: SocketSettings,
        context: ssl.SSLContext | None,
        clock: Callable[[], float],
    ) -> None:
        self._address = address
        self._settings = settings
        self._context = context
        self._clock = clock
        self._socket: socket.socket | None = None
        self.wait_until = 0.0

    def __str__(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    @property
    def is_open(self) -> bool:
        """True from the connection's beginning until it is closed or lost."""
        return self._socket is not None

    def open(self, deadline: float) -> Waiting[None]:
        """Connect, and shake hands where there is TLS."""
        yield from self._connect(deadline)
        if self._context is not None:
            yield from self._shake_hands(self._context, deadline)

    def close(self) -> None:
        """Close the socket, if there is one."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        self._socket = None

    def send(self, data: bytes) -> None:
        """Send all of the data; blocks for ten seconds at most."""
        try:
            self._socket_for(_SEND_TIMEOUT_S).sendall(data)
        except OSError as error:
            raise self.lost("sending failed", error) from error

    def fill(self, target: memoryview, deadline: float) -> int:
        """Receive into the target until it is full, or the deadline has passed; returns how many bytes arrived."""
        arrived = 0
        while arrived < len(target):
            try:
                count = self._socket_for(self._left(deadline)).recv_into(target[arrived:])
            except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
                if self._clock() >= deadline:
                    break
                continue
            except OSError as error:
                raise self.lost("receiving failed", error) from error
            if count == 0:
                raise self.lost("the broker closed the connection")
            arrived += count
        return arrived

    def lost(self, what: str, error: OSError | None = None) -> ConnectionLost:
        """The error to be raised after a failure; closes the socket."""
        self.close()
        cause = "" if error is None else f": {error.strerror or error}"
        return ConnectionLost(f"{self}: {what}{cause}")

    def _left(self, deadline: float) -> float:
        return max(deadline - self._clock(), 0.0)

    def _connect(self, deadline: float) -> Waiting[None]:
        """Connect to the first of the host's addresses that accepts.

        Each address has its share of the time left, so that one that does not answer leaves some to the next.
        """
        failure: OSError = OSError("the host has no address")
        try:
            addresses = socket.getaddrinfo(*self._address, self._settings.family, socket.SOCK_STREAM)
        except UnicodeError as error:
            raise Unsupported(f"{self}: {error}") from None
        except OSError as error:
            raise self.lost("connecting failed", error) from error
        for number, (family, kind, protocol, _, where) in enumerate(addresses):
            share = self._clock() + self._left(deadline) / (len(addresses) - number)
            try:
                self._socket = socket.socket(family, kind, protocol)
                _configure(self._socket, self._settings)
                yield from self._connect_to(self._socket, where, share)
            except OSError as error:
                self.close()
                failure = error
            else:
                return
        raise self.lost("connecting failed", failure) from failure

    def _connect_to(self, opened: socket.socket, where: Any, limit: float) -> Waiting[None]:
        opened.setblocking(False)
        code = opened.connect_ex(where)
        if code == errno.EINPROGRESS:
            yield from self._ready(opened, select.POLLOUT, limit)
            code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def _shake_hands(self, context: ssl.SSLContext, deadline: float) -> Waiting[None]:
        try:
            opened = context.wrap_socket(
                self._socket_for(0), server_hostname=self._address[0], do_handshake_on_connect=False
            )
            self._socket = opened
            while (event := _handshake_waits_for(opened)) is not None:
                yield from self._ready(opened, event, deadline)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) or (
                isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
            ):
                raise Unsupported(f"{self}: the TLS handshake failed: {error}") from None
            raise self.lost("the TLS handshake was broken off", error) from error

    def _ready(self, opened: socket.socket, event: int, limit: float) -> Waiting[None]:
        """Wait for an event of a socket; TimeoutError at the limit."""
        waiting = select.poll()
        waiting.register(opened, event)
        while not waiting.poll(math.ceil(self._left(min(limit, self.wait_until)) * 1000)):
            if self._clock() >= limit:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            yield

    def _socket_for(self, timeout_s: float) -> socket.socket:
        if self._socket is None:
            raise ConnectionLost(f"{self}: the connection is closed")
        self._socket.settimeout(timeout_s)
        return self._socket


def _handshake_waits_for(opened: ssl.SSLSocket) -> int | None:
    """The event that a TLS handshake waits for; None if it is done."""
    try:
        opened.do_handshake()
    except ssl.SSLWantReadError:
        return select.POLLIN
    except ssl.SSLWantWriteError:
        return select.POLLOUT
    return None


def _configure(opened: socket.socket, settings: SocketSettings) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, settings.keepalive)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, settings.no_delay)
    if settings.send_bytes:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_bytes)
    if settings.receive_bytes:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_bytes)
