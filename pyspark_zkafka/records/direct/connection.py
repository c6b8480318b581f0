"""Connections to brokers: sockets and TLS, versions, login, and responses in the order of their requests."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pyspark_zkafka._version import __version__
from pyspark_zkafka.records.consumer import Unsupported
from pyspark_zkafka.records.direct.messages import (
    NONE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Api,
    Request,
    api_versions_request,
    read_api_versions,
    read_sasl_authenticate,
    read_sasl_handshake,
    sasl_authenticate_request,
    sasl_handshake_request,
)
from pyspark_zkafka.records.direct.sasl import exchange
from pyspark_zkafka.records.direct.settings import Login, Settings, SocketSettings, TokenEndpoint
from pyspark_zkafka.records.direct.wire import ConnectionLost, LoginRefused, MalformedResponse, Reader, closed_by_errors

A = TypeVar("A")
Address = tuple[str, int]
Waiting: TypeAlias = Generator[None, None, A]
"""Steps that yield where the caller's time is over before they are done."""

_SEND_TIMEOUT_S = 10.0
_LENGTH_BYTES = 4
_NEWEST_API_VERSIONS = 3
# A login is renewed by a new connection, before its session ends and the broker closes the old one (KIP-368).
_SHARE_OF_SESSION = 0.85


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time on a monotonic clock until which something may take."""

    at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline in so many seconds from now."""
        return cls(clock() + seconds, clock)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 once it has passed."""
        return max(self.at - self.clock(), 0.0)

    @property
    def has_passed(self) -> bool:
        """True at the deadline and after it."""
        return self.clock() >= self.at

    def or_sooner(self, other: Deadline) -> Deadline:
        """The earlier one of two."""
        return self if self.at <= other.at else other


class Link:
    """A socket to an address, not connected yet. Not thread-safe.

    All methods raise ConnectionLost where the connection fails, and Unsupported for what this transport does not do; the
    socket is closed then. The steps of `open` yield at the `pause`, and continue when they are resumed.
    """

    def __init__(self, address: Address, settings: SocketSettings, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._settings = settings
        self._context = context
        self._socket: socket.socket | None = None
        self.pause = Deadline(math.inf)

    def __str__(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    @property
    def is_open(self) -> bool:
        """True from the connection's beginning until it is closed or lost."""
        return self._socket is not None

    def open(self, deadline: Deadline) -> Waiting[None]:
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

    def fill(self, target: memoryview, deadline: Deadline) -> int:
        """Receive into the target until it is full, or the deadline has passed; returns how many bytes arrived."""
        arrived = 0
        while arrived < len(target):
            try:
                count = self._socket_for(deadline.left_s).recv_into(target[arrived:])
            except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
                if deadline.has_passed:
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

    def _connect(self, deadline: Deadline) -> Waiting[None]:
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
            share = Deadline.after(deadline.left_s / (len(addresses) - number), deadline.clock)
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

    def _connect_to(self, opened: socket.socket, where: Any, deadline: Deadline) -> Waiting[None]:
        opened.setblocking(False)
        code = opened.connect_ex(where)
        if code == errno.EINPROGRESS:
            yield from self._ready(opened, select.POLLOUT, deadline)
            code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def _shake_hands(self, context: ssl.SSLContext, deadline: Deadline) -> Waiting[None]:
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

    def _ready(self, opened: socket.socket, event: int, deadline: Deadline) -> Waiting[None]:
        """Wait for an event of a socket; TimeoutError at the deadline."""
        waiting = select.poll()
        waiting.register(opened, event)
        while not waiting.poll(math.ceil(deadline.or_sooner(self.pause).left_s * 1000)):
            if deadline.has_passed:
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


class Buffer:
    """Memory for a response, kept for the next one, and replaced where that is larger."""

    def __init__(self) -> None:
        self._data = bytearray()

    def room(self, size: int) -> memoryview:
        """Memory of this size; it overwrites what was there."""
        if len(self._data) < size:
            self._data = bytearray(size)
        return memoryview(self._data)[:size]


class _Pending(NamedTuple):
    request: Request
    correlation_id: int


