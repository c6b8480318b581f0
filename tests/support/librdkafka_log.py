"""librdkafka's messages, as they reach the package's logger."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_zkafka.brokers.clients import librdkafka_logger

__all__ = ["ClientNames", "librdkafka_log"]


@contextmanager
def librdkafka_log(handler: logging.Handler) -> Iterator[None]:
    """Give a handler all messages of clients with a property ``debug``, inside the ``with`` block."""
    logger = librdkafka_logger()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class ClientNames(logging.Handler):
    """Collects the names of clients that log; each client of a process has its own name."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._names: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if (found := re.search(r"\[([^\]]+#(?:consumer|producer)-\d+)\]", record.getMessage())) is not None:
            self._names.add(found[1])

    def since(self) -> set[str]:
        """Return the names since the last call."""
        found, self._names = self._names, set()
        return found
