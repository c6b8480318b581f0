"""Retries of transient failures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark_zkafka.errors import ZKafkaError

__all__ = ["Retry"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry a call after a retriable error, at most `retries` times, each after `interval_s`."""

    retries: int
    interval_s: float
    sleep: Callable[[float], None]

    def __call__(self, call: Callable[[], T]) -> T:
        for attempt in range(self.retries):
            try:
                return call()
            except ZKafkaError as error:
                if not error.retriable:
                    raise
                _log.warning("attempt %d of %d failed; retrying: %s", attempt + 1, self.retries + 1, error)
                self.sleep(self.interval_s)
        return call()
