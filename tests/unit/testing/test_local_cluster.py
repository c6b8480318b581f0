"""Checks before the start of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"brokers": 0}, "brokers is 0"),
        ({"racks": ["a"]}, "1 entries for 3 brokers"),
        ({"kafka_version": "0.8.2.2", "listeners": {"A": "PLAINTEXT"}}, "no named listeners"),
        ({"kafka_version": "4"}, "write it like"),
        ({"kafka_version": "1.1.1", "kraft": True}, "no KRaft mode"),
        ({"controllers": 0}, "controllers is 0"),
        ({"kraft": True, "zookeeper_config": {"a": "b"}}, "has no ZooKeeper"),
        ({"kraft": True, "listeners": {"CONTROLLER": "SSL"}}, "the name of the controllers' listener"),
    ],
)
def test_impossible_arguments_are_refused_before_anything_starts(arguments: dict[str, Any], reason: str) -> None:
    """Impossible arguments are refused by start before any process runs, and not by the constructor."""
    cluster = LocalCluster(**arguments)
    with pytest.raises(LocalClusterError, match=reason):
        cluster.start()


def test_not_running() -> None:
    """A cluster that was not started raises an error with the remedy, and `close` does nothing."""
    cluster = LocalCluster()
    cluster.close()
    with pytest.raises(LocalClusterError, match=r"CLUSTER_NOT_RUNNING.*with LocalCluster"):
        _ = cluster.zookeeper_connect
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        _ = cluster.bootstrap_servers
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        cluster.create_topic("orders")


def test_properties_of_a_login() -> None:
    """Only a secure cluster that runs has properties of a login."""
    with pytest.raises(LocalClusterError, match=r"BAD_CLUSTER.*secure=True"):
        _ = LocalCluster().client_properties
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        _ = LocalCluster(secure=True).client_properties