class Connection:
    """A connection to one broker, not open yet. Not thread-safe.

    Requests may be sent before earlier ones are answered. All methods raise ConnectionLost where the connection fails, and
    Unsupported for what this transport does not do; the connection is closed then.
    """

    def __init__(
        self,
        address: Address,
        settings: Settings,
        context: ssl.SSLContext | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._link = Link(address, settings.socket, context)
        self._versions: dict[int, tuple[int, int]] = {}
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._expires = float("inf")
        self._length = bytearray(_LENGTH_BYTES)
        self._arriving: memoryview | None = None
        self._arrived = 0
        self._silent_s = 0.0
        self._own = Buffer()
        self._opening: Waiting[None] | None = None

    def __str__(self) -> str:
        return str(self._link)

    @property
    def is_open(self) -> bool:
        """True if it can be used; False after an error, and when the session of its login is about to end."""
        is_ready = self._link.is_open and self._opening is None
        return is_ready and (bool(self._pending) or self._clock() < self._expires)

    @property
    def is_idle(self) -> bool:
        """True if no response is due."""
        return not self._pending

    def version(self, api: Api, newest: int | None = None) -> int:
        """The version of an API to use with the broker; Unsupported if there is none."""
        return api.version(self._versions, newest)

    def has(self, api: Api) -> bool:
        """True if there is a version of an API to use with the broker."""
        return api.is_in(self._versions)

    @property
    def is_opening(self) -> bool:
        """True if `open_further` is to be called again."""
        return self._opening is not None

    def open(self, deadline: Deadline) -> None:
        """Connect, and log in; blocks until then, or until the deadline."""
        self.begin_opening(deadline)
        self.open_further(deadline)

    def begin_opening(self, deadline: Deadline) -> None:
        """Have `open_further` connect, and log in, before the deadline. Does not block."""
        self.close()
        self._opening = self._open(deadline)

    def open_further(self, pause: Deadline) -> bool:
        """Continue opening; True if it is open. Blocks until `pause`, or while the host is resolved."""
        self._link.pause = pause
        with closed_by_errors(self.close):
            for _ in self._opening or ():
                if pause.has_passed:
                    return False
        self._opening = None
        return True

    def close(self) -> None:
        """Close it; responses that are due are lost."""
        self._opening = None
        self._link.close()
        self._pending.clear()
        self._expires = float("inf")
        self._arriving, self._arrived, self._silent_s = None, 0, 0.0

    def send(self, request: Request) -> None:
        """Send a request; `receive` returns responses in the order of their requests."""
        self._correlation_id = (self._correlation_id + 1) % 2**31
        data = request.encoded(self._correlation_id, self._settings.client_id)
        with closed_by_errors(self.close):
            self._link.send(data)
        self._pending.append(_Pending(request, self._correlation_id))

    def receive(self, buffer: Buffer, deadline: Deadline) -> Reader | None:
        """The response to the oldest request, in the buffer; None if it has not arrived whole by the deadline.

        Another call continues with what has arrived, in the buffer of the first one.
        """
        begin, arrived = self._clock(), self._arrived
        body = self._body(buffer, deadline)
        if body is None:
            self._note_silence(self._clock() - begin, is_silent=self._arrived == arrived)
            return None
        pending = self._pending.popleft()
        self._arriving, self._arrived, self._silent_s = None, 0, 0.0
        response = Reader(body)
        pending.request.read_header(response, pending.correlation_id)
        return response

    def fill(self, buffer: Buffer) -> None:
        """Take in what has arrived of the next response, which `receive` is to return from the same buffer."""
        if self._pending:
            self._body(buffer, Deadline(self._clock(), self._clock))

    def ask(self, request: Request, deadline: Deadline) -> Reader:
        """The response to a request, sent now; blocks until the deadline, and drops the responses of earlier requests."""
        self.send(request)
        while (response := self.receive(self._own, deadline)) is not None:
            if not self._pending:
                return response
        raise self._lost("no response in time")

    def _open(self, deadline: Deadline) -> Waiting[None]:
        yield from self._link.open(deadline)
        self._versions = yield from self._ask_versions(deadline)
        if self._settings.login is not None:
            yield from self._log_in(self._settings.login, deadline)

    def _asked(self, request: Request, deadline: Deadline) -> Waiting[Reader]:
        """The response to a request, on a connection without others."""
        self.send(request)
        while (response := self.receive(self._own, deadline.or_sooner(self._link.pause))) is None:
            if deadline.has_passed:
                raise self._lost("no response in time")
            yield
        return response

    def _ask_versions(self, deadline: Deadline) -> Waiting[dict[int, tuple[int, int]]]:
        for version in (_NEWEST_API_VERSIONS, 0):
            response = yield from self._asked(api_versions_request(version, __version__), deadline)
            found = read_api_versions(response, version)
            if found is not None:
                return found
        raise Unsupported(f"{self}: the broker knows no version of ApiVersions")

    def _log_in(self, login: Login | TokenEndpoint, deadline: Deadline) -> Waiting[None]:
        """SASL inside of Kafka's protocol (KIP-152); an older broker is not supported, and librdkafka reports a refusal."""
        self.version(SASL_HANDSHAKE)
        version = self.version(SASL_AUTHENTICATE)
        found = read_sasl_handshake((yield from self._asked(sasl_handshake_request(login.mechanism), deadline)))
        if found.error != NONE:
            raise Unsupported(f"{self}: the broker has the mechanisms {','.join(found.mechanisms)}")
        tokens = exchange(login)
        token = next(tokens)
        while True:
            response = yield from self._asked(sasl_authenticate_request(version, token), deadline)
            answer = read_sasl_authenticate(response, version)
            if answer.error != NONE:
                raise LoginRefused(f"{self}: the broker refuses the login")
            try:
                token = tokens.send(answer.data)
            except StopIteration:
                break
        if answer.lifetime_ms > 0:
            self._expires = self._clock() + _SHARE_OF_SESSION * answer.lifetime_ms / 1000

    def _note_silence(self, waited_s: float, *, is_silent: bool) -> None:
        """Count the time of waiting in vain, but not that in which nobody asked for the response."""
        self._silent_s = self._silent_s + waited_s if is_silent else 0.0
        limit_s = self._settings.socket.request_timeout_s
        if self._pending and self._silent_s > limit_s:
            raise self._lost(f"no response for {limit_s:g} s")

    def _body(self, buffer: Buffer, deadline: Deadline) -> memoryview | None:
        """The whole response; None if it has not arrived by the deadline."""
        if self._arriving is None:
            if not self._fill(memoryview(self._length), deadline):
                return None
            self._arriving, self._arrived = buffer.room(self._checked_length()), 0
        return self._arriving if self._fill(self._arriving, deadline) else None

    def _checked_length(self) -> int:
        length = int.from_bytes(self._length, "big", signed=True)
        if not _LENGTH_BYTES <= length <= self._settings.socket.most_response_bytes:
            self.close()
            raise MalformedResponse(f"{self}: a response of {length} bytes")
        return length

    def _fill(self, target: memoryview, deadline: Deadline) -> bool:
        """Receive into the rest of the target; False if the deadline has passed before it is full."""
        with closed_by_errors(self.close):
            self._arrived += self._link.fill(target[self._arrived :], deadline)
        return self._arrived == len(target)

    def _lost(self, what: str) -> ConnectionLost:
        self.close()
        return self._link.lost(what)
