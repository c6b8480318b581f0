"""How far a micro-batch reads: the ends of logs, checked for truncation, the fixed ends of AvailableNow, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, ENDS_NOT_REACHED, OFFSET_WENT_BACK
from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.model.checkpoint import TopicMark
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.planning import TriggerLimits, describe_offline
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_session import ANSWER_S, StreamSession, StreamWarnings

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership

_OWN_WAIT_S = 0.2
_OTHERS_WAIT_S = 1.0
_SHOWN = 5
_SAMPLE_AGE_S = 60.0

Assigned = Mapping[TopicPartition, PartitionProgress]


class StreamEnds:
    """Fetches ends of logs, and detects unclean elections after which a log has grown past the position again.

    A leader returns its epoch with the end of its log. A position that was within the log at that epoch can therefore be
    validated when the epoch has changed at the next planning; nothing is requested while leaders stay. A snapshot's epoch
    is unsuitable: it may be older than the log's end. Epochs are kept until the run ends, or the partition is revoked.
    """

    def __init__(self, session: StreamSession, reports: StreamWarnings, *, read_committed: bool) -> None:
        self._session = session
        self._reports = reports
        self._read_committed = read_committed

    def fetch(
        self, led: Collection[TopicPartition], state: StreamState
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The ends and the leader epochs of the logs that have a leader.

        Logs whose leader does not answer, or is a new one against which the position cannot be validated yet, are absent.
        Blocks for up to 5 s if leaders do not answer, and after an election. Reports data loss for a log that was truncated
        below a position.
        """
        epochs: dict[TopicPartition, int] = {}
        found, failed = self._session.log_ends(led, epochs)
        for tp, error in failed.items():
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise error
            self._reports.warn(f"{tp} waits for its leader: {error}")
        if failed:
            self._session.cluster.snapshot(anew=True)
        ends = self._confirmed(found, state, epochs)
        silent = self._validate(ends, state.assigned, epochs)
        if silent:
            self._reports.warn(f"{listing(sorted(silent))} cannot be validated after an election yet, trying again")
            ends = {tp: end for tp, end in ends.items() if tp not in silent}
        return ends, {tp: epochs[tp] for tp in ends.keys() & epochs.keys()}

    def _confirmed(
        self, ends: Mapping[TopicPartition, int], state: StreamState, epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The ends; those before the known ones are requested again: a new leader may report less at first (KAFKA-7703)."""
        return self._session.retry.ask_again(
            self._after_transactions(ends, state),
            lambda tp, end: end < state.known_end(tp),
            lambda before: self._after_transactions(self._session.log_ends(before, epochs)[0], state),
        )

    def _after_transactions(self, ends: Mapping[TopicPartition, int], state: StreamState) -> dict[TopicPartition, int]:
        """The ends, moved to the known ones where only open transactions lie between; absent where no leader answers.

        A group's member, or a run of this query, that read uncommitted may have advanced the position beyond the end.
        """
        before = {tp for tp, end in ends.items() if end < state.known_end(tp)} if self._read_committed else set()
        if not before:
            return dict(ends)
        found, failed = self._session.high_watermarks(before)
        moved = {tp: max(ends[tp], min(high, state.known_end(tp))) for tp, high in found.items()}
        return {tp: moved.get(tp, end) for tp, end in ends.items() if tp not in failed}

    def _validate(
        self, ends: Mapping[TopicPartition, int], assigned: Assigned, epochs: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Report logs that a newly elected leader truncated; returns the partitions that did not answer in time."""
        elected = {
            tp: assigned[tp]
            for tp in ends
            if 0 <= assigned[tp].leader_epoch < epochs.get(tp, -1) and 0 < assigned[tp].position <= ends[tp]
        }
        if not elected:
            return set()
        from pyspark_zkafka.brokers.log_probes import LogPosition, find_truncated

        positions = {tp: LogPosition(progress.position, progress.leader_epoch) for tp, progress in elected.items()}
        truncated, silent = find_truncated(self._session.consumer_properties(1), positions, ANSWER_S)
        for tp, report in sorted(truncated.items()):
            self._reports.lose(
                OFFSET_WENT_BACK,
                f"{tp}: the log was truncated below offset {elected[tp].position}, by an unclean election, and has grown "
                f"again: records before that offset were replaced after they were read; the client found: {report}",
            )
        return silent


class _Owner(NamedTuple):
    """The owner of another member's partition, with the group's offset and the time when this owner was first seen."""

    incarnation: str
    offset: int
    seen_at: float


class FixedEnds:
    """Fetches the fixed ends of one run of a query, and waits for those that it has not reached.

    Spark takes a query that plans no further micro-batch for one that has read everything.
    """

    def __init__(
        self,
        options: ReadOptions,
        session: StreamSession,
        reports: StreamWarnings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._options = options
        self._session = session
        self._reports = reports
        self._clock = clock
        self._sleep = sleep
        self._owners: dict[TopicPartition, _Owner] = {}

    def fetch(self) -> tuple[dict[TopicPartition, int], dict[str, TopicMark]]:
        """Return the present ends of the logs that the stream, or its group, reads, and the identities of their topics.

        Raises NoLeader for a partition without a leader, unless `offlinePartitions` is skip. Blocks for some requests.
        """
        led, snapshot = self._session.retry(self._led)
        marks = {name: TopicMark.of(topic) for name, topic in snapshot.topics.items()}
        brokers = self._session.cluster.brokers
        ends = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, LATEST)))
        if self._session.member is None:
            return ends, marks
        starts = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, EARLIEST)))
        return {tp: end for tp, end in ends.items() if end > starts[tp]}, marks  # nobody has to own an empty log

    def _led(self) -> tuple[list[TopicPartition], ClusterSnapshot]:
        snapshot = self._session.cluster.snapshot()
        everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
        partitions = everything if self._session.member is not None else sorted(self._session.owned(snapshot))
        offline = set(snapshot.without_leader(partitions))
        if offline and not self._options.skip_offline:
            raise describe_offline(sorted(offline), snapshot)
        return [tp for tp in partitions if tp not in offline], snapshot

    def wait(self, behind: Mapping[TopicPartition, int], since: float) -> bool:
        """Wait a moment for partitions that are behind their fixed ends; False if this query need not read any of them.

        `since` is the time since when there are no records. After `kafkaConsumer.pollTimeoutMs` without any, and in a group
        the session timeout, raises BrokersUnavailable, the error by which the group cannot be read, or GroupContended for
        partitions that no member of the group owns.
        """
        member, error = self._session.member, None
        owned = behind if member is None else member.owned()
        own, others = [tp for tp in behind if tp in owned], [tp for tp in behind if tp not in owned]
        if member is not None and others:
            try:
                others = self._without_owner(member, {tp: behind[tp] for tp in others})
            except ZKafkaError as failure:
                if not failure.retriable:
                    raise
                error = failure
                self._reports.warn(f"the group's offsets or owners cannot be read, trying again: {failure}")
        if not own and not others:
            return False
        waited_s = self._clock() - since
        if waited_s >= self._options.poll_timeout_ms / 1000 + (0 if member is None else member.expiry_s):
            raise error or _not_reached(own, others, waited_s)
        if member is None:
            self._sleep(_OWN_WAIT_S)
        else:
            member.wait(_OWN_WAIT_S if own else _OTHERS_WAIT_S)
        return True

    def _without_owner(self, member: Membership, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """The partitions that the group has not read to their ends, and that this member may still be assigned.

        A member that died owns its partitions until it expires. An owner that commits, or stays for longer, is alive, and
        reads its partitions to the end itself.
        """
        stored = self._session.offsets.committed(ends, skip_malformed=True)
        done = {tp: stored[tp].offset for tp in stored.keys() - outdated(stored, self._session.cluster.snapshot())}
        unread = [tp for tp, end in ends.items() if done.get(tp, -1) < end]
        if not unread or not member.wait_settled(0):
            return unread
        now, before, self._owners = self._clock(), self._owners, {}
        alive = set()
        for tp, incarnation in self._session.owners(unread).items():
            found = first = _Owner(incarnation, done.get(tp, -1), now)
            if tp in before and before[tp].incarnation == incarnation:
                first = before[tp]
            self._owners[tp] = first
            if found.offset != first.offset or now - first.seen_at > member.expiry_s:
                alive.add(tp)
        return [tp for tp in unread if tp not in alive]


def _not_reached(own: Sequence[TopicPartition], others: Sequence[TopicPartition], waited_s: float) -> ZKafkaError:
    text = f"not read to the end that was fixed when the query started, after {waited_s:.0f} s without records"
    if own:
        return BROKERS_UNAVAILABLE(
            f"{listing(own, _SHOWN)}: {text}: leaders or ZooKeeper do not answer; check them, and start the query again",
        )
    return ENDS_NOT_REACHED(
        f"{listing(others, _SHOWN)}: {text}: no member of the group owns them; check that its members agree on topics and "
        "partition.assignment.strategy, and start the query again",
    )


class StreamLimits:
    """The options' limits, with the time at which a micro-batch was last due (monotonic) and the sizes of records.

    As in Spark's own source, a micro-batch is due at the first planning of a run, with `minOffsetsPerTrigger` records, and
    when `maxTriggerDelay` has passed since it was last due, whether there are records or not.
    """

    def __init__(self, options: StreamOptions, session: StreamSession, clock: Callable[[], float]) -> None:
        self._limits = options.limits
        self._session = session
        self._clock = clock
        self._due_s = float("-inf")
        self._record_bytes: dict[TopicPartition, float] = {}
        self._sampled_at = float("-inf")

    def apply(self, ranges: Mapping[TopicPartition, OffsetRange], *, may_wait: bool) -> dict[TopicPartition, OffsetRange]:
        """The ranges within the limits, empty below `minOffsetsPerTrigger` if it `may_wait`; blocks for up to 3 s."""
        if self._limits == TriggerLimits():
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
        """The mean sizes of records, measured once a minute, and when there are new partitions to read."""
        now = self._clock()
        everywhere = now - self._sampled_at > _SAMPLE_AGE_S
        starts = {tp: r.start for tp, r in ranges.items() if r.size and (everywhere or tp not in self._record_bytes)}
        if starts:
            self._record_bytes |= self._session.record_bytes(starts)
            self._sampled_at = now if everywhere else self._sampled_at
        return self._record_bytes
