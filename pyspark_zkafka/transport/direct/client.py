"""Connections of the direct transport to a cluster's brokers, and the metadata of a topic."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark_zkafka.transport.direct.connection import Address, Buffer, Connection
from pyspark_zkafka.transport.direct.errors import ConnectionLost
from pyspark_zkafka.transport.direct.messages import FETCH, METADATA, Metadata, metadata_request, read_metadata
from pyspark_zkafka.transport.direct.settings import settings_of
from pyspark_zkafka.transport.direct.tls import tls_context

__all__ = ["DirectClient"]

_FIRST_SETUP_S = 3.0


class DirectClient:
    """Connections by broker, open for a ``with`` block, and used by one `DirectConsumer` after the other.

    Create it where it is used, after any fork. The constructor raises Unsupported for a property that is not honoured, and
    ``with`` for one that cannot be used. No version of Fetch after `newest_fetch` is used.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        newest_fetch: int = FETCH.newest,
    ) -> None:
        self.settings = settings_of(properties)
        self.clock = clock
        self.newest_fetch = newest_fetch
        self.buffers = (Buffer(), Buffer())
        self.brokers: Mapping[int, Address] = {}
        self._context: ssl.SSLContext | None = None
        self._connections: dict[Address, Connection] = {}
        self._failures: dict[Address, int] = {}
        self._next_server = 0

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
        found = self.connected(address)
        if found is not None:
            return found
        if address in self._connections:
            self._connections.pop(address).close()
        connection = Connection(address, self.settings, self._context, self.clock)
        failures = self._failures.get(address, 0)
        self._failures[address] = failures + 1
        connection.open(self.clock() + min(_FIRST_SETUP_S * 2 ** min(failures, 10), self.settings.socket.setup_timeout_s))
        del self._failures[address]
        self._connections[address] = connection
        return connection

    def metadata(self, topic: str) -> Metadata:
        """The state of a topic by one broker; after a failure, the next call asks another one. Blocks for a round trip.

        Raises ConnectionLost and Unsupported.
        """
        server = self._server_to_ask()
        # Another broker may know more, if this one is asked again.
        self._next_server += 1
        connection = self.connect(server)
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
