"""Consumer of one partition over a connection of its own to the partition's leader."""

from __future__ import annotations

import time

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.kafka.errors import from_kafka
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.consumer import PartitionEvents, Poll, reading_watermarks
from pyspark_zkafka.transport.direct.client import DirectClient
from pyspark_zkafka.transport.direct.errors import ConnectionLost, Unsupported
from pyspark_zkafka.transport.direct.fetcher import Fetcher
from pyspark_zkafka.transport.direct.joint_fetch import JointFetches
from pyspark_zkafka.transport.direct.messages import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    NONE,
    list_offsets_request,
    read_list_offsets,
)
from pyspark_zkafka.transport.native.record_decoder import RecordDecoder

__all__ = ["DirectConsumer"]

_PAUSE_S = 0.1


class DirectConsumer:
    """The `PartitionConsumer` that decodes the brokers' record batches, without librdkafka.

    Beside the errors of a `PartitionConsumer`, `poll` and `watermarks` raise Unsupported and UnsupportedRecords where
    librdkafka is to continue; what was gathered before can still be taken. `joint` is that of the task, if there is one.
    """

    def __init__(self, client: DirectClient, split: Split, schema: pa.Schema, joint: JointFetches | None = None) -> None:
        self._client = client
        self._partition = split.partition
        self._events = PartitionEvents(split.partition)
        self._fetcher = Fetcher(client, split, self._events, joint=joint)
        self._decoder = RecordDecoder(split.partition, schema)
        self._fed_until: int | None = None

    def __enter__(self) -> DirectConsumer:
        self._decoder.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._fetcher.abandon()
        self._decoder.__exit__(*exc)

    def seek(self, offset: int) -> None:
        self._fetcher.seek(offset)
        self._decoder.seek(offset)
        self._fed_until = None

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """The bytes may be exceeded by one record.

        It may block for some seconds longer: while a host is resolved, and where a connected broker is slow to answer a
        request other than Fetch, for metadata or the end of a leader epoch.
        """
        deadline = self._client.clock() + timeout_s
        self._fetcher.receive()
        while True:
            poll = self._decode(most_records, most_bytes, until)
            # Records that are not gathered yet must not be replaced by those of the next response.
            if poll.first is not None or self._fed_until is not None:
                return self._finished(poll)
            records = self._fetcher.fetch(until, deadline, poll)
            if records is None:
                return self._finished(poll)
            self._decoder.feed(records.data, records.aborted)
            self._fed_until = records.next_offset

    def take(self) -> pa.RecordBatch:
        return self._decoder.take()

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        """Another attempt follows a failed connection until the time-out."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._log_end(EARLIEST, deadline), self._log_end(LATEST, deadline)
            except ConnectionLost as error:
                self._fetcher.forget_leader()
                if time.monotonic() + _PAUSE_S > deadline:
                    failure = KafkaError(KafkaError._TRANSPORT, f"Failed to get watermark offsets: {error}")
                    raise from_kafka(failure, reading_watermarks(self._partition)) from error
            time.sleep(_PAUSE_S)

    def _log_end(self, which: int, deadline: float) -> int:
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

    def _decode(self, most_records: int, most_bytes: int, until: int) -> Poll:
        """Records of the response that is being decoded; none if it is exhausted."""
        if self._fed_until is None:
            return Poll()
        poll = self._decoder.poll(most_records, most_bytes, until)
        if self._decoder.is_exhausted:
            if self._decoder.position != self._fed_until:
                raise Unsupported(f"a response ends at offset {self._decoder.position}, its headers at {self._fed_until}")
            self._fed_until = None
        return poll
