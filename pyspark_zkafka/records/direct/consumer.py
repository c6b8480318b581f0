"""Consumer of one partition over a connection of its own to the partition's leader."""

from __future__ import annotations

import time

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.librdkafka_errors import from_kafka
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import PartitionEvents, Poll, Unsupported, reading_watermarks
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.connection import Deadline
from pyspark_zkafka.records.direct.fetcher import Fetcher, JointFetches
from pyspark_zkafka.records.direct.messages import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    NONE,
    list_offsets_request,
    read_list_offsets,
)
from pyspark_zkafka.records.direct.wire import ConnectionLost
from pyspark_zkafka.records.native.record_decoder import RecordDecoder

_PAUSE_S = 0.1


class DirectConsumer:
    """The `PartitionConsumer` that decodes the brokers' record batches, without librdkafka.

    All methods but `take` raise Unsupported where librdkafka is to continue; what was gathered before can still be taken.
    `joint` holds the task's joint fetches, if there are any.
    """

    def __init__(self, client: DirectClient, split: Split, schema: pa.Schema, joint: JointFetches | None = None) -> None:
        self._client = client
        self._partition = split.partition
        self._events = PartitionEvents(split.partition)
        self._decoder = RecordDecoder(split.partition, schema)
        self._fetcher = Fetcher(client, split, self._events, self._decoder.feed, joint=joint)

    def __enter__(self) -> DirectConsumer:
        self._decoder.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._fetcher.abandon()
        self._decoder.__exit__(*exc)

    def seek(self, offset: int) -> None:
        self._fetcher.seek(offset)
        self._decoder.seek(offset)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """The bytes may be exceeded by one record.

        It may block for some seconds longer: while a host is resolved, and where a connected broker is slow to answer a
        request other than Fetch, for metadata or the end of a leader epoch.
        """
        try:
            return self._poll(most_records, most_bytes, until, self._client.deadline(timeout_s))
        except Unsupported:
            self._fetcher.abandon()
            raise

    def take(self) -> pa.RecordBatch:
        return self._decoder.take()

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        """Another attempt follows a failed connection until the time-out."""
        deadline = self._client.deadline(timeout_s)
        while True:
            try:
                return self._log_end(EARLIEST, deadline), self._log_end(LATEST, deadline)
            except ConnectionLost as error:
                self._fetcher.forget_leader()
                if deadline.left_s < _PAUSE_S:
                    failure = KafkaError(KafkaError._TRANSPORT, f"Failed to get watermark offsets: {error}")
                    raise from_kafka(failure, reading_watermarks(self._partition)) from error
            time.sleep(_PAUSE_S)

    def _log_end(self, which: int, deadline: Deadline) -> int:
        """One of the log's ends; of a log with open transactions the last stable offset, if committed records are read."""
        doing = reading_watermarks(self._partition)
        connection, epoch = self._fetcher.connect_leader(doing)
        version = connection.version(LIST_OFFSETS)
        committed = self._client.settings.wanted.read_committed
        request = list_offsets_request(version, self._partition, which, epoch, read_committed=committed)
        found = read_list_offsets(connection.ask(request, deadline), version, self._partition)
        if found.error != NONE:
            self._fetcher.forget_leader()
            raise from_kafka(KafkaError(found.error), doing)
        return found.offset

    def _finished(self, poll: Poll) -> Poll:
        poll.by_id = self._fetcher.by_id
        return self._events.finish(poll)

    def _poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        self._fetcher.receive()
        while True:
            poll = self._decoder.poll(most_records, most_bytes, until)
            # The next response must not replace records that are not gathered yet.
            if poll.first is not None or not self._decoder.is_exhausted:
                return self._finished(poll)
            if self._fetcher.fetch(until, deadline, poll) is None:
                return self._finished(poll)
