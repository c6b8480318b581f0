"""Connections to brokers: sockets, TLS, versions of the protocol, logins, requests and responses."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from pyspark_zkafka._version import __version__
from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import host_port
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.connection_messages import (
    OF_0_8,
    OF_0_9,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Authentication,
    Supported,
    api_versions_request,
    read_api_versions,
    read_sasl_authenticate,
    read_sasl_handshake,
    sasl_authenticate_request,
    sasl_handshake_request,
)
from pyspark_zkafka.wire.metadata_messages import is_of_version_0, metadata_request
from pyspark_zkafka.wire.protocol import (
    Address,
    Api,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    MalformedResponse,
    MechanismRefused,
    Reader,
    Request,
    TlsRefused,
    Unsupported,
    closed_by_errors,
    int32,
)
from pyspark_zkafka.wire.sasl import exchange
from pyspark_zkafka.wire.settings import AnyLogin, ClientSettings, SocketSettings

A = TypeVar("A")
Waiting: TypeAlias = Generator[None, None, A]
"""A generator that yields whenever the caller's time runs out before the work is done."""

_dialects: dict[Address, tuple[Supported, float]] = {}
"""Protocols of brokers that do not answer ApiVersions, until a time."""
_DIALECT_S = 10.0  # brokers may be upgraded
_SEND_TIMEOUT_S = 10.0
_NO_LINGER = struct.pack("ii", 1, 0)
_LENGTH_BYTES = 4
_MOST_PARTS = 512  # of IOV_MAX, 1024
_TLS_RECORD_BYTES = 16 * 1024
_TLS_ALERT = b"\x15\x03"
_NEWEST_API_VERSIONS = 3
# A new connection renews a login before its session ends and the broker closes the old connection (KIP-368).
_SHARE_OF_SESSION = 0.85


