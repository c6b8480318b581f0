"""Errors by which the direct transport ends: for the moment, or altogether."""

from __future__ import annotations

from pyspark_zkafka.transport.direct_errors import UnsupportedRecords

__all__ = ["ConnectionLost", "LoginRefused", "MalformedResponse", "Unsupported"]


class Unsupported(UnsupportedRecords):
    """Something that this transport does not do; librdkafka is to continue. The text says what, without secrets."""


class MalformedResponse(Unsupported):
    """Bytes of a broker that do not follow the schema of the response."""


class LoginRefused(Unsupported):
    """A login that a broker refuses; each further attempt counts towards a lock-out of the user."""


class ConnectionLost(Exception):
    """A connection that could not be opened, was cut, or stayed silent; another attempt may succeed."""
