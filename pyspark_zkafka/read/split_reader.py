"""Reader of one split. Returns Arrow batches, and detects missing records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from pyspark_zkafka.conditions import (
    BROKERS_UNAVAILABLE,
    DATA_LOSS,
    OFFSETS_OUT_OF_ORDER,
    TOPIC_REPLACED,
    TRANSACTION_OPEN,
    report_data_loss,
)
from pyspark_zkafka.errors import Condition, DataLoss, NoLeader, UnknownTopic, ZKafkaError
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.records.consumer import PartitionConsumer, Poll
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.protocol import Unsupported

_POLL_S = 0.05
_PAUSE_S = 0.2
_ANSWER_S = 5.0

Identity = Literal["same", "deleted", "created again"]
"""Result of comparing the planned topic with the present topic of its name."""

Fallback = Callable[[Unsupported, int], PartitionConsumer]
"""Function that opens librdkafka's consumer, given the error of the direct transport and the next offset."""


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """Reaction to missing records, time-out, and limits of a batch.

    Each batch costs the worker some tenths of a millisecond, whatever its size: large batches are cheaper.
    """

    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    max_records: int = 10_000
    max_bytes: int = 4 * 1024 * 1024

    @classmethod
    def of(cls, options: ReadOptions) -> ReadPolicy:
        """Return the policy of a read with these options."""
        return cls(options.fail_on_data_loss, options.poll_timeout_ms)


