"""Consumer of one partition that fetches from the brokers without librdkafka, one request ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from pyspark_zkafka.brokers.errors import UNKNOWN_TOPIC_CODES, broker_error, connection_error, explained
from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import Poll, reading_watermarks
from pyspark_zkafka.records.direct.client import RETRIABLE_FETCH, DirectClient, PartitionBroker
from pyspark_zkafka.records.direct.fetch import (
    FETCH,
    FIRST_DIVERGING,
    FetchPartition,
    PartitionData,
    fetch_request,
    id_bytes,
    newest_version,
    read_fetch,
)
from pyspark_zkafka.records.direct.joint_fetches import JointFetches
from pyspark_zkafka.records.native.library import FedBatches
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.retries import Backoff, Deadline
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.offset_messages import (
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    AskedEpoch,
    AskedOffset,
    epoch_ends_request,
    list_offsets_request,
    read_epoch_ends,
    read_list_offsets,
)
from pyspark_zkafka.wire.protocol import ConnectionLost, MalformedResponse, Unsupported, answer_of

Feed = Callable[[memoryview, Sequence[tuple[int, int]] | None], FedBatches]
"""`RecordDecoder.feed`: takes the record batches of a response, and its aborted transactions."""

_PAUSE_S = 0.1
_OTHER_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
# Before Kafka 2.3, ACLs allow OffsetForLeaderEpoch to brokers only.
_NOT_ALLOWED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_ANSWER_S = 3.0
_LONGEST_WAIT_MS = 500  # the default of fetch.max.wait.ms
_STALLED = 20  # empty responses after which a follower is left, in about 10 s


class FetchErrors:
    """Collects retriable errors of a partition, to report them in the results of polls."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._is_gone = False

    def note(self, text: str, *, is_gone: bool = False) -> None:
        """Note an error; `is_gone` if the brokers do not know the partition."""
        self._last, self._is_gone = text, self._is_gone or is_gone

    def finish(self, poll: Poll) -> Poll:
        """Add the last error to a poll, and whether the partition is gone."""
        poll.gone, self._is_gone = poll.gone or self._is_gone, False
        poll.error = self._last
        return poll


