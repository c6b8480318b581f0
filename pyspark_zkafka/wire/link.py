"""Sockets to brokers, with TLS."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import re
import select
import socket
import ssl
import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from pyspark_zkafka.model.nouns import host_port
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.threads import call_in_thread
from pyspark_zkafka.wire.protocol import Address, ConnectionClosed, ConnectionLost, TlsRefused, Unsupported
from pyspark_zkafka.wire.settings import SocketSettings

A = TypeVar("A")
Waiting: TypeAlias = Generator[None, None, A]
"""A generator that yields whenever the caller's time runs out before the work is done."""

_SEND_TIMEOUT_S = 10.0
_NO_LINGER = struct.pack("ii", 1, 0)
_MOST_PARTS = 512  # of IOV_MAX, 1024
_TLS_RECORD_BYTES = 16 * 1024
_CERTIFICATE_ALERT = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)")
"""Matches a refusal of the client's certificate. With TLS 1.3, it comes after the client's handshake."""


class Link:
    """A socket to an address, with TLS if there is a `context`. Not connected yet. Not thread-safe.

    All methods raise ConnectionLost if the connection fails, and then close the socket. `open` raises Unsupported if
    librdkafka is needed; the caller must then close the socket. While `open` waits for the `awaited_events`, it yields at
    the deadline `pause`.
    """

    def __init__(self, address: Address, settings: SocketSettings, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._settings = settings
        self._context = context
        self._socket: socket.socket | None = None
        self._called: socket.socket | None = None
        self.pause = Deadline(math.inf)
        self.awaited_events = select.POLLIN

    def __str__(self) -> str:
        return host_port(*self._address)

    @property
    def host(self) -> str:
        """The name or address of the host, as the client was given it."""
        return self._address[0]

    @property
    def is_open(self) -> bool:
        """True from the first attempt to connect until the socket is closed."""
        return self._socket is not None

    def open(self, deadline: Deadline) -> Waiting[None]:
        """Connect, and complete the TLS handshake."""
        yield from self._connect(deadline)
        if self._context is not None:
            yield from self._shake_hands(self._context, deadline)

    def close(self, *, drop: bool = False) -> None:
        """Close the socket if it is open. With `drop`, the system drops unsent bytes."""
        if self._socket is not None:
            with suppress(OSError):
                if drop:
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                self._socket.close()
        self._socket = None

    def fileno(self) -> int:
        """The descriptor to wait for: of the open socket, or during a `call` of its end."""
        return (self._called or self._socket_with(0)).fileno()

    def call(self, work: Callable[[], A], what: str, deadline: Deadline) -> Waiting[A]:
        """Return the result of a call that may block. Raises the exception of the call, or ConnectionLost at the deadline.

        The call runs in a thread, and is abandoned at the deadline.
        """
        try:
            answer = call_in_thread(work, f"zkafka: {what}")
        except RuntimeError:  # no thread can be started while the interpreter ends
            return work()
        try:
            self._called, ended = socket.socketpair()
        except OSError as error:
            raise self.lost(f"{what} failed", error) from error
        answer.add_done_callback(lambda _: ended.close())
        try:
            with self._called:
                yield from self._await_event(self._called, select.POLLIN, deadline)
        except TimeoutError as error:
            raise self.lost(f"{what} took too long", error) from None
        finally:
            self._called, self.awaited_events = None, select.POLLIN
        return answer.result()

    def send(self, data: bytes) -> None:
        """Send all of the data. Blocks for at most ten seconds."""
        try:
            self._socket_with(_SEND_TIMEOUT_S).sendall(data)
        except OSError as error:
            raise self.lost("sending failed", error) from error

    def send_some(self, left: list[memoryview]) -> None:
        """Send as much of the list as the system takes without waiting, and remove it from the list."""
        try:
            opened = self._socket_with(0)
            while left:
                if isinstance(opened, ssl.SSLSocket):
                    _fill_first(left, _TLS_RECORD_BYTES)
                    _remove(left, opened.send(left[0]))
                else:
                    _remove(left, opened.sendmsg(left[:_MOST_PARTS]))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            raise self.lost("sending failed", error) from error

    def fill(self, target: memoryview, deadline: Deadline) -> int:
        """Receive until the target is full or the deadline has passed. Returns the number of bytes received."""
        received = 0
        while received < len(target):
            try:
                count = self._socket_with(deadline.left_s).recv_into(target[received:])
            except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
                if deadline.has_passed:
                    break
                continue
            except ConnectionResetError as error:
                self.close()
                raise ConnectionClosed(f"{self}: receiving failed: {error.strerror or error}") from error
            except OSError as error:
                if isinstance(error, ssl.SSLError) and _CERTIFICATE_ALERT.search(error.reason or ""):
                    self.close()
                    raise TlsRefused(f"{self}: the broker refuses the client's certificate: {error.reason}") from None
                raise self.lost("receiving failed", error) from error
            if count == 0:
                self.close()
                raise ConnectionClosed(f"{self}: the broker closed the connection")
            received += count
        return received

    def lost(self, what: str, error: OSError | None = None) -> ConnectionLost:
        """Close the socket, and return the error to raise."""
        self.close(drop=True)
        cause = "" if error is None else f": {error.strerror or error}"
        lost = ConnectionLost(f"{self}: {what}{cause}")
        lost.is_silent = error is None or isinstance(error, ConnectionResetError)
        return lost

    def _connect(self, deadline: Deadline) -> Waiting[None]:
        """Connect to the first address of the host that accepts.

        Each address gets an equal share of the time left, so that an address that does not answer leaves time for the next.
        """
        failure: OSError = OSError("the host has no address")
        try:
            addresses = yield from self._resolve(deadline)
        except UnicodeError as error:
            raise Unsupported(f"{self}: {error}") from None
        except OSError as error:
            raise self.lost("connecting failed", error) from error
        for number, (family, kind, protocol, _, address) in enumerate(addresses):
            share = Deadline.after(deadline.left_s / (len(addresses) - number), deadline.clock)
            try:
                self._socket = socket.socket(family, kind, protocol)
                _configure(self._socket, self._settings)
                yield from self._connect_to(self._socket, address, share)
            except OSError as error:
                self.close()
                failure = error
            else:
                return
        raise self.lost("connecting failed", failure) from failure

    def _resolve(self, deadline: Deadline) -> Waiting[Sequence[Any]]:
        def resolve() -> Sequence[Any]:
            return socket.getaddrinfo(*self._address, self._settings.family, socket.SOCK_STREAM)

        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return (yield from self.call(resolve, "resolving the host", deadline))
        return resolve()

    def _connect_to(self, opened: socket.socket, address: Any, deadline: Deadline) -> Waiting[None]:
        opened.setblocking(False)
        code = opened.connect_ex(address)
        if code == errno.EINPROGRESS:
            yield from self._await_event(opened, select.POLLOUT, deadline)
            code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def _shake_hands(self, context: ssl.SSLContext, deadline: Deadline) -> Waiting[None]:
        try:
            opened = context.wrap_socket(
                self._socket_with(0), server_hostname=self._address[0], do_handshake_on_connect=False
            )
            self._socket = opened
            while True:
                try:
                    opened.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
                yield from self._await_event(opened, event, deadline)
        except ssl.SSLEOFError as error:
            raise self.lost("the TLS handshake was broken off", error) from error
        except (ssl.SSLError, ValueError) as error:
            raise TlsRefused(f"{self}: the TLS handshake failed: {error}") from None
        except OSError as error:
            raise self.lost("the TLS handshake was broken off", error) from error

    def _await_event(self, opened: socket.socket, event: int, deadline: Deadline) -> Waiting[None]:
        """Wait for an event of a socket. Raises TimeoutError at the deadline."""
        poll = select.poll()
        poll.register(opened, event)
        self.awaited_events = event
        while not poll.poll(math.ceil(deadline.or_sooner(self.pause).left_s * 1000)):
            if deadline.has_passed:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            yield
        self.awaited_events = select.POLLIN

    def _socket_with(self, timeout_s: float) -> socket.socket:
        if self._socket is None:
            raise ConnectionLost(f"{self}: the connection is closed")
        self._socket.settimeout(timeout_s)
        return self._socket


def _fill_first(parts: list[memoryview], size: int) -> None:
    """Join the first parts until the first part has at least this size."""
    while len(parts) > 1 and len(parts[0]) < size:
        room = size - len(parts[0])
        rest = [parts[1][room:]] if len(parts[1]) > room else []
        parts[:2] = [memoryview(b"".join((parts[0], parts[1][:room]))), *rest]


def _remove(parts: list[memoryview], count: int) -> None:
    """Remove this number of bytes from the start of the parts."""
    whole = 0
    while whole < len(parts) and count >= len(parts[whole]):
        count -= len(parts[whole])
        whole += 1
    del parts[:whole]
    if count:
        parts[0] = parts[0][count:]


def _configure(opened: socket.socket, settings: SocketSettings) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, settings.keepalive)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, settings.no_delay)
    if settings.send_bytes:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_bytes)
    if settings.receive_bytes:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_bytes)
