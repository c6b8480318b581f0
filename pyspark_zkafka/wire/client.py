"""Connections to the brokers of a cluster, one to each, and requests to many of them at once."""

from __future__ import annotations

import select
import ssl
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import host_port
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.metadata_messages import METADATA, Metadata, read_topics, topics_request
from pyspark_zkafka.wire.protocol import Address, ConnectionLost, MalformedResponse, Reader, Request, Unsupported
from pyspark_zkafka.wire.settings import ClientSettings, tls_context

if TYPE_CHECKING:
    from typing_extensions import Self

A = TypeVar("A")

_FIRST_SETUP_S = 3.0
_LONGEST_PATIENCE_S = 12.0
_OPENING_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """A request to one broker: `make` encodes it for the versions of the connection, and `read` reads the response."""

    address: Address
    make: Callable[[Connection], Request]
    read: Callable[[Reader], A]


class Client:
    """Connections by broker, open for a ``with`` block. Use a client only in the process that creates it, after any fork.

    ``with`` raises Unsupported for a setting that cannot be used.
    """

    def __init__(self, settings: ClientSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        self.brokers: Mapping[int, Address] = {}
        self._context: ssl.SSLContext | None = None
        self._connections: dict[Address, Connection] = {}
        self._failures: dict[Address, int] = {}
        self._unanswered = 0  # requests to any broker since the last answer
        self._next_server = 0
        self._asked: Address | None = None

    def __enter__(self) -> Self:
        self._context = None if self.settings.tls is None else tls_context(self.settings.tls)
        return self

    def __exit__(self, *exc: object) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, seconds: float) -> Deadline:
        """The deadline this many seconds from now, by the client's clock."""
        return Deadline.after(seconds, self.clock)

    def setup_deadline(self, failures: int) -> Deadline:
        """The deadline for opening a connection. Failures extend it, up to socket.connection.setup.timeout.ms."""
        limit_s = _FIRST_SETUP_S * 2 ** min(failures, 10)
        return self.deadline(min(limit_s, self.settings.socket.setup_timeout_s))

    def new_connection(self, address: Address) -> Connection:
        """Make another connection to a broker, not open yet. The caller must close it."""
        return Connection(address, self.settings, self._context, self.clock)

    def connected(self, address: Address) -> Connection | None:
        """The connection to a broker if it is open and no response to an earlier request is due."""
        found = self._connections.get(address)
        return found if found is not None and found.is_open and found.is_idle else None

    def try_connect(self, address: Address, deadline: Deadline) -> Connection | None:
        """Return the connection to a broker. None if it is not open at the deadline: the next call continues to open it.

        Raises ConnectionLost and Unsupported, and BrokersUnavailable if a token provider fails.
        """
        found = self.connected(address)
        if found is not None:
            return found
        connection = self._connections.get(address)
        if connection is None or not connection.is_opening:
            if connection is not None:
                connection.close()
            connection = self._connections[address] = self.new_connection(address)
            connection.begin_opening(self.setup_deadline(self._failures.get(address, 0)))
        try:
            if not connection.continue_opening(deadline):
                return None
        except Exception:
            self._failures[address] = self._failures.get(address, 0) + 1
            raise
        self._failures.pop(address, None)
        return connection

    def metadata(
        self,
        topics: Collection[str] | None,
        deadline: Deadline | None = None,
        limit: Deadline | None = None,
        *,
        create: bool = False,
    ) -> Metadata | None:
        """Request the metadata of topics, or of all topics with None, from one broker.

        Returns None if there is no connection at the deadline, by default in three seconds. The next call then continues to
        connect. With a connection, blocks for a round trip, which the `limit` ends. Raises ConnectionLost and Unsupported.
        After a failure, the next call asks another broker.
        """

        def request(connection: Connection) -> Request:
            return topics_request(connection.version(METADATA), topics, create=create)

        response = self.ask_any(request, deadline, limit=limit)
        if response is None:
            return None
        found = read_topics(response, topics)
        self.brokers = {number: broker.address for number, broker in found.brokers.items()}
        return found

    def ask_any(
        self,
        make: Callable[[Connection], Request],
        deadline: Deadline | None = None,
        patience_s: float | None = None,
        limit: Deadline | None = None,
    ) -> Reader | None:
        """Ask any broker; see `metadata`. `make` makes the request for the connection. Returns the response.

        The connection counts as lost if the broker does not answer within `patience_s`, or by the `limit`. By default, the
        patience is 3 s, and doubles up to 12 s with each request without an answer: brokers may be slow.
        """
        server = self._asked or self._next_to_ask()
        self._asked = None
        connection = self.try_connect(server, deadline or self.deadline(_FIRST_SETUP_S))
        if connection is None:
            self._asked = server
            return None
        # Ask another broker the next time: it may know more.
        self._next_server += 1
        request = make(connection)
        if patience_s is None:
            patience_s = min(_FIRST_SETUP_S * 2**self._unanswered, _LONGEST_PATIENCE_S)
        try:
            patience = self.deadline(patience_s)
            response = connection.ask(request, patience if limit is None else limit.or_sooner(patience))
        except ConnectionLost:
            self._failures[server] = self._failures.get(server, 0) + 1
            self._unanswered = min(self._unanswered + 1, 10)
            raise
        self._unanswered = 0
        return response

    def ask_all(self, questions: Sequence[Question[A]], deadline: Deadline) -> Sequence[A | Exception]:
        """Ask several brokers at the same time. Blocks until all have answered, or until the deadline.

        Returns an answer to each question, or an error: ConnectionLost, Unsupported, or a token provider's
        BrokersUnavailable. A failed connection is the error of all questions on it that have no answer yet.
        """
        answers: list[A | Exception | None] = [None] * len(questions)
        lines: dict[Address, _Line[A]] = {}
        for number, question in enumerate(questions):
            lines.setdefault(question.address, _Line(self, question.address)).unsent.append((number, question))
        while lines:
            for address, line in list(lines.items()):
                if line.advance(answers):
                    del lines[address]
            if lines and deadline.has_passed:
                for line in lines.values():
                    line.fail(answers, ConnectionLost(f"{host_port(*line.address)}: no response in time"))
                lines.clear()
            if lines:
                waiting = select.poll()
                for line in lines.values():
                    if (connection := line.connection) is not None:
                        waiting.register(connection.fileno(), connection.awaited_events)
                # A silent address causes no event: check in time whether to try the host's next address, or to give up.
                is_opening = any(line.connection is None or line.connection.is_opening for line in lines.values())
                waiting.poll(max(min(deadline.left_s, _OPENING_STEP_S if is_opening else deadline.left_s), 0) * 1000 + 1)
        return [answer for answer in answers if answer is not None]

    def opening(self, address: Address) -> Connection:
        """Return the connection to a broker, open or opening, without responses due. See `try_connect`."""
        self.try_connect(address, self.deadline(0))
        return self._connections[address]

    def drop(self, address: Address) -> None:
        """Close the connection to a broker that has failed, and prefer other brokers from now on."""
        self._failures[address] = self._failures.get(address, 0) + 1
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    @property
    def has_untried(self) -> bool:
        """True if some bootstrap server or broker has not failed since its last answer."""
        return not self._failures.keys() >= {*self.settings.servers, *self.brokers.values()}

    def _next_to_ask(self) -> Address:
        """The next broker in turn among those with the fewest failures."""
        servers = list(dict.fromkeys([*self.settings.servers, *self.brokers.values()]))
        if not servers:
            raise ConnectionLost("there are no bootstrap servers")
        first = self._next_server % len(servers)
        return min(servers[first:] + servers[:first], key=lambda server: self._failures.get(server, 0))


