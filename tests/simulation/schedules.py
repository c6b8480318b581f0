"""Random schedules of streaming queries: the common part of groups in ZooKeeper and in Kafka.

Each schedule ends in a time without faults, and must satisfy:

1.  Nothing is skipped: in the end, each owed record is in a finished micro-batch. For the partitions that the first run
    reads, records produced after its start are owed. For others, all records are: for added partitions, for topics that
    were created or recreated, and for partitions that the checkpoint lacked. A group in Kafka owes records produced after
    its first offset in a topic.
2.  In one life of a topic, between two deletions, a group's offset is never ahead of finished work, and never decreases.
    Only the partition's owner commits it, except the first one.
3.  A repeated micro-batch is the same, for the topics that are still the same.
4.  In the end, each partition has one live owner. Static members may omit partitions that were added while they restarted,
    but then none of them is settled, and the next member that joins changes it.
5.  Without a group, each micro-batch starts where the last one of its checkpoint ended, or at the beginning.
6.  With `failOnDataLoss`, no query overlooks the deletion of a topic that it has read, even after a restart, unless other
    members have read the new topic; and some query fails when unread records are deleted. Without it, none fails.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyspark_zkafka.model.nouns import TopicPartition
from tests.simulation.cluster import Cluster
from tests.simulation.query import Query

__all__ = ["NAMED", "Action", "Failure", "Schedule", "ScheduledGroup", "shortest", "simulated"]

NAMED = ("t", "u")
"""All topics that may exist."""

_MOST_QUERIES = 4

Action = tuple[float, Callable[[], None]]
"""The weight of an event, and the event."""


class ScheduledGroup(ABC):
    """The queries of a group, the records they have read, and the events so far."""

    most_partitions: int
    at_first: Sequence[int] = (1, 2, 3)

    def __init__(self, seed: int, cluster: Cluster) -> None:
        self.chance = random.Random(seed)
        self.cluster = cluster
        self.cluster.grow("t", 2)
        self.cluster.elect()
        self.cluster.elect()
        self.queries: list[Query] = []
        self.read: dict[TopicPartition, set[int]] = {}
        self._deleted: dict[TopicPartition, int] = {}
        self.events: list[str] = []
        self._is_calm = False

    def run(self, steps: int) -> None:
        """Run a random schedule, then let everything come to rest without faults. Raises AssertionError for a violation."""
        self.queries = [self._new_query() for _ in range(self.chance.choice(self.at_first))]
        for _ in range(steps):
            self._something()
        self._is_calm = True
        self._come_to_rest()
        lost = self.lost()
        assert not lost, f"{lost} were read by nobody"

    def lost(self) -> dict[TopicPartition, list[int]]:
        """Return the owed records that no query has read."""
        unread = {tp: self._unread(tp, end) for tp, end in self.cluster.ends.items()}
        return {tp: offsets for tp, offsets in unread.items() if offsets}

    def _something(self) -> None:
        """Make one event happen and note it."""
        weights, actions = zip(*self._actions(), strict=True)
        action = self.chance.choices(actions, weights)[0]
        self.events.append(action.__name__.strip("_"))
        self._take(action)

    def _take(self, action: Callable[[], None]) -> None:
        action()

    @abstractmethod
    def _actions(self) -> Sequence[Action]: ...

    @abstractmethod
    def _come_to_rest(self) -> None:
        """End all faults: all queries run and read everything."""

    @abstractmethod
    def _new_query(self) -> Query:
        """Start one more query."""

    @abstractmethod
    def _start(self, query: Query) -> None: ...

    @abstractmethod
    def _unread(self, partition: TopicPartition, until: int) -> list[int]:
        """Return the owed offsets before `until` that no query has read."""

    def _produce(self) -> None:
        if self.cluster.ends:
            self.cluster.produce(self.chance.choice(sorted(self.cluster.ends)), self.chance.randint(1, 3))

    def _lose_leader(self) -> None:
        if self.cluster.ends:
            self.cluster.lose_leader(self.chance.choice(sorted(self.cluster.ends)))

    def _grow(self) -> None:
        topic = self.chance.choice(NAMED)
        if self.cluster.announced.get(topic, 0) < self.most_partitions:
            self.cluster.grow(topic, self.chance.randint(1, 2))

    def _restart(self) -> None:
        query = self.chance.choice(self.queries)
        if not query.is_running:
            self._start(query)

    def _restart_all(self) -> None:
        for query in self.queries:
            if not query.is_running:
                self._start(query)

    def _replace(self) -> None:
        """Replace a dead query and its checkpoint by another one, or add a query."""
        dead = [query for query in self.queries if not query.is_running]
        if dead:
            self.queries.remove(dead[0])
        if len(self.queries) < _MOST_QUERIES:
            self.queries.append(self._new_query())

    def _delete(self) -> None:
        """Delete a topic, whose records are no longer owed."""
        if self.cluster.announced:
            topic = self.chance.choice(sorted(self.cluster.announced))
            self._forget(topic)
            self.cluster.delete(topic)

    def _create(self) -> None:
        """Create a topic that does not exist, perhaps because it was deleted."""
        missing = [topic for topic in NAMED if topic not in self.cluster.announced]
        if missing:
            topic = self.chance.choice(missing)
            self.cluster.grow(topic, self.chance.randint(1, 2))
            if self.chance.random() < 0.3:
                self._reload(topic)

    def _reload(self, topic: str) -> None:
        """Write as many records to a topic as a deleted topic of its name had."""
        for tp in [tp for tp in self.cluster.partitions() if tp.topic == topic]:
            self.cluster.elect()
            if tp in self.cluster.ends:
                self.cluster.produce(tp, self._deleted.get(tp, 1))

    def _forget(self, topic: str) -> None:
        self._deleted |= {tp: end for tp, end in self.cluster.ends.items() if tp.topic == topic}
        for partition in [tp for tp in self.read if tp.topic == topic]:
            del self.read[partition]

    def _note_finished(self, read: Mapping[TopicPartition, range]) -> None:
        for tp, offsets in read.items():
            self.read.setdefault(tp, set()).update(offsets)


class Failure(NamedTuple):
    """A schedule that breaks an invariant: the error, and the events before it."""

    seed: int
    kind: str
    error: str
    events: Sequence[str]


class Schedule(Protocol):
    """A run of random events."""

    events: list[str]

    def run(self, steps: int) -> None:
        """Run; raises AssertionError for a violation."""


def simulated(schedule: Schedule, seed: int, kind: str, steps: int) -> Failure | None:
    """Return the failure of a schedule, or None."""
    try:
        schedule.run(steps)
    except AssertionError as error:
        return Failure(seed, kind, str(error), schedule.events)
    return None


def shortest(failure: Failure, simulate: Callable[..., Failure | None], steps: int) -> Failure:
    """Return a failure after as few events as possible; a seed's shorter schedules are prefixes of longer ones."""
    found = (simulate(failure.seed, failure.kind, steps=count) for count in range(steps + 1))
    return next(one for one in found if one is not None)
