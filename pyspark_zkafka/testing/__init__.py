"""Real ZooKeeper and brokers on this machine, for tests and for trying things out (public).

::

    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6, replication=3)
        cluster.produce("orders", [{"key": "a", "value": "1"}])

In pytest, the fixture `zkafka_cluster` is such a cluster, shared by the session. `OldConsumer` is Kafka's high-level
consumer in such a cluster, and `run_kafka_tool` runs Kafka's own tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_zkafka.testing.cluster import LocalCluster
    from pyspark_zkafka.testing.jars import cache_folder, fetch_jars
    from pyspark_zkafka.testing.kafka_tools import (
        describe_group,
        export_offsets,
        list_groups,
        run_kafka_tool,
        verify_consumer_rebalance,
    )
    from pyspark_zkafka.testing.old_consumer import OldConsumer

__all__ = [
    "LocalCluster",
    "OldConsumer",
    "cache_folder",
    "describe_group",
    "export_offsets",
    "fetch_jars",
    "list_groups",
    "run_kafka_tool",
    "verify_consumer_rebalance",
]

_HOMES = {
    "LocalCluster": "cluster",
    "OldConsumer": "old_consumer",
    "cache_folder": "jars",
    "describe_group": "kafka_tools",
    "export_offsets": "kafka_tools",
    "fetch_jars": "jars",
    "list_groups": "kafka_tools",
    "run_kafka_tool": "kafka_tools",
    "verify_consumer_rebalance": "kafka_tools",
}


def __getattr__(name: str) -> Any:
    # Lazy, as importing the plugin imports this package in every pytest run.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
