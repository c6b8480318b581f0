"""Samples of logs, read on the driver: the mean size of records, and ranges without records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.records import RAW_HEADERS
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.records.consumer import PartitionConsumer, Poll
from pyspark_zkafka.records.direct.joint_fetches import JointFetches
from pyspark_zkafka.records.select import open_consumer, open_fallback, open_joint
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.protocol import Unsupported

_log = logging.getLogger(__name__)
T = TypeVar("T")
_Polls: TypeAlias = Generator[tuple[PartitionConsumer, Poll], None, None]

_SIZED = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", RAW_HEADERS)])
_RECORDS, _BYTES = 200, 1024 * 1024
# Each partition has a share of the time, so that a leader that does not answer cannot use up all of it.
_LEAST_SHARE_S = 0.05
_POLL_S = 0.05


class LogSamples:
    """Reader of the first records of splits, one split after the other, within `timeout_s` in all.

    A split that cannot be read in its share of the time has no result: the task that reads it reports the error.
    """

    def __init__(
        self,
        options: ReadOptions,
        bootstrap_servers: str,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = options.connection
        self._properties = consumer_properties(self._connection, bootstrap_servers, options.client_group, _RECORDS)
        self._timeout_s = timeout_s
        self._clock = clock

    def mean_bytes(self, splits: Sequence[Split]) -> dict[TopicPartition, float]:
        """The mean size of the first records of each split, in uncompressed bytes of key, value and headers.

        A sample has about 200 records or 1 MiB. Partitions without a record are absent.
        """

        def measure(polls: _Polls, split: Split) -> float | None:
            records = size = 0
            for consumer, poll in polls:
                if poll.records:
                    records, size = records + poll.records, size + _size_bytes(consumer.take())
                if records >= _RECORDS or size >= _BYTES or poll.end is not None:
                    break
            return size / records if records else None

        # A consumer fetches little in advance if the end is near.
        nearest = [split._replace(until=min(split.start + _RECORDS, split.until)) for split in splits]
        found = self._measured(nearest, _SIZED, measure)
        without = [split for split in splits if split.partition in found and found[split.partition] is None]
        found |= self._measured(without, _SIZED, measure)
        return {tp: mean for tp, mean in found.items() if mean is not None}

    def without_records(self, splits: Sequence[Split]) -> list[TopicPartition]:
        """The partitions whose split holds no record: only markers of transactions, or gaps."""

        def measure(polls: _Polls, split: Split) -> bool:
            for _, poll in polls:
                if poll.records:
                    return False
                if max(poll.last or 0, (poll.end or 0) - 1) >= split.until - 1:
                    return True
            return False

        return [tp for tp, is_empty in self._measured(splits, pa.schema([]), measure).items() if is_empty]

    def _measured(
        self, splits: Sequence[Split], schema: pa.Schema, measure: Callable[[_Polls, Split], T]
    ) -> dict[TopicPartition, T]:
        found: dict[TopicPartition, T] = {}
        deadline = Deadline.after(self._timeout_s, self._clock)
        with open_joint(self._connection, self._properties, splits) as joint:
            for number, split in enumerate(splits):
                if deadline.has_passed:
                    break
                share_s = max(deadline.left_s / (len(splits) - number), _LEAST_SHARE_S)
                share = deadline.or_sooner(Deadline.after(share_s, self._clock))
                try:
                    with closing(self._polls(split, schema, share, joint)) as polls:
                        found[split.partition] = measure(polls, split)
                except ZKafkaError as error:
                    _log.info("%s cannot be sampled: %s", split.partition, error)
        return found

    def _polls(self, split: Split, schema: pa.Schema, deadline: Deadline, joint: JointFetches | None) -> _Polls:
        """Poll a split to its end, or until the deadline. librdkafka continues where the direct transport cannot."""
        position = split.start
        try:
            with open_consumer(self._connection, self._properties, split, schema, joint) as consumer:
                for poll in _poll(consumer, split, position, deadline):
                    position = position if poll.last is None else poll.last + 1
                    yield consumer, poll
        except Unsupported as why:
            with open_fallback(self._connection, self._properties, split, schema, why, position) as consumer:
                for poll in _poll(consumer, split, position, deadline):
                    yield consumer, poll


def _poll(consumer: PartitionConsumer, split: Split, position: int, deadline: Deadline) -> Iterator[Poll]:
    consumer.seek(position)
    left_bytes = _BYTES
    while position < split.until and left_bytes > 0 and not deadline.has_passed:
        poll = consumer.poll(_RECORDS, left_bytes, split.until, deadline.or_sooner(Deadline.after(_POLL_S, deadline.clock)))
        yield poll
        if poll.out_of_range or poll.gone:
            return
        left_bytes -= poll.size_bytes
        position = position if poll.last is None else poll.last + 1


def _size_bytes(batch: pa.RecordBatch) -> int:
    headers = batch.column("headers").flatten()
    columns = (batch.column("key"), batch.column("value"), *headers.flatten())
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
