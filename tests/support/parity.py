"""Options and offsets of the parity tests, by partition; and how Spark's connector differs between versions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyspark

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

__all__ = ["KEPT", "SPARK_VERSION", "T0", "THEIR_STREAM", "by_partition", "filled", "offsets", "their_words"]

T0 = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}
"""Keeps records as old as T0 from being deleted during a test."""

SPARK_VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
THEIR_STREAM = () if SPARK_VERSION == (4, 1) else ("kafka",)
"""Spark's source, except where it fails by itself: connector 4.1.1 throws a NullPointerException with Spark 4.1.4."""


def their_words(words: str, on_4_0: str) -> str:
    """Return the words of an error of Spark's connector, which are others in Spark 4.0."""
    return on_4_0 if SPARK_VERSION == (4, 0) else words


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
