"""Offsets of streams, as exchanged in Spark's planning calls."""

from __future__ import annotations

from typing import Any

from pyspark_zkafka.read.stream_driver import StreamDriver


def initial(driver: StreamDriver) -> dict[str, Any]:
    """Return the start of a new query, after asking for the latest offset, as Spark does next: errors are raised then."""
    start = driver.initial()
    driver.latest(start, limited=True)
    return start


def positions(offset: dict[str, Any], topic: str) -> dict[str, int]:
    """Return the ends of a topic's partitions."""
    found: dict[str, list[int]] = offset["topics"][topic]["partitions"]
    return {partition: span[1] for partition, span in found.items()}
