"""Settings and contents of topics, with confluent-kafka only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster

KEPT = {"retention.ms": "-1"}
"""Keeps records with old timestamps."""


def create_afresh(cluster: LocalCluster, name: str, **settings: Any) -> None:
    """Create a topic with a fixed name, after deleting one that an earlier run may have left on a running cluster."""
    with suppress(LocalClusterError):  # usually, the topic does not exist
        cluster.delete_topic(name)
    cluster.create_topic(name, **settings)


def configure(servers: str, kind: ResourceType, name: str, setting: str, value: str) -> None:
    """Change one setting of a broker or a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def arrived(servers: str, topic: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> dict[int, list[Any]]:
    """Return offset, key, value, headers and time of all records of a topic, by partition, read with confluent-kafka.

    `config` adds to the consumer's configuration.
    """
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({"bootstrap.servers": servers, **settings, **(config or {})})
    consumer.assign([KafkaTopicPartition(topic, p, 0) for p in range(partitions)])
    found, ended = defaultdict(list), set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                found[message.partition()].append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return {
        p: [(m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in found[p]] for p in range(partitions)
    }
