"""Ends of the logs that a stream reads, and the check that these logs were not truncated below its positions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark_zkafka.errors import UnknownTopic, listing
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.stream.planner import PartitionProgress, StreamState
from pyspark_zkafka.stream.session import ANSWER_S, StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings

__all__ = ["StreamEnds"]

Assigned = Mapping[TopicPartition, PartitionProgress]


class StreamEnds:
    """Fetches ends of logs, and detects unclean elections after which a log has grown past the position again.

    A leader returns its epoch with the end of its log. A position that was within the log at that epoch can therefore be
    validated when the epoch has changed at the next planning; nothing is requested while leaders stay. A snapshot's epoch
    is unsuitable: it may be older than the log's end. Epochs are kept until the run ends, or the partition is revoked.
    """

    def __init__(
        self, options: ReadOptions, session: StreamSession, reports: StreamWarnings, sleep: Callable[[float], None]
    ) -> None:
        self._options = options
        self._session = session
        self._reports = reports
        self._sleep = sleep

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
            self._session.snapshot(anew=True)
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
        found = self._after_transactions(ends, state)
        for _ in range(self._options.retries):
            before = _too_low(found, state)
            if not before:
                break
            self._sleep(self._options.retry_interval_ms / 1000)
            others = {tp: end for tp, end in found.items() if tp not in before}
            found = others | self._after_transactions(self._session.log_ends(before, epochs)[0], state)
        return found

    def _after_transactions(self, ends: Mapping[TopicPartition, int], state: StreamState) -> dict[TopicPartition, int]:
        """The ends, moved to the known ones where only open transactions lie between; absent where no leader answers.

        A group's member, or a run of this query, that read uncommitted may have advanced the position beyond the end.
        """
        before = _too_low(ends, state) if self._options.connection.read_committed else set()
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
        from pyspark_zkafka.kafka.log_probes import LogPosition, find_truncated

        positions = {tp: LogPosition(progress.position, progress.leader_epoch) for tp, progress in elected.items()}
        truncated, silent = find_truncated(self._session.consumer_properties(1), positions, ANSWER_S)
        for tp, report in sorted(truncated.items()):
            self._reports.lose(
                "OFFSET_WENT_BACK",
                f"{tp}: the log was truncated below offset {elected[tp].position}, by an unclean election, and has grown "
                f"again: records before that offset were replaced after they were read; the client found: {report}",
            )
        return silent


def _too_low(ends: Mapping[TopicPartition, int], state: StreamState) -> set[TopicPartition]:
    return {tp for tp, end in ends.items() if end < state.known_end(tp)}
