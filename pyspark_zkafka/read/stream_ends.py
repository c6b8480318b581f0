"""The end of a micro-batch: ends of logs, fixed ends of AvailableNow, and limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from pyspark_zkafka.brokers.admin import LogPosition
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, ENDS_NOT_REACHED, OFFSET_WENT_BACK
from pyspark_zkafka.errors import ZKafkaError, listing
from pyspark_zkafka.model.checkpoint import TopicIdentity
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.planning import describe_offline
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.stream_planner import StreamState
from pyspark_zkafka.read.stream_session import StreamSession, StreamWarnings
from pyspark_zkafka.retries import may_succeed_later

_log = logging.getLogger(__name__)

_OWN_WAIT_S = 0.2
_OTHERS_WAIT_S = 1.0
_SHOWN = 5
_SAMPLE_AGE_S = 60.0


class StreamEnds:
    """Ends of logs, as their leaders report them. Detects unclean elections after which a log has outgrown the position.

    A leader returns its epoch with the end of its log. If the epoch has changed at the next planning call, the position is
    validated. Nothing is validated while the leaders stay the same. A snapshot's epoch cannot be used, because it may be
    older than the end. Epochs are kept until the run ends, or the partition is revoked.
    """

    def __init__(self, session: StreamSession, warnings: StreamWarnings, *, read_committed: bool) -> None:
        self._session = session
        self._warnings = warnings
        self._read_committed = read_committed

    def fetch(
        self, led: Collection[TopicPartition], state: StreamState
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the ends and the leader epochs of the logs that have a leader.

        A log is absent if its leader does not answer, or if the position cannot be validated yet after an election. Blocks
        for up to 5 s in both cases. Reports data loss for a log that was truncated below a position.
        """
        epochs: dict[TopicPartition, int] = {}
        found, failed = self._session.log_ends(led, epochs)
        for error in failed.values():
            if not may_succeed_later(error):
                raise error
        if due := self._warnings.due("unanswered", sorted(failed)):
            _log.warning("Waiting for the leader of %s: %s", listing(due), failed[due[0]])
        if failed:
            self._session.cluster.snapshot(anew=True)
        ends = self._session.retry.ask_again(  # a new leader may report a lower end at first (KAFKA-7703)
            self._after_transactions(found, state),
            lambda tp, end: end < state.known_end(tp),
            lambda before: self._after_transactions(self._session.log_ends(before, epochs)[0], state),
        )
        unanswered = self._validate(ends, state, epochs)
        if due := self._warnings.due("unvalidated", sorted(unanswered)):
            _log.warning("%s cannot be validated after an election yet, retrying", listing(due))
        if unanswered:
            ends = {tp: end for tp, end in ends.items() if tp not in unanswered}
        return ends, {tp: epochs[tp] for tp in ends.keys() & epochs.keys()}

    def _after_transactions(self, ends: Mapping[TopicPartition, int], state: StreamState) -> dict[TopicPartition, int]:
        """Move each end up to the known end if only open transactions lie in between. Leaves out logs without an answer.

        A position may be beyond the end because another member, or an earlier run, read uncommitted records.
        """
        before = {tp for tp, end in ends.items() if end < state.known_end(tp)} if self._read_committed else set()
        if not before:
            return dict(ends)
        found, failed = self._session.high_watermarks(before)
        moved = {tp: max(ends[tp], min(high, state.known_end(tp))) for tp, high in found.items()}
        return {tp: moved.get(tp, end) for tp, end in ends.items() if tp not in failed}

    def _validate(
        self, ends: Mapping[TopicPartition, int], state: StreamState, epochs: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Report logs that a new leader has truncated. Returns the partitions without an answer in time."""
        elected = {
            tp: progress
            for tp, progress in state.assigned.items()
            if tp in ends and 0 <= progress.leader_epoch < epochs.get(tp, -1) and 0 < progress.position <= ends[tp]
        }
        if not elected:
            return set()
        positions = {tp: LogPosition(progress.position, progress.leader_epoch) for tp, progress in elected.items()}
        truncated, unanswered = self._session.truncated(positions, epochs)
        for tp, end in sorted(truncated.items()):
            self._warnings.lose(
                OFFSET_WENT_BACK,
                f"{tp}: the log was truncated below offset {elected[tp].position}, by an unclean election, and has grown "
                f"again: records before that offset were replaced after they were read; on the leader, epoch {end.epoch} "
                f"ends at offset {end.offset}",
            )
        return unanswered


class _Sight(NamedTuple):
    """The group's offset of an unread partition, and the time at which this offset was first found."""

    offset: int
    since: float


class GroupProgress:
    """Progress of other members in the partitions of a query with fixed ends.

    Only the group's offsets count. An owner's claim, or its place in the coordinator's list, proves that its session has
    not expired: the owner may be dead, its session may be longer than ours, or it may be a query that ends earlier. Each
    move forward of an offset is a reason to wait longer: see `moved_at`.
    """

    def __init__(self, session: StreamSession, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock
        self._sights: dict[TopicPartition, _Sight] = {}
        self._without_records: dict[TopicPartition, OffsetRange] = {}
        self._look_at = self.moved_at = float("-inf")

    def unread(self, ends: Mapping[TopicPartition, int], quiet_s: float) -> list[TopicPartition]:
        """Return the partitions that the group has not read up to these ends. Blocks for some requests.

        Partitions whose offset has not moved for `quiet_s` are left out if only markers of transactions stand before the
        end: clients that commit the offset after their last record never commit such an end.
        """
        stored = self._session.group_offsets().committed(ends, skip_malformed=True)
        done = {tp: stored[tp].offset for tp in stored.keys() - outdated(stored, self._session.cluster.snapshot())}
        unread, now = [tp for tp, end in ends.items() if done.get(tp, -1) < end], self._clock()
        for tp in unread:
            offset, last = done.get(tp, -1), self._sights.get(tp)
            if last is None or last.offset != offset:
                self._sights[tp] = _Sight(offset, now)
            # A member that joins commits the starts of all partitions: that is no progress of their owners.
            if last is not None and 0 <= last.offset < offset:
                self.moved_at = now
        quiet = [tp for tp in unread if tp in done and now - self._sights[tp].since > quiet_s]
        left = {tp: OffsetRange(tp, done[tp], ends[tp]) for tp in quiet}
        if left and now >= self._look_at:
            self._look_at = now + quiet_s
            self._without_records |= {tp: left[tp] for tp in self._session.without_records([*left.values()])}
        empty = {tp for tp, found in left.items() if self._without_records.get(tp) == found}
        return [tp for tp in unread if tp not in empty]


class FixedEnds:
    """The fixed ends of one run of a query, and the wait until they are reached.

    Spark ends the query at the first planning call that returns no micro-batch.
    """

    def __init__(
        self,
        options: ReadOptions,
        session: StreamSession,
        warnings: StreamWarnings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._options = options
        self._session = session
        self._warnings = warnings
        self._clock = clock
        self._sleep = sleep
        self._group = GroupProgress(session, clock)
        self.fixed: Collection[TopicPartition] = ()  # all partitions that had an end, including empty logs

    def fetch(self) -> tuple[dict[TopicPartition, int], dict[str, TopicIdentity]]:
        """Return the present ends of the logs that the stream, or its group, reads, and the identities of their topics.

        Raises NoLeader for a partition without a leader, unless `offlinePartitions` is skip. Blocks for some requests.
        """
        led, snapshot = self._session.retry(self._led)
        identities = {name: TopicIdentity.of(topic) for name, topic in snapshot.topics.items()}
        brokers = self._session.cluster.brokers
        ends = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, LATEST)))
        self.fixed = ends.keys()
        if self._session.member is None:
            return ends, identities
        starts = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, EARLIEST)))
        return {tp: end for tp, end in ends.items() if end > starts[tp]}, identities  # an empty log needs no owner

    def _led(self) -> tuple[list[TopicPartition], ClusterSnapshot]:
        snapshot = self._session.cluster.snapshot()
        everything = snapshot.all_partitions()
        partitions = everything if self._session.member is not None else sorted(self._session.subscribed(snapshot))
        offline = set(snapshot.without_leader(partitions))
        if offline and not self._options.skip_offline:
            raise describe_offline(sorted(offline), snapshot)
        return [tp for tp in partitions if tp not in offline], snapshot

    def wait(self, behind: Mapping[TopicPartition, int], unanswered: Collection[TopicPartition], since: float) -> bool:
        """Wait a moment for partitions behind their fixed ends. Returns False if this query need not read any of them.

        Other members may read them: the group's offsets show how far. `unanswered` partitions, which could not be read just
        now, may have lost records, also at the end of an empty log. `since` is the time of the last records. After
        `kafkaConsumer.pollTimeoutMs` without records or progress of the group, and in a group also the session timeout,
        raises BrokersUnavailable, the error of reading the group, or GroupContended.
        """
        member, error = self._session.member, None
        owned = behind if member is None else member.owned()
        own = sorted({*behind, *unanswered}.intersection({*owned, *unanswered}))
        others = {tp: end for tp, end in behind.items() if tp not in own}
        unread: Collection[TopicPartition] = others
        if member is not None and others and not own:
            try:
                unread = self._group.unread(others, member.expiry_s)
            except ZKafkaError as failure:
                if not failure.retriable:
                    raise
                error = failure
                self._warnings.warn("group", f"The group's offsets cannot be read yet, retrying: {failure}")
        if not own and not unread:
            return False
        waited_s = self._clock() - max(since, self._group.moved_at)
        if waited_s >= self._options.poll_timeout_ms / 1000 + (0 if member is None else member.expiry_s):
            raise error or (_unanswered(own, waited_s) if own else _unread(unread, self._session.owners(unread), waited_s))
        if member is None:
            self._sleep(_OWN_WAIT_S)
        else:
            member.wait(_OWN_WAIT_S if own else _OTHERS_WAIT_S)
        return True


