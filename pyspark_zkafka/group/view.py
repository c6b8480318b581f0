"""What a member sees of its group before it reckons who gets what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.clients.zookeeper import ZooKeeperClient
from pyspark_zkafka.clients.zookeeper_connection import Watch
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol import group_znodes, znodes
from pyspark_zkafka.protocol.assignors import Subscribers, threads_by_topic, topics_of
from pyspark_zkafka.protocol.group_znodes import ConsumerRegistration
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["GroupView", "look", "registered_ids"]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's members that can be read, and what they read.

    `unreadable` holds what is wrong with the registrations of the others, `missing` the member's own topics that do not
    exist.
    """

    members: Mapping[str, ConsumerRegistration]
    subscribers: Subscribers
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def ids(self) -> set[str]:
        """The ids of all that are registered."""
        return {*self.members, *self.unreadable}


def look(client: ZooKeeperClient, group: str, own: ConsumerRegistration, watch: Watch, *, with_owners: bool) -> GroupView:
    """Read the group; blocks for four rounds of requests, five with the owners.

    Leaves the watches of a JVM consumer: on the group's ids, on each topic that the member itself reads (on its coming,
    where it does not exist), and, for a filter, on the list of topics. `watch` must not block.
    """
    members = client.group_members(group, watch)
    by_filter = own.pattern != "static"
    others_filter = any(m.pattern != "static" for m in members.readable.values())
    names: list[str] = []
    if by_filter or others_filter:
        names = client.children_many([znodes.TOPICS], watch if by_filter else None).get(znodes.TOPICS, [])
    mine = topics_of(own, names)
    there = client.exists_many(map(znodes.topic_path, mine), watch)
    threads = threads_by_topic(members.readable, names)
    snapshot = client.topics(threads)
    owners: dict[TopicPartition, str] = client.group_owners(group) if with_owners else {}
    return GroupView(
        members.readable,
        Subscribers(threads, {name: tuple(sorted(topic.partitions)) for name, topic in snapshot.items()}, owners),
        members.unreadable,
        tuple(name for name in mine if znodes.topic_path(name) not in there),
    )


def registered_ids(client: ZooKeeperClient, group: str) -> set[str]:
    """The ids that are registered now; blocks for a round trip."""
    path = group_znodes.ids_path(group)
    return set(client.children_many([path]).get(path, []))
