"""A consumer group of streaming queries under a random schedule, and what must hold after each of its events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.protocol.model import TopicPartition
from tests.simulation.cluster import Cluster
from tests.simulation.ensemble import Ensemble, Session
from tests.simulation.member import GROUP, Member
from tests.simulation.query import Query, SessionOfValues
from tests.simulation.schedules import NAMED, Action, Failure, ScheduledGroup, simulated

STEPS = 80
KINDS = ("by name", "by pattern")
OFFSETS = f"/consumers/{GROUP}/offsets/"
OWNERS = f"/consumers/{GROUP}/owners/"


class Group(ScheduledGroup):
    """A group's queries, and what they owe: all that is produced from the moment on at which the first of them started."""

    most_partitions = 5

    def __init__(self, seed: int, kind: str) -> None:
        self.ensemble = Ensemble()
        self.ensemble.on_write = self._check_commits
        super().__init__(seed, Cluster(self.ensemble))
        by_pattern = kind == "by pattern"
        self._topics = () if by_pattern else NAMED
        subscribe = {"subscribePattern": ".*"} if by_pattern else {"subscribe": ",".join(NAMED)}
        self._options = parse_stream({"zookeeper.connect": "zk1:2181", "group.id": GROUP, **subscribe})
        self.owed_from: dict[TopicPartition, int] | None = None
        self._committed: dict[str, int] = {}
        self._expiring: list[int] = []
        self._members = 0
        self._depth = 0

    # --- what happens --------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        for session in self._expiring:
            self.ensemble.expire(session)
        for _ in range(20):
            self.cluster.elect()
        self._restart_all()
        for _ in range(12):
            for query in self.queries:
                if query.member is not None:
                    query.member.act()
                    query.step()
        self._check_owners()

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
            (1, self._replace),
        )

    def _step(self) -> None:
        query = self.chance.choice(self.queries)
        try:
            query.step()
        except ZKafkaError as error:
            if not error.retriable:
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

    def _new_query(self) -> Query:
        query = Query(self._options, self._note_finished, self._note_started)
        self._start(query)
        return query

    def _start(self, query: Query) -> None:
        self._members += 1
        member = Member(f"{GROUP}_c{self._members:03}", self._connect(), self.cluster, self._topics)
        query.start(SessionOfValues(self._options, self.cluster, member, lambda: self.chance.random() < 0.3))

    def _connect(self) -> Session:
        return self.ensemble.connect(self._turn, lambda: not self._is_calm and self.chance.random() < 0.01)

    def _turn(self) -> None:
        """Between two requests of one process, others act now and then."""
        if self._depth == 0 and not self._is_calm and self.chance.random() < 0.05:
            self._depth = 1
            self.chance.choice(
                (self._act, self._produce, self._grow, self.cluster.elect, self._lose_leader, self._expire)
            )()
            self._depth = 0

    # --- what must hold ------------------------------------------------------------------------------------------------

    def _note_started(self) -> None:
        if self.owed_from is None:
            self.owed_from = dict(self.cluster.ends)

    def _check_commits(self, paths: Sequence[str], session: int) -> None:
        """No commit goes backwards, none is ahead of finished work, and none is of a partition that the member lost."""
        for path in paths:
            if not path.startswith(OFFSETS) or path.count("/") < 5:
                continue
            offset = int(self.ensemble.nodes[path].data or b"")
            if offset < 0:  # none, of a partition that had no leader
                continue
            topic, _, number = path.removeprefix(OFFSETS).rpartition("/")
            owner = self.ensemble.nodes.get(f"{OWNERS}{topic}/{number}")
            is_owner = owner is not None and owner.stat.ephemeral_owner == session
            assert is_owner or path not in self._committed, f"{path} is {offset}, by a member that does not own it"
            assert offset >= self._committed.get(path, 0), f"{path} fell to {offset}"
            unread = self._unread(TopicPartition(topic, int(number)), offset)
            assert not unread, f"{path} is {offset}, and {unread} were not read"
            self._committed[path] = offset

    def _check_owners(self) -> None:
        """When all is quiet, each partition has an owner that is alive."""
        alive = {query.member.session.session_id for query in self.queries if query.member is not None}
        for tp in self.cluster.partitions():
            owner = self.ensemble.nodes.get(f"{OWNERS}{tp.topic}/{tp.partition}")
            assert owner is not None, f"{tp} has no owner"
            assert owner.stat.ephemeral_owner in alive, f"{tp} is owned by a session that has ended"

    def _unread(self, partition: TopicPartition, until: int) -> list[int]:
        if self.owed_from is None:
            return []
        return sorted(set(range(self.owed_from.get(partition, 0), until)) - self.read.get(partition, set()))


def simulate(seed: int, kind: str, *, steps: int = STEPS) -> Failure | None:
    """The failure of a schedule, if it fails."""
    return simulated(Group(seed, kind), seed, kind, steps)
