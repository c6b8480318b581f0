"""Connections of the direct transport to a cluster's brokers, and the metadata of a topic."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark_zkafka.transport.direct.connection import Buffer, Connection
from pyspark_zkafka.transport.direct.errors import ConnectionLost
from pyspark_zkafka.transport.direct.fetch_sizes import FetchSizes
from pyspark_zkafka.transport.direct.link import Address
from pyspark_zkafka.transport.direct.messages import FETCH, METADATA, Metadata, metadata_request, read_metadata
from pyspark_zkafka.transport.direct.settings import settings_of
from pyspark_zkafka.transport.direct.tls import tls_context

__all__ = ["DirectClient"]

_FIRST_SETUP_S = 3.0


class DirectClient:
    """Connections by broker, open for a ``with`` block, and used by one `DirectConsumer` after the other.

    Create it where it is used, after any fork. The constructor raises Unsupported for a property that is not honoured, and
    ``with`` for one that cannot be used. No version of Fetch after `newest_fetch` is used. Fetches grow from the size that
    the properties name to `most_fetch_bytes`, if that is more, where there are so many bytes to read.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        newest_fetch: int = FETCH.newest,
        most_fetch_bytes: int = 0,
    ) -> None:
        self.settings = settings_of(properties)
        self.clock = clock
        self.newest_fetch = newest_fetch
        self.buffers = (Buffer(), Buffer())
        # Beside the records, a response has lists of partitions and of aborted transactions.
        room = self.settings.socket.most_response_bytes // 2
        self.fetch_sizes = FetchSizes(self.settings.wanted.partition_max_bytes, min(most_fetch_bytes, room))
        self.brokers: Mapping[int, Address] = {}
        self._context: ssl.SSLContext | None = None
        self._connections: dict[Address, Connection] = {}
        self._failures: dict[Address, int] = {}
        self._next_server = 0
        self._asked: Address | None = None

    def __enter__(self) -> DirectClient:
        self._context = None if self.settings.tls is None else tls_context(self.settings.tls)
        return self

    def __exit__(self, *exc: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connected(self, address: Address) -> Connection | None:
        """The connection to a broker, if it is open, and no response is due: that would be taken for another one."""
        found = self._connections.get(address)
        return found if found is not None and found.is_open and found.is_idle else None

    def connect(self, address: Address) -> Connection:
        """The connection to a broker; opened now if it is not, for which it may block for some seconds.

        Raises ConnectionLost and Unsupported.
        """
        while (connection := self.try_connect(address, math.inf)) is None:
            pass
        return connection

    def try_connect(self, address: Address, wait_until: float) -> Connection | None:
        """The connection to a broker; None if it is not open at `wait_until`: another call goes on with it.

        Raises ConnectionLost and Unsupported.
        """
        found = self.connected(address)
        if found is not None:
            return found
        connection = self._opening(address)
        try:
            if not connection.open_further(wait_until):
                return None
        except ConnectionLost:
            self._failures[address] = self._failures.get(address, 0) + 1
            raise
        self._failures.pop(address, None)
        return connection

    def _opening(self, address: Address) -> Connection:
        """The connection that is being opened, or a new one."""
        found = self._connections.get(address)
        if found is not None and found.is_opening:
            return found
        if found is not None:
            found.close()
        made = self._connections[address] = Connection(address, self.settings, self._context, self.clock)
        limit_s = _FIRST_SETUP_S * 2 ** min(self._failures.get(address, 0), 10)
        made.begin_opening(self.clock() + min(limit_s, self.settings.socket.setup_timeout_s))
        return made

    def metadata(self, topic: str, wait_until: float = math.inf) -> Metadata | None:
        """The state of a topic by one broker; after a failure, the next call asks another one.

        None if there is no connection at `wait_until`: another call goes on with it. With one, it blocks for a round trip.
        Raises ConnectionLost and Unsupported.
        """
        server = self._asked or self._server_to_ask()
        self._asked = None
        connection = self.try_connect(server, wait_until)
        if connection is None:
            self._asked = server
            return None
        # Another broker may know more, if this one is asked again.
        self._next_server += 1
        version = connection.version(METADATA)
        try:
            response = connection.ask(metadata_request(version, topic), self.clock() + _FIRST_SETUP_S)
        except ConnectionLost:
            self._failures[server] = self._failures.get(server, 0) + 1
            raise
        found = read_metadata(response, version, topic)
        self.brokers = found.brokers
        return found

    def _server_to_ask(self) -> Address:
        """One broker after the other, of those that have failed least."""
        servers = list(dict.fromkeys([*self.settings.servers, *self.brokers.values()]))
        if not servers:
            raise ConnectionLost("there are no bootstrap servers")
        first = self._next_server % len(servers)
        return min(servers[first:] + servers[:first], key=lambda server: self._failures.get(server, 0))
