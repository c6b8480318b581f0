"""Real brokers on this machine, with ZooKeeper or in KRaft mode, for tests and experiments (public).

`LocalCluster` starts a cluster. `attach` uses the cluster of `zkafka cluster up`. All tests of a session share the pytest
fixture `zkafka_cluster`. `LocalSchemaRegistry`, with the fixture `zkafka_schema_registry`, is a schema registry.
`MockCluster`, with the fixture `zkafka_mock_cluster`, has librdkafka's mock brokers and needs no Java. `OldConsumer` is
Kafka's old high-level consumer. `run_kafka_tool` runs Kafka's own tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_zkafka.testing.detached import attach as attach
    from pyspark_zkafka.testing.jars import cache_folder as cache_folder
    from pyspark_zkafka.testing.jars import fetch_jars as fetch_jars
    from pyspark_zkafka.testing.jvm_clients import OldConsumer as OldConsumer
    from pyspark_zkafka.testing.jvm_clients import describe_group as describe_group
    from pyspark_zkafka.testing.jvm_clients import export_offsets as export_offsets
    from pyspark_zkafka.testing.jvm_clients import list_groups as list_groups
    from pyspark_zkafka.testing.jvm_clients import run_kafka_tool as run_kafka_tool
    from pyspark_zkafka.testing.jvm_clients import verify_consumer_rebalance as verify_consumer_rebalance
    from pyspark_zkafka.testing.local_cluster import LocalCluster as LocalCluster
    from pyspark_zkafka.testing.mock_cluster import MockCluster as MockCluster
    from pyspark_zkafka.testing.servers import LocalSchemaRegistry as LocalSchemaRegistry

_HOMES = {
    "LocalCluster": "local_cluster",
    "LocalSchemaRegistry": "servers",
    "MockCluster": "mock_cluster",
    "OldConsumer": "jvm_clients",
    "attach": "detached",
    "cache_folder": "jars",
    "describe_group": "jvm_clients",
    "export_offsets": "jvm_clients",
    "fetch_jars": "jars",
    "list_groups": "jvm_clients",
    "run_kafka_tool": "jvm_clients",
    "verify_consumer_rebalance": "jvm_clients",
}
"""The module of each public name."""
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    # Lazy, because every pytest run imports the plugin and thereby this package.
    if name in _HOMES:
        from importlib import import_module  # noqa: TID251 - of the names above

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
