"""A member's view of its group: the input of the assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.assignors import Subscribers, threads_by_topic, topics_of
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.topic_names import is_topic_name
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import Watch

__all__ = ["GroupView", "GroupWatch"]

_OVER_ALL_TOPICS = frozenset({"roundrobin", "roundrobin-0.8"})


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's readable registrations, and the subscribers of the relevant topics.

    `unreadable` has the errors of the other registrations, `missing` the member's own topics that do not exist.
    """

    members: Mapping[str, ConsumerRegistration] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    subscribers: Subscribers = field(default_factory=lambda: Subscribers({}, {}))
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def ids(self) -> set[str]:
        """The ids of all registered members."""
        return {*self.members, *self.unreadable}


@dataclass(frozen=True, slots=True)
class GroupWatch:
    """Reads a group for one of its members, and sets watches.

    With most assignors, only the topics that the member itself reads are relevant; with roundrobin, all of the group's.

    Parameters
    ----------
    own : ConsumerRegistration
        The member's.
    on_change : callable
        The watch on the group's ids, and on each relevant topic, or its creation where it does not exist. Like all watches,
        it must not block.
    on_topics : callable
        The watch on the list of topics; set only if a filter selects from them.
    """

    client: ZooKeeperClient
    group: str
    own: ConsumerRegistration
    strategy: str
    on_change: Watch
    on_topics: Watch

    def look(self) -> GroupView:
        """Read all; blocks for four rounds of requests, five with the sticky assignor."""
        found = self.client.group_members(self.group, self.on_change)
        names = self._names(found.readable)
        topics = self._topics(found.readable, names)
        there = self.client.exists_many(map(znodes.topic_path, topics), self.on_change)
        read = self.client.topics(topics)
        threads = threads_by_topic(found.readable, names)
        subscribers = Subscribers(
            {name: threads[name] for name in topics if name in threads},
            {name: tuple(sorted(topic.partitions)) for name, topic in read.items()},
        )
        missing = tuple(name for name in topics_of(self.own, names) if znodes.topic_path(name) not in there)
        return GroupView(found.readable, topics, self._with_owners(subscribers), found.unreadable, missing)

    def is_current(self, view: GroupView) -> bool:
        """True if the group's ids and the relevant topics are still those of the view; blocks for two rounds."""
        return self.ids() == view.ids and self._topics(view.members, self._names(view.members)) == view.topics

    def ids(self) -> set[str]:
        """The ids that are registered now; blocks for a round trip."""
        path = group_znodes.ids_path(self.group)
        return set(self.client.children_many([path]).get(path, []))

    def _names(self, members: Mapping[str, ConsumerRegistration]) -> list[str]:
        """The topics that filters select from."""
        if any(r.pattern != "static" for r in self._counting(members)):
            names = self.client.children_many([znodes.TOPICS], self.on_topics).get(znodes.TOPICS, [])
            return list(filter(is_topic_name, names))
        return topics_of(self.own, ())

    def _topics(self, members: Mapping[str, ConsumerRegistration], names: Iterable[str]) -> tuple[str, ...]:
        """The relevant topics, sorted, without invalid names in other members' registrations."""
        found = {name for r in self._counting(members) for name in topics_of(r, names)}
        return tuple(sorted(filter(is_topic_name, found)))

    def _counting(self, members: Mapping[str, ConsumerRegistration]) -> list[ConsumerRegistration]:
        return [self.own, *(members.values() if self.strategy in _OVER_ALL_TOPICS else ())]

    def _with_owners(self, subscribers: Subscribers) -> Subscribers:
        """For the sticky assignor, add the threads that own partitions now; undecodable bytes in names are replaced."""
        if self.strategy != "sticky":
            return subscribers
        partitions = (TopicPartition(name, n) for name, numbers in subscribers.partitions.items() for n in numbers)
        paths = {group_znodes.owner_path(self.group, tp): tp for tp in partitions}
        nodes = self.client.get_many(paths)
        owners = {paths[path]: (node.data or b"").decode("utf-8", "replace") for path, node in nodes.items()}
        return Subscribers(subscribers.threads, subscribers.partitions, owners)
