"""A group of streaming queries in ZooKeeper under random schedules, and its invariants after each event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from pyspark_zkafka.errors import DataLoss, UnknownTopic, ZKafkaError
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Assign, Subscribe
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import StreamOptions
from tests.simulation.cluster import Cluster
from tests.simulation.ensemble import Ensemble, Session
from tests.simulation.member import GROUP, Member
from tests.simulation.query import KafkaStore, Query, SessionOfValues
from tests.simulation.schedules import NAMED, Action, Failure, ScheduledGroup, simulated

STEPS = 80
KINDS = ("by name", "by pattern", "created again", "two stores", "one checkpoint")
OFFSETS = f"/consumers/{GROUP}/offsets/"
OWNERS = f"/consumers/{GROUP}/owners/"
BY_NAME = {"subscribe": ",".join(NAMED)}
BY_PATTERN = {"subscribePattern": ".*"}
PLACES = ({}, {"group.id": GROUP, "groupMembership": "none"}, {"group.id": GROUP})
"""Without a group, outside the group, and in it."""


class Group(ScheduledGroup):
    """A group's queries, which owe all records produced since the first of them started.

    Topics are deleted and recreated in the kinds "created again" and "two stores". In the kind "one checkpoint", the
    options of the first query change at each start: `assign`, `subscribe` or a pattern; in the group, outside it
    (`groupMembership=none`), or without one. It may share the group with another query.
    """

    most_partitions = 5

    def __init__(self, seed: int, kind: str) -> None:
        self.ensemble = Ensemble()
        self.ensemble.on_write = self._check_commits
        super().__init__(seed, Cluster(self.ensemble))
        self._is_moved, has_two_stores = kind == "one checkpoint", kind == "two stores"
        self._deletes = kind == "created again" or has_two_stores
        self._fails_on_loss = not self._deletes or self.chance.random() < 0.5
        self._forgets_late = has_two_stores and self.chance.random() < 0.7
        is_by_name = kind == "by name" or (kind != "by pattern" and self.chance.random() < 0.5)
        self._given = {"group.id": GROUP, **(BY_NAME if is_by_name else BY_PATTERN)}
        if has_two_stores:
            self._given |= {"offsets.storage": "kafka", "kafka.bootstrap.servers": "kafka1:9092"}
        self._is_shared = not self._is_moved or self.chance.random() < 0.5
        if self._is_moved:
            self.at_first = (2,) if self._is_shared else (1,)
        if not self._is_shared:
            self._given = self._other_place()
        self.kafka = KafkaStore(self.cluster, self._turn, self._check_commits_to_kafka)
        self.owed_from: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._expiring: list[int] = []
        self._failed: list[Query] = []
        self._unreported: set[TopicPartition] = set()
        self._members = 0
        self._depth = 0

    # --- events --------------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """As in the base class; also create all topics, and let queries that ended with data loss accept it."""
        while len(self.cluster.announced) < len(NAMED) and self._deletes:
            self._create()
        for _ in range(20):
            self.cluster.elect()
        if self._is_moved:
            self._end(self.queries[0])
            if not (self._is_shared or self.queries[0].offsets):
                self.owed_from = None
                return
        self._run_all()
        silent = self._unreported & self.cluster.ends.keys()
        assert not silent, f"unread records of {silent} were deleted, and no query has failed"
        if self._failed:
            self._fails_on_loss = False
            for query in self.queries:
                self._end(query)
            self._run_all()
        self._check_owners()

    def _run_all(self) -> None:
        """Run all queries, and restart those that end."""
        for _ in range(3):
            for session in self._expiring:
                self.ensemble.expire(session)
            self._restart_all()
            for _ in range(8):
                for query in self.queries:
                    if query.member is not None:
                        query.member.act()
                    self._step_one(query)

    def _actions(self) -> Sequence[Action]:
        return (
            (12, self._step),
            (8, self._act),
            (8, self._produce),
            (2, self._grow),
            (4, self.cluster.elect),
            (1, self._lose_leader),
            (2, self._kill),
            (3, self._restart),
            (2, self._expire),
            (1, self._lose_session),
            (0 if self._is_moved else 1, self._replace),
            *self._deletions(),
        )

    def _deletions(self) -> Sequence[Action]:
        if not self._deletes:
            return ()
        return (2, self._delete), (4, self._create), (2, self._accept_loss), (1, self.kafka.forget)

    def _step(self) -> None:
        self._step_one(self.chance.choice(self.queries))

    def _step_one(self, query: Query) -> None:
        try:
            query.step()
        except DataLoss as error:
            if not (self._deletes and query.fails_on_loss):
                raise AssertionError(f"failed, and nothing is lost: {error}") from error
            self._unreported = set()  # an error names only the first of several losses
            self._failed.append(query)
            self._end(query)
        except ZKafkaError as error:
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise
            self._end(query)

    def _act(self) -> None:
        member = self.chance.choice(self.queries).member
        if member is not None:
            member.act()

    def _kill(self) -> None:
        self._end(self.chance.choice(self.queries))

    def _end(self, query: Query) -> None:
        if query.member is not None:
            self._expiring.append(query.member.session.session_id)
        query.die()

    def _expire(self) -> None:
        if self._expiring:
            self.ensemble.expire(self._expiring.pop())

    def _lose_session(self) -> None:
        member = self.chance.choice(self.queries).member
        if member is not None:
            member.lose_session(self._connect())

    def _accept_loss(self) -> None:
        """Start a query that data loss has ended, without `failOnDataLoss` for this run."""
        ended = [query for query in self._failed if query in self.queries and not query.is_running]
        if ended:
            self._failed.remove(ended[0])
            self._unreported = set()
            self._start(ended[0], accepts=True)

    def _forget(self, topic: str) -> None:
        partitions = [tp for tp in self.cluster.ends if tp.topic == topic]
        read = [tp for tp in partitions if self._committed.get(tp, 0) > 0]
        is_noticed = all(query.fails_on_loss for query in self.queries)
        if is_noticed:
            self._unreported.update(tp for tp in read if self._unread(tp, self.cluster.ends[tp]))
        super()._forget(topic)
        for tp in partitions:
            self._committed.pop(tp, None)
            if self.owed_from is not None:
                self.owed_from.pop(tp, None)
        self.kafka.delete(topic, {tp for tp in partitions if self._forgets_late and self._is_in_both(tp)})

    def _is_in_both(self, partition: TopicPartition) -> bool:
        """Return True if the stores have the same offset; a larger one in Kafka may as well be of the new topic."""
        node = self.ensemble.nodes.get(f"{OFFSETS}{partition.topic}/{partition.partition}")
        return node is not None and node.data == str(self.kafka.offsets.get(partition)).encode()

    def _new_query(self) -> Query:
        query = Query(self._note_finished, lambda: self._note_started(query), lambda *plan: self._check_plan(query, *plan))
        self._start(query)
        return query

    def _start(self, query: Query, *, accepts: bool = False) -> None:
        if not (self._is_shared or query.offsets):
            self.owed_from = None  # a run that planned nothing leaves no start behind
        options = _options(tuple(self._place(query).items()), self._fails_on_loss and not accepts)
        zookeeper, member = self._connect(), None
        if options.group is not None and options.group.join:
            self._members += 1
            found = options.read.require_subscription()
            topics = found.topics if isinstance(found, Subscribe) else ()
            member = Member(f"{GROUP}_c{self._members:03}", zookeeper, self.cluster, topics)
        session = SessionOfValues(options, self.cluster, member, lambda: self.chance.random() < 0.3, zookeeper, self.kafka)
        query.start(options, session)

    def _place(self, query: Query) -> dict[str, str]:
        """Return the options of the next run."""
        if not self._is_moved or query in self.queries[1:] or not query.offsets:
            return self._given
        if self._is_calm:
            return {**BY_PATTERN, **self.chance.choice(PLACES)}
        return self._other_place()

    def _other_place(self) -> dict[str, str]:
        """Return options for some of the partitions."""
        there = sorted(self.cluster.ends)
        chosen = [tp for tp in there if self.chance.random() < 0.5] or [self.chance.choice(there)]
        names = sorted({tp.topic for tp in chosen})
        numbers = {name: sorted({tp.partition for tp in chosen if tp.topic == name}) for name in names}
        ways = ({"assign": json.dumps(numbers)}, {"subscribe": ",".join(names)}, BY_PATTERN)
        way = self.chance.choice(ways)
        return {**way, **self.chance.choice(PLACES[: 2 if "assign" in way else 3])}

    def _connect(self) -> Session:
        return self.ensemble.connect(self._turn, lambda: not self._is_calm and self.chance.random() < 0.01)

    def _turn(self) -> None:
        """Let others act sometimes between two requests of one process."""
        if self.queries and self._depth == 0 and not self._is_calm and self.chance.random() < 0.05:
            self._depth = 1
            others = [self._act, self._produce, self._grow, self.cluster.elect, self._lose_leader, self._expire]
            self.chance.choice([*others, *([self._delete] if self._deletes else [])])()
            self._depth = 0

    # --- invariants ----------------------------------------------------------------------------------------------------

    def _note_started(self, query: Query) -> None:
        """Note that all later records of the first run's partitions are owed, and all records of other partitions."""
        if self.owed_from is None:
            subscription = query.session.subscription
            there = self.cluster.snapshot(subscription).states
            read = there if not isinstance(subscription, Assign) else set(subscription.partitions)
            self.owed_from = {tp: end for tp, end in self.cluster.ends.items() if tp in read}

    def _check_plan(self, query: Query, start: StreamOffset, end: StreamOffset) -> None:
        """Check that with `failOnDataLoss`, no topic was deleted unnoticed, unless others have read the new one."""
        if not query.session.has_group:
            self._check_beginnings(start, end)
        for topic in {tp.topic for tp in start.ranges} if query.fails_on_loss else ():
            before, now = start.topics[topic].czxid, end.topics[topic].czxid if topic in end.topics else None
            # One partition suffices: others may have been added since the planner found that the group reads the new topic.
            is_followed = now is not None and any(tp in self._committed for tp in start.ranges if tp.topic == topic)
            assert now == before or is_followed, f"topic {topic} was {before} and is {now}, and the query did not fail"

    def _check_beginnings(self, start: StreamOffset, end: StreamOffset) -> None:
        for tp in [tp for tp, span in end.ranges.items() if span.size]:
            begin = start.ranges[tp].until if tp in start.ranges else 0
            assert end.ranges[tp].start == begin, f"{tp} begins at {end.ranges[tp].start}, not at {begin}"

    def _check_commits(self, paths: Sequence[str], session: int) -> None:
        """Check that no commit goes backwards, is ahead of finished work, or is of a partition that the member lost."""
        for path in paths:
            if not path.startswith(OFFSETS) or path.count("/") < 5:
                continue
            offset = int(self.ensemble.nodes[path].data or b"")
            topic, _, number = path.removeprefix(OFFSETS).rpartition("/")
            tp = TopicPartition(topic, int(number))
            if offset < 0 or tp not in self.cluster.ends:  # had no leader, or the topic was deleted
                continue
            owner = self.ensemble.nodes.get(f"{OWNERS}{topic}/{number}")
            is_allowed = self._is_moved if owner is None else owner.stat.ephemeral_owner == session
            assert is_allowed or tp not in self._committed, f"{path} is {offset}, by a member that does not own it"
            assert offset >= self._committed.get(tp, 0), f"{path} fell to {offset}"
            self._check_finished(tp, offset)
            self._committed[tp] = offset

    def _check_commits_to_kafka(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Check that no commit is ahead of finished work; it may be lower, as the larger of both stores' offsets counts."""
        for tp in offsets.keys() & self.cluster.ends.keys():
            self._check_finished(tp, offsets[tp])

    def _check_finished(self, partition: TopicPartition, offset: int) -> None:
        unread = self._unread(partition, offset)
        assert not unread, f"the offset of {partition} is {offset}, and {unread} were not read"

    def _check_owners(self) -> None:
        """Check that at rest, each partition has a live owner."""
        if not any(query.member for query in self.queries):
            return
        alive = {query.member.session.session_id for query in self.queries if query.member is not None}
        for tp in self.cluster.partitions():
            owner = self.ensemble.nodes.get(f"{OWNERS}{tp.topic}/{tp.partition}")
            assert owner is not None, f"{tp} has no owner"
            assert owner.stat.ephemeral_owner in alive, f"{tp} is owned by a session that has ended"

    def _unread(self, partition: TopicPartition, until: int) -> list[int]:
        if self.owed_from is None:
            return []
        return sorted(set(range(self.owed_from.get(partition, 0), until)) - self.read.get(partition, set()))


@cache
def _options(given: tuple[tuple[str, str], ...], fails_on_loss: bool) -> StreamOptions:
    return parse_stream({"zookeeper.connect": "zk1:2181", "failOnDataLoss": str(fails_on_loss), **dict(given)})


def simulate(seed: int, kind: str, *, steps: int = STEPS) -> Failure | None:
    """Return the failure of a schedule, or None."""
    return simulated(Group(seed, kind), seed, kind, steps)
