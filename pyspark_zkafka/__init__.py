"""Kafka for Spark in Python, for clusters that ZooKeeper coordinates: ``spark.read.format("zkafka")``.

Spark imports this module to find the data source, in every application that has it installed. So importing it is cheap, and
never fails, not even where kazoo or confluent-kafka is missing: clients are imported when they are used.
"""

from pyspark_zkafka._version import __version__
from pyspark_zkafka.consumer_group import ConsumerGroup
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.source import ZKafkaDataSource

__all__ = ["ConsumerGroup", "DefaultSource", "ZKafkaDataSource", "ZKafkaError", "__version__"]

DefaultSource = ZKafkaDataSource
"""The name under which Spark looks for a package's data source."""