class DirectConsumer:
    """The `PartitionConsumer` that fetches and decodes record batches itself.

    All methods but `take` raise Unsupported if librdkafka must continue. Already gathered records can still be taken.
    `joint` holds the joint fetches of the task, if it has any.
    """

    def __init__(self, client: DirectClient, split: Split, schema: pa.Schema, joint: JointFetches | None = None) -> None:
        self._client = client
        self._partition = split.partition
        self._errors = FetchErrors()
        self._decoder = RecordDecoder(split.partition, schema)
        self._broker = PartitionBroker(client, split)
        self._fetcher = Fetcher(client, split, self._broker, self._errors, self._decoder.feed, joint=joint)

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
        """See `PartitionConsumer.poll`. A single record may exceed `most_bytes`.

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
                    return self._errors.finish(poll)
        except Unsupported:
            self._fetcher.abandon()
            raise

    def take(self) -> pa.RecordBatch:
        return self._decoder.take()

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        """Tries again after a failed connection until the deadline. May block for some seconds after it, as `poll` does."""
        while True:
            try:
                return self._log_end(EARLIEST, deadline), self._log_end(LATEST, deadline)
            except ConnectionLost as error:
                self._broker.forget()
                if deadline.left_s < _PAUSE_S:
                    raise connection_error(error, reading_watermarks(self._partition)) from error
            time.sleep(_PAUSE_S)

    def _log_end(self, which: int, deadline: Deadline) -> int:
        """Request one end of the log. Under read_committed, LATEST is the last stable offset. Raises ConnectionLost."""
        doing = reading_watermarks(self._partition)
        self._fetcher.abandon()  # its request may occupy the connection
        code = self._broker.find(deadline)
        if code:
            raise broker_error(code, doing)
        connection = self._broker.connect_leader(deadline) if code == NONE else None
        if connection is None:
            raise ConnectionLost("no broker was connected in time")
        version = connection.version(LIST_OFFSETS)
        committed = self._client.fetch.read_committed
        asked = {self._partition: AskedOffset(which, self._broker.epoch)}
        request = list_offsets_request(version, asked, read_committed=committed)
        found = answer_of(read_list_offsets(connection.ask(request, deadline)), self._partition)
        if found.error != NONE:
            self._broker.forget()
            raise broker_error(found.error, doing)
        return found.offset


class Fetcher:
    """Fetches one partition over the connections of a client. First takes the records that `joint` has fetched of it.

    Passes records to `feed`, and sends the next request before `fetch` returns. Records stay valid for one more response.
    Notes errors of brokers and connections in `errors`, and retries with a back-off. `by_id` is True if the brokers have
    compared the topic's id in every fetch.
    """

    def __init__(
        self,
        client: DirectClient,
        split: Split,
        broker: PartitionBroker,
        errors: FetchErrors,
        feed: Feed,
        sleep: Callable[[float], None] = time.sleep,
        joint: JointFetches | None = None,
    ) -> None:
        self._client = client
        self._joint = joint or JointFetches(client, ())
        self._partition = split.partition
        self._topic_id = id_bytes(split.topic_id)
        self._errors = errors
        self._feed = feed
        self._sleep = sleep
        self._clock = client.clock
        self._broker = broker
        self._settings = client.fetch
        self._offset, self._until = split.start, split.until
        self._last_epoch = -1
        self._validated_epoch = -1
        self._in_flight: Connection | None = None
        self._buffer = 0
        self._waited_s = 0.0
        self._empty = 0
        self._failures = 0
        self._retry_at = 0.0
        self._unknown_since: float | None = None
        self._is_stopped = False
        self._reported_end = -1
        self.by_id = True

    def seek(self, offset: int) -> None:
        """Continue at an offset, and drop a request in flight. Sends the next request now if there is a connection."""
        self.abandon()
        self._offset, self._last_epoch = offset, -1
        self._is_stopped, self._reported_end, self._empty = False, -1, 0
        joint = self._joint.request(self._partition, offset)
        if joint is not None:
            with self._noting_loss():
                joint.send_if_connected()
            return
        connection = self._broker.connected()
        if connection is not None and self._clock() >= self._retry_at:
            with self._noting_loss():
                self._send(connection)

    def abandon(self) -> None:
        """Drop the request in flight by closing its connection: the response may be large."""
        if self._in_flight is not None:
            self._in_flight.close()
            self._in_flight = None

    def fetch(self, until: int, deadline: Deadline, poll: Poll) -> FedBatches | None:
        """Feed the next records, and request more unless they reach `until`. Raises Unsupported.

        Returns None at the deadline, or after an event, which it adds to the poll.
        """
        while self._wait(deadline):
            data = None
            with self._noting_loss():
                data = self._exchange(deadline)
            if data is not None:
                fed = self._take(data, until, poll)
                if fed is not None or poll.end is not None or poll.out_of_range or poll.gone:
                    return fed
            elif deadline.has_passed:
                break
        return None

    def fill(self) -> None:
        """Receive the part of the response that has arrived, without waiting, to make room for more."""
        if self._in_flight is not None:
            with self._noting_loss():
                self._in_flight.fill(self._client.buffers[self._buffer])

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLost as error:
            self._lose(error)

    def _lose(self, error: ConnectionLost) -> None:
        """Note the error, and look the leader up again after a back-off."""
        self._in_flight = None
        if self._broker.is_replica:
            self._broker.avoid_replicas()
        remedy = "; if this continues, set transport to librdkafka" if isinstance(error, MalformedResponse) else ""
        self._errors.note(f"{error}{remedy}")
        self._retry_later(self._client.settings.reconnect_backoff)

    def _wait(self, deadline: Deadline) -> bool:
        """Wait until a request may be sent or a response received. Returns False if the deadline comes first."""
        if self._in_flight is not None:
            return True
        until = deadline.at if self._is_stopped else min(self._retry_at, deadline.at)
        pause_s = until - self._clock()
        if pause_s > 0:
            self._sleep(pause_s)
        return not self._is_stopped and self._clock() >= self._retry_at

    def _exchange(self, deadline: Deadline) -> PartitionData | None:
        """Receive the response to the request in flight, or to a new request."""
        joint = self._joint.request(self._partition, self._offset)
        if joint is not None:
            return joint.take(self._partition, self._offset, deadline)
        if self._in_flight is None:
            refused = self._send_to_broker(deadline)
            if refused is not None:
                return refused
        if self._in_flight is None:
            return None
        begin = self._clock()
        response = self._in_flight.receive(self._client.buffers[self._buffer], deadline)
        self._waited_s += self._clock() - begin
        if response is None:
            return None
        self._in_flight = None
        self._buffer = 1 - self._buffer
        (data,) = read_fetch(response, [self._fetch_partition()])
        self._client.fetch_sizes.note_wait(len(data.records), self._waited_s)
        return data

    def _send_to_broker(self, deadline: Deadline) -> PartitionData | None:
        """Send a request to the leader or the preferred replica.

        Sends nothing without a leader, without a connection at the deadline, or if the validation of the position fails.
        Returns the result of a failed validation.
        """
        code = self._broker.find(deadline)
        if code:
            self._fail(code)
        connection = None if code != NONE else self._broker.connect(deadline)
        if connection is None:
            return None
        is_validated = self._last_epoch < 0 or self._validated_epoch == self._broker.epoch
        if not is_validated and self._fetch_version(connection) < FIRST_DIVERGING:
            leader = self._broker.connect_leader(deadline)
            refused = None if leader is None else self._validate(leader)
            if leader is None or refused is not None:
                return refused
        self._send(connection)
        return None

    def _validate(self, leader: Connection) -> PartitionData | None:
        """Ask a new leader whether its log was truncated below the position: its version of Fetch does not report that.

        Returns the truncation, or the broker's error. Returns None if the log was not truncated, or if the broker does not
        answer this request of consumers. Follows ``rd_kafka_offset_validate`` of librdkafka.
        """
        epoch = self._broker.epoch
        if leader.has(OFFSET_FOR_LEADER_EPOCH):
            version = leader.version(OFFSET_FOR_LEADER_EPOCH)
            request = epoch_ends_request(version, {self._partition: AskedEpoch(epoch, self._last_epoch)})
            response = leader.ask(request, self._client.deadline(_ANSWER_S))
            end = answer_of(read_epoch_ends(response), self._partition)
            if end.error not in (NONE, *_NOT_ALLOWED):
                return PartitionData(0, end.error)
            if 0 <= end.offset < self._offset and end.error == NONE:
                return PartitionData(0, NONE, diverging=(end.epoch, end.offset))
        self._validated_epoch = epoch
        return None

    def _send(self, connection: Connection) -> None:
        version = self._fetch_version(connection)
        # Request few bytes after a failure, in case large responses break connections.
        sizes, left = self._client.fetch_sizes, max(self._until - self._offset, 0)
        size = sizes.first if self._failures else sizes.next(self._partition.topic, left)
        # The broker's wait doubles with each empty response, as before an open transaction.
        wait_ms = self._settings.max_wait_ms
        longer_ms = max(min(wait_ms << min(self._empty, 10), _LONGEST_WAIT_MS), wait_ms)
        settings = self._settings._replace(partition_max_bytes=size, max_wait_ms=longer_ms)
        if self._broker.avoids_replicas:
            settings = settings._replace(rack="")
        connection.send(fetch_request(version, [self._fetch_partition()], settings))
        self._in_flight = connection
        self._waited_s = 0.0

    def _fetch_partition(self) -> FetchPartition:
        return FetchPartition(self._partition, self._topic_id, self._offset, self._broker.epoch, self._last_epoch)

    def _fetch_version(self, connection: Connection) -> int:
        return connection.version(FETCH, newest_version([self._fetch_partition()]))

    def _fail(self, code: int) -> None:
        """Note an error of the broker, and look the leader up again after a back-off."""
        self._retry_later(self._client.settings.retry_backoff)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # A broker that has just started may not know the topic yet.
            now = self._clock()
            self._unknown_since = now if self._unknown_since is None else self._unknown_since
            if now - self._unknown_since < self._client.propagation_s:
                return
        self._errors.note(explained(code), is_gone=code in UNKNOWN_TOPIC_CODES)

    def _retry_later(self, backoff: Backoff) -> None:
        self._failures += 1
        self._retry_at = max(self._retry_at, self._clock() + backoff.wait_s(self._failures))
        self._broker.forget()

    def _take(self, data: PartitionData, until: int, poll: Poll) -> FedBatches | None:
        """Feed records, or add an event to the poll. Does neither if the fetch must be repeated, and returns None."""
        if data.throttle_ms > 0:
            self._retry_at = self._clock() + data.throttle_ms / 1000
        if data.error != NONE:
            self._take_error(data.error, poll)
            return None
        self._failures, self._unknown_since = 0, None
        self.by_id &= data.by_id
        if data.diverging is not None:
            self._stop(poll)
            epoch, end = data.diverging
            poll.truncation = (
                f"the record before offset {self._offset} has leader epoch {self._last_epoch}; on the leader, "
                f"epoch {epoch} ends at offset {end}"
            )
            return None
        if not data.records:
            self._take_nothing(data, poll)
            return None
        return self._advance(data, until)

    def _take_error(self, code: int, poll: Poll) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self._broker.is_replica:  # a follower may be behind
                self._stop(poll)
            self._broker.leave_replica()
        elif code in _OTHER_TOPIC:
            # Fetch by name from now on, as librdkafka does: the reader decides whether to read the new topic of this name.
            self._topic_id = None
            poll.gone = True
        elif code in RETRIABLE_FETCH:
            self._fail(code)
        else:
            raise Unsupported(f"error {code} of a fetch")

    def _stop(self, poll: Poll) -> None:
        """Stop fetching until the reader seeks."""
        self._is_stopped = True
        poll.out_of_range = True

    def _take_nothing(self, data: PartitionData, poll: Poll) -> None:
        """Handle a response without records: the end of the log, a nearer replica, or nothing yet."""
        if data.replica >= 0:
            with self._noting_loss():
                self._broker.prefer(data.replica)
            return
        self._empty += 1
        if self._broker.is_replica and self._empty >= _STALLED:
            self._broker.avoid_replicas()
        end = data.last_stable_offset if self._settings.read_committed else data.high_watermark
        if self._offset == end != self._reported_end:
            self._reported_end = poll.end = end

    def _advance(self, data: PartitionData, until: int) -> FedBatches:
        """Feed the records, move past them, and request the next records."""
        fed = self._feed(data.records, data.aborted if self._settings.read_committed else None)
        if fed.next_offset <= self._offset:
            if fed.exhausted or (fed.size and not fed.malformed):
                raise Unsupported(f"a fetch at offset {self._offset} without a whole batch after it")
            return fed  # the decoder reports the error in the next batch
        # The first batch may start before the offset, or after a gap.
        offsets = fed.next_offset - min(fed.first_offset, self._offset)
        self._client.fetch_sizes.note(self._partition.topic, offsets, fed.size)
        self._offset, self._last_epoch, self._empty = fed.next_offset, fed.last_epoch, 0
        self._validated_epoch = self._broker.epoch  # the leader compared it with its own
        if fed.next_offset < until and self._clock() >= self._retry_at:
            with self._noting_loss():
                self._send_to_broker(self._client.deadline(0))
        return fed
