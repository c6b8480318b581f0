"""Errors by which the direct transport ends: for the moment, or altogether."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["ConnectionLost", "LoginRefused", "MalformedResponse", "Unsupported", "closed_by_errors"]


class Unsupported(Exception):
    """Something that only librdkafka can do or read: it is to continue. The text says what, without secrets."""


class MalformedResponse(Unsupported):
    """Bytes of a broker that do not follow the schema of the response."""


class LoginRefused(Unsupported):
    """A login that a broker refuses; each further attempt counts towards a lock-out of the user."""


class ConnectionLost(Exception):
    """A connection that could not be opened, was cut, or stayed silent; another attempt may succeed."""


@contextmanager
def closed_by_errors(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` where one of the transport's errors is raised in a ``with`` block."""
    try:
        yield
    except (ConnectionLost, Unsupported):
        close()
        raise
