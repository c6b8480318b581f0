"""Values of options for tests, with the defaults of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark_zkafka.model.planning import Listener, Subscription
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import ConnectionOptions, GroupOptions, KafkaGroupOptions, ZooKeeperConfig


def ensemble_config(hosts: str, chroot: str = "", session_timeout_ms: int = 6000, **changes: Any) -> ZooKeeperConfig:
    """Return the configuration of an ensemble."""
    config = parse_connection({"zookeeper.connect": "zk:2181"}).zookeeper
    assert config is not None
    return replace(config, hosts=hosts, chroot=chroot, session_timeout_ms=session_timeout_ms, **changes)


def broker_connection(servers: str | None, listener: Listener | None = None) -> ConnectionOptions:
    """Return the connection to a cluster without ZooKeeper."""
    connection = parse_connection({"kafka.bootstrap.servers": "k:9092"})
    return replace(connection, bootstrap_servers=servers, listener=listener or connection.listener)


def group_options(name: str, **changes: Any) -> GroupOptions:
    """Return the options of a member in ZooKeeper."""
    group = parse_stream({"zookeeper.connect": "zk:2181", "subscribe": "t", "group.id": "g"}).group
    assert group is not None
    return replace(group, name=name, **changes)


def member_options() -> tuple[ZooKeeperConfig, GroupOptions, Subscription]:
    """Return the arguments of the member g_c in ZooKeeper, which subscribes to the topic t."""
    options = parse_stream({"zookeeper.connect": "zk:2181", "group.id": "g", "consumer.id": "c", "subscribe": "t"})
    assert options.read.connection.zookeeper is not None
    assert options.group is not None
    return options.read.connection.zookeeper, options.group, options.read.require_subscription()


def kafka_group_options(**changes: Any) -> KafkaGroupOptions:
    """Return the options of a member in Kafka."""
    return replace(group_options("g").kafka, **changes)