_NOT_REACHED = "not read to the end that was fixed when the query started, after {:.0f} s without records"


def _unanswered(partitions: Sequence[TopicPartition], waited_s: float) -> ZKafkaError:
    return BROKERS_UNAVAILABLE(
        f"{listing(partitions, _SHOWN)}: {_NOT_REACHED.format(waited_s)}: leaders or ZooKeeper do not answer; check them, "
        "and start the query again",
    )


def _unread(partitions: Collection[TopicPartition], owners: Mapping[TopicPartition, str], waited_s: float) -> ZKafkaError:
    if unowned := sorted(set(partitions) - owners.keys()):
        return ENDS_NOT_REACHED(
            f"{listing(unowned, _SHOWN)}: {_NOT_REACHED.format(waited_s)}: no member of the group owns them; check that "
            "its members agree on topics and partition.assignment.strategy, and start the query again",
        )
    shown = listing((f"{tp} (owner: {owners[tp]})" for tp in sorted(partitions)), _SHOWN)
    return ENDS_NOT_REACHED(
        f"{shown}: {_NOT_REACHED.format(waited_s)}: their owners did not commit meanwhile, and may be dead; start the "
        "query again, or raise kafkaConsumer.pollTimeoutMs if the owners take longer to process their records",
    )


class StreamLimits:
    """The query's limits on the ranges of a micro-batch.

    As in Spark's own source, a micro-batch is due at the first planning call of a run, when there are
    `minOffsetsPerTrigger` records, and when `maxTriggerDelay` has passed since the last due time, even without records.
    """

    def __init__(self, options: StreamOptions, session: StreamSession, clock: Callable[[], float]) -> None:
        self._limits = options.limits
        self._session = session
        self._clock = clock
        self._due_s = float("-inf")
        self._record_bytes: dict[TopicPartition, float] = {}
        self._sampled_at = float("-inf")

    def apply(self, ranges: Mapping[TopicPartition, OffsetRange], *, may_wait: bool) -> dict[TopicPartition, OffsetRange]:
        """Limit the ranges. With `may_wait`, returns no ranges while no micro-batch is due. Blocks for up to 3 s."""
        if self._limits.is_unlimited:
            return dict(ranges)
        backlog = sum(r.size for r in ranges.values())
        if may_wait:
            now = self._clock()
            if self._limits.holds_back(backlog, (now - self._due_s) * 1000):
                return {}
            self._due_s = now
        sizes = {} if self._limits.max_bytes is None or not backlog else self._sizes(ranges)
        return self._limits.apply(ranges, sizes)

    def _sizes(self, ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, float]:
        """Return the mean sizes of records, measured once a minute, and for new partitions."""
        now = self._clock()
        everywhere = now - self._sampled_at > _SAMPLE_AGE_S
        unknown = [r for tp, r in ranges.items() if r.size and (everywhere or tp not in self._record_bytes)]
        if unknown:
            self._record_bytes |= self._session.record_bytes(unknown)
            self._sampled_at = now if everywhere else self._sampled_at
        return self._record_bytes