class SplitReader:
    """Reader of the records `[start, until)` of a split, in offset order.

    A gap in the offsets is not data loss. The consumer fetches each next offset by number, and a broker answers
    OFFSET_OUT_OF_RANGE if retention has removed it. The consumer skips only offsets without a readable record: transaction
    markers, aborted and compacted records. Data loss shows as an offset out of range, a log that ends too early, a log that
    was truncated and has grown again, or another topic of the same name. The reader checks each of these signs.

    - `consumer`: an open consumer of the split's partition.
    - `identity`: compares the topic with the planned topic.
    - `high_watermark`: requests the end of the log from the leader, open transactions included. Needed under
      read_committed, where the consumer reports the last stable offset. Called if the position is beyond that offset, or
      the read times out.
    - `fallback`: opens the consumer that continues after Unsupported.

    At the end, `is_compared` is True if the brokers have compared the topic's id in every fetch: all records are from the
    planned topic. If not, call `compare`. One call is enough after several ranges of one topic.
    """

    def __init__(
        self,
        split: Split,
        consumer: PartitionConsumer,
        policy: ReadPolicy,
        identity: Callable[[], Identity],
        clock: Callable[[], float] = time.monotonic,
        high_watermark: Callable[[], int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        fallback: Fallback | None = None,
    ) -> None:
        self._split = split
        self._consumer = consumer
        self._policy = policy
        self._identity = identity
        self._clock = clock
        self._high_watermark = high_watermark
        self._fallback = fallback
        self._unsupported: Unsupported | None = None
        self._sleep = sleep
        self._position = split.start
        self._until = split.until
        self._deadline = Deadline(0.0, clock)
        self._is_at_end = False
        self._is_replaced = False
        self.is_compared = True
        self._is_started = False

    def start(self) -> None:
        """Start to fetch in the background. Does not wait for records."""
        if not self._is_started:
            self._is_started = True
            try:
                self._consumer.seek(self._position)
            except Unsupported as why:
                self._unsupported = why

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `max_records` rows and about `max_bytes` of values.

        If records are gone, raises DataLoss, or logs a warning without `fail_on_data_loss`. Raises
        BrokersUnavailable if no records arrive for `poll_timeout_ms`, and ClusterStateError if a transaction blocks a
        committed read for that long.
        """
        self.start()
        self._postpone_deadline()
        while self._position < self._until:
            if self._unsupported is not None:
                if self._fallback is None:
                    raise self._unsupported
                self._consumer, self._unsupported = self._fallback(self._unsupported, self._position), None
                self._consumer.seek(self._position)
                self._postpone_deadline()
            if self._gather():
                yield self._consumer.take()
                self._postpone_deadline()  # do not count the time that Spark took

    def compare(self) -> None:
        """Raise DataLoss, or warn, if the topic was created again. A deletion after the last record does no harm."""
        if not self._is_replaced and self._identity() == "created again":
            self._report_replaced("created again")

    def _gather(self) -> int:
        """Gather records for one batch, and return their number. Stops early, even without records, if nothing arrives."""
        gathered = size = 0
        while self._position < self._until and gathered < self._policy.max_records and size < self._policy.max_bytes:
            left = min(self._policy.max_records - gathered, self._until - self._position)
            try:
                poll = self._consumer.poll(left, self._policy.max_bytes - size, self._until, self._after(_POLL_S))
                self._advance(poll)
                gathered += poll.records
                size += poll.size_bytes
                self._handle_events(poll)
            except Unsupported as why:
                self._unsupported = why  # take the gathered records first
                break
            if not poll.records:
                break
        return gathered

    def _advance(self, poll: Poll) -> None:
        """Move the position past the records of a poll."""
        if poll.first is None or poll.last is None:
            return
        if poll.first < self._position or not poll.ordered:
            raise OFFSETS_OUT_OF_ORDER(
                f"{self._split.partition}: offsets are not ascending: got {poll.first} to {poll.last}, expected "
                f"{self._position} or more. Report this with the transport's log; for librdkafka, set kafka.debug=fetch, "
                "and the logger pyspark_zkafka.librdkafka to DEBUG",
            )
        self._position = min(poll.last + 1, self._until)
        self._is_at_end = False
        self._postpone_deadline()

    def _handle_events(self, poll: Poll) -> None:
        has_progress = poll.first is not None or poll.end is not None
        if (has_progress and not poll.by_id) or poll.out_of_range or poll.gone:
            self.is_compared = False
        if poll.out_of_range:
            self._on_out_of_range(poll.truncation)
        elif poll.gone:
            self._end_if_replaced()
        elif poll.end is not None:
            self._on_log_end(poll.end)
        if poll.first is None and self._position < self._until and self._deadline.has_passed:
            self._on_timeout(poll.error)

    def _on_out_of_range(self, truncation: str | None) -> None:
        watermarks = self._watermarks()
        if watermarks is None:
            return
        low, high = watermarks
        if self._position > high and self._high_watermark is not None:
            high = self._high_watermark()
        if self._end_if_replaced():
            return
        if self._position < low:
            self._lose(min(low, self._until), f"the log now begins at {low}: retention or a delete removed the records")
        elif self._position > high:
            self._lose(self._until, f"the log now ends at {high}: it was truncated")
        elif truncation is not None:
            self._report_truncation(truncation)
        if self._position < self._until:
            self._consumer.seek(self._position)

    def _watermarks(self) -> tuple[int, int] | None:
        """Return the earliest offset and the end of the log. Return None if the planned topic is gone and the range ends.

        Retries until the time-out. Without a leader in its metadata, librdkafka reports an unknown partition at once:
        during an election, and if a broker does not know a new topic yet.
        """
        deadline = self._after(self._policy.poll_timeout_ms / 1000)
        while True:
            try:
                return self._consumer.watermarks(self._after(max(deadline.left_s, _POLL_S)))
            except (NoLeader, UnknownTopic):
                if self._end_if_replaced():
                    return None
                if deadline.has_passed:
                    raise
            self._sleep(_PAUSE_S)

    def _report_truncation(self, report: str) -> None:
        """Report that the records before the position were replaced. Continues at the position without the error."""
        text = (
            f"{self._split.partition}: the log was truncated below offset {self._position}, by an unclean election, and "
            f"has grown again. The client found: {report}. Records before that offset were replaced after they were read"
        )
        self._report_loss(DATA_LOSS, text, "set failOnDataLoss to false to continue in the new log")
        self._postpone_deadline()

    def _on_log_end(self, end: int) -> None:
        """Note the end of the log. The log may still grow to `until`, for example on a new leader."""
        if end < self._position:
            return  # records beyond this end followed in the same poll
        self._position = min(end, self._until)
        self._is_at_end = self._position < self._until and not self._end_if_replaced()

    def _on_timeout(self, error: str | None) -> None:
        waited = f"{self._policy.poll_timeout_ms} ms"
        stable_end, log_end = self._ends()
        if stable_end <= self._position < log_end:
            raise TRANSACTION_OPEN(
                f"{self._split.partition}: records [{self._position}, {self._until}) of the range [{self._split.start}, "
                f"{self._until}) are not stable: a transaction has been open for {waited}, and kafka.isolation.level is "
                "read_committed. Read again when it has ended, or raise kafkaConsumer.pollTimeoutMs",
            )
        if self._is_at_end and log_end <= self._position:
            self._lose(self._until, f"the log ends at {log_end}, and has not grown for {waited}: it was truncated")
            return
        raise BROKERS_UNAVAILABLE(
            f"{self._split.partition}: no records from the brokers for {waited} at offset {self._position} "
            f"(planned leader {self._split.leader}, ISR {list(self._split.isr)}, endpoints "
            f"{', '.join(self._split.endpoints)}; last error: {error or 'none'}). Check the brokers, and that "
            "the addresses in their advertised.listeners can be reached from here, or raise kafkaConsumer.pollTimeoutMs",
        )

    def _ends(self) -> tuple[int, int]:
        """Request the last stable offset and the end of the log, if either may have stopped the read.

        Returns `until` for both otherwise, and if the leader does not answer.
        """
        if not self._is_at_end and self._high_watermark is None:
            return self._until, self._until
        try:
            _, stable_end = self._consumer.watermarks(self._after(_ANSWER_S))
            return stable_end, stable_end if self._high_watermark is None else self._high_watermark()
        except ZKafkaError:
            return self._until, self._until

    def _lose(self, resume: int, cause: str) -> None:
        """Fail, or warn and continue at `resume`."""
        text = (
            f"{self._split.partition}: records [{self._position}, {resume}) of the range "
            f"[{self._split.start}, {self._until}) are gone; {cause}"
        )
        self._report_loss(DATA_LOSS, text, "set failOnDataLoss to false to continue without them")
        self._position = resume
        self._postpone_deadline()

    def _end_if_replaced(self) -> bool:
        """End the range, with a report, if its topic was deleted or created again."""
        found = self._identity()
        if found != "same":
            self._report_replaced(found)
            self._position = self._until
        return self._is_replaced

    def _report_replaced(self, found: Identity) -> None:
        """Fail, or warn and end the range."""
        text = f"topic {self._split.partition.topic} was {found} after the read was planned"
        if self._position < self._until:
            text += f": records [{self._position}, {self._until}) of {self._split.partition} are gone"
        self._report_loss(TOPIC_REPLACED, text, "plan the read again, or set failOnDataLoss to false")
        self._is_replaced = True

    def _report_loss(self, condition: Condition[DataLoss], text: str, remedy: str) -> None:
        report_data_loss(condition, text, fail=self._policy.fail_on_data_loss, remedy=remedy)

    def _postpone_deadline(self) -> None:
        self._deadline = self._after(self._policy.poll_timeout_ms / 1000)

    def _after(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self._clock)