class Link:
    """A socket to an address, with TLS if there is a `context`; not connected yet. Not thread-safe.

    All methods raise ConnectionLost if the connection fails, which closes the socket. `open` raises Unsupported for what
    the direct transport cannot do; close the socket then. The steps of `open` yield at the deadline `pause`, while they
    wait for the `awaited_events`.
    """

    def __init__(self, address: Address, settings: SocketSettings, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._settings = settings
        self._context = context
        self._socket: socket.socket | None = None
        self.pause = Deadline(math.inf)
        self.awaited_events = select.POLLIN

    def __str__(self) -> str:
        return host_port(*self._address)

    @property
    def host(self) -> str:
        """The host's name or address, as the client was told."""
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
        """The descriptor of the open socket, to wait for."""
        return self._socket_with(0).fileno()

    def send(self, data: bytes) -> None:
        """Send all of the data. Blocks for at most ten seconds."""
        try:
            self._socket_with(_SEND_TIMEOUT_S).sendall(data)
        except OSError as error:
            raise self.lost("sending failed", error) from error

    def send_some(self, left: list[memoryview]) -> None:
        """Send as much as the system takes without waiting, and remove it from the list."""
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
        """Receive until the target is full or the deadline has passed; return the number of bytes received."""
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
            addresses = socket.getaddrinfo(*self._address, self._settings.family, socket.SOCK_STREAM)
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
        """Wait for an event of a socket; TimeoutError at the deadline."""
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
    """Join the first parts while the first is smaller than this size."""
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


class Buffer:
    """Memory that is reused for one response after the other, and grows when a response is larger."""

    def __init__(self) -> None:
        self._data = bytearray()

    def room(self, size: int) -> memoryview:
        """Return memory of this size. It overwrites the previous response."""
        if len(self._data) < size:
            self._data = bytearray(size)
        return memoryview(self._data)[:size]


class Connection:
    """A connection to one broker, not open yet. Not thread-safe.

    Requests may be sent before earlier requests are answered. All methods raise ConnectionLost if the connection fails, and
    Unsupported for what the direct transport cannot do. Both close the connection, unless `version` raises Unsupported.
    """

    def __init__(
        self,
        address: Address,
        settings: ClientSettings,
        context: ssl.SSLContext | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._settings = settings
        self._clock = clock
        self._link = Link(address, settings.socket, context)
        self._supported = Supported({}, {})
        self._pending: deque[tuple[Request, int]] = deque()  # with their correlation ids
        self._unsent: list[memoryview] = []
        self._correlation_id = 0
        self._expires = math.inf
        self._length = bytearray(_LENGTH_BYTES)
        self._response: memoryview | None = None  # to receive; None until its length is known
        self._received = 0
        self._silent_s = 0.0
        self._own = Buffer()
        self._opening: Waiting[None] | None = None

    def __str__(self) -> str:
        return str(self._link)

    @property
    def is_open(self) -> bool:
        """True if a request may be sent. False after an error, and without pending requests when the login expires soon."""
        is_ready = self._link.is_open and self._opening is None
        return is_ready and (bool(self._pending) or not self.is_expiring)

    @property
    def is_expiring(self) -> bool:
        """True if the login is about to expire: the connection must be opened again."""
        return self._clock() >= self._expires

    @property
    def is_opening(self) -> bool:
        """True until `continue_opening` has returned True or raised an error."""
        return self._opening is not None

    @property
    def is_idle(self) -> bool:
        """True if no response is due."""
        return not self._pending

    @property
    def has_unsent(self) -> bool:
        """True if a part of the posted requests is not sent yet."""
        return bool(self._unsent)

    def version(self, api: Api, newest: int | None = None) -> int:
        """The version of an API to use with the broker; Unsupported if there is none."""
        return api.version(self._supported.versions, newest)

    def newest(self, key: int) -> int:
        """The newest version of the API with this key that the broker has; -1 if there is none."""
        return self._supported.versions.get(key, (0, -1))[1]

    def has(self, api: Api) -> bool:
        """True if `version` returns a version."""
        return api.is_in(self._supported.versions)

    @property
    def dialect(self) -> str:
        """The release of Kafka whose protocol a broker without ApiVersions has; empty for other brokers."""
        return self._supported.dialect

    def feature(self, name: str) -> int:
        """The level of a feature of the cluster (KIP-584), 0 if it is disabled or unknown."""
        return self._supported.features.get(name, 0)

    def begin_opening(self, deadline: Deadline) -> None:
        """Prepare to connect and log in before the deadline, in calls of `continue_opening`. Does not block."""
        self.close()
        self._opening = self._open(deadline)

    def fileno(self) -> int:
        return self._link.fileno()

    @property
    def awaited_events(self) -> int:
        """The events of the socket, of ``select.poll``, after which there is something to do."""
        return self._link.awaited_events | (select.POLLOUT if self._unsent else 0)

    def continue_opening(self, pause: Deadline) -> bool:
        """Continue to open; return True once open. Blocks until `pause`.

        Blocks longer while the host is resolved or a token requested. Raises BrokersUnavailable if a token provider fails.
        """
        self._link.pause = pause
        with closed_by_errors(self.close):
            for _ in self._opening or ():
                if pause.has_passed:
                    return False
        self._opening = None
        return True

    def close(self) -> None:
        """Close the connection, and drop responses that are due."""
        self._opening = None
        self._disconnect()

    def _disconnect(self) -> None:
        self._link.close(drop=bool(self._pending))  # otherwise a request could arrive after its repetition
        self._pending.clear()
        self._unsent.clear()
        self._expires = math.inf
        self._response, self._received, self._silent_s = None, 0, 0.0

    def send(self, request: Request) -> None:
        """Send a request; `receive` returns responses in the order of their requests."""
        with closed_by_errors(self._disconnect):
            self._link.send(b"".join(self._encoded(request)))
        self._pending.append((request, self._correlation_id))

    def post(self, request: Request) -> None:
        """Send as much of a request as the system takes without waiting. Call `push` for the rest, and before `send`."""
        self._unsent += map(memoryview, self._encoded(request))
        self._pending.append((request, self._correlation_id))
        self.push()

    def push(self) -> None:
        """Send more of the posted requests, without waiting."""
        if self._unsent:
            with closed_by_errors(self._disconnect):
                self._link.send_some(self._unsent)

    def receive(self, buffer: Buffer, deadline: Deadline) -> Reader | None:
        """Receive the response to the oldest request into the buffer; None if it is not complete by the deadline.

        The next call continues with it, in the buffer of the first call.
        """
        begin, received = self._clock(), self._received
        body = self._body(buffer, deadline)
        if body is None:
            # Count only the time of waiting: nobody may have asked for the response between two calls.
            self._silent_s = self._silent_s + self._clock() - begin if self._received == received else 0.0
            limit_s = self._settings.socket.request_timeout_s
            if self._pending and self._silent_s > limit_s:
                raise self._lost(f"no response for {limit_s:g} s")
            return None
        request, correlation_id = self._pending.popleft()
        self._response, self._received, self._silent_s = None, 0, 0.0
        response = request.reader(body)
        with closed_by_errors(self._disconnect):
            request.read_header(response, correlation_id)
        return response

    def fill(self, buffer: Buffer) -> None:
        """Receive the part of the next response that has arrived, without waiting. Pass the same buffer to `receive`."""
        if self._pending:
            self._body(buffer, Deadline(self._clock(), self._clock))

    def ask(self, request: Request, deadline: Deadline) -> Reader:
        """Send a request and return its response, which blocks until the deadline. Drops responses to earlier requests."""
        self.send(request)
        while (response := self.receive(self._own, deadline)) is not None:
            if not self._pending:
                return response
        raise self._lost("no response in time")

    def _encoded(self, request: Request) -> tuple[bytes | memoryview, ...]:
        self._correlation_id = (self._correlation_id + 1) % 2**31
        return request.encoded(self._correlation_id, self._settings.client_id), *request.parts

    def _open(self, deadline: Deadline) -> Waiting[None]:
        yield from self._link.open(deadline)
        known, until = _dialects.get(self._address, (None, 0.0))
        if known is not None and self._clock() < until:
            self._supported = known
        else:
            try:
                half = Deadline.after(deadline.left_s / 2, deadline.clock)
                self._supported = yield from self._request_versions(half)
            except ConnectionLost as lost:
                self._supported = yield from self._find_dialect(deadline, lost)
        if self._settings.login is not None:
            yield from self._log_in(self._settings.login, deadline)

    def _find_dialect(self, deadline: Deadline, lost: ConnectionLost) -> Waiting[Supported]:
        """Find the protocol of a broker that does not answer ApiVersions: 0.8 closes the connection, and 0.9 is silent.

        Only their answer to Metadata 1 proves their age. Other brokers may be slow.
        """
        yield from self._link.open(deadline)
        try:
            response = yield from self._exchange(metadata_request(1, ()), deadline)
        except ConnectionLost:
            raise lost from None
        if not is_of_version_0(bytes(response.span(response.left))):
            self._disconnect()
            raise lost
        found = OF_0_8 if isinstance(lost, ConnectionClosed) else OF_0_9
        _dialects[self._address] = found, self._clock() + _DIALECT_S
        return found

    def _exchange(self, request: Request, deadline: Deadline) -> Waiting[Reader]:
        """Send a request and return its response, on a connection without other requests."""
        self.send(request)
        while (response := self.receive(self._own, deadline.or_sooner(self._link.pause))) is None:
            if deadline.has_passed:
                raise self._lost("no response in time")
            yield
        return response

    def _request_versions(self, deadline: Deadline) -> Waiting[Supported]:
        for version in (_NEWEST_API_VERSIONS, 0):
            found = read_api_versions((yield from self._exchange(api_versions_request(version, __version__), deadline)))
            if found is not None:
                return found
        raise Unsupported(f"{self}: the broker knows no version of ApiVersions")

    def _log_in(self, login: AnyLogin, deadline: Deadline) -> Waiting[None]:
        """Log in by SASL, within Kafka's protocol from Kafka 1.0 on (KIP-152). Brokers before 0.10 are Unsupported."""
        version = self.version(SASL_AUTHENTICATE) if self.has(SASL_AUTHENTICATE) else None
        handshake = self.version(SASL_HANDSHAKE, None if version is not None else 0)
        response = yield from self._exchange(sasl_handshake_request(handshake, login.mechanism), deadline)
        error, mechanisms = read_sasl_handshake(response)
        if error != NONE:
            raise MechanismRefused(f"{self}: the broker has the mechanisms {','.join(mechanisms)}")
        tokens = exchange(login, self._link.host)
        token = next(tokens)
        while True:
            if version is None:
                answer = yield from self._exchange_token(token, login, deadline)
            else:
                response = yield from self._exchange(sasl_authenticate_request(version, token), deadline)
                answer = read_sasl_authenticate(response)
            if answer.error != NONE:
                raise LoginRefused(f"{self}: the broker refuses the login by {login.mechanism}")
            try:
                token = tokens.send(answer.data)
            except StopIteration:
                break
        if answer.lifetime_ms > 0:
            self._expires = self._clock() + _SHARE_OF_SESSION * answer.lifetime_ms / 1000

    def _exchange_token(self, token: bytes, login: AnyLogin, deadline: Deadline) -> Waiting[Authentication]:
        """Exchange tokens without headers. The broker closes the connection if it refuses the login."""
        self._link.send(int32(len(token)) + token)
        try:
            while (body := self._body(self._own, deadline.or_sooner(self._link.pause), least=0)) is None:
                if deadline.has_passed:
                    raise self._lost("no response in time")
                yield
        except ConnectionClosed:
            raise LoginRefused(f"{self}: the broker refuses the login by {login.mechanism}") from None
        self._response, self._received = None, 0
        return Authentication(NONE, bytes(body))

    def _body(self, buffer: Buffer, deadline: Deadline, least: int = _LENGTH_BYTES) -> memoryview | None:
        """The complete response; None if it has not arrived by the deadline."""
        if self._response is None:
            if not self._fill(memoryview(self._length), deadline):
                return None
            if self._length.startswith(_TLS_ALERT):
                self._disconnect()
                raise ConnectionClosed(f"{self}: the listener expects TLS")
            length = int.from_bytes(self._length, "big", signed=True)
            if not least <= length <= self._settings.socket.most_response_bytes:
                self._disconnect()
                raise MalformedResponse(f"{self}: a response of {length} bytes")
            self._response, self._received = buffer.room(length), 0
        return self._response if self._fill(self._response, deadline) else None

    def _fill(self, target: memoryview, deadline: Deadline) -> bool:
        """Receive the rest of the target; False if it is not full at the deadline."""
        with closed_by_errors(self._disconnect):
            self._received += self._link.fill(target[self._received :], deadline)
        return self._received == len(target)

    def _lost(self, what: str) -> ConnectionLost:
        self._disconnect()
        return self._link.lost(what)
