"""How far a micro-batch reads: ends of logs, fixed ends of AvailableNow, and limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, ENDS_NOT_REACHED, OFFSET_WENT_BACK
from pyspark_zkafka.errors import ZKafkaError, listing
from pyspark_zkafka.model.checkpoint import TopicIdentity
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.planning import describe_offline
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.stream_planner import StreamState
from pyspark_zkafka.read.stream_session import ANSWER_S, StreamSession, StreamWarnings
from pyspark_zkafka.retries import may_succeed_later

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership

_log = logging.getLogger(__name__)

_OWN_WAIT_S = 0.2
_OTHERS_WAIT_S = 1.0
_SHOWN = 5
_SAMPLE_AGE_S = 60.0


class StreamEnds:
    """Fetches ends of logs. Detects unclean elections after which a log has grown past the position again.

    A leader returns its epoch with the end of its log. If the epoch has changed at the next planning call, the position is
    validated. Nothing is requested while leaders stay. A snapshot's epoch cannot be used: it may be older than the end.
    Epochs are kept until the run ends, or the partition is revoked.
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
        """Move each end up to the known one if only open transactions lie between. Leaves out logs without an answer.

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
        from pyspark_zkafka.brokers.log_lookups import LogPosition, find_truncated

        positions = {tp: LogPosition(progress.position, progress.leader_epoch) for tp, progress in elected.items()}
        truncated, unanswered = find_truncated(self._session.consumer_properties(1), positions, ANSWER_S)
        for tp, report in sorted(truncated.items()):
            self._warnings.lose(
                OFFSET_WENT_BACK,
                f"{tp}: the log was truncated below offset {elected[tp].position}, by an unclean election, and has grown "
                f"again: records before that offset were replaced after they were read; the client found: {report}",
            )
        return unanswered


class _Sight(NamedTuple):
    """The first sight of an unfinished partition of another member: its owner, the group's offset, and the time."""

    owner: str
    offset: int
    at: float


class _Unfinished(NamedTuple):
    """Partitions that cannot be left to other members: those without an owner, and those whose owner shows no life."""

    unowned: Collection[TopicPartition] = ()
    silent: Mapping[TopicPartition, str] = {}


