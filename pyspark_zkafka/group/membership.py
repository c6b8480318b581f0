"""Members of consumer groups of both kinds, and joins of groups in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.brokers.dialects import find_dialect
from pyspark_zkafka.brokers.group_consumer import GroupConsumer, unsupported_protocol
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import STABLE, GroupAdmin
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, MEMBERS_IN_ZOOKEEPER, MIGRATED_TO_KRAFT, NO_COORDINATORS
from pyspark_zkafka.errors import listing
from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.kafka_state import is_final
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscription
from pyspark_zkafka.options.values import ConnectionOptions, GroupOptions, ReadOptions
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

Membership: TypeAlias = GroupMember | KafkaGroupMember
"""A member of a group, from `join` to `leave`."""
_WITH_COORDINATORS = 2  # the version of a broker's registration from 0.9 on
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class KafkaJoin:
    """Joins a member to a group. `servers` is called on any thread, and returns the bootstrap servers for a new client."""

    connection: ConnectionOptions
    servers: Callable[[], str]
    options: GroupOptions
    subscription: Subscription

    def open(self, opened: ExitStack, zookeeper: ZooKeeperClient | None) -> tuple[KafkaGroupMember, KafkaMemberOffsets]:
        """Join, and open the offsets. `opened` leaves and closes.

        Raises ClusterStateError (NO_COORDINATORS) for brokers older than 0.9, and GroupError (MEMBERS_IN_ZOOKEEPER) if the
        group has consumers that ZooKeeper coordinates.
        """
        if zookeeper is not None:
            refuse_old_brokers(zookeeper)
            refuse_members(zookeeper, self.options.name)
        else:
            refuse_without_coordinators(self.servers(), self.connection)
        stored = opened.enter_context(KafkaGroupOffsets(self.servers(), self.connection.kafka, self.options.name))
        member = self.member()
        member.join()
        opened.callback(member.leave)
        return member, KafkaMemberOffsets(member, stored)

    def member(self, pauses: Pauses | None = None) -> KafkaGroupMember:
        """Make a member that has not joined."""
        group, kafka = self.options.name, self.options.kafka
        return KafkaGroupMember(
            self.options,
            self.subscription,
            lambda on_event: GroupConsumer(self.servers(), self.connection, group, kafka, on_event),
            self.is_final if kafka.is_incremental or kafka.instance_id else None,
            pauses=pauses,
        )

    def is_final(
        self, member_id: str, owned: Collection[TopicPartition], topics: Collection[str], timeout_s: float
    ) -> bool:
        """True if the coordinator has nothing more to assign to the member. Blocks for some requests.

        `timeout_s` can shorten the time-out of a request.

        Raises GROUP_PROTOCOL_UNSUPPORTED if the coordinator does not know a member by KIP-848: brokers before 4.0 do not
        answer it at all. Raises BrokersUnavailable without a coordinator.
        """
        name, kafka, timeout_ms = self.options.name, self.connection.kafka, int(timeout_s * 1000)
        kafka = {**kafka, "socket.timeout.ms": min(timeout_ms, int(kafka.get("socket.timeout.ms", timeout_ms)))}
        with GroupAdmin(self.servers(), kafka) as admin:
            if not admin.has_coordinators(name):
                raise BROKERS_UNAVAILABLE(
                    f"joining group {name}: there is no __consumer_offsets, so that no broker coordinates the group; the "
                    "brokers create it when a member joins, if there are as many as offsets.topic.replication.factor "
                    "requires",
                )
            state = admin.group_state(name)
            if self.options.kafka.protocol == "consumer" and member_id not in state.members:
                raise unsupported_protocol(name, f"The coordinator of group {name} does not admit the member {member_id}")
            found = admin.snapshot(topics)
        partitions = found.all_partitions()
        places = {id_: member.partitions for id_, member in state.members.items()}
        return state.name == STABLE and is_final(places, member_id, owned, partitions)


def refuse_without_coordinators(servers: str, connection: ConnectionOptions) -> None:
    """Raise for brokers that coordinate no groups, by the answer of a broker. Blocks for a request."""
    release = find_dialect(servers, connection.kafka).release
    if release.startswith("0.8"):
        raise NO_COORDINATORS(
            "Brokers coordinate groups from Kafka 0.9 on, and these are older; set zookeeper.connect and "
            "groupMembership=zookeeper",
        )


def old_brokers(zookeeper: ZooKeeperClient) -> list[int]:
    """The ids of brokers that coordinate no groups, sorted. Blocks for two rounds of requests."""
    registered = zookeeper.registrations().readable.values()
    return sorted(found.broker.id for found in registered if found.version < _WITH_COORDINATORS)


def refuse_old_brokers(zookeeper: ZooKeeperClient) -> None:
    """Raise for brokers that coordinate no groups. Blocks for two rounds of requests."""
    old = old_brokers(zookeeper)
    if old:
        raise NO_COORDINATORS(
            f"Brokers coordinate groups from Kafka 0.9 on; broker(s) {listing(old)} are older by their registration in "
            "ZooKeeper; set groupMembership=zookeeper",
        )


def refuse_members(zookeeper: ZooKeeperClient, group: str) -> None:
    """Raise if ZooKeeper has members of the group, which would read the same partitions. Blocks for two rounds."""
    found = zookeeper.group_members(group)
    members = sorted({*found.readable, *found.unreadable})
    if members:
        raise MEMBERS_IN_ZOOKEEPER(
            f"Group {group} has members that ZooKeeper coordinates: {listing(members, _SHOWN)}; they and this member "
            "would both read all partitions; stop them first, and wait until the sessions of dead ones have expired",
        )


def refuse_unmigrated(zookeeper: ZooKeeperClient, group: str, read: ReadOptions) -> None:
    """Raise if ZooKeeper has offsets of a group, after all brokers have left. Blocks for some requests.

    With two stores, counts only offsets of existing topics that are lower or missing in Kafka, where they may have expired.
    """
    stored = zookeeper.group_offsets(group)
    if stored and "kafka" in read.stores and read.connection.bootstrap_servers is not None:
        with GroupAdmin.of(read.connection, None) as admin:
            in_kafka = admin.committed(group)
            behind = {tp for tp, offset in stored.items() if offset > in_kafka.get(tp, -1)}
            stored = {tp: stored[tp] for tp in behind & set(admin.snapshot({tp.topic for tp in behind}).all_partitions())}
    if stored:
        raise MIGRATED_TO_KRAFT(
            f"All brokers have left ZooKeeper for KRaft, but ZooKeeper has offsets of group {group}; copy them with zkafka "
            "groups migrate, and set groupMembership=kafka and kafka.bootstrap.servers",
        )
