"""Random schedules of streaming queries on a real cluster, and the invariants of every schedule.

1.  Nothing is skipped: in the end, each record of an existing topic is in a finished micro-batch, except records before the
    first start at `latest`. A micro-batch has all records of its range, and starts where the last one ended.
2.  Nothing is read twice, with two exceptions: records that a query had finished or planned, but not committed, when it
    ended; and records that an offset store does not know, when a query switches to this store, or returns to a group in
    which its checkpoint has no micro-batch.
3.  A run with `availableNow` or `once` that ends without an error has read up to the ends at its start.
4.  Lost records are an error with `failOnDataLoss=true`. Any other error requires a server fault or a kill.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.engines import ReadAllAvailable
from pyspark_zkafka.errors import DataLoss, OptionError, ZKafkaError
from pyspark_zkafka.model.checkpoint import StreamOffset
from tests.faults.harness.history import Committed
from tests.faults.harness.sampling import KafkaGroup, ZooKeeperGroup
from tests.faults.use.runs import Checkpoint, Died, Planner, Read
from tests.faults.use.steps import Step, Use, steps_of
from tests.faults.use.topics import Log, Topics

if TYPE_CHECKING:
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["Violation", "find", "shortest", "violation"]

_SESSION_S = 6
_MOST_BATCHES = 60
_STORES = {"zookeeper": ("zookeeper",), "kafka": ("kafka",), "dual": ("zookeeper", "kafka")}


Place = tuple[Log, int]
"""A record: its log and its offset."""


class Violation(AssertionError):
    """A schedule violates an invariant."""


class Query:
    """A query on one checkpoint, and the records it has read.

    Attributes
    ----------
    position : dict
        The end of the last finished micro-batch.
    uncommitted : set
        Records of finished micro-batches that may not be committed.
    lost : set
        Topics with records that the query read and that were deleted since, not yet reported.
    planned : dict
        The logs of the last planned micro-batch; if it is repeated later, their topic may be deleted.
    may_lose : set
        Topics with records deleted since the query reached the ends; `passed` has those with a micro-batch planned since.
    """

    def __init__(self) -> None:
        self.use = Use()
        self.planner: Planner | None = None
        self.position: dict[Log, int] = {}
        self.uncommitted: set[Place] = set()
        self.lost: set[str] = set()
        self.may_lose: set[str] = set()
        self.passed: set[str] = set()
        self.is_tolerant = self.has_ended = self.has_left = self.is_recorded = self.is_new = False
        self.bounds: dict[Log, int] = {}
        self.planned: dict[TopicPartition, Log] = {}
        self.stores: tuple[str, ...] = ()
        self.begin_again()

    def begin_again(self) -> None:
        """Start with an empty checkpoint."""
        self.checkpoint = Checkpoint()
        self.start: dict[str, Any] | None = None

    def lose(self, topic: str) -> None:
        """Note that records of a topic were deleted."""
        self.may_lose.add(topic)
        self.passed.discard(topic)

    @property
    def fails(self) -> bool:
        """True if this run reports lost records as errors."""
        return self.use.fails and not self.is_tolerant


class Schedule:
    """The cluster, the topics and the queries of one schedule."""

    def __init__(self, cluster: LocalCluster, steps: Sequence[Step], plant: str | None = None) -> None:
        self.cluster = cluster
        self.steps = steps
        self.plant = plant
        self.topics = Topics(cluster, self._note_loss)
        self.queries = [Query(), Query()]
        self.skipped: dict[Log, int] = {}
        self.read: set[Place] = set()
        self.allowed: set[Place] = set()
        self.committed: dict[tuple[str, Log], int] = {}
        self.is_disturbed = self._has_been_static = False
        self.taken: list[Step] = []

    def run(self) -> None:
        """Take all steps, then read the rest. Raises Violation."""
        try:
            self.topics.create("a", 2)
            self.topics.create("b", 1)
            for step in self.steps:
                self.taken.append(step)
                self._take(step)
            self._finish()
        finally:
            for query in self.queries:
                if query.planner is not None:
                    query.planner.kill()
            self.topics.close()

    # --- runs

    def start(self, use: Use, disturbance: Step | None = None) -> None:
        """Stop a query and start it with other options; a finite run ends before this returns."""
        query = self.queries[use.query]
        self.stop(use.query)
        if use.trigger != "running":
            self._settle_others(query)
        if query.checkpoint.offsets and use.unknown:
            use = use._replace(unknown=False)
        self._guard(query, lambda: self._begin(query, use))
        if query.planner is not None and use.trigger != "running":
            self._guard(query, lambda: self._run_to_its_end(query, disturbance))
            self.topics.end_pauses()

    def trigger(self, number: int, times: int) -> None:
        """Let a running query plan `times` times."""
        query = self.queries[number]
        for _ in range(times):
            if query.planner is not None:
                self._guard(query, lambda: self._trigger(query))

    def stop(self, number: int) -> None:
        """Stop a query in an orderly way."""
        self._end(self.queries[number], Planner.stop)

    def kill(self, number: int, at: str) -> None:
        """Kill a running query at a point of a micro-batch."""
        query = self.queries[number]
        if query.planner is not None:
            self._guard(query, lambda: self._trigger(query, until=at))
            self._end(query, Planner.kill)

    def fresh(self, number: int) -> None:
        """Delete the checkpoint of a query, which continues at the group's offsets if it has a group."""
        query = self.queries[number]
        self.stop(number)
        if query.stores:  # another store may know less
            self.allowed |= {place for place in self.read if self._is_unknown(place)}
        self.skipped.clear()
        query.begin_again()
        query.position, query.lost = {}, set()

    def _is_unknown(self, place: Place) -> bool:
        return any(self.committed.get((store, place[0]), 0) <= place[1] for store in ("zookeeper", "kafka"))

    def _begin(self, query: Query, use: Use) -> None:
        query.use, query.start, query.has_ended, query.is_new = use, None, False, True
        stores = self._stores(use)
        if not stores and not query.checkpoint.offsets:
            self.allowed |= self.read
        is_unseen = query.has_left and not query.is_recorded
        if stores and query.stores and (stores != query.stores or is_unseen):
            self.allowed |= {(log, n) for log, n in self.read if self._is_unknown((log, n))}
        query.stores = stores or query.stores
        query.has_left, query.is_recorded = not stores, query.is_recorded and not stores
        self._has_been_static |= use.group == "static"
        query.planner = Planner(self._options(use), self.plant)
        query.bounds = {log: self.topics.ends[log] for log in self._logs(use)}
        if use.trigger == "available":
            query.planner.call("prepareForTriggerAvailableNow")

    def _run_to_its_end(self, query: Query, disturbance: Step | None) -> None:
        was_interrupted = query.checkpoint.is_interrupted
        for number in range(_MOST_BATCHES):
            until = query.use.cut if number == 1 else ""
            has_more = self._trigger(query, until=until or "done")
            if until:
                self._end(query, Planner.kill)
                return
            if number == 0 and disturbance is not None:
                self._take(disturbance)
            if not has_more or query.use.trigger == "once":
                break
        else:
            raise Violation(f"the run has not ended after {_MOST_BATCHES} micro-batches")
        reads_all = not was_interrupted and not (
            query.use.group and self.is_disturbed
        )  # a killed member still holds a share
        if query.use.trigger == "available" or reads_all:
            self._settle_others(query)  # they may own what a killed member owned
            self._check_ends(query)
            query.may_lose -= query.passed
            query.is_tolerant = False
        query.has_ended = True
        self._end(query, Planner.stop)

    def _trigger(self, query: Query, until: str = "done") -> bool:
        """Make the calls of one trigger. Returns False if there was nothing to read."""
        planner, checkpoint = query.planner, query.checkpoint
        assert planner is not None
        if query.start is None:
            if checkpoint.finished:
                query.start = checkpoint.offsets[checkpoint.finished - 1]
            else:
                if not checkpoint.offsets and query.use.start == "latest":
                    self.skipped |= {log: self.topics.ends[log] for log in self._logs(query.use)}
                query.start = planner.call("initialOffset")
        if not checkpoint.is_interrupted:
            end = self._plan(query, planner)
            if end is None:
                return False
        if until == "planned":
            return True
        read = planner.call("read_all", query.start, checkpoint.offsets[-1])
        if until != "read":
            self._note_finished(query, read)
        if until == "idle":
            self._plan(query, planner)
        return True

    def _plan(self, query: Query, planner: Planner) -> dict[str, Any] | None:
        checkpoint = query.checkpoint
        limit = ReadAllAvailable() if query.use.trigger == "once" else planner.call("getDefaultReadLimit")
        end: dict[str, Any] = planner.call("latestOffset", query.start, limit)
        if query.use.unknown:
            raise Violation("startingOffsets names a partition that does not exist, which is no error")
        self._note_planned(query, is_idle=end == query.start)
        if end == query.start:
            return None
        checkpoint.offsets.append(end)
        query.planned = {tp: self.topics.log_of(tp) for tp in StreamOffset.from_json(end).ranges}
        query.is_recorded |= bool(query.use.group)
        query.passed = query.may_lose & set(self._subscribed(query.use))
        if len(checkpoint.offsets) == 1:
            assert planner.call("initialOffset") == query.start
        elif query.start is not None:
            planner.call("commit", query.start)
        return end

    def _settle_others(self, query: Query) -> None:
        """Let the other query commit everything that it has finished."""
        for other in self.queries:
            if other is not query and other.planner is not None:
                while self._guard(other, lambda other=other: self._trigger(other)):  # type: ignore[misc]
                    pass

    def _guard(self, query: Query, action: Callable[[], Any]) -> Any:
        """Return the result of an action; an allowed error ends the run."""
        try:
            return action()
        except Died as error:
            raise Violation(str(error)) from error
        except ZKafkaError as error:
            self._check_error(query, error)
            self._end(query, Planner.stop)
        return None

    def _end(self, query: Query, how: Callable[[Planner], None]) -> None:
        planner, query.planner = query.planner, None
        if planner is None:
            return
        try:
            how(planner)
        except Died as error:
            raise Violation(str(error)) from error
        if how is Planner.kill:
            self.is_disturbed = True
        self.allowed |= query.uncommitted
        query.uncommitted = set()
        if query.checkpoint.is_interrupted:
            ranges = StreamOffset.from_json(query.checkpoint.offsets[-1]).ranges
            self.allowed |= {(query.planned[tp], n) for tp, span in ranges.items() for n in range(span.start, span.until)}

    def _note_loss(self, topic: str, life: int | None) -> None:
        for query in self.queries:
            query.lose(topic)
            if any((log.topic, log.life) == (topic, life) and end > 0 for log, end in query.position.items()):
                query.lost.add(topic)

    # --- invariants

    def _check_error(self, query: Query, error: ZKafkaError) -> None:
        if isinstance(error, DataLoss):
            if not query.fails or not query.may_lose & set(self._subscribed(query.use)):
                raise Violation(f"a loss is reported, and nothing was lost: {error}") from error
            query.is_tolerant = True
        elif isinstance(error, OptionError):
            if not query.use.unknown:
                raise Violation(f"options are refused: {error}") from error
        elif error.condition == "GROUP_ACTIVE" and (self.is_disturbed or self._has_been_static):
            time.sleep(_SESSION_S)  # static and killed members do not leave the group
        elif not (error.retriable and self.is_disturbed):
            raise Violation(f"an error without a fault: {error}") from error

    def _note_planned(self, query: Query, is_idle: bool) -> None:
        """Note that `latestOffset` succeeded. After the first call, only calls that find records check for deletions."""
        lost = set() if is_idle and not query.is_new else query.lost & set(self._subscribed(query.use))
        query.is_new = False
        if query.fails and lost:
            raise Violation(f"the deletion of {sorted(lost)} is passed over")
        for each in self.queries:  # the other query need not report what this one has started to read
            each.lost -= lost if each is query else set(self._subscribed(query.use))
        if not self.is_disturbed or not query.use.group:
            query.uncommitted = set()
        elif query.uncommitted:  # a member that is killed or silent may have lost its partitions before it committed
            stored = self._stored(query.use)
            query.uncommitted = {place for place in query.uncommitted if place[1] >= stored.get(place[0], 0)}
        for store in self._stores(query.use):
            self.committed |= {(store, log): end for log, end in query.position.items()}

    def _stored(self, use: Use) -> dict[Log, int]:
        """Return the group's smallest offsets over its stores. Leaves out partitions that one of the stores lacks.

        Also leaves out topics that were created again: their offsets may be of the deleted topic.
        """
        found: dict[Log, list[int]] = defaultdict(list)
        stores, group = self._stores(use), f"{self.topics.prefix}-g"
        for store, topic in product(stores, self._subscribed(use)):
            name = self.topics.name(topic)
            sample = (
                ZooKeeperGroup(self.cluster, group, name)
                if store == "zookeeper"
                else KafkaGroup(self.cluster.bootstrap_servers, group, name)
            ).sample()
            for event in sample:
                if isinstance(event, Committed) and event.topic == name:
                    found[self.topics.log(topic, event.partition)].append(event.offset)
        return {log: min(offsets) for log, offsets in found.items() if len(offsets) == len(stores) and not log.life}

    def _note_finished(self, query: Query, read: Read) -> None:
        """Check a micro-batch's records against its range, the topics, and earlier reads."""
        query.checkpoint.finished = len(query.checkpoint.offsets)
        end = StreamOffset.from_json(query.checkpoint.offsets[-1])
        found: set[Place] = set()
        for tp, rows in read.items():
            log = self.topics.log_of(tp)
            for offset, value in rows.items():
                if (sent := self.topics.records[log].get(offset)) != value:
                    raise Violation(f"{log} at {offset} is {sent!r}, and was read as {value!r}")
                found.add((log, offset))
        twice = {place for place in (found & self.read) - self.allowed if not self._is_ambiguous(query, place[0])}
        if twice:
            raise Violation(f"read again: {_shown(twice)}")
        for tp, span in end.ranges.items():
            log = query.planned[tp]
            if log.topic not in self._subscribed(query.use) or not self.topics.exists(log):
                continue
            begin = query.position.get(log, 0)
            due = {(log, n) for n in self.topics.records[log] if min(begin, span.start) <= n < span.until}
            missing = {p for p in due - found - self.read if p[1] >= self.skipped.get(log, 0)}
            gone = {place for place in missing if place[1] < self.topics.low[log]}
            if missing - gone:
                raise Violation(f"skipped: {_shown(missing)}")
            if gone and query.fails and log in query.position:
                raise Violation(f"{_shown(gone)} are lost without an error")
            query.position[log] = span.until
        self.allowed -= found & self.read
        self.read |= found
        query.uncommitted |= found
        query.start = query.checkpoint.offsets[-1]

    def _is_ambiguous(self, query: Query, log: Log) -> bool:
        """Return True if an offset in Kafka may belong to the deleted topic that the query read, or to its successor."""
        return query.stores == ("kafka",) and any(
            before.topic == log.topic and before.life < log.life for before in query.position
        )

    def _check_ends(self, query: Query) -> None:
        unread = {place for log, end in query.bounds.items() for place in self._unread(log, end)}
        if unread:
            raise Violation(f"the run has ended, and has not read {_shown(unread)}")

    def _unread(self, log: Log, until: int) -> set[Place]:
        if not self.topics.exists(log):
            return set()
        begin = max(self.skipped.get(log, 0), self.topics.low[log])
        return {(log, n) for n in self.topics.records[log] if begin <= n < until} - self.read

    def _finish(self) -> None:
        """Read the rest with one query and without faults."""
        for number in range(2):
            self.stop(number)
        last = next((query.use for query in self.queries if query.use.group), self.queries[0].use)
        use = last._replace(query=0, trigger="available", topics="ab", fails=False, cut="", unknown=False, limit=0)
        self.taken.append(Step("start", (use,)))
        for _ in range(3):
            self.start(use)
            if self.queries[0].has_ended:
                break
        unread = {place for log in self._logs(use) for place in self._unread(log, self.topics.ends[log])}
        if unread:
            raise Violation(f"never read: {_shown(unread)}")

    # --- names

    def _take(self, step: Step) -> None:
        getattr(self if hasattr(self, step.name) else self.topics, step.name)(*step.arguments)
        self.is_disturbed |= self.topics.has_paused

    def _subscribed(self, use: Use) -> str:
        return {"a": "a", "assign": "a"}.get(use.topics, "ab")

    def _logs(self, use: Use) -> list[Log]:
        if use.topics == "assign":
            return [self.topics.log("a", 0)] if "a" in self.topics.partitions else []
        return [self.topics.log(t, n) for t in self._subscribed(use) for n in range(self.topics.partitions.get(t, 0))]

    def _stores(self, use: Use) -> tuple[str, ...]:
        if use.group in ("kafka", "static"):
            return ("kafka",)
        return _STORES[use.stores] if use.group else ()

    def _options(self, use: Use) -> dict[str, str]:
        zookeeper = {"zookeeper.connect": self.cluster.zookeeper_connect}
        brokers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}
        given = {
            **self.topics.subscription(use.topics),
            "missingTopics": "wait",
            "failOnDataLoss": str(use.fails and not self.queries[use.query].is_tolerant).lower(),
            "kafkaConsumer.pollTimeoutMs": "8000",
        }
        if use.limit:
            given["maxOffsetsPerTrigger"] = str(use.limit)
        if not use.group:
            start = {self.topics.name("a"): {"9": 0}}
            given["startingOffsets"] = json.dumps(start) if use.unknown else use.start
            return {**given, **(zookeeper if use.way == "zookeeper" else brokers)}
        given |= {"group.id": f"{self.topics.prefix}-g", "auto.offset.reset": "earliest"}
        if use.unknown:
            given["startingOffsets"] = json.dumps({self.topics.name("a"): {"9": 0}})
        if use.group in ("kafka", "static"):
            static = {"group.instance.id": f"{self.topics.prefix}-{use.query}"} if use.group == "static" else {}
            timing = {"session.timeout.ms": str(1000 * _SESSION_S), "rebalance.hold.ms": "1000"}
            return {**given, **brokers, "groupMembership": "kafka", **timing, **static}
        storage = {
            "zookeeper": {"offsets.storage": "zookeeper"},
            "kafka": {"offsets.storage": "kafka", "dual.commit.enabled": "false"},
            "dual": {"offsets.storage": "kafka"},
        }[use.stores]
        timing = {"zookeeper.session.timeout.ms": "4000"}
        if use.group == "zookeeper":
            timing["rebalance.backoff.ms"] = "200"
        membership = "none" if use.group == "commits" else "zookeeper"
        return {**given, **zookeeper, **storage, **timing, "groupMembership": membership}


