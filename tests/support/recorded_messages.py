"""Requests and responses that tests/vectors/KafkaMessages.java recorded from Kafka's Java classes."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from pyspark_zkafka.wire.protocol import Api

__all__ = ["CLIENT_ID", "CORRELATION_ID", "RECORDED", "REQUEST", "RESPONSE", "TAGGED", "Vector", "needed", "recorded"]

_VECTORS = Path(__file__).parents[1] / "vectors"
RECORDED = [
    json.loads((_VECTORS / f"kafka_messages_{version}.json").read_text(encoding="utf-8")) for version in ("4.3.1", "3.9.1")
]

REQUEST, RESPONSE, TAGGED = "request", "response", "response with tagged fields"
CORRELATION_ID, CLIENT_ID = 0x01020304, "clïent"


class Vector(NamedTuple):
    """A message as Java wrote it, header and body."""

    api: str
    sample: str
    version: int
    data: bytes


def recorded(kind: str, apis: Collection[str]) -> list[Vector]:
    """The messages of a kind, each once: both versions of Kafka have most of them."""
    headers, found = {}, set()
    for file in RECORDED:
        for api, version, *row in file["headers"]:
            headers[api, version] = dict(zip((REQUEST, RESPONSE, TAGGED), row, strict=True))
        for api, name, sample, oldest, newest, body in file["messages"]:
            if name == kind and api in apis:
                found |= {
                    Vector(api, sample, version, bytes.fromhex(headers[api, version][kind] + body))
                    for version in range(oldest, newest + 1)
                }
    return sorted(found)


def needed(kind: str, apis: Collection[Api]) -> set[tuple[str, int]]:
    """The versions of APIs that must be recorded; with unknown tagged fields only the flexible versions."""
    return {
        (api.name, version)
        for api in apis
        for version in range(max(api.oldest, api.flexible if kind == TAGGED else 0), api.newest + 1)
    }
