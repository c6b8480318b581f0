"""Offsets of streams, as Spark's planning calls exchange them."""

from __future__ import annotations

from typing import Any

from pyspark_zkafka.read.stream_driver import StreamDriver


def initial(driver: StreamDriver) -> dict[str, Any]:
    """The start of a new query; Spark asks for the latest offset next, and that is when errors are raised."""
    start = driver.initial()
    driver.latest(start, limited=True)
    return start


def positions(offset: dict[str, Any], topic: str) -> dict[str, int]:
    """The ends of the partitions of a topic."""
    found: dict[str, list[int]] = offset["topics"][topic]["partitions"]
    return {partition: span[1] for partition, span in found.items()}
