"""Consumer of one partition that fetches from the brokers without librdkafka."""

from __future__ import annotations

import time

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.librdkafka_errors import from_kafka
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import PartitionEvents, Poll, reading_watermarks
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.fetcher import Fetcher, JointFetches
from pyspark_zkafka.records.direct.messages import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    list_offsets_request,
    read_list_offsets,
)
from pyspark_zkafka.records.direct.wire import NONE, ConnectionLost, Unsupported
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.retries import Deadline

_PAUSE_S = 0.1


class DirectConsumer:
    """The `PartitionConsumer` that fetches and decodes record batches itself.

    All methods but `take` raise Unsupported if librdkafka must continue. Records that were gathered before can still be
    taken. `joint` holds the joint fetches of the task, if there are any.
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

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        """One record may exceed `most_bytes`.

        May block for some seconds after the deadline: while a host is resolved, and while a connected broker is slow to
        answer a request other than Fetch.
        """
        try:
            self._fetcher.fill()
            while True:
                poll = self._decoder.poll(most_records, most_bytes, until)
                # Keep fed records that are not gathered yet: the next response replaces them.
                has_more = poll.first is not None or not self._decoder.is_exhausted
                if has_more or self._fetcher.fetch(until, deadline, poll) is None:
                    poll.by_id = self._fetcher.by_id
                    return self._events.finish(poll)
        except Unsupported:
            self._fetcher.abandon()
            raise

    def take(self) -> pa.RecordBatch:
        return self._decoder.take()

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        """Tries again after a failed connection until the deadline."""
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
        """One end of the log. Under read_committed, LATEST is the last stable offset."""
        doing = reading_watermarks(self._partition)
        connection, epoch = self._fetcher.connect_leader(doing)
        version = connection.version(LIST_OFFSETS)
        committed = self._client.settings.fetch.read_committed
        request = list_offsets_request(version, self._partition, which, epoch, read_committed=committed)
        found = read_list_offsets(connection.ask(request, deadline), version, self._partition)
        if found.error != NONE:
            self._fetcher.forget_leader()
            raise from_kafka(KafkaError(found.error), doing)
        return found.offset
