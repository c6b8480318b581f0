"""Driver of a stream's planner: queries ZooKeeper and the brokers, claims and commits for each micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import PlannedRange, StreamOffset, TopicMark, first_mark
from pyspark_zkafka.protocol.model import Claim, ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.planning import (
    Split,
    describe_offline,
    make_splits,
    split_ranges,
    spread_over_leaders,
    subscribed_partitions,
)
from pyspark_zkafka.stream.commits import StreamCommits
from pyspark_zkafka.stream.epochs import StreamEpochs
from pyspark_zkafka.stream.limits import StreamLimits
from pyspark_zkafka.stream.planner import Loss, StreamState, check_ends, check_topics, end_of, ranges_of
from pyspark_zkafka.stream.positions import Beginning, StreamStarts
from pyspark_zkafka.stream.session import StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings
from pyspark_zkafka.worker.collector import collector_paused

__all__ = ["StreamDriver"]


_IDLE_WAIT_S = 1.0


class StreamDriver:
    """Spark's planning calls, for one run of a query; the first of them opens its session.

    Offsets are dicts as `StreamOffset.to_json` returns them.

    Parameters
    ----------
    options : StreamOptions
    clock, sleep : callable
        Monotonic seconds; wait for some seconds.
    session : StreamSession, optional
        Not open yet; created from the options by default.
    """

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        session: StreamSession | None = None,
    ) -> None:
        self._options = options
        self._read = options.read
        self._clock = clock
        self._sleep = sleep
        self._session = session or StreamSession(options, clock, sleep)
        self._opened = False
        self._starts = StreamStarts(options, self._session)
        self._reports = StreamWarnings(options.read.fail_on_data_loss, clock)
        self._commits = StreamCommits(options, self._session, self._reports)
        self._limits = StreamLimits(options, self._session, clock)
        self._epochs = StreamEpochs(options.read, self._session, self._reports)
        self._initial_offset: dict[str, Any] | None = None
        self._begun: Beginning | None = None
        self._state = StreamState()
        self._at: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self._parsed: tuple[dict[str, Any], StreamOffset] | None = None
        self._refusal: ZKafkaError | None = None
        self._latest: dict[TopicPartition, int] = {}

    def close(self) -> None:
        """Leave the group and close all connections; blocks for some seconds at the most."""
        self._session.close()

    # --- Spark's calls -------------------------------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """The start offset of a new query.

        Errors that are not retriable are raised by `latest` instead: Spark also requests the start when a restart repeats
        the first micro-batch, which reads the same records even if the options no longer fit the topics. Spark requests it
        again after planning the first micro-batch, and receives the same start.
        """
        if self._initial_offset is None:
            self._open()
            try:
                self._initial_offset = self._initial()
            except ZKafkaError as error:
                if error.retriable:
                    raise
                self._refusal, self._initial_offset = error, StreamOffset().to_json()
            self._at = self._initial_offset
        return self._initial_offset

    def _initial(self) -> dict[str, Any]:
        snapshot = self._session.settled_snapshot()
        self._require_topics(snapshot)
        if self._session.member is not None:
            self._session.member.wait_settled(self._settling_s)
        owned = self._own(snapshot)
        self._with_leader(owned, snapshot)
        begun = self._begun = self._session.retry(lambda: self._starts.begin(owned, snapshot))
        self._state = self._state.assign(owned, begun.gains)
        spans = {tp: one.span(one.position) for tp, one in self._state.assigned.items()}
        marks = {name: first_mark(topic, snapshot.states, begun.waiting) for name, topic in snapshot.topics.items()}
        return StreamOffset(spans, marks).to_json()

    def fix_bounds(self) -> None:
        """Fix the present ends of the logs as the query's end, for Trigger.AvailableNow.

        Raises
        ------
        NoLeader
            A partition has none, and `offlinePartitions` is not skip.
        """
        self._open()
        if self._session.member is not None:
            self._session.member.wait_settled(self._settling_s)
        led = self._session.retry(self._led)
        bounds = self._session.retry(lambda: self._session.brokers.list_offsets(dict.fromkeys(led, LATEST)))
        self._state = replace(self._state, bounds=bounds)

    def _led(self) -> list[TopicPartition]:
        """The partitions that the stream, or its group, reads, without those that have no leader."""
        snapshot = self._session.snapshot()
        everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
        partitions = everything if self._session.member is not None else sorted(self._session.owned(snapshot))
        offline = snapshot.without_leader(partitions)
        if offline and not self._read.skip_offline:
            raise describe_offline(offline, snapshot)
        waiting = set(offline)
        return [tp for tp in partitions if tp not in waiting]

    @collector_paused()  # a collection would scan tens of thousands of values that all stay alive
    def latest(self, start: dict[str, Any], *, limited: bool) -> dict[str, Any]:
        """The end of the next micro-batch; `start` itself if there is nothing to read.

        Also commits the positions that `start` marks as done, and releases and claims partitions.
        """
        self._open()
        finished = self._parse(start)
        self._note_finished(start, finished)
        if self._state.undecided:
            finished = replace(finished, spans={**self._state.undecided, **finished.spans})
        snapshot = self._session.snapshot(expected=finished.topics)
        is_member = self._session.member is not None
        self._accept(*check_topics(self._state, finished, snapshot, is_member=is_member))
        self.commit()
        owned = self._own(snapshot)
        self._gain(owned, finished, snapshot)
        self._latest = self._ends(snapshot)
        if self._has_news() and not self._session.is_still(snapshot):
            return self.latest(start, limited=limited)  # these are the ends of other topics of the same names
        self._accept(*check_ends(self._state, self._latest))
        ranges = ranges_of(self._state, self._latest)
        if limited:
            ranges = self._limits.apply(ranges, may_wait=self._state.bounds is None)
        if not any(r.size for r in ranges.values()):
            return self.latest(start, limited=limited) if self._rest() else start
        self._limits.note_batch()
        self._tell_member(tp for tp, r in ranges.items() if r.size)
        self._state, end = end_of(self._state, finished, ranges, snapshot)
        self._planned = end.to_json()
        self._parsed = self._planned, end
        return self._planned

    @collector_paused()
    def splits(self, end: dict[str, Any]) -> tuple[list[Split], str]:
        """The splits of the micro-batch that ends there, whoever owns its partitions now, and the bootstrap servers."""
        self._open()
        planned = self._parse(end)
        ranges = [OffsetRange(tp, *span[:2]) for tp, span in sorted(planned.spans.items()) if span.size]
        snapshot = self._session.snapshot()
        if any(snapshot.leader(r.partition) is None for r in ranges):
            snapshot = self._session.snapshot(anew=True)
        gone = [r for r in ranges if r.partition not in snapshot.states]
        if gone:
            self._reports.lose(
                "PARTITIONS_GONE", f"{listing(sorted(r.partition for r in gone))} of the micro-batch no longer exist"
            )
        there = [r for r in ranges if r.partition in snapshot.states]
        self._tell_member(r.partition for r in there)
        pieces = split_ranges(there, self._read.min_partitions, self._read.max_records)
        rack, listener = self._read.connection.client_rack, self._read.connection.listener
        splits = make_splits(pieces, _as_planned(snapshot, planned), rack, listener)
        return spread_over_leaders(splits), self._session.servers(snapshot)

    def commit(self) -> None:
        """Commit finished positions; see `StreamCommits`."""
        self._state = self._commits.commit(self._state)

    def report(self) -> dict[str, Any] | None:
        """The ends of the logs as last fetched, by topic and partition."""
        found: dict[str, dict[str, int]] = {}
        for tp in sorted(self._latest):
            found.setdefault(tp.topic, {})[str(tp.partition)] = self._latest[tp]
        return found or None

    # --- owned partitions, and their positions -------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._opened:
            self._session.__enter__()
            self._opened = True

    def _parse(self, offset: dict[str, Any]) -> StreamOffset:
        """Parse an offset; the last one is cached, as Spark returns a planned end at the start and end of its batch."""
        if self._parsed is None or self._parsed[0] != offset:
            self._parsed = offset, StreamOffset.from_json(offset)
        return self._parsed[1]

    @property
    def _settling_s(self) -> float:
        group = self._options.group
        return 0.0 if group is None else group.max_retries * group.backoff_ms / 1000

    def _require_topics(self, snapshot: ClusterSnapshot) -> None:
        """Reject a new query of topics that do not exist; a group's member waits for them, as JVM consumers do."""
        if self._session.member is None and self._read.subscription is not None:
            subscribed_partitions(self._read.subscription, snapshot)

    def _own(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """The partitions that are owned now, after releasing and claiming."""
        member = self._session.member
        owned = self._session.owned(snapshot) if member is None else member.rebalance()
        self._state = self._state.revoke(owned)
        return owned

    def _note_finished(self, start: dict[str, Any], finished: StreamOffset) -> None:
        """Move the positions to the end of the micro-batch that Spark has finished, or that another process planned."""
        if self._planned is not None and start == self._planned:
            self._state = self._state.finish(finished.spans)
        elif start != self._at:
            self._state = self._state.revoke({})
        elif self._refusal is not None:
            raise self._refusal
        elif self._begun is not None:
            self._decide(self._begun)
        self._at, self._planned, self._refusal, self._begun = start, None, None, None

    def _decide(self, begun: Beginning) -> None:
        """Commit this new query's start as the group's, or adopt the start that the group has already committed.

        Not when Spark requests the start: it does so, too, when a restart repeats the first micro-batch of an old query.
        """
        decided = self._session.retry(lambda: self._starts.decide(begun))
        others = {tp: PlannedRange(start, start) for tp, start in decided.undecided.items() if tp not in decided.gains}
        self._state = replace(self._state.start(decided.gains), undecided=others)

    def _accept(self, state: StreamState, losses: Iterable[Loss]) -> None:
        """Report data loss, and adopt the state without the lost records unless that raises."""
        for loss in losses:
            self._reports.lose(loss.condition, loss.text)
        self._state = state

    def _with_leader(self, owned: Collection[TopicPartition], snapshot: ClusterSnapshot) -> list[TopicPartition]:
        """The partitions that have a leader, in order; logs those that have none."""
        partitions = sorted(owned)
        offline = snapshot.without_leader(partitions)
        known = [tp for tp in offline if tp in snapshot.states]
        if known:
            found = describe_offline(known, snapshot).message.split(";")[0]
            self._reports.warn(f"{found}: waiting for a leader, and reading the others")
        waiting = set(offline)
        return [tp for tp in partitions if tp not in waiting] if waiting else partitions

    def _gain(self, owned: Mapping[TopicPartition, Claim], finished: StreamOffset, snapshot: ClusterSnapshot) -> None:
        gained = self._with_leader([tp for tp in owned if tp not in self._state.assigned], snapshot)
        if not gained:
            return
        try:
            state = self._state
            found = self._starts.find(gained, finished, state.committed, first=False, replaced=state.replaced)
        except ZKafkaError as error:
            # Brokers learn of new partitions after ZooKeeper has them.
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise
            self._reports.warn(f"{listing(sorted(gained))} cannot be read yet, trying again: {error}")
            return
        self._state = self._state.assign(owned, found)
        self.commit()

    # --- the end of a micro-batch --------------------------------------------------------------------------------------

    def _ends(self, snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
        """The ends of the logs; partitions whose leader does not answer are absent."""
        epochs: dict[TopicPartition, int] = {}
        found, failed = self._session.log_ends(self._with_leader(self._state.assigned, snapshot), epochs)
        for tp, error in failed.items():
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise error
            self._reports.warn(f"{tp} waits for its leader: {error}")
        if failed:
            self._session.snapshot(anew=True)
        ends, validated = self._epochs.check(self._state.assigned, self._asked_again(found, epochs), epochs)
        self._state = self._state.validate(validated)
        return ends

    def _has_news(self) -> bool:
        return any(end != self._state.assigned[tp].position for tp, end in self._latest.items())

    def _asked_again(
        self, ends: Mapping[TopicPartition, int], epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The ends; those before our positions are requested again: a new leader may report less at first (KAFKA-7703)."""
        found = self._behind_transactions(ends)
        for _ in range(self._read.retries):
            behind = set(self._before_positions(found))
            if not behind:
                break
            self._sleep(self._read.retry_interval_ms / 1000)
            others = {tp: end for tp, end in found.items() if tp not in behind}
            found = others | self._behind_transactions(self._session.log_ends(behind, epochs)[0])
        return found

    def _before_positions(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        return [tp for tp, end in ends.items() if end < self._state.assigned[tp].position]

    def _behind_transactions(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends, moved to our positions where only open transactions lie between; absent where no leader answers.

        A group's member, or a run of this query, that read uncommitted may have advanced the position beyond the end.
        """
        before = self._before_positions(ends) if self._read.connection.read_committed else []
        if not before:
            return dict(ends)
        found, failed = self._session.high_watermarks(before)
        moved = {tp: max(ends[tp], min(high, self._state.assigned[tp].position)) for tp, high in found.items()}
        return {tp: moved.get(tp, end) for tp, end in ends.items() if tp not in failed}

    def _rest(self) -> bool:
        """Wait when nothing is to be read: a stream that owns nothing would otherwise query again and again.

        Returns
        -------
        bool
            True if there is more to read after all: partitions gained while waiting, up to fixed ends.
        """
        member = self._session.member
        self._tell_member(())
        if member is None:
            return False
        if self._state.bounds is not None and not member.settled:
            return member.wait_settled(self._settling_s) and not member.owned().keys() <= self._state.assigned.keys()
        if not self._state.assigned:
            member.wait(_IDLE_WAIT_S)
        return False

    def _tell_member(self, partitions: Any) -> None:
        if self._session.member is not None:
            self._session.member.read(list(partitions))


def _as_planned(snapshot: ClusterSnapshot, planned: StreamOffset) -> ClusterSnapshot:
    """The cluster with the identities that its topics had when the micro-batch was planned."""
    marks = {name: planned.topics.get(name, TopicMark()) for name in snapshot.topics}
    topics = {n: replace(t, topic_id=marks[n].topic_id, czxid=marks[n].czxid) for n, t in snapshot.topics.items()}
    return replace(snapshot, topics=topics)
