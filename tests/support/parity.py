"""Options and offsets of the parity tests, by partition."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

__all__ = ["KEPT", "T0", "by_partition", "filled", "offsets"]

T0 = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}
"""Keeps records as old as T0 from being deleted during a test."""


def by_partition(topic: str, *values: int) -> str:
    """``{"topic":{"0":values[0],"1":values[1],...}}``"""
    return canonical_json({TopicPartition(topic, p): value for p, value in enumerate(values)})


def filled(options: dict[str, Any], topic: str) -> dict[str, str]:
    """Return options with a topic's name filled in: tuples are values by partition."""
    return {n: by_partition(topic, *v) if isinstance(v, tuple) else v.replace("TOPIC", topic) for n, v in options.items()}


def offsets(records: list[Any]) -> dict[int, list[int]]:
    """Return the offsets of records by partition, in order."""
    found = defaultdict(list)
    for _, partition, offset, *_ in records:
        found[partition].append(offset)
    return dict(found)
