"""Refusals of hostile input: errors of this package instead of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark_zkafka.errors import ZKafkaError

__all__ = ["refusal"]

E = TypeVar("E", bound=ZKafkaError)


def refusal(call: Callable[[], object], *kinds: type[E]) -> E | None:
    """Return the error of these kinds that refuses a call, or None. Any other error leaves this function."""
    try:
        call()
    except kinds as error:
        return error
    return None
