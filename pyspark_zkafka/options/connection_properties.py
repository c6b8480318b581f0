"""Client properties that concern the connection to brokers, and that all clients of a query share."""

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
    """True if a property, by librdkafka's name in lower case, concerns the connection, rather than reading or writing.

    >>> concerns_connection("socket.keepalive.enable"), concerns_connection("fetch.min.bytes")
    (True, False)
    """
    return name.startswith(_PREFIXES)
