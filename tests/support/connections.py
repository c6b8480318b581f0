"""The two ways to connect to a cluster."""

from __future__ import annotations

import pytest

from pyspark_zkafka.testing import LocalCluster

__all__ = ["CONNECTIONS"]


def _through_zookeeper(cluster: LocalCluster) -> dict[str, str]:
    return {"zookeeper.connect": cluster.zookeeper_connect}


def _through_brokers(cluster: LocalCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


CONNECTIONS = [pytest.param(_through_zookeeper, id="zookeeper"), pytest.param(_through_brokers, id="bootstrap")]
"""Parameters of fixtures: functions from a cluster to the options that reach it."""
