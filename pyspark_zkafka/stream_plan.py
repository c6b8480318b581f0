"""Plans a stream, micro-batch by micro-batch: what is owned, how far it goes, what of it is done and to be committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark_zkafka.errors import DataLoss, PartitionOwned, UnknownTopic, ZKafkaError
from pyspark_zkafka.group.claims import Claim
from pyspark_zkafka.option_values import StreamOptions
from pyspark_zkafka.protocol.limits import TriggerLimits
from pyspark_zkafka.protocol.model import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.planning import (
    Split,
    describe_offline,
    divide,
    make_splits,
    spread_over_leaders,
    subscribed_partitions,
)
from pyspark_zkafka.protocol.progress import StoredOffset
from pyspark_zkafka.protocol.stream_offsets import Span, StreamOffset, TopicMark
from pyspark_zkafka.stream_session import StreamSession
from pyspark_zkafka.stream_starts import Gain, StreamStarts

__all__ = ["StreamPlanner"]

_log = logging.getLogger(__name__)

_IDLE_WAIT_S = 1.0
_SAMPLE_AGE_S = 60.0
_SAMPLE_TIMEOUT_S = 3.0
_REPEAT_S = 60.0


@dataclass(slots=True)
class _Held:
    """A partition that is being read: the next offset, and the group's, None where unknown."""

    generation: int
    position: int
    committed: StoredOffset | None
    resets: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the position is to be committed."""
        return self.committed is None or self.committed.offset != self.position

    def span(self, until: int) -> Span:
        """From the position on."""
        stored = self.committed
        return Span(self.position, until, *((None, None) if stored is None else (stored.offset, stored.mark)))


class StreamPlanner:
    """What Spark's planning calls do, for one run of a query; opens its session with the first of them.

    Offsets are dicts as `StreamOffset.to_json` gives them.

    Parameters
    ----------
    options : StreamOptions
    clock, sleep : callable
        Monotonic seconds; wait for some seconds.
    """

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._read = options.read
        self._clock = clock
        self._sleep = sleep
        self._session = StreamSession(options, clock, sleep)
        self._opened = False
        self._starts = StreamStarts(options, self._session)
        self._held: dict[TopicPartition, _Held] = {}
        self._at: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self._refusal: ZKafkaError | None = None
        self._last_committed: dict[TopicPartition, StoredOffset] = {}
        self._accepted: dict[str, TopicMark] = {}
        self._last_batch_s: float | None = None
        self._bounds: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] = {}
        self._record_bytes: dict[TopicPartition, float] = {}
        self._sampled_at = float("-inf")
        self._warned: dict[str, float] = {}

    def close(self) -> None:
        """Leave the group and close all; blocks for some seconds at the most."""
        self._session.close()

    # --- Spark's calls -------------------------------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Where a new query starts.

        What stands in the way of that is raised by `latest`: Spark also asks when a restart repeats the first micro-batch,
        which reads what it did, though the options may not fit the topics any more.
        """
        self._open()
        try:
            self._at = self._initial()
        except ZKafkaError as error:
            if error.retriable:
                raise
            self._refusal, self._at = error, StreamOffset().to_json()
        return self._at

    def _initial(self) -> dict[str, Any]:
        snapshot = self._session.snapshot()
        self._require_topics(snapshot)
        if self._session.member is not None:
            self._session.member.wait_settled(self._settling_s)
        owned = self._own(snapshot)
        ready = self._with_leader(owned, snapshot)
        gains = self._session.retry(lambda: self._starts.find(ready, StreamOffset(), {}, first=True))
        self._hold(owned, gains)
        spans = {tp: held.span(held.position) for tp, held in self._held.items()}
        return StreamOffset(spans, self._marks(snapshot, owned, None)).to_json()

    def fix_bounds(self) -> None:
        """For Trigger.AvailableNow: read up to where the logs end now.

        Raises
        ------
        NoLeader
            A partition has none, and `offlinePartitions` is not skip.
        """
        self._open()
        if self._session.member is not None:
            self._session.member.wait_settled(self._settling_s)
        led = self._session.retry(self._led)
        self._bounds = self._session.retry(lambda: self._session.brokers.list_offsets(dict.fromkeys(led, LATEST)))

    def _led(self) -> list[TopicPartition]:
        """What the stream, or its group, reads, without what has no leader."""
        snapshot = self._session.snapshot()
        everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
        partitions = everything if self._session.member is not None else sorted(self._session.owned(snapshot))
        offline = snapshot.without_leader(partitions)
        if offline and not self._read.skip_offline:
            raise describe_offline(offline, snapshot)
        waiting = set(offline)
        return [tp for tp in partitions if tp not in waiting]

    def latest(self, start: dict[str, Any], *, limited: bool) -> dict[str, Any]:
        """The end of the next micro-batch; `start` itself where nothing is to be read.

        Also commits what `start` says is done, and gives away and claims partitions.
        """
        self._open()
        finished = StreamOffset.from_json(start)
        self._note_finished(start, finished)
        self.commit()
        snapshot = self._session.snapshot(expected=finished.topics)
        owned = self._own(snapshot)
        self._check_topics(finished, snapshot)
        self._gain(owned, finished, snapshot)
        self._latest = self._ends(snapshot)
        if self._has_news() and not self._session.is_still(snapshot):
            return self.latest(start, limited=limited)  # these are the ends of other topics of the same names
        ranges = self._limit(self._ranges(), limited)
        if not any(r.size for r in ranges.values()):
            self._rest()
            return start
        self._last_batch_s = self._clock()
        self._tell_member(tp for tp, r in ranges.items() if r.size)
        self._planned = self._end(finished, ranges, owned, snapshot).to_json()
        return self._planned

    def splits(self, end: dict[str, Any]) -> tuple[list[Split], str]:
        """What the tasks of the micro-batch that ends there read, and the brokers to begin with; whoever owns it now."""
        self._open()
        planned = StreamOffset.from_json(end)
        ranges = [OffsetRange(tp, span.start, span.until) for tp, span in sorted(planned.spans.items()) if span.size]
        snapshot = self._session.snapshot()
        if any(snapshot.leader(r.partition) is None for r in ranges):
            snapshot = self._session.snapshot(anew=True)
        gone = [r for r in ranges if r.partition not in snapshot.states]
        if gone:
            self._lose("PARTITIONS_GONE", f"{_shown(r.partition for r in gone)} of the micro-batch no longer exist")
        there = [r for r in ranges if r.partition in snapshot.states]
        self._tell_member(r.partition for r in there)
        pieces = divide(there, self._read.min_partitions, self._read.max_records)
        rack, listener = self._read.connection.client_rack, self._read.connection.listener
        splits = [_as_planned(split, planned) for split in make_splits(pieces, snapshot, rack, listener)]
        return spread_over_leaders(splits), self._session.servers(snapshot)

    def commit(self) -> None:
        """Commit what is done of the partitions that are owned; errors that pass are logged, and tried again later."""
        due = {tp: held.position for tp, held in self._held.items() if held.is_due}
        if self._options.group is None or not due:
            return
        member = self._session.member
        owner = None if member is None else member.owner
        if member is not None and (owner is None or not member.owned()):
            return
        try:
            done = self._session.offsets.commit(due, owner, [tp for tp in due if self._held[tp].resets])
        except PartitionOwned as error:
            self._warn(f"progress is not committed: {error}")
            return
        except ZKafkaError as error:
            if not error.retriable:
                raise
            _log.warning("progress could not be committed, it will be later: %s", error)
            return
        for tp, offset in {**done.kept, **done.written}.items():
            stored = StoredOffset(max(offset, due[tp]), done.marks.get(tp))
            self._held[tp].committed, self._held[tp].resets = stored, False
            if tp in done.written:
                self._last_committed[tp] = stored
        if done.lost and member is not None:
            _log.warning("%s: not committed, as it is not mine any more: %s", member.consumer, _shown(done.lost))
            member.look_again()

    def report(self) -> dict[str, Any] | None:
        """The ends of the logs that were seen last, by topic and partition."""
        found: dict[str, dict[str, int]] = {}
        for tp in sorted(self._latest):
            found.setdefault(tp.topic, {})[str(tp.partition)] = self._latest[tp]
        return found or None

    # --- what is owned, and where it is --------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._opened:
            self._session.__enter__()
            self._opened = True

    @property
    def _settling_s(self) -> float:
        group = self._options.group
        return 0.0 if group is None else group.max_retries * group.backoff_ms / 1000

    def _require_topics(self, snapshot: ClusterSnapshot) -> None:
        """Refuse a new query of topics that do not exist; a group's member waits for them, as JVM consumers do."""
        if self._session.member is None and self._read.subscription is not None:
            subscribed_partitions(self._read.subscription, snapshot)

    def _own(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """What is owned now, after releasing and claiming; what is no longer, is no longer held."""
        member = self._session.member
        owned = self._session.owned(snapshot) if member is None else member.rebalance()
        for tp in list(self._held):
            if tp not in owned or owned[tp].generation != self._held[tp].generation:
                del self._held[tp]
        return owned

    def _note_finished(self, start: dict[str, Any], finished: StreamOffset) -> None:
        """Move on to the end of the micro-batch that Spark has done; or to one that another process planned."""
        if self._planned is not None and start == self._planned:
            for tp, span in finished.spans.items():
                if tp in self._held:
                    self._held[tp].position = span.until
        elif start != self._at:
            self._held.clear()
        elif self._refusal is not None:
            raise self._refusal
        self._at, self._planned, self._refusal = start, None, None

    def _with_leader(self, owned: Collection[TopicPartition], snapshot: ClusterSnapshot) -> list[TopicPartition]:
        """Those that have a leader, in order; the others wait for theirs."""
        offline = snapshot.without_leader(sorted(owned))
        known = [tp for tp in offline if tp in snapshot.states]
        if known:
            self._warn(f"{describe_offline(known, snapshot).message.split(';')[0]}: waiting for it, and reading the others")
        waiting = set(offline)
        return [tp for tp in sorted(owned) if tp not in waiting]

    def _gain(self, owned: Mapping[TopicPartition, Claim], finished: StreamOffset, snapshot: ClusterSnapshot) -> None:
        gained = [tp for tp in self._with_leader(owned, snapshot) if tp not in self._held]
        if not gained:
            return
        try:
            found = self._starts.find(gained, finished, self._last_committed, first=False, replaced=self._accepted)
        except ZKafkaError as error:
            if not error.retriable and not isinstance(
                error, UnknownTopic
            ):  # brokers hear of partitions after ZooKeeper does
                raise
            self._warn(f"{_shown(gained)} cannot be read yet, trying again: {error}")
            return
        self._hold(owned, found)
        self.commit()

    def _hold(self, owned: Mapping[TopicPartition, Claim], gains: Mapping[TopicPartition, Gain]) -> None:
        for tp, gain in gains.items():
            self._held[tp] = _Held(owned[tp].generation, gain.position, gain.committed, gain.resets)

    # --- how far it goes -----------------------------------------------------------------------------------------------

    def _ends(self, snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
        """Where the logs end; nothing where no leader tells."""
        found, failed = self._session.log_ends(self._with_leader(self._held, snapshot))
        for tp, error in failed.items():
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise error
            self._warn(f"{tp} waits for its leader: {error}")
        if failed:
            self._session.snapshot(anew=True)
        return self._asked_again(found)

    def _has_news(self) -> bool:
        return any(end != self._held[tp].position for tp, end in self._latest.items())

    def _ranges(self) -> dict[TopicPartition, OffsetRange]:
        """From each position to the end of its log."""
        for tp, end in self._latest.items():
            self._check_end(tp, end)
        return {tp: self._range(tp, held.position) for tp, held in self._held.items()}

    def _range(self, partition: TopicPartition, position: int) -> OffsetRange:
        end = self._latest.get(partition, position)
        if self._bounds is not None:
            end = min(end, self._bounds.get(partition, position))
        return OffsetRange(partition, position, max(position, end))

    def _asked_again(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends, those before our positions asked again: a new leader may know less at first (KAFKA-7703)."""
        found = dict(ends)
        for _ in range(self._read.retries):
            behind = [tp for tp, end in found.items() if end < self._held[tp].position]
            if not behind:
                break
            self._sleep(self._read.retry_interval_ms / 1000)
            found |= self._session.log_ends(behind)[0]
        return found

    def _check_end(self, partition: TopicPartition, end: int) -> None:
        held = self._held[partition]
        bound = 0 if self._bounds is None else self._bounds.get(partition, 0)
        if end < max(held.position, bound):
            self._lose(
                "OFFSET_WENT_BACK",
                f"{partition}: the log ends at {end}, and was read or planned up to {max(held.position, bound)}: it was "
                "truncated, by an unclean election or by hand",
            )
            held.position, held.resets = min(end, held.position), True

    def _limit(self, ranges: dict[TopicPartition, OffsetRange], limited: bool) -> dict[TopicPartition, OffsetRange]:
        limits = self._options.limits
        if not limited or limits == TriggerLimits():
            return ranges
        backlog = sum(r.size for r in ranges.values())
        since_ms = None if self._last_batch_s is None else int((self._clock() - self._last_batch_s) * 1000)
        if self._bounds is None and limits.holds_back(backlog, since_ms):
            return {}
        sizes = {} if limits.max_bytes is None or not backlog else self._sizes(ranges)
        return limits.apply(ranges, sizes)

    def _sizes(self, ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, float]:
        """The mean sizes of records, measured once a minute, and when there are new partitions to read."""
        from pyspark_zkafka.clients.consumer import consumer_properties
        from pyspark_zkafka.clients.record_sizes import sample_record_bytes

        now = self._clock()
        everywhere = now - self._sampled_at > _SAMPLE_AGE_S
        wanted = {tp: r.start for tp, r in ranges.items() if r.size and (everywhere or tp not in self._record_bytes)}
        if wanted:
            servers = self._session.servers(self._session.snapshot())
            properties = consumer_properties(self._read.connection, servers, self._read.client_group)
            self._record_bytes |= sample_record_bytes(properties, wanted, _SAMPLE_TIMEOUT_S)
            self._sampled_at = now if everywhere else self._sampled_at
        return self._record_bytes

    def _end(
        self,
        finished: StreamOffset,
        ranges: Mapping[TopicPartition, OffsetRange],
        owned: Collection[TopicPartition],
        snapshot: ClusterSnapshot,
    ) -> StreamOffset:
        """The end of the micro-batch; partitions that are not held are remembered, as far as they still exist."""
        spans = {tp: self._held[tp].span(r.until) for tp, r in ranges.items()}
        for tp, span in finished.spans.items():
            if tp not in spans and tp in snapshot.states and tp.topic not in self._accepted:
                last = self._last_committed.get(tp)
                known = (span.committed, span.mark) if last is None else (last.offset, last.mark)
                spans[tp] = Span(span.until, span.until, *known)
        before = {name: mark for name, mark in finished.topics.items() if name not in self._accepted}
        self._accepted = {}
        return StreamOffset(spans, self._marks(snapshot, owned, before))

    def _marks(
        self, snapshot: ClusterSnapshot, owned: Collection[TopicPartition], before: Mapping[str, TopicMark] | None
    ) -> dict[str, TopicMark]:
        """The topics as they are. New partitions that still wait to be read are not known yet; to a new query, none is new."""
        marks = {}
        for name, topic in snapshot.topics.items():
            known = len(topic.partitions)
            if before is not None:
                first_new = before.get(name, TopicMark()).known
                new = [tp for tp in snapshot.partitions(name) if tp.partition >= first_new]
                known = min([known, *(tp.partition for tp in new if tp in owned and tp not in self._held)])
            marks[name] = TopicMark(topic.topic_id, topic.czxid, known)
        return marks

    def _rest(self) -> None:
        """Nothing is to be read. A stream that owns nothing waits here, instead of asking again and again."""
        member = self._session.member
        self._tell_member(())
        if member is None:
            return
        if self._bounds is not None and not member.settled:
            member.wait_settled(self._settling_s)
        elif not self._held:
            member.wait(_IDLE_WAIT_S)

    def _tell_member(self, partitions: Any) -> None:
        if self._session.member is not None:
            self._session.member.read(list(partitions))

    # --- what is lost --------------------------------------------------------------------------------------------------

    def _check_topics(self, finished: StreamOffset, snapshot: ClusterSnapshot) -> None:
        """Report partitions that were being read and are gone, and topics that are others of the same name."""
        mine = {tp for tp in finished.spans if self._session.member is None or tp in self._held}
        gone = sorted(tp for tp in mine if tp.topic not in snapshot.topics and tp.topic not in self._accepted)
        if gone:
            self._lose("PARTITIONS_GONE", f"{_shown(gone)} no longer exist: the topic was deleted")
        for name in {tp.topic for tp in gone}:
            self._accept(name, TopicMark())
        for name, mark in finished.topics.items():
            topic = snapshot.topics.get(name)
            if topic is None or not any(tp.topic == name for tp in finished.spans) or name in self._accepted:
                continue
            if mark.is_other(topic.topic_id, topic.czxid):
                self._lose(
                    "TOPIC_REPLACED", f"topic {name} was deleted and created again; it will be read from its beginning"
                )
                self._accept(name, TopicMark(topic.topic_id, topic.czxid))

    def _accept(self, topic: str, mark: TopicMark) -> None:
        """Go on without what was lost: the topic, if it exists, is a new one."""
        self._accepted[topic] = mark
        for tp in [tp for tp in self._held if tp.topic == topic]:
            del self._held[tp]

    def _lose(self, condition: str, text: str) -> None:
        if self._read.fail_on_data_loss:
            raise DataLoss(condition, f"{text}; some records may be lost; set failOnDataLoss to false to go on")
        _log.warning("%s; going on, as failOnDataLoss is false: some records may be lost", text)

    def _warn(self, text: str) -> None:
        """Log a warning, unless it was said within the last minute."""
        now = self._clock()
        if now - self._warned.get(text, float("-inf")) > _REPEAT_S:
            self._warned[text] = now
            _log.warning("%s", text)


def _as_planned(split: Split, planned: StreamOffset) -> Split:
    """The split with the identity that its topic had when the micro-batch was planned."""
    mark = planned.topics.get(split.partition.topic, TopicMark())
    return replace(split, topic_id=mark.topic_id, czxid=mark.czxid)


def _shown(partitions: Any, most: int = 10) -> str:
    names = [str(tp) for tp in sorted(partitions)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
