"""Consumers of one partition: their interface, and the results of a poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.retries import Deadline


@dataclass(slots=True)
class Poll:
    """The result of one poll. Handle the records before the events.

    Attributes
    ----------
    records, size_bytes : int
        The number of records added to the batch that is being gathered, and their approximate size.
    first, last : int or None
        The offsets of the received records; None without records. `last` may be beyond the end of the range.
    ordered : bool
        True if offsets were ascending.
    end : int or None
        The end of the log, if it was reached after the records.
    out_of_range : bool
        True if the position is outside the log, or the log was truncated below the position.
    truncation : str or None
        The client's report of a truncation, found by the leader epoch. The log may have grown past the position again.
    gone : bool
        True if the brokers do not know the partition.
    error : str or None
        The last retriable error, for the text of a time-out.
    by_id : bool
        True if the brokers have compared the id of the topic with the planned id in every fetch.
    """

    records: int = 0
    size_bytes: int = 0
    first: int | None = None
    last: int | None = None
    ordered: bool = True
    end: int | None = None
    out_of_range: bool = False
    truncation: str | None = None
    gone: bool = False
    error: str | None = None
    by_id: bool = False


class PartitionConsumer(Protocol):
    """Fetches one partition from an offset on, and gathers Arrow batches. Not thread-safe, not pickle-safe.

    Implemented by `message_consumer.MessageConsumer`, and by `direct.consumer.DirectConsumer`. A consumer has an open
    client to itself during its ``with`` block, and fetches nothing afterwards. The caller judges gaps between offsets.
    """

    def seek(self, offset: int) -> None:
        """Continue at `offset`, and drop records that are fetched but not gathered. May block for a second."""

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        """Add the next records before offset `until` to the batch: at most `most_records`, of about `most_bytes`.

        Returns when these records have arrived, at an event, or at the deadline with the records so far. Raises
        ClusterStateError if waiting cannot help: a refused request, corrupt data, or an unsupported feature.
        """

    def take(self) -> pa.RecordBatch:
        """Return the gathered batch, which must have at least one record, and start another. Raises like `build_batch`."""

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        """Request the earliest offset and the end of the log from the leader."""


def reading_watermarks(partition: TopicPartition) -> str:
    """Describe the request for the ends of a log, for the text of an error."""
    return f"asking the leader of {partition} for the ends of its log"
