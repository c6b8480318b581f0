"""kazoo's handler with bounded waits, and its log without secrets."""

from __future__ import annotations

import logging
import math
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KeeperState

_MAX_TROUBLES = 8
_SHORTEST_S = 0.01
_AHEAD_BYTES = 64 * 1024
_GRANTED = slice(8, 12)  # the timeout in a connection's first answer, after the length and the protocol's version


class Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, which counts refused logins in a row: later errors say only that the client is closed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.refusals = 0
        self._connect = self._connection._connect
        self._connection._connect = self._log_in

    def _log_in(self, *place: Any) -> Any:
        """Connect and log in. kazoo reports CONNECTED before the login."""
        answer = self._connect(*place)
        self.refusals = 0
        return answer

    @property
    def has_ended(self) -> bool:
        """True if the thread of the connection has ended, or was not started."""
        thread = self._connection._connection_routine
        return thread is None or not thread.is_alive()

    def _session_callback(self, state: object) -> None:
        if state == KeeperState.AUTH_FAILED:
            self.refusals += 1
        super()._session_callback(state)


class BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with a `deadline` (monotonic seconds) for connecting and closing.

    Without it, a server that accepts connections but does not answer blocks both for longer than the session timeout.
    Connections use `tls` if given: kazoo's own context also trusts the system's authorities.
    """

    def __init__(self, clock: Callable[[], float], deadline: float = math.inf, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.deadline = deadline
        self._clock = clock
        self._tls = tls
        self._connection: ReadAhead | None = None
        self._last: ReadAhead | None = None

    @property
    def session(self) -> ReadAhead | None:
        """The last connection with a session. None before the first."""
        current = self._connection
        return self._last if current is None or current.granted_ms is None else current

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        """Return the wake-ups of kazoo's thread, as both ends of the pair."""
        wake_ups = WakeUps()
        return wake_ups, wake_ups

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect a socket, or raise, before the deadline."""
        plain = super().create_connection(*args, **{**kwargs, "timeout": self._left_s(kwargs["timeout"]), "use_ssl": False})
        if self._tls is not None:
            plain.settimeout(self._left_s(kwargs["timeout"]))
            try:
                plain = self._tls.wrap_socket(plain, server_hostname=kwargs["hostname"])
            except OSError:
                plain.close()
                raise
        self._last, self._connection = self.session, ReadAhead(plain, self._clock)
        return self._connection

    def _left_s(self, timeout_s: float) -> float:
        return max(_SHORTEST_S, min(timeout_s, self.deadline - self._clock()))

    def select(self, rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
        """The sockets that are ready to read and to write, after `timeout` or at the deadline.

        Uses poll: kazoo's own method creates a selector for each call, most of the cost of a small read. A socket with data
        received ahead is also ready.
        """
        left = self.deadline - self._clock()
        if left <= 0:
            raise KazooTimeoutError("gave up at the deadline")
        ahead = {s.fileno() for s in rlist if isinstance(s, ReadAhead) and s.pending() > 0}
        wait = 0 if ahead else left if timeout is None else min(timeout, left)
        poller = select.poll()
        for sockets, event in ((rlist, select.POLLIN), (wlist, select.POLLOUT)):
            for registered in sockets:
                poller.register(registered, event)
        ready = ahead | {fd for fd, _ in poller.poll(None if wait == math.inf else math.ceil(wait * 1000))}
        return [s for s in rlist if s.fileno() in ready], [s for s in wlist if s.fileno() in ready], []


class WakeUps:
    """A socket that can be read once for each `send`, which never blocks.

    kazoo's thread reads no wake-ups while it reconnects. A plain pair of sockets is full after some 280 wake-ups: a round
    of many requests would then block until the ensemble answers.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._count = 0

    def send(self, data: bytes) -> int:
        """Add a wake-up, whatever the data."""
        with self._lock:
            if not self._count:
                self._writer.send(b"\0")
            self._count += 1
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take a wake-up. Returns no bytes if there is none."""
        with self._lock:
            if not self._count:
                return b""
            self._count -= 1
            return b"\0" if self._count else self._reader.recv(1)

    def fileno(self) -> int:
        """The descriptor, which is ready to read while a wake-up is left."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close both sockets; `send` raises OSError then. Idempotent."""
        with self._lock:
            self._count = 0
            self._reader.close()
            self._writer.close()


class ReadAhead:
    """A connected socket that receives all available data. kazoo reads each answer in two small pieces.

    This saves half of the system calls of a round of many requests. `alive_at` is the time of the last answered request,
    from which the server counts the session timeout.
    """

    def __init__(self, connected: socket.socket, clock: Callable[[], float]) -> None:
        self._socket = connected
        self._clock = clock
        self._received = memoryview(b"")
        self._first = b""
        self._unanswered: float | None = None
        self.alive_at = -math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes, first those received ahead. Empty if the peer has closed."""
        if not self._received:
            received = self._socket.recv(_AHEAD_BYTES)
            if received and self._unanswered is not None:
                self.alive_at, self._unanswered = self._unanswered, None
            self._first += received[: _GRANTED.stop - len(self._first)]
            self._received = memoryview(received)
        found, self._received = self._received[:size], self._received[size:]
        return bytes(found)

    def send(self, data: bytes) -> int:
        """Send some of the data, and return the number of bytes sent."""
        now = self._clock()
        sent = self._socket.send(data)
        if self._unanswered is None:
            self._unanswered = now
        return sent

    @property
    def granted_ms(self) -> int | None:
        """The session timeout in the server's first answer. None before it, or without a session."""
        is_whole = len(self._first) == _GRANTED.stop
        return int.from_bytes(self._first[_GRANTED], "big") or None if is_whole else None

    def pending(self) -> int:
        """The number of bytes received ahead, here or within TLS. poll does not report them."""
        return len(self._received) + (self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0)


class ConnectionLog(logging.LoggerAdapter):  # type: ignore[type-arg]
    """kazoo's log without its debug lines, which contain credentials.

    While `quiet` (connecting, closing), warnings are logged as INFO and collected in `troubles`, for an error to report.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})
        self.quiet = True
        self._troubles: dict[str, None] = {}

    @property
    def troubles(self) -> list[str]:
        """The warnings while quiet, each once, in order."""
        return list(self._troubles)

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log INFO and above."""
        if level < logging.INFO:
            return
        if self.quiet and level >= logging.WARNING:
            text = (str(msg) % args if args else str(msg)).removeprefix("Connection dropped: ")
            text = text.removeprefix("socket connection error: ")
            if text != "Transition to CONNECTING" and len(self._troubles) < _MAX_TROUBLES:
                self._troubles[text] = None
            level = logging.INFO
        super().log(level, msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """The name that kazoo still uses for `warning`."""
        self.warning(msg, *args, **kwargs)