class _Line(Generic[A]):
    """The questions to one broker, over one connection, which opens in steps."""

    def __init__(self, client: Client, address: Address) -> None:
        self._client = client
        self.address = address
        self.connection: Connection | None = None
        self.unsent: list[tuple[int, Question[A]]] = []
        self._sent: deque[tuple[int, Question[A]]] = deque()
        self._buffer = Buffer()

    def advance(self, answers: list[A | Exception | None]) -> bool:
        """Send and receive what is possible without waiting. Returns True once each question has an answer or an error."""
        try:
            if self.connection is None or self.connection.is_opening:
                self.connection = self._client.opening(self.address)
                if self.connection.is_opening:
                    return False
            self._send(self.connection, answers)
            self.connection.push()
            while self._sent:
                response = self.connection.receive(self._buffer, self._client.deadline(0))
                if response is None:
                    return False
                number, question = self._sent.popleft()
                try:
                    answers[number] = question.read(response)
                except MalformedResponse as error:
                    answers[number] = error
        except (ConnectionLost, Unsupported, ZKafkaError) as error:
            self.fail(answers, error)
        return True

    def _send(self, connection: Connection, answers: list[A | Exception | None]) -> None:
        for number, question in self.unsent:
            try:
                request = question.make(connection)
            except Unsupported as error:  # the broker's versions do not suffice
                answers[number] = error
                continue
            connection.post(request)
            self._sent.append((number, question))
        self.unsent.clear()

    def fail(self, answers: list[A | Exception | None], error: Exception) -> None:
        for number, _ in (*self._sent, *self.unsent):
            answers[number] = error
        self._client.drop(self.address)
