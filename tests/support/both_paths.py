"""Actions run with each transport, and comparison of their outcomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.values import ConnectionOptions, Transport

BOTH: tuple[Transport, ...] = ("librdkafka", "direct")
each_path = pytest.mark.parametrize("transport", BOTH)

HASTY = {"topic.metadata.propagation.max.ms": 300}
"""Shortens librdkafka's wait for missing topics."""


@dataclass(frozen=True)
class Failed:
    """An error as a user sees it."""

    kind: str
    condition: str
    message: str


def outcome(act: Callable[[Transport], Any], transport: Transport) -> Any:
    """Return the result of an action with one transport, or its error."""
    try:
        return act(transport)
    except ZKafkaError as error:
        return Failed(type(error).__name__, error.condition, error.message)


def same(
    act: Callable[[Transport], Any],
    shown: Callable[[Any], Any] = lambda found: found,
    transports: Sequence[Transport] = BOTH,
) -> Any:
    """Return the outcome of an action, after checking that it is the same with all transports."""
    first, *others = (outcome(act, transport) for transport in transports)
    for other in others:
        assert shown(other) == shown(first)
    return first


def unnumbered(found: Any) -> Any:
    """Return an error without numbers, which depend on timing, and without the connection's last error."""
    if not isinstance(found, Failed):
        return found
    text = re.sub(r"last error(?: of the connection)?: [^;]*[;)]", "last error;", found.message)
    return Failed(found.kind, found.condition, re.sub(r"\d+", "N", text))


def connection(servers: str, transport: Transport, kafka: Mapping[str, Any]) -> ConnectionOptions:
    return ConnectionOptions(None, servers, Listener(), kafka, transport)
