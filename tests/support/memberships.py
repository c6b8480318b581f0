"""Members of a group on a real cluster, in ZooKeeper or in Kafka, for a common behaviour suite."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.group.membership import KafkaJoin, Membership
from pyspark_zkafka.group.offsets import GroupOffsets, KafkaMemberOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, Subscription
from tests.support.options import broker_connection, ensemble_config, group_options, kafka_group_options

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["BY_KIP_848", "KINDS", "PROMPT", "SESSION_MS", "MemberGroup", "kafka_member"]

BY_KIP_848 = pytest.param("consumer", marks=pytest.mark.xdist_group("kafka4"))
"""The kind that only Kafka 4 coordinates."""

SESSION_MS = 6000
"""The session time-out of members in Kafka, the minimum that brokers allow."""

PROMPT = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
"""Broker configuration that makes KIP-848 members rebalance, and expire, as soon as others."""

KINDS: dict[str, dict[str, str]] = {
    "zookeeper": {},
    "cooperative-sticky": {"strategy": "cooperative-sticky"},
    "range": {"strategy": "range"},
    "roundrobin": {"strategy": "roundrobin"},
    "consumer": {"protocol": "consumer"},
}
"""The kinds of membership, with their fields of KafkaGroupOptions."""


def kafka_member(
    servers: str, group: str, subscription: Subscription, hold_ms: int = 0, pauses: Pauses | None = None, **options: Any
) -> KafkaGroupMember:
    """Return a member that Kafka coordinates, not joined yet; `options` are fields of KafkaGroupOptions."""
    connection = broker_connection(servers)
    kafka = kafka_group_options(**{"session_timeout_ms": SESSION_MS, "hold_ms": hold_ms, **options})
    member = group_options(group, membership="kafka", kafka=kafka)
    return KafkaJoin(connection, lambda: servers, member, subscription).member(pauses)


@dataclass
class MemberGroup:
    """A group with its own name that reads a topic; `close` ends its members."""

    cluster: LocalCluster
    kind: str
    topic: str
    name: str = field(default_factory=lambda: f"group-{secrets.token_hex(4)}")
    opened: ExitStack = field(default_factory=ExitStack)

    def member(self, subscription: Subscription | None = None, hold_ms: int = 0, **options: Any) -> Membership:
        """Return a joined member. It may not be settled yet."""
        subscription = subscription or Subscribe((self.topic,))
        member = self._zookeeper(subscription, hold_ms, **options) if self.kind == "zookeeper" else None
        if member is None:
            servers, options = self.cluster.bootstrap_servers, {**KINDS[self.kind], **options}
            member = kafka_member(servers, self.name, subscription, hold_ms, **options)
        member.join()
        self.opened.callback(member.leave)
        return member

    def offsets(self, member: Membership) -> GroupOffsets | KafkaMemberOffsets:
        """Return the group's offsets, for commits by a member."""
        if isinstance(member, GroupMember):
            connection = replace(broker_connection(None), zookeeper=member.client.config)
            return GroupOffsets(connection, "", self.name, ("zookeeper",), member.client)
        assert isinstance(member, KafkaGroupMember)
        stored = KafkaGroupOffsets(self.cluster.bootstrap_servers, {}, self.name)
        return KafkaMemberOffsets(member, self.opened.enter_context(stored))

    def options(self, **more: str) -> dict[str, str]:
        """Return options of a query that joins the group."""
        kinds = {"strategy": "partition.assignment.strategy", "protocol": "group.protocol"}
        shared = {"subscribe": self.topic, "group.id": self.name, "auto.offset.reset": "earliest"}
        if self.kind == "zookeeper":
            shared |= {"zookeeper.connect": self.cluster.zookeeper_connect, "rebalance.backoff.ms": "200"}
        else:
            shared |= {"kafka.bootstrap.servers": self.cluster.bootstrap_servers, "groupMembership": "kafka"}
            shared |= {kinds[name]: value for name, value in KINDS[self.kind].items()}
            shared |= {} if self.kind == "consumer" else {"session.timeout.ms": str(SESSION_MS)}
        return {**shared, **{name.replace("_", "."): value for name, value in more.items()}}

    def places(self, offsets: Mapping[int, int]) -> dict[TopicPartition, int]:
        """Return offsets by partition of the topic."""
        return {TopicPartition(self.topic, number): offset for number, offset in offsets.items()}

    def close(self) -> None:
        """End all members."""
        self.opened.close()

    def _zookeeper(self, subscription: Subscription, hold_ms: int, session_timeout_ms: int = SESSION_MS) -> GroupMember:
        hosts, _, chroot = self.cluster.zookeeper_connect.partition("/")
        options = group_options(self.name, backoff_ms=200, hold_ms=hold_ms)
        return GroupMember(ensemble_config(hosts, f"/{chroot}", session_timeout_ms), options, subscription)
