"""Real brokers, with ZooKeeper or in KRaft mode, on this machine, for tests and for trying things out (public).

`LocalCluster` starts a cluster, `attach` uses the one of `zkafka cluster up`, and the pytest fixture `zkafka_cluster`
shares one between all tests of a session. `OldConsumer` is
Kafka's high-level consumer, and `run_kafka_tool` runs Kafka's own tools.
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
    from pyspark_zkafka.testing.old_consumer import OldConsumer

__all__ = [
    "LocalCluster",
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
    "OldConsumer": "old_consumer",
    "attach": "detached",
    "cache_folder": "jars",
    "fetch_jars": "jars",
}
"""The modules of the names that `kafka_tools` does not define."""


def __getattr__(name: str) -> Any:
    # Lazy, as importing the plugin imports this package in every pytest run.
    if name in __all__:
        from importlib import import_module  # noqa: TID251 - of the names above

        return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'kafka_tools')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
