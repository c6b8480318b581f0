"""One action by both paths that records take, pure Python and compiled, whose outcomes must be equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.protocol.planning import Listener

each_path = pytest.mark.parametrize("native", [False, True], ids=["python", "compiled"])

HASTY = {"topic.metadata.propagation.max.ms": 300}
"""For topics that there are not: librdkafka shall not wait long for them."""


@dataclass(frozen=True)
class Failed:
    """An error as a user sees it."""

    kind: str
    condition: str
    message: str


def outcome(act: Callable[[bool], Any], native: bool) -> Any:
    """The result of an action on one path, or its error."""
    try:
        return act(native)
    except ZKafkaError as error:
        return Failed(type(error).__name__, error.condition, error.message)


def same(act: Callable[[bool], Any], shown: Callable[[Any], Any] = lambda found: found) -> Any:
    """The outcome of an action, once both paths have shown the same one."""
    python, compiled = (outcome(act, native) for native in (False, True))
    assert shown(compiled) == shown(python)
    return python


def unnumbered(found: Any) -> Any:
    """An error without its numbers, which depend on timing, and without the last word of the connection."""
    if not isinstance(found, Failed):
        return found
    text = re.sub(r"last error(?: of the connection)?: [^;]*[;)]", "last error;", found.message)
    return Failed(found.kind, found.condition, re.sub(r"\d+", "N", text))


def connection(servers: str, native: bool, kafka: Mapping[str, Any]) -> Connection:
    return Connection(None, servers, Listener(), kafka, native)
