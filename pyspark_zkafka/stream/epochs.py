"""Check of leader epochs: detects logs that were truncated below a stream's positions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_zkafka.errors import listing
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.stream.planner import PartitionProgress
from pyspark_zkafka.stream.session import ANSWER_S, StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings

__all__ = ["StreamEpochs"]


class StreamEpochs:
    """Detects unclean elections between two micro-batches, after which a log has grown past the position again.

    A leader returns its epoch with the end of its log. A position that was within the log at that epoch can therefore be
    validated when the epoch has changed at the next planning; nothing is requested while leaders stay. A snapshot's epoch
    is unsuitable: it may be older than the log's end. Epochs are kept until the run ends, or the partition is revoked.
    """

    def __init__(self, options: ReadOptions, session: StreamSession, reports: StreamWarnings) -> None:
        self._options = options
        self._session = session
        self._reports = reports

    def check(
        self,
        assigned: Mapping[TopicPartition, PartitionProgress],
        ends: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The ends, without those of logs that have another leader now and could not be checked yet, and their epochs.

        Blocks for up to 5 s where there was an election.

        Raises
        ------
        DataLoss
            A log was truncated below a position, and `failOnDataLoss` is set.
        """
        elected = [
            tp
            for tp in ends
            if 0 <= assigned[tp].leader_epoch < epochs.get(tp, -1) and 0 < assigned[tp].position <= ends[tp]
        ]
        silent = self._validate({tp: assigned[tp] for tp in elected}) if elected else set()
        if silent:
            self._reports.warn(f"{listing(sorted(silent))} cannot be validated after an election yet, trying again")
        checked = {tp: end for tp, end in ends.items() if tp not in silent} if silent else dict(ends)
        return checked, {tp: epochs[tp] for tp in checked.keys() & epochs.keys()}

    def _validate(self, positions: Mapping[TopicPartition, PartitionProgress]) -> set[TopicPartition]:
        """Report truncated logs; returns the partitions that did not answer in time."""
        from pyspark_zkafka.kafka.consumer_properties import consumer_properties
        from pyspark_zkafka.kafka.log_truncation import LogPosition, find_truncated

        servers = self._session.servers(self._session.snapshot())
        properties = consumer_properties(self._options.connection, servers, self._options.client_group, 1)
        asked = {tp: LogPosition(one.position, one.leader_epoch) for tp, one in positions.items()}
        truncated, silent = find_truncated(properties, asked, ANSWER_S)
        for tp, report in sorted(truncated.items()):
            self._reports.lose(
                "OFFSET_WENT_BACK",
                f"{tp}: the log was truncated below offset {positions[tp].position}, by an unclean election, and has grown "
                f"again: records before that offset were replaced after they were read; the client found: {report}",
            )
        return silent
