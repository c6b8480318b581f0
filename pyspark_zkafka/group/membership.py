"""What members of consumer groups of both kinds offer, and joins of groups in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from pyspark_zkafka.brokers.dialects import find_dialect
from pyspark_zkafka.brokers.group_consumer import GroupConsumer, unsupported_protocol
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import STABLE, GroupAdmin
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, MEMBERS_IN_ZOOKEEPER, MIGRATED_TO_KRAFT, NO_COORDINATORS
from pyspark_zkafka.errors import listing
from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.kafka_state import is_final
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.model.planning import Subscription
from pyspark_zkafka.options.values import ConnectionOptions, GroupOptions, ReadOptions
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_WITH_COORDINATORS = 2  # the version of a broker's registration from 0.9 on
_SHOWN = 3


class Membership(Protocol):
    """A member of a group, from `join` to `leave`: a `GroupMember` in ZooKeeper, or a `KafkaGroupMember`. Thread-safe.

    After an unexpected error in the member's thread, all calls but `leave` raise THREAD_FAILED.
    """

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def consumer(self) -> str:
        """The member's id in its group. Empty until a coordinator has chosen one."""

    @property
    def rebalances(self) -> int:
        """How often the member's assignment was computed, or has changed."""

    @property
    def expiry_s(self) -> float:
        """The time after which a dead member with the same options no longer owns anything."""

    @property
    def owner(self) -> ClaimOwner | None:
        """The owner for commits of partitions that the member owns now. None without a session in ZooKeeper."""

    def require_owner(self) -> ClaimOwner:
        """Return `owner`. Raises ZKafkaError if the member is in no group now."""

    @property
    def settled(self) -> bool:
        """True if the member owned its whole assignment when this was last compared, and no change is pending."""

    def join(self) -> None:
        """Join the group. The first assignment may come later: see `wait_settled`."""

    def leave(self) -> None:
        """Leave the group, and release all partitions unless the member is static. Blocks for at most four seconds."""

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """Return the partitions that the member owns. Empty while other members may own them already."""

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        """Release revoked partitions between two pieces of work. Returns the owned partitions.

        They count as being read until the next call of `set_reading`.
        """

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        """Set the partitions that are now being read, which are kept for the hold. Empty when the work is done."""

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the member is settled. Returns False on time-out, or if the member leaves."""

    def request_rebalance(self) -> None:
        """Have the member's thread check what the member owns."""


@dataclass(frozen=True, slots=True)
class KafkaJoin:
    """Joins a member to a group. `servers` returns the bootstrap servers for a new client; any thread may call it."""

    connection: ConnectionOptions
    servers: Callable[[], str]
    options: GroupOptions
    subscription: Subscription

    def open(self, opened: ExitStack, zookeeper: ZooKeeperClient | None) -> tuple[KafkaGroupMember, KafkaMemberOffsets]:
        """Join, and open the group's offsets. The end of `opened` makes the member leave, and closes the offsets.

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

        A request times out after `timeout_s`, or after the time-out in the options if that is shorter.

        Raises GROUP_PROTOCOL_UNSUPPORTED if the coordinator does not know a member by KIP-848: brokers before 4.0 do not
        answer the member's join at all. Raises BrokersUnavailable without a coordinator.
        """
        name, kafka, timeout_ms = self.options.name, self.connection.kafka, int(timeout_s * 1000)
        kafka = {**kafka, "socket.timeout.ms": min(timeout_ms, int(kafka.get("socket.timeout.ms", timeout_ms)))}
        with GroupAdmin(self.servers(), kafka) as admin:
            if not admin.has_coordinators(name):
                raise BROKERS_UNAVAILABLE(
                    f"joining group {name}: there is no __consumer_offsets, so that no broker coordinates the group. "
                    "Brokers create this topic when a member joins: start as many brokers as "
                    "offsets.topic.replication.factor requires",
                )
            state = admin.group_state(name)
            if self.options.kafka.protocol == "consumer" and member_id not in state.members:
                raise unsupported_protocol(name, f"The coordinator of group {name} does not admit the member {member_id}")
            found = admin.snapshot(topics)
        partitions = found.all_partitions()
        assigned = {id_: member.partitions for id_, member in state.members.items()}
        return state.name == STABLE and is_final(assigned, member_id, owned, partitions)


def refuse_without_coordinators(servers: str, connection: ConnectionOptions) -> None:
    """Raise for brokers that coordinate no groups, by the answer of a broker. Blocks for a request."""
    release = find_dialect(servers, connection.kafka).release
    if release.startswith("0.8"):
        raise NO_COORDINATORS(
            "Brokers coordinate groups from Kafka 0.9 on, and these brokers are older. Set zookeeper.connect and "
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
            f"Brokers coordinate groups from Kafka 0.9 on, and broker(s) {listing(old)} are older by their registration in "
            "ZooKeeper. Set groupMembership=zookeeper",
        )


def refuse_members(zookeeper: ZooKeeperClient, group: str) -> None:
    """Raise if ZooKeeper has members of the group, which would read the same partitions.

    Blocks for two rounds of requests.
    """
    found = zookeeper.group_members(group)
    members = sorted({*found.readable, *found.unreadable})
    if members:
        raise MEMBERS_IN_ZOOKEEPER(
            f"Group {group} has members that ZooKeeper coordinates, which would read the same partitions as this member: "
            f"{listing(members, _SHOWN)}. Stop them first, and wait until the sessions of dead members have expired",
        )


def refuse_unmigrated(zookeeper: ZooKeeperClient, group: str, read: ReadOptions) -> None:
    """Raise if ZooKeeper has offsets of a group, after all brokers have left it. Blocks for some requests.

    With two stores, counts only offsets of existing topics that are lower or missing in Kafka. A missing offset may have
    expired there.
    """
    stored = zookeeper.group_offsets(group)
    if stored and "kafka" in read.stores and read.connection.bootstrap_servers is not None:
        with GroupAdmin.of(read.connection, None) as admin:
            in_kafka = admin.committed(group)
            behind = {tp for tp, offset in stored.items() if offset > in_kafka.get(tp, -1)}
            stored = {tp: stored[tp] for tp in behind & set(admin.snapshot({tp.topic for tp in behind}).all_partitions())}
    if stored:
        raise MIGRATED_TO_KRAFT(
            f"All brokers have left ZooKeeper for KRaft, but ZooKeeper has offsets of group {group}. Copy the offsets with "
            "zkafka groups migrate, and set groupMembership=kafka and kafka.bootstrap.servers",
        )
