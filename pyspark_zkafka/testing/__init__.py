"""Real ZooKeeper and brokers on this machine, for tests and for trying things out (public).

::

    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6, replication=3)
        cluster.produce("orders", [{"key": "a", "value": "1"}])

In pytest, the fixture `zkafka_cluster` is such a cluster, shared by the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_zkafka.testing.cluster import LocalCluster
    from pyspark_zkafka.testing.jars import cache_folder, fetch_jars

__all__ = ["LocalCluster", "cache_folder", "fetch_jars"]


def __getattr__(name: str) -> Any:
    # Lazy, as importing the plugin imports this package in every pytest run.
    if name == "LocalCluster":
        from pyspark_zkafka.testing.cluster import LocalCluster

        return LocalCluster
    if name in ("cache_folder", "fetch_jars"):
        from pyspark_zkafka.testing import jars

        return getattr(jars, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
