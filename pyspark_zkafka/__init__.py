"""Kafka for Spark in Python, for clusters that ZooKeeper coordinates."""

from pyspark_zkafka._version import __version__

__all__ = ["__version__"]