def _shown(places: set[Place]) -> str:
    logs: dict[Log, list[int]] = defaultdict(list)
    for log, offset in sorted(places):
        logs[log].append(offset)
    return "; ".join(f"{log.topic}-{log.partition} (life {log.life}) at {offsets}" for log, offsets in logs.items())


def violation(cluster: LocalCluster, steps: Sequence[Step], plant: str | None = None) -> str | None:
    """Run a schedule. Returns its violation and its steps, or None."""
    schedule = Schedule(cluster, steps, plant)
    try:
        schedule.run()
    except Violation as error:
        return "\n  ".join([str(error), *map(str, schedule.taken)])
    return None


def find(cluster: LocalCluster, seed: int, kind: str, plant: str | None = None, length: int = 14) -> str | None:
    """Return the violation of a seed's schedule, or None."""
    found = violation(cluster, steps_of(seed, kind, length), plant)
    return None if found is None else f"seed {seed}, {kind}: {found}"


def shortest(cluster: LocalCluster, seed: int, kind: str, plant: str | None = None, length: int = 14) -> str:
    """Return a violation after as few steps as possible."""
    found = (find(cluster, seed, kind, plant, steps) for steps in range(length + 1))
    return next((text for text in found if text is not None), f"seed {seed}, {kind}: not found again")
