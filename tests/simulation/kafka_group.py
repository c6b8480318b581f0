"""A group of streaming queries that Kafka coordinates under random schedules, and its invariants after each event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import StreamOptions
from tests.simulation.cluster import Cluster
from tests.simulation.coordinator import SESSION_S, ClassicCoordinator, ConsumerCoordinator, Coordinator
from tests.simulation.ensemble import Ensemble
from tests.simulation.group_clients import Client
from tests.simulation.kafka_member import KafkaMember, KafkaSession, StoredOfValues
from tests.simulation.query import Query
from tests.simulation.schedules import NAMED, Action, Failure, ScheduledGroup, simulated

STEPS = 45
KINDS = ("range", "cooperative-sticky", "consumer", "static")
HOLD_S = 2.0
_SLICE_S = 0.5
_BEAT_S = 1.0


class KafkaGroup(ScheduledGroup):
    """A group's queries, which owe all records from the group's start in each partition.

    In the kind "static", most queries have a `group.instance.id`, which they keep when they restart.
    """

    most_partitions = 4

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(seed, Cluster(Ensemble()))
        self.now = 0.0
        self.coordinator = self._new_coordinator(kind)
        subscribe = {"subscribePattern": ".*"} if self.chance.random() < 0.3 else {"subscribe": ",".join(NAMED)}
        self._is_static = kind == "static"
        if self._is_static:
            kind = "cooperative-sticky" if getattr(self.coordinator, "is_cooperative", False) else "range"
        kinds = {"group.protocol": "consumer"} if kind == "consumer" else {"partition.assignment.strategy": kind}
        more = {} if kind == "consumer" else {"session.timeout.ms": str(round(SESSION_S * 1000))}
        given = {"kafka.bootstrap.servers": "kafka1:9092", "group.id": "g", "groupMembership": "kafka"}
        hold = {"rebalance.hold.ms": str(round(HOLD_S * 1000))}
        self._given = {**given, **subscribe, **kinds, **more, **hold}
        self._options: dict[Query, StreamOptions] = {}
        self.owed_from: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._started: set[TopicPartition] = set()
        self._owners: dict[TopicPartition, Client] = {}
        self._members = 0
        self._busy: list[Query] = []
        self._has_started = False

    def _new_coordinator(self, kind: str) -> Coordinator:
        if kind == "consumer":
            return ConsumerCoordinator(lambda: self.now, self.cluster, self._check_commit)
        is_cooperative = kind == "cooperative-sticky" or (kind == "static" and self.chance.random() < 0.5)
        return ClassicCoordinator(lambda: self.now, self.cluster, self._check_commit, is_cooperative=is_cooperative)

    # --- events --------------------------------------------------------------------------------------------------------

    def _actions(self) -> Sequence[Action]:
        return (
            (14, self._step),
            (10, self._act),
            (8, self._produce),
            (2, self._grow),
            (3, self.cluster.elect),
            (0.5, self._lose_leader),
            (1.5, self._kill),
            (1, self._stop),
            (4, self._restart),
            (1, self._replace),
            (1.5, self._stand_still),
            (1, self._move_coordinator),
            (1, self._pass_some_time),
            (2, self._reset),
            (2 if self._is_static else 0, self._deploy),
        )

    def _take(self, action: Callable[[], None]) -> None:
        self._pass(self.chance.random() * 0.3)
        action()
        self._check_members()

    def _come_to_rest(self) -> None:
        """As in the base class; also let dead members expire."""
        for _ in range(10):
            self.cluster.elect()
        self._pass(max(0.0, self.coordinator.away_until - self.now) + SESSION_S + 1.0)
        self._restart_all()
        self._run_all()
        if self._is_static and self._unowned():
            assert not any(query.member.wait_settled(1.0) for query in self.queries), f"{self._unowned()} are missing"
            for query in self.queries:
                query.member.wait_settled()  # a static member joins again, and any change of the group assigns the rest
            self._run_all()
        assert not self._unowned(), f"{self._unowned()} have no owner"
        assert all(self.coordinator.is_member(q.member.turns.client) for q in self.queries), "a member is outside its group"

    def _run_all(self) -> None:
        for _ in range(15):
            for query in self.queries:
                query.step()
            self._pass(1.0)
            if self._is_quiet():
                break
        self._check_members()

    def _unowned(self) -> list[TopicPartition]:
        """Return the partitions that no member owns."""
        owned = {tp for query in self.queries if query.member is not None for tp in query.member.owned()}
        return sorted(set(self.cluster.partitions()) - owned)

    def _is_quiet(self) -> bool:
        """Return True if nothing is left to do."""
        running = [query for query in self.queries if query.is_running]
        if len(self.coordinator.members) > len(running):
            return False  # some are dead and have not expired
        planned = all(query.is_idle for query in running)
        return planned and not self.lost() and self.coordinator.is_stable and all(q.member.settled for q in running)

    def _step(self) -> None:
        self._step_one(self.chance.choice(self.queries))

    def _step_one(self, query: Query) -> None:
        """Make Spark's next call; if it fails, end the query, which may leave its group."""
        if query in self._busy:
            return
        self._busy.append(query)
        try:
            query.step()
        except ZKafkaError as error:
            if not error.retriable:
                raise
            self._end(query, leaves=self.chance.random() < 0.5)
        finally:
            self._busy.remove(query)

    def _act(self) -> None:
        query = self.chance.choice(self.queries)
        if query.is_running:
            self._act_one(query)

    def _act_one(self, query: Query) -> None:
        query.member.turns.beat()
        query.member.turns.act()

    def _kill(self) -> None:
        self._end(self.chance.choice(self.queries), leaves=False)

    def _stop(self) -> None:
        self._end(self.chance.choice(self.queries), leaves=True)

    def _end(self, query: Query, *, leaves: bool) -> None:
        if query.member is not None:
            if leaves:
                query.member.leave()
            query.member.turns.is_running = False
        query.die()

    def _deploy(self) -> None:
        """Stop and restart all queries, within the session timeout or after it, while topics may grow."""
        for query in self.queries:
            self._end(query, leaves=True)
        self._pass(self.chance.choice((0.5, SESSION_S + 1)))
        self._grow()
        self._restart_all()

    def _stand_still(self) -> None:
        """Halt a process, which may be expelled meanwhile; then its query continues."""
        query = self.chance.choice(self.queries)
        if query.is_running:
            self._pass_without(query)
            if self.chance.random() < 0.7:
                self._step_one(query)

    def _pass_without(self, query: Query) -> None:
        self._busy.append(query)
        halted, self._halted = self._halted, query
        self._pass(self.chance.choice((2.0, SESSION_S - 0.5, SESSION_S + 1, 2 * SESSION_S)))
        self._reset()
        self._halted = halted
        self._busy.remove(query)

    _halted: Query | None = None

    def _move_coordinator(self) -> None:
        self.coordinator.move(self.chance.choice((0.5, 2.0, SESSION_S + 2)))

    def _pass_some_time(self) -> None:
        self._pass(self.chance.choice((1.0, 3.0, SESSION_S + 1)))

    def _reset(self) -> None:
        """Reset an offset of a group without members, as an operator does, to an offset that no checkpoint names."""
        if self.coordinator.members or not self.coordinator.is_available or not self._committed:
            return
        tp = self.chance.choice(sorted(self._committed))
        offset = self.chance.randint(0, self.cluster.ends[tp])
        spans = (StreamOffset.from_json(end).ranges.get(tp) for query in self.queries for end in query.offsets[-2:])
        if offset in {place for span in spans if span is not None for place in (span.start, span.until, span.committed)}:
            return
        self.coordinator.offsets[tp] = self._committed[tp] = self.owed_from[tp] = offset
        self.read[tp] = {n for n in self.read.get(tp, ()) if n < offset}

    def _new_query(self) -> Query:
        query = Query(self._note_finished, self._note_started, lambda start, end: self._check_plan(query, end))
        is_static = self._is_static and self.chance.random() < 0.8
        instance = {"group.instance.id": f"i{len(self._options)}"} if is_static else {}
        self._options[query] = parse_stream({**self._given, **instance})
        self._start(query)
        return query

    def _start(self, query: Query) -> None:
        def pass_time(seconds: float) -> None:
            self._pass_for(query, seconds)

        def note(client: Client, partitions: Collection[TopicPartition]) -> None:
            self._owners.update(dict.fromkeys(partitions, client))

        options = self._options[query]
        member = KafkaMember(options, self.coordinator, self._new_id, self.chance, lambda: self._is_calm, note, pass_time)
        member.turns.on_release = lambda *how: self._check_release(query, *how)
        stored = StoredOfValues(self.coordinator, lambda: self._turn(query))
        session = KafkaSession(options, self.cluster, member, lambda: self.chance.random() < 0.3, stored, pass_time)
        query.start(options, session)

    def _new_id(self) -> str:
        self._members += 1
        return f"c{self._members:03}"

    # --- time ----------------------------------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        """Let time pass, in which all processes except a halted one continue."""
        until, slice_s = self.now + seconds, max(_SLICE_S, seconds / 8)
        while self.now < until:
            self.now = min(until, self.now + slice_s)
            self.coordinator.pass_time()
            for query in list(self.queries):
                if query.is_running and query is not self._halted:
                    self._act_one(query)
            if len(self._busy) < 2 and not self._is_calm and self.chance.random() < 0.3:
                self._step_one(self.chance.choice(self.queries))

    def _pass_for(self, query: Query, seconds: float) -> None:
        """Let time pass for a caller that waits, and sometimes halt its process."""
        if not self._is_calm and len(self._busy) < 2 and self.chance.random() < 0.02:
            self._pass_without(query)
        self._pass(seconds)

    def _turn(self, query: Query) -> None:
        """Let others act sometimes between two requests of one process."""
        if self._is_calm or len(self._busy) > 1:
            return
        if self.chance.random() < 0.15:
            self.chance.choice((self._act, self._produce, self._grow, self.cluster.elect, self._move_coordinator))()
        elif self.chance.random() < 0.03:
            self._pass_without(query)

    # --- invariants ----------------------------------------------------------------------------------------------------

    def _note_started(self) -> None:
        """Note the group's start when the first query has planned."""
        if not self._has_started:
            self._has_started = True
            self.owed_from = {**self.cluster.ends, **self.owed_from}

    def _check_commit(self, client: Client, offsets: Mapping[TopicPartition, int], is_start: bool) -> None:
        """Check that no commit goes backwards, is ahead of finished work, or is of a partition that another member gained.

        If members commit different starts at the same time, and nothing else, the last one decides.
        """
        self._note_start(offsets)
        for tp, offset in offsets.items():
            before = self._committed.get(tp)
            if is_start and (before is None or tp in self._started):
                self._started.add(tp)
                self.owed_from[tp] = max(offset, self.owed_from.get(tp, 0))
            else:
                self._started.discard(tp)
                assert self._owners.get(tp) is client, f"{tp} is {offset}, by a member that does not own it"
                assert offset >= (before or 0), f"{tp} fell from {before} to {offset}"
                unread = self._unread(tp, offset)
                assert not unread, f"{tp} is {offset}, and {unread} were not read"
            self._committed[tp] = offset

    def _note_start(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note the group's start in a topic without offsets: the first offsets, and the current ends of other logs."""
        begun = {tp.topic for tp in self._committed}
        for topic in {tp.topic for tp in offsets} - begun:
            ends = {tp: end for tp, end in self.cluster.ends.items() if tp.topic == topic}
            self.owed_from |= {**ends, **{tp: offset for tp, offset in offsets.items() if tp.topic == topic}}

    def _check_plan(self, query: Query, planned: StreamOffset) -> None:
        """Check that a micro-batch has only partitions that were owned when the planner last asked."""
        read = {tp for tp, span in planned.ranges.items() if span.size}
        assert read <= set(query.member.planned), f"{read - set(query.member.planned)} are planned, and not owned"

    def _check_release(self, query: Query, partitions: Collection[TopicPartition], waited_s: float, ran_s: float) -> None:
        """Check that a micro-batch keeps its partitions until it is done or the hold is over.

        While the process runs, it keeps them no longer than that.
        """
        read = query.reading.intersection(partitions)
        assert waited_s > HOLD_S - 0.01 or not read, f"{read} are released after {waited_s:.1f} s, while they are read"
        assert ran_s <= HOLD_S + 2, f"{sorted(partitions)} are released after {ran_s:.1f} s"

    def _check_members(self) -> None:
        """Check that no two members of the group own one partition, and that no member owns one that its client lost."""
        owners: dict[TopicPartition, str] = {}
        for query in self.queries:
            if query.is_running and query.member.turns.is_running:
                client = query.member.turns.client
                extra = query.member.owned().keys() - client.owned
                assert not extra, f"{client.member_id} takes {extra} for its own"
                for tp in client.owned if self.coordinator.is_member(client) else ():
                    assert tp not in owners, f"{tp} is owned by {owners[tp]} and {client.member_id}"
                    owners[tp] = client.member_id

    def _unread(self, partition: TopicPartition, until: int) -> list[int]:
        begin = self.owed_from.get(partition, 0 if self._has_begun(partition.topic) else until)
        return sorted(set(range(begin, until)) - self.read.get(partition, set()))

    def _has_begun(self, topic: str) -> bool:
        return any(tp.topic == topic for tp in self._committed)


def simulate(seed: int, kind: str, *, steps: int = STEPS) -> Failure | None:
    """Return the failure of a schedule, or None."""
    return simulated(KafkaGroup(seed, kind), seed, kind, steps)
