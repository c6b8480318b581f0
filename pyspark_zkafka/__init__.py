"""Kafka for Spark in Python, with or without ZooKeeper: ``spark.read.format("zkafka")``.

Spark imports this module to find the data source, in every application that has it installed. The import is therefore cheap
and never fails, even if kazoo or confluent-kafka is missing: clients are imported when they are used.
"""

import typing as _typing

from pyspark_zkafka._version import __version__
from pyspark_zkafka.consumer_group import ConsumerGroup
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.source import ZKafkaDataSource

if _typing.TYPE_CHECKING:
    from pyspark_zkafka.lag_listener import LagListener as LagListener

__all__ = ["ConsumerGroup", "DefaultSource", "LagListener", "ZKafkaDataSource", "ZKafkaError", "__version__"]

DefaultSource = ZKafkaDataSource
"""The name under which Spark looks for a package's data source."""


def __getattr__(name: str) -> object:
    if name == "LagListener":  # imported when it is used, as few applications do
        from pyspark_zkafka.lag_listener import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
