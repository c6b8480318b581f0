"""Driver of a stream: reads ZooKeeper and the brokers, and claims and commits partitions for each micro-batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, PARTITIONS_GONE, TOPIC_REPLACED
from pyspark_zkafka.errors import PartitionOwned, ZKafkaError, listing
from pyspark_zkafka.model.checkpoint import PlannedRange, StreamOffset, TopicIdentity, first_identity
from pyspark_zkafka.model.nouns import Claim, ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.model.planning import Split, offline_text, requested_topics
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.batch_planner import task_splits
from pyspark_zkafka.read.stream_ends import FixedEnds, StreamEnds, StreamLimits
from pyspark_zkafka.read.stream_planner import (
    Loss,
    MicroBatchFacts,
    PartitionProgress,
    StreamState,
    check_fixed_ends,
    check_topics,
    lagging_partitions,
    plan_micro_batch,
    replaced_topics,
)
from pyspark_zkafka.read.stream_positions import InitialPositions, StreamStarts
from pyspark_zkafka.read.stream_session import StreamSession, StreamWarnings
from pyspark_zkafka.retries import may_succeed_later
from pyspark_zkafka.worker import collector_paused

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership

_log = logging.getLogger(__name__)

_IDLE_WAIT_S = 1.0
_COMMIT_AGAIN_S = 600.0


class StreamDriver:
    """Planner of one run of a query. The first planning call opens the session.

    Offsets are dicts, as `StreamOffset.to_json` returns them. A given `session` is not open yet.
    """

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        session: StreamSession | None = None,
    ) -> None:
        self._options = options
        self._session = session or StreamSession(options, clock, sleep)
        self._clock = clock
        self._starts = StreamStarts(options, self._session)
        self._warnings = StreamWarnings(options.read.fail_on_data_loss, clock)
        self._limits = StreamLimits(options, self._session, clock)
        self._ends = StreamEnds(self._session, self._warnings, read_committed=options.read.connection.read_committed)
        self._fixed_ends = FixedEnds(options.read, self._session, self._warnings, clock, sleep)
        self._initial_offset: dict[str, Any] | None = None
        self._initial_positions: InitialPositions | ZKafkaError | None = None
        self._state = StreamState()
        self._facts = MicroBatchFacts()
        self._unsubscribed: tuple[Mapping[str, TopicIdentity], frozenset[str]] = {}, frozenset()
        self._start: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self._parsed: tuple[dict[str, Any], StreamOffset] | None = None
        self._commit_again_at = clock() + _COMMIT_AGAIN_S

    @property
    def _read(self) -> ReadOptions:
        return self._options.read

    @property
    def _has_group(self) -> bool:
        return self._options.group is not None

    def close(self) -> None:
        """Leave the group and close all connections. Blocks for at most some seconds."""
        self._session.close()

    def initial(self) -> dict[str, Any]:
        """Return the start offset of a new query. Every call returns the same offset.

        Spark calls this again after it has planned the first micro-batch, and when a restart repeats that micro-batch. A
        repeated micro-batch reads the same records, even if the options no longer fit the topics. Errors that are not
        retriable are therefore kept, and `latest` raises them.
        """
        if self._initial_offset is None:
            self._session.open()
            try:
                self._initial_offset = self._initial()
            except ZKafkaError as error:
                if error.retriable:
                    raise
                self._initial_positions, self._initial_offset = error, StreamOffset().to_json()
            self._start = self._initial_offset
        return self._initial_offset

    def _initial(self) -> dict[str, Any]:
        self._check_subscribed(has_end=self._state.bounds is not None)
        snapshot = self._session.cluster.settled_snapshot()
        member = self._session.member
        if member is not None:
            member.wait_settled()
        owned = self._rebalance(snapshot)
        self._with_leader(owned, snapshot)

        def find_positions() -> tuple[ClusterSnapshot, InitialPositions]:
            now = self._session.cluster.snapshot()
            return now, self._starts.initial(owned, now)

        snapshot, self._initial_positions = self._session.retry(find_positions)
        self._state = self._state.assign(owned, self._initial_positions.assigned, snapshot.topics)
        planned_ranges = {tp: progress.planned_range(progress.position) for tp, progress in self._state.assigned.items()}
        known = snapshot.states.keys() & owned.keys() if member is None else snapshot.states
        identities = {name: first_identity(topic, known) for name, topic in snapshot.topics.items()}
        stores = frozenset(self._read.stores if self._has_group else ())
        return StreamOffset(planned_ranges, identities, stores).to_json()

    def _check_subscribed(self, *, has_end: bool) -> None:
        """Raise UnknownTopic, or warn, if a subscribed topic does not exist; see `StreamWarnings.report_missing`."""
        cluster = self._session.cluster
        subscription = self._read.require_subscription()
        snapshot = cluster.snapshot(expected=requested_topics(subscription))
        if not requested_topics(subscription, snapshot.topics):  # a broker that has just started knows no topics
            snapshot = self._session.retry.until(lambda found: bool(found.topics), lambda: cluster.snapshot(anew=True))
        self._warnings.report_missing(self._read, snapshot, cluster.topic_names, may_fail=True, has_end=has_end)

    def fix_bounds(self) -> None:
        """Fix the present ends of the logs as the query's end.

        Raises NoLeader for a partition without a leader, unless `offlinePartitions` is skip, and UnknownTopic for a topic
        that does not exist, unless `missingTopics` is wait.
        """
        self._session.open()
        self._check_subscribed(has_end=True)
        ends, identities = self._fixed_ends.fetch()
        self._state = replace(self._state, bounds=ends, bounded=identities)

    def latest(self, start: dict[str, Any], *, limited: bool) -> dict[str, Any]:
        """Return the end of the next micro-batch, or `start` if there is nothing to read. Commits, releases and claims.

        The first call waits until the member is assigned its partitions. With fixed ends, Spark ends the query when this
        returns `start`. The call therefore waits while the query may have more to read up to these ends; see
        `FixedEnds.wait`, also for errors.
        """
        self._session.open()
        if self._session.member is not None and self._start is None:
            self._session.member.set_reading(())  # a repeated micro-batch has ended
            self._session.member.wait_settled()
        since = self._clock()
        while (end := self._next(start, limited=limited)) is None:
            if not self._wait_idle(self._parse(start), since):
                return start
        return end

    @collector_paused()  # a collection would scan tens of thousands of values that all stay alive
    def _next(self, start: dict[str, Any], *, limited: bool) -> dict[str, Any] | None:
        """Return the end of the next micro-batch; None if there is nothing to read."""
        recorded = finished = self._parse(start)
        if self._has_group:
            finished = recorded.committed_to(self._read.stores)
        self._advance(start, finished)
        if self._state.uncommitted_starts:
            finished = replace(finished, ranges={**self._state.uncommitted_starts, **finished.ranges})
        unsubscribed = self._unsubscribed_topics(finished)
        known = MicroBatchFacts(recorded, finished, unsubscribed, ends=self._facts.ends, has_group=self._has_group)
        for attempt in range(self._session.retry.retries + 1):
            if attempt > 1:
                self._session.retry.sleep(self._session.retry.interval_s)
            self._facts, is_complete = self._look(known)
            if not is_complete:
                return None
            has_news = any(end != self._state.assigned[tp].position for tp, end in self._facts.ends.items())
            if not has_news or self._session.cluster.has_same_topics_as(self._facts.snapshot):
                return self._plan(limited=limited)
        topics = listing(sorted({tp.topic for tp in self._facts.ends}))
        self._warnings.warn("topics", f"Brokers disagree on the identity of topic {topics}, retrying")
        self._facts = replace(self._facts, unanswered=self._facts.unanswered | self._state.assigned.keys())
        return None

    def _look(self, known: MicroBatchFacts) -> tuple[MicroBatchFacts, bool]:
        """Read the cluster, commit, release and claim, and fetch the ends of logs.

        Returns facts without new ends, and False, if topics that were created again cannot be read yet. If topics are
        created again during this call, the ends may belong to other topics of the same names.
        """
        current = known.current
        expected = current.topics.keys() | {tp.topic for tp in self._state.bounds or ()}
        snapshot = self._session.cluster.snapshot(expected=expected)
        names, has_end = self._session.cluster.topic_names, self._state.bounds is not None
        self._warnings.report_missing(self._read, snapshot, names, may_fail=False, has_end=has_end)
        replaced = replaced_topics(self._state, current, snapshot)
        try:
            followed = self._starts.followed(replaced, current, self._state.committed, snapshot) if replaced else set()
        except ZKafkaError as error:
            if not error.retriable:
                raise
            self._warnings.warn("replaced", f"{listing(sorted(replaced))} cannot be read yet, retrying: {error}")
            unread = frozenset(tp for tp in current.ranges if tp.topic in replaced)
            return replace(known, snapshot=snapshot, unanswered=unread), False
        self._apply(*check_topics(self._state, current, snapshot, replaced, followed))
        self.commit()
        owned = self._rebalance(snapshot)
        unanswered = self._assign(owned, known.finished, snapshot)
        led = self._with_leader(self._state.assigned, snapshot)
        ends, epochs = self._ends.fetch(led, self._state)
        self._state = self._state.with_epochs(epochs)
        bounds = self._state.bounds or {}
        unanswered |= {tp for tp in led if tp not in ends and self._state.assigned[tp].position != bounds.get(tp)}
        return replace(known, snapshot=snapshot, ends=ends, unanswered=frozenset(unanswered)), True

    def _plan(self, *, limited: bool) -> dict[str, Any] | None:
        """Return the end of the next micro-batch, within its limits; None if there is nothing to read or to record."""

        def limit(ranges: Mapping[TopicPartition, OffsetRange]) -> Mapping[TopicPartition, OffsetRange]:
            return self._limits.apply(ranges, may_wait=self._state.bounds is None) if limited else ranges

        plan = plan_micro_batch(self._state, self._facts, limit)
        self._apply(plan.state, plan.losses)
        if plan.end is None:
            return None
        self._session.set_reading(tp for tp, r in plan.end.ranges.items() if r.size)
        self._planned = plan.end.to_json()
        self._parsed = self._planned, plan.end
        return self._planned

    @collector_paused()
    def splits(self, end: dict[str, Any]) -> tuple[tuple[Split, ...], str]:
        """Return the splits of the micro-batch that ends at `end`, and the bootstrap servers.

        Includes partitions that the member no longer owns. The order of the splits does not depend on leaders: Spark
        numbers tasks in this order, and a micro-batch repeated after an election must have the same rows in each task.
        """
        self._session.open()
        planned = self._parse(end)
        ranges = [OffsetRange(tp, *r[:2]) for tp, r in sorted(planned.ranges.items()) if r.size]
        topics = {r.partition.topic for r in ranges}
        unsubscribed = self._unsubscribed_topics(planned) & topics
        snapshot = self._session.cluster.snapshot(expected=topics - unsubscribed)
        if any(snapshot.leader(r.partition) is None for r in ranges):
            snapshot = self._session.retry.until(
                lambda found: not lagging_partitions(ranges, planned, found),
                lambda: self._session.cluster.snapshot(anew=True),
            )
        if unsubscribed:
            others = self._session.cluster.snapshot_of(unsubscribed)
            snapshot = replace(
                snapshot, topics={**snapshot.topics, **others.topics}, states={**snapshot.states, **others.states}
            )
        if lagging := lagging_partitions(ranges, planned, snapshot):
            raise BROKERS_UNAVAILABLE(
                f"{listing(lagging)} of the micro-batch are missing in the metadata: the server is not up to date"
            )
        gone = sorted(r.partition for r in ranges if r.partition not in snapshot.states)
        if gone:
            self._warnings.lose(PARTITIONS_GONE, f"{listing(gone)} of the micro-batch no longer exist")
        again = {
            name for name in topics & snapshot.topics.keys() if planned.topics[name].differs_from(snapshot.topics[name])
        }
        replaced = sorted(r.partition for r in ranges if r.partition in snapshot.states and r.partition.topic in again)
        if replaced:
            text = f"{listing(replaced)} of the micro-batch belong to topics that were deleted and created again"
            self._warnings.lose(TOPIC_REPLACED, text)
        ranges = [r for r in ranges if r.partition in snapshot.states and r.partition.topic not in again]
        self._session.set_reading(r.partition for r in ranges)
        identities = {name: planned.topics.get(name, TopicIdentity()) for name in snapshot.topics}
        as_planned = {
            n: replace(t, topic_id=identities[n].topic_id, czxid=identities[n].czxid) for n, t in snapshot.topics.items()
        }
        splits = task_splits(ranges, self._read, replace(snapshot, topics=as_planned))
        return splits, self._session.cluster.servers(snapshot)

    def commit(self) -> None:
        """Commit finished positions, if there is a group; see `commit_positions`.

        Every ten minutes, commits to Kafka include unchanged positions: brokers delete an offset some time after its last
        commit, unless the group has members in Kafka. With two stores, deleted offsets are copied from ZooKeeper instead.
        """
        if not self._has_group:
            return
        again = "kafka" in self._read.stores and self._clock() >= self._commit_again_at
        if again:
            self._commit_again_at = self._clock() + _COMMIT_AGAIN_S
        is_alone = self._read.stores == ("kafka",)
        self._state = commit_positions(self._state, self._session, self._warnings, again=again and is_alone)
        if again:
            self._copy_to_lagging_store(self._state.assigned)

    def report(self) -> dict[str, Any] | None:
        """Return the ends of the logs as last fetched, by topic and partition."""
        found: dict[str, dict[str, int]] = {}
        for tp, end in sorted(self._facts.ends.items()):
            found.setdefault(tp.topic, {})[str(tp.partition)] = end
        return found or None

    def _parse(self, offset: dict[str, Any]) -> StreamOffset:
        """Parse an offset. Caches the last one: Spark passes the same offset in several calls."""
        if self._parsed is None or self._parsed[0] != offset:
            self._parsed = offset, StreamOffset.from_json(offset)
        return self._parsed[1]

    def _unsubscribed_topics(self, finished: StreamOffset) -> frozenset[str]:
        """Return the topics of earlier micro-batches to which the query no longer subscribes. Logs them once.

        Their positions stay in the checkpoint, where a query that subscribes again continues.
        """
        known, before = self._unsubscribed
        if known is not finished.topics:
            subscribed = requested_topics(self._read.require_subscription(), finished.topics)
            found = frozenset(finished.topics).difference(subscribed)
            if found - before:
                _log.warning(
                    "The query no longer subscribes to %s, and does not read it. Subscribe again to continue at the last "
                    "position",
                    listing(sorted(found)),
                )
            self._unsubscribed = finished.topics, found
        return self._unsubscribed[1]

    def _rebalance(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """Release and claim partitions. Returns the partitions that are owned now."""
        member = self._session.member
        owned = self._session.subscribed(snapshot) if member is None else member.rebalance()
        self._state = self._state.revoke(owned)
        return owned

    def _advance(self, start: dict[str, Any], finished: StreamOffset) -> None:
        """Move the positions to the end of the finished micro-batch, or drop them if `start` is the end of another run."""
        if self._planned is not None and start == self._planned:
            self._state = self._state.finish(finished.ranges)
        elif start != self._start:
            self._state = self._state.revoke({})
        elif isinstance(self._initial_positions, ZKafkaError):
            raise self._initial_positions
        elif self._initial_positions is not None:
            self._commit_starts(self._initial_positions, finished)
        self._start, self._planned, self._initial_positions = start, None, None

    def _commit_starts(self, initial: InitialPositions, start: StreamOffset) -> None:
        """Commit the start of this new query as the group's, or adopt the start that the group has already committed.

        `initial` does not commit it, since Spark also requests the start when a restart repeats the first micro-batch of an
        old query. Leaves out topics that were deleted or created again since the start was found.
        """
        now = self._session.cluster.snapshot().topics
        same = {name for name, identity in start.topics.items() if name in now and not identity.differs_from(now[name])}
        initial = initial.within(same)
        found = self._session.retry(lambda: self._starts.commit_starts(initial))
        others = {tp: PlannedRange(start, start) for tp, start in found.uncommitted.items() if tp not in found.assigned}
        self._state = replace(self._state.start(found.assigned), uncommitted_starts=others)
        self._copy_to_lagging_store(found.assigned)

    def _copy_to_lagging_store(self, partitions: Collection[TopicPartition]) -> None:
        """Copy offsets of these partitions to a store that lags or has no offset. Logs retriable errors.

        Leaves out partitions in which the next commit may lower the offset.
        """
        member = self._session.member
        owner = None if member is None else member.owner
        if not self._has_group or len(self._read.stores) < 2 or (member is not None and owner is None):
            return
        try:
            self._session.copy_to_lagging_store(self._state.without_resets(partitions), owner)
        except PartitionOwned:
            return  # the next commit reports it
        except ZKafkaError as error:
            if not may_succeed_later(error):
                raise
            _log.warning("The group's offsets are not yet copied to the store that lags: %s", error)

    def _apply(self, state: StreamState, losses: Iterable[Loss]) -> None:
        """Report data loss. Adopts the state without the lost records, unless the report raises."""
        for loss in losses:
            self._warnings.lose(loss.condition, loss.text)
        self._state = state

    def _with_leader(self, owned: Collection[TopicPartition], snapshot: ClusterSnapshot) -> list[TopicPartition]:
        """Return the partitions that have a leader, in order. Logs the partitions without a leader."""
        partitions = sorted(owned)
        offline = snapshot.without_leader(partitions)
        if due := self._warnings.due("offline", [tp for tp in offline if tp in snapshot.states]):
            _log.warning("%s. Waiting for a leader, and reading the other partitions", offline_text(due, snapshot))
        waiting = set(offline)
        return [tp for tp in partitions if tp not in waiting] if waiting else partitions

    def _assign(
        self, owned: Mapping[TopicPartition, Claim], finished: StreamOffset, snapshot: ClusterSnapshot
    ) -> set[TopicPartition]:
        """Start to read partitions that are new to this run. Returns the partitions without a start after an error."""
        new = self._with_leader([tp for tp in owned if tp not in self._state.assigned], snapshot)
        if not new:
            return set()
        unanswered: set[TopicPartition] = set()
        found = self._find(new, finished)
        if found is None:
            found, unanswered = {}, set(new)
            # One leader that does not answer must not keep the other partitions from being read.
            _, failed = self._session.log_ends(new, {}) if len(new) > 1 else ({}, {})
            answering = [tp for tp in new if tp not in failed] if failed else []
            if answering and (found := self._find(answering, finished)) is not None:
                unanswered.difference_update(answering)
        self._state = self._state.assign(owned, found or {}, snapshot.topics)
        self.commit()
        self._copy_to_lagging_store(found or {})
        return unanswered

    def _find(
        self, new: Sequence[TopicPartition], finished: StreamOffset
    ) -> dict[TopicPartition, PartitionProgress] | None:
        """Find the starts of new partitions; None, with a warning, after a retriable error."""
        try:
            return self._starts.find(new, finished, self._state)
        except ZKafkaError as error:
            if not may_succeed_later(error):
                raise
            if due := self._warnings.due("unread", sorted(new)):
                _log.warning("%s cannot be read yet, retrying: %s", listing(due), error)
            return None

    def _wait_idle(self, finished: StreamOffset, since: float) -> bool:
        """Wait a moment if fixed ends are left to reach. Returns False if not. Nothing was read `since` that time.

        A stream that owns no partition also waits, because Spark would otherwise plan without a pause.
        """
        self._session.set_reading(())
        existing = self._facts.snapshot.states.keys()
        unanswered = self._facts.unanswered.intersection(self._fixed_ends.fixed)
        if self._fixed_ends.wait(self._state.behind(existing), unanswered, since):
            return True
        self._apply(*check_fixed_ends(self._state, finished, existing))
        if self._session.member is not None and not self._state.assigned:
            self._session.member.wait(_IDLE_WAIT_S)
        return False


def commit_positions(
    state: StreamState, session: StreamSession, warnings: StreamWarnings, *, again: bool = False
) -> StreamState:
    """Commit the due positions of owned partitions; see `StreamState.due`. Logs retriable errors, and retries later.

    Leaves out partitions that were revoked and assigned again: the query continues at the group's offset, and another
    client may have changed that offset.
    """
    due = state.due(again=again)
    member = session.member
    owner = None if member is None else member.owner
    if not due or (member is not None and (not member.owned() or owner is None)):
        return state
    kept = state if member is None else state.revoke(member.owned())
    ours = {tp: offset for tp, offset in due.items() if tp in kept.assigned}
    _note_lost(due.keys() - ours.keys(), member)
    if not ours:
        return state
    try:
        done = session.group_offsets().commit(ours, owner, [tp for tp in ours if state.assigned[tp].resets])
    except PartitionOwned as error:
        warnings.warn("owned", f"Offsets are not committed: {error}")
        return state
    except ZKafkaError as error:
        if not may_succeed_later(error):
            raise
        _log.warning("Offsets are not committed yet, retrying: %s", error)
        return state
    _note_lost(done.lost, member)
    committed, moved = state.with_commits({**done.kept, **done.written}, done.mzxids, session.stores)
    if new := warnings.due("moved", sorted(moved)):
        _log.warning(
            "Another client has moved the group's offsets ahead of this query: %s. The query continues at the group's "
            "offsets when it restarts or is assigned the partitions again. With groupMembership=none, a query needs a "
            "group.id of its own",
            listing(f"{tp} to {moved[tp]} (this query is at {state.assigned[tp].position})" for tp in new),
        )
    return committed


def _note_lost(partitions: Collection[TopicPartition], member: Membership | None) -> None:
    """Log that partitions are no longer owned, and have the member check its claims."""
    if partitions and member is not None:
        _log.warning("%s no longer owns %s, and did not commit the offsets", member.consumer, listing(sorted(partitions)))
        member.request_rebalance()
