"""Which client properties concern the connection to brokers: what all clients of a query have in common."""

from __future__ import annotations

__all__ = ["concerns_connection"]

_PREFIXES = (
    "api.",
    "bootstrap.servers",
    "broker.",
    "client.dns",
    "client.id",
    "connections.",
    "debug",
    "enable.sasl",
    "enable.ssl",
    "https.",
    "log",
    "metadata.",
    "receive.message.max.bytes",
    "reconnect.",
    "retry.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "topic.metadata",
)


def concerns_connection(name: str) -> bool:
    """Whether a property, by librdkafka's name in lower case, says how to connect, rather than what to read or write.

    >>> concerns_connection("socket.keepalive.enable"), concerns_connection("fetch.min.bytes")
    (True, False)
    """
    return name.startswith(_PREFIXES)
