"""Real brokers on this machine, with ZooKeeper or in KRaft mode, for tests and experiments (public).

`LocalCluster` starts a cluster, `attach` uses the cluster of `zkafka cluster up`, and all tests of a session share the
pytest fixture `zkafka_cluster`. `LocalSchemaRegistry` is a schema registry, with the fixture
`zkafka_schema_registry`. `MockCluster` has librdkafka's mock brokers, without Java, with the fixture
`zkafka_mock_cluster`. `OldConsumer` is Kafka's old high-level consumer. `run_kafka_tool` runs Kafka's own tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_zkafka.testing.detached import attach
    from pyspark_zkafka.testing.jars import cache_folder, fetch_jars
    from pyspark_zkafka.testing.kafka_tools import (
        describe_group,
        export_offsets,
        list_groups,
        run_kafka_tool,
        verify_consumer_rebalance,
    )
    from pyspark_zkafka.testing.local_cluster import LocalCluster
    from pyspark_zkafka.testing.mock_cluster import MockCluster
    from pyspark_zkafka.testing.old_consumer import OldConsumer
    from pyspark_zkafka.testing.schema_registry import LocalSchemaRegistry

__all__ = [
    "LocalCluster",
    "LocalSchemaRegistry",
    "MockCluster",
    "OldConsumer",
    "attach",
    "cache_folder",
    "describe_group",
    "export_offsets",
    "fetch_jars",
    "list_groups",
    "run_kafka_tool",
    "verify_consumer_rebalance",
]

_HOMES = {
    "LocalCluster": "local_cluster",
    "LocalSchemaRegistry": "schema_registry",
    "MockCluster": "mock_cluster",
    "OldConsumer": "old_consumer",
    "attach": "detached",
    "cache_folder": "jars",
    "fetch_jars": "jars",
}
"""The modules of names that are not in `kafka_tools`."""


def __getattr__(name: str) -> Any:
    # Lazy, because every pytest run imports the plugin and thereby this package.
    if name in __all__:
        from importlib import import_module  # noqa: TID251 - of the names above

        return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'kafka_tools')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