class OtherOwners:
    """Decides which partitions a query with fixed ends may leave to other members of its group.

    An owner is alive if the group's offset moves forward in one of its partitions, or if it stays for longer than any
    session may last without a sign of life. A claim, or a place in the coordinator's list, proves only that a session has
    not expired, and a dead member's session may be longer than ours. Only evidence counts that is younger than the last
    rebalance, and than the time when this query still had something else to wait for.
    """

    def __init__(self, session: StreamSession, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock
        self._sights: dict[TopicPartition, _Sight] = {}
        self._alive: set[str] = set()
        self._rebalances = -1
        self._without_records: dict[TopicPartition, OffsetRange] = {}
        self._look_at = float("-inf")

    def forget(self) -> None:
        """Forget all evidence."""
        self._sights, self._alive = {}, set()

    def unfinished(self, member: Membership, ends: Mapping[TopicPartition, int]) -> _Unfinished:
        """Return the partitions that nobody is known to read up to these ends. Blocks for some requests."""
        stored = self._session.offsets.committed(ends, skip_malformed=True)
        done = {tp: stored[tp].offset for tp in stored.keys() - outdated(stored, self._session.cluster.snapshot())}
        unread = [tp for tp, end in ends.items() if done.get(tp, -1) < end]
        if not unread:
            return _Unfinished()
        is_settled, rebalances = member.wait_settled(0), member.rebalances
        owners = self._session.owners(unread) if is_settled else {}
        if unowned := [tp for tp in unread if tp not in owners]:
            self.forget()
            return _Unfinished(unowned)
        if rebalances != self._rebalances:
            self.forget()
            self._rebalances = rebalances
        quiet = self._observe(member, owners, done)
        silent = {tp: owner for tp, owner in owners.items() if owner not in self._alive}
        left = {tp: OffsetRange(tp, done[tp], ends[tp]) for tp in quiet if tp in silent and tp in done}
        if left and self._clock() >= self._look_at:
            self._look_at = self._clock() + member.expiry_s
            self._without_records |= {found.partition: found for found in self._session.without_records([*left.values()])}
        # Clients that commit the offset after their last record never commit an end behind a transaction's marker.
        empty = {tp for tp, found in left.items() if self._without_records.get(tp) == found}
        silent = {tp: owner for tp, owner in silent.items() if tp not in empty}
        return _Unfinished(silent=silent)

    def _observe(
        self, member: Membership, owners: Mapping[TopicPartition, str], done: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Note who has shown life. Returns the partitions without progress for longer than our own session may last."""
        now, quiet = self._clock(), set()
        for tp, owner in owners.items():
            offset, first = done.get(tp, -1), self._sights.get(tp)
            # A member that joins commits the starts of all partitions: that is no progress of their owners.
            if first is None or first.owner != owner or offset < first.offset or first.offset < 0 <= offset:
                self._sights[tp] = _Sight(owner, offset, now)
            elif offset > first.offset:
                self._alive.add(owner)
            elif now - first.at > member.expiry_s:
                quiet.add(tp)
                if now - first.at > self._session.longest_expiry_s:
                    self._alive.add(owner)
        return quiet


class FixedEnds:
    """Fetches the fixed ends of one run of a query, and waits until they are reached.

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
        self._others = OtherOwners(session, clock)
        self.fixed: Collection[TopicPartition] = ()  # all partitions that had an end, also with an empty log

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

        `unanswered` partitions, which could not be read just now, may have lost records, also at the end of an empty log.
        `since` is the time of the last records. After `kafkaConsumer.pollTimeoutMs` without records, and in a group also
        the session timeout, raises BrokersUnavailable, the error of reading the group, or GroupContended if no member owns
        the partitions, or their owners show no sign of life.
        """
        member, error = self._session.member, None
        owned = behind if member is None else member.owned()
        own = sorted({*behind, *unanswered}.intersection({*owned, *unanswered}))
        others = {tp: end for tp, end in behind.items() if tp not in own}
        unfinished = _Unfinished(others)
        if own:
            self._others.forget()
        elif member is not None and others:
            try:
                unfinished = self._others.unfinished(member, others)
            except ZKafkaError as failure:
                if not failure.retriable:
                    raise
                error = failure
                self._warnings.warn("group", f"The group's offsets or owners cannot be read yet, retrying: {failure}")
        if not own and not unfinished.unowned and not unfinished.silent:
            return False
        waited_s = self._clock() - since
        if waited_s >= self._options.poll_timeout_ms / 1000 + (0 if member is None else member.expiry_s):
            raise error or _not_reached(own, unfinished, waited_s)
        if member is None:
            self._sleep(_OWN_WAIT_S)
        else:
            member.wait(_OWN_WAIT_S if own else _OTHERS_WAIT_S)
        return True


def _not_reached(own: Sequence[TopicPartition], unfinished: _Unfinished, waited_s: float) -> ZKafkaError:
    text = f"not read to the end that was fixed when the query started, after {waited_s:.0f} s without records"
    if own:
        return BROKERS_UNAVAILABLE(
            f"{listing(own, _SHOWN)}: {text}: leaders or ZooKeeper do not answer; check them, and start the query again",
        )
    if silent := unfinished.silent:
        shown = listing((f"{tp} (owner: {owner})" for tp, owner in sorted(silent.items())), _SHOWN)
        return ENDS_NOT_REACHED(
            f"{shown}: {text}: their owners did not commit meanwhile, and may be dead; start the query again, or raise "
            "kafkaConsumer.pollTimeoutMs if the owners take longer to process their records",
        )
    return ENDS_NOT_REACHED(
        f"{listing(sorted(unfinished.unowned), _SHOWN)}: {text}: no member of the group owns them; check that its members "
        "agree on topics and partition.assignment.strategy, and start the query again",
    )


class StreamLimits:
    """Limits the ranges of a micro-batch.

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
        """Limit the ranges. With `may_wait`, returns none while no micro-batch is due. Blocks for up to 3 s."""
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
        starts = {tp: r.start for tp, r in ranges.items() if r.size and (everywhere or tp not in self._record_bytes)}
        if starts:
            self._record_bytes |= self._session.record_bytes(starts)
            self._sampled_at = now if everywhere else self._sampled_at
        return self._record_bytes
