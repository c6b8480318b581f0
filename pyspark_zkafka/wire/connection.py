"""Connections to brokers: versions of the protocol, logins, requests and responses."""

from __future__ import annotations

import math
import select
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from pyspark_zkafka._version import __version__
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.error_codes import NONE
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
from pyspark_zkafka.wire.link import Link, Waiting
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
    TokenRefused,
    Unsupported,
    closed_by_errors,
    int32,
)
from pyspark_zkafka.wire.sasl import Exchange, exchange
from pyspark_zkafka.wire.settings import AnyLogin, ClientSettings, TokenEndpoint

A = TypeVar("A")
_DIALECT_S = 10.0  # brokers may be upgraded
_dialects: Remembered[Address, Supported] = Remembered(_DIALECT_S)
"""Protocols of brokers that do not answer ApiVersions."""
_LENGTH_BYTES = 4
_PREPARING_S = 60.0  # Kerberos gives up after 54 s
_TLS_ALERT = b"\x15\x03"
_NEWEST_API_VERSIONS = 3
# A new connection renews a login before its session ends and the broker closes the old connection (KIP-368).
_SHARE_OF_SESSION = 0.85


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
    Unsupported if librdkafka is needed. Both errors close the connection, unless `version` raises Unsupported.
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
        """True if a request may be sent. False after an error, and without pending requests if the login expires soon."""
        is_ready = self._link.is_open and self._opening is None
        return is_ready and (bool(self._pending) or not self.is_expiring)

    @property
    def is_expiring(self) -> bool:
        """True if the login is about to expire, so that the connection must be opened again."""
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
        """True if some bytes of the posted requests are not sent yet."""
        return bool(self._unsent)

    def version(self, api: Api, newest: int | None = None) -> int:
        """The version of an API to use with the broker. Raises Unsupported if there is no such version."""
        return api.version(self._supported.versions, newest)

    def newest(self, key: int) -> int:
        """The broker's newest version of the API with this key, or -1 if the broker does not have the API."""
        return self._supported.versions.get(key, (0, -1))[1]

    def has(self, api: Api) -> bool:
        """True if `version` returns a version."""
        return api.is_in(self._supported.versions)

    @property
    def dialect(self) -> str:
        """The release of Kafka that a broker without ApiVersions is treated as. Empty for other brokers."""
        return self._supported.dialect

    def feature(self, name: str) -> int:
        """The level of a feature of the cluster (KIP-584). 0 if the feature is disabled or unknown."""
        return self._supported.features.get(name, 0)

    def begin_opening(self, deadline: Deadline) -> None:
        """Prepare to connect and log in before the deadline, in calls of `continue_opening`. Does not block."""
        self.close()
        self._opening = self._open(deadline)

    def fileno(self) -> int:
        return self._link.fileno()

    @property
    def awaited_events(self) -> int:
        """The socket events, for ``select.poll``, after which there is something to do."""
        return self._link.awaited_events | (select.POLLOUT if self._unsent else 0)

    def continue_opening(self, pause: Deadline) -> bool:
        """Continue to open the connection, until `pause`. Returns True once it is open.

        Raises BrokersUnavailable if a token provider fails.
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
        """Send a request. `receive` returns responses in the order of their requests."""
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
        """Receive the response to the oldest request into the buffer. None if it is not complete by the deadline.

        The next call continues with the same response, and must pass the same buffer.
        """
        begin, received = self._clock(), self._received
        body = self._body(buffer, deadline)
        if body is None:
            # Count only time in this method: the caller may take long between two calls.
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
        """Send a request and return its response. Blocks until the deadline. Drops responses to earlier requests."""
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
        known = _dialects.get(self._address)
        if known is not None:
            self._supported = known
        else:
            try:
                half = Deadline.after(deadline.left_s / 2, deadline.clock)
                self._supported = yield from self._request_versions(half)
            except MalformedResponse:
                raise
            except ConnectionLost as lost:
                self._supported = yield from self._find_dialect(deadline, lost)
        if self._settings.login is not None:
            yield from self._log_in(self._settings.login, deadline)

    def _find_dialect(self, deadline: Deadline, lost: ConnectionLost) -> Waiting[Supported]:
        """Find the protocol of a broker that does not answer ApiVersions: 0.8 closes the connection, and 0.9 is silent.

        Only the answer to Metadata 1 proves that a broker is so old. A newer broker may just be slow.
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
        _dialects.put(self._address, found)
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
        """Log in by SASL, from Kafka 1.0 on within its protocol (KIP-152). Raises Unsupported for brokers before 0.10."""
        version = self.version(SASL_AUTHENTICATE) if self.has(SASL_AUTHENTICATE) else None
        handshake = self.version(SASL_HANDSHAKE, None if version is not None else 0)
        response = yield from self._exchange(sasl_handshake_request(handshake, login.mechanism), deadline)
        error, mechanisms = read_sasl_handshake(response)
        if error != NONE:
            raise MechanismRefused(f"{self}: the broker has the mechanisms {','.join(mechanisms)}")
        tokens = exchange(login, self._link.host)
        answer: Authentication | None = None
        while (token := (yield from self._next_token(tokens, answer))) is not None:
            if version is None:
                answer = yield from self._exchange_token(token, login, deadline)
            else:
                response = yield from self._exchange(sasl_authenticate_request(version, token), deadline)
                answer = read_sasl_authenticate(response)
            if answer.error != NONE:
                raise self._refusal(login)
        if answer is not None and answer.lifetime_ms > 0:
            self._expires = self._clock() + _SHARE_OF_SESSION * answer.lifetime_ms / 1000

    def _refusal(self, login: AnyLogin) -> LoginRefused:
        kind = TokenRefused if login.mechanism == TokenEndpoint.mechanism else LoginRefused
        return kind(f"{self}: the broker refuses the login by {login.mechanism}")

    def _next_token(self, tokens: Exchange, answer: Authentication | None) -> Waiting[bytes | None]:
        """Return the next token of a login. None after the last token.

        A server of tokens or tickets may be silent. Waits for its client's time-out, so that the error names the server.
        """

        def token() -> bytes | None:
            try:
                return next(tokens) if answer is None else tokens.send(answer.data)
            except StopIteration:
                return None

        return (yield from self._link.call(token, "preparing the login", Deadline.after(_PREPARING_S, self._clock)))

    def _exchange_token(self, token: bytes, login: AnyLogin, deadline: Deadline) -> Waiting[Authentication]:
        """Exchange tokens without headers. The broker closes the connection if it refuses the login."""
        self._link.send(int32(len(token)) + token)
        try:
            while (body := self._body(self._own, deadline.or_sooner(self._link.pause), least=0)) is None:
                if deadline.has_passed:
                    raise self._lost("no response in time")
                yield
        except ConnectionClosed:
            raise self._refusal(login) from None
        self._response, self._received = None, 0
        return Authentication(NONE, bytes(body))

    def _body(self, buffer: Buffer, deadline: Deadline, least: int = _LENGTH_BYTES) -> memoryview | None:
        """Return the complete response. None if it has not arrived by the deadline."""
        if self._response is None:
            if not self._fill(memoryview(self._length), deadline):
                return None
            if self._length.startswith(_TLS_ALERT):
                self._disconnect()
                raise ConnectionClosed(f"{self}: the listener expects TLS")
            length = int.from_bytes(self._length, "big", signed=True)
            most = self._settings.socket.most_response_bytes
            if not least <= length <= most:
                self._disconnect()
                raise MalformedResponse(f"{self}: a response of {length} bytes (receive.message.max.bytes is {most})")
            self._response, self._received = buffer.room(length), 0
        return self._response if self._fill(self._response, deadline) else None

    def _fill(self, target: memoryview, deadline: Deadline) -> bool:
        """Receive the rest of the target. Returns False if it is not full at the deadline."""
        with closed_by_errors(self._disconnect):
            self._received += self._link.fill(target[self._received :], deadline)
        return self._received == len(target)

    def _lost(self, what: str) -> ConnectionLost:
        self._disconnect()
        return self._link.lost(what)
