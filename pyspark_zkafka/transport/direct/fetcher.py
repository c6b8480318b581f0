"""The fetches of one partition: requests one ahead, and the errors of brokers and connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError

from pyspark_zkafka.kafka.errors import from_kafka
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.consumer import PartitionEvents, Poll
from pyspark_zkafka.transport.direct.client import DirectClient
from pyspark_zkafka.transport.direct.connection import Connection
from pyspark_zkafka.transport.direct.epochs import OFFSET_FOR_LEADER_EPOCH, epoch_end_request, read_epoch_end
from pyspark_zkafka.transport.direct.errors import ConnectionLost, Unsupported
from pyspark_zkafka.transport.direct.fetch import (
    FIRST_DIVERGING,
    Fetched,
    Part,
    Position,
    Span,
    fetch_request,
    id_bytes,
    newest_version,
    read_fetch,
    span_of,
)
from pyspark_zkafka.transport.direct.joint_fetch import JointFetches
from pyspark_zkafka.transport.direct.leader import RETRIABLE, PartitionBroker
from pyspark_zkafka.transport.direct.messages import FETCH, NONE
from pyspark_zkafka.transport.direct.settings import Backoff
from pyspark_zkafka.transport.direct.wire import Reader

__all__ = ["Fetcher", "Records"]

_OTHER_TOPIC = frozenset({100, 103})  # UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID
# Before Kafka 2.3, OffsetForLeaderEpoch was allowed to brokers alone, where there are ACLs.
_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_ANSWER_S = 3.0
_LONGEST_WAIT_MS = 500  # the default of fetch.max.wait.ms


@dataclass(frozen=True, slots=True)
class Records:
    """Whole record batches, valid until the next but one response, and the aborted transactions in them."""

    data: memoryview
    aborted: tuple[tuple[int, int], ...] | None
    next_offset: int


class Fetcher:
    """Fetches one partition through a client's connections; what `joint` has fetched of it is taken first.

    The next request is sent before the records of the last response are returned. Errors of the broker or of a connection
    are noted in `events`, and retried with a back-off. `by_id` is True if the brokers have compared the topic's id in each
    fetch until now.
    """

    def __init__(
        self,
        client: DirectClient,
        split: Split,
        events: PartitionEvents,
        sleep: Callable[[float], None] = time.sleep,
        joint: JointFetches | None = None,
    ) -> None:
        self._client = client
        self._joint = joint
        self._partition = split.partition
        self._topic_id = id_bytes(split.topic_id)
        self._events = events
        self._sleep = sleep
        self._clock = client.clock
        self._broker = PartitionBroker(client, split)
        self._wanted = client.settings.wanted
        self._offset, self._until = split.start, split.until
        self._last_epoch = -1
        self._validated_epoch = -1
        self._under_way: Connection | None = None
        self._version = 0
        self._buffer = 0
        self._waited_s = 0.0
        self._empty = 0
        self._failures = 0
        self._retry_at = 0.0
        self._unknown_since: float | None = None
        self._is_stopped = False
        self._end_told = -1
        self.by_id = True

    def seek(self, offset: int) -> None:
        """Fetch from an offset on, at once if there is a connection; a request that is under way is dropped."""
        self.abandon()
        self._offset, self._last_epoch = offset, -1
        self._is_stopped, self._end_told, self._empty = False, -1, 0
        if self._joint is not None and self._joint.has(self._partition, offset):
            with self._noting_loss():
                self._joint.send(self._partition, offset)
            return
        connection = self._broker.connected()
        if connection is not None and self._clock() >= self._retry_at:
            with self._noting_loss():
                self._send(connection)

    def abandon(self) -> None:
        """Drop the request under way: its connection is closed, since the response may be large."""
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None

    def fetch(self, until: int, deadline: float, poll: Poll) -> Records | None:
        """The next records; None after an event, which is added to the poll, or at the deadline.

        The next request is sent if the records do not reach offset `until`. Raises Unsupported.
        """
        while self._wait(deadline):
            fetched = None
            with self._noting_loss():
                fetched = self._exchange(deadline)
            if fetched is not None:
                records = self._take(fetched, until, poll)
                if records is not None or poll.end is not None or poll.out_of_range or poll.gone:
                    return records
            elif self._clock() >= deadline:
                break
        return None

    def receive(self) -> None:
        """Take in what has arrived of the response under way, without waiting: the broker can send more meanwhile."""
        if self._under_way is not None:
            with self._noting_loss():
                self._under_way.fill(self._client.buffers[self._buffer])

    def connect_leader(self, doing: str) -> tuple[Connection, int]:
        """An idle connection to the leader, and its epoch; ConnectionLost, NoLeader or UnknownTopic without one."""
        self.abandon()
        code = self._broker.find()
        if code:
            raise from_kafka(KafkaError(code), doing)
        return self._broker.connect_leader(), self._broker.epoch

    def forget_leader(self) -> None:
        """Request the leader before the next request to it."""
        self._broker.forget()

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLost as error:
            self._under_way = None
            self._fail(KafkaError(KafkaError._TRANSPORT, str(error)), self._client.settings.reconnect_backoff)

    def _wait(self, deadline: float) -> bool:
        """Wait until a request may be sent, or a response be received; False if that is not before the deadline."""
        if self._under_way is not None:
            return True
        until = deadline if self._is_stopped else min(self._retry_at, deadline)
        pause_s = until - self._clock()
        if pause_s > 0:
            self._sleep(pause_s)
        return not self._is_stopped and self._clock() >= self._retry_at

    def _exchange(self, deadline: float) -> Fetched | None:
        """The response to the request under way, or to a new one."""
        if self._joint is not None and self._joint.has(self._partition, self._offset):
            return self._joint.take(self._partition, self._offset, deadline)
        if self._under_way is None:
            refused = self._send_to_broker(deadline)
            if refused is not None:
                return refused
        response = None if self._under_way is None else self._receive(self._under_way, deadline)
        if response is None:
            return None
        self._under_way = None
        self._buffer = 1 - self._buffer
        (fetched,) = read_fetch(response, self._version, [self._part()])
        self._client.fetch_sizes.note_wait(len(fetched.records), self._waited_s)
        return fetched

    def _receive(self, connection: Connection, deadline: float) -> Reader | None:
        begin = self._clock()
        response = connection.receive(self._client.buffers[self._buffer], deadline)
        self._waited_s += self._clock() - begin
        return response

    def _send_to_broker(self, wait_until: float) -> Fetched | None:
        """Send a request to the leader, or the preferred replica, if there is a leader now, and its log has the position.

        If it has not, nothing is sent; returns the response of a broker that reports this. Nor is anything sent if there is
        no connection at `wait_until`.
        """
        code = self._broker.find(wait_until)
        if code:
            self._fail(KafkaError(code), self._client.settings.retry_backoff)
        connection = None if code != NONE else self._broker.connect(wait_until)
        if connection is None:
            return None
        refused = self._validate(connection)
        if refused is None:
            self._send(connection)
        return refused

    def _validate(self, connection: Connection) -> Fetched | None:
        """Find out whether another leader has truncated the log below the position, where its Fetch does not report it.

        None if it has not, or the broker does not tell; as ``rd_kafka_offset_validate`` of librdkafka.
        """
        epoch = self._broker.epoch
        if self._last_epoch < 0 or self._validated_epoch == epoch or self._fetch_version(connection) >= FIRST_DIVERGING:
            return None
        leader = self._broker.connect_leader()
        if leader.has(OFFSET_FOR_LEADER_EPOCH):
            version = leader.version(OFFSET_FOR_LEADER_EPOCH)
            request = epoch_end_request(version, self._partition, epoch, self._last_epoch)
            end = read_epoch_end(leader.ask(request, self._clock() + _ANSWER_S), self._partition)
            if end.error not in (NONE, *_NOT_ALLOWED):
                return Fetched(0, end.error)
            if 0 <= end.offset < self._offset and end.error == NONE:
                return Fetched(0, NONE, diverging=(end.epoch, end.offset))
        self._validated_epoch = epoch
        return None

    def _send(self, connection: Connection) -> None:
        version = self._fetch_version(connection)
        wanted = self._wanted._replace(partition_max_bytes=self._size(), max_wait_ms=self._max_wait_ms())
        if self._broker.avoids_replicas:
            wanted = wanted._replace(rack="")
        connection.send(fetch_request(version, [self._part()], wanted))
        self._under_way, self._version = connection, version
        self._waited_s = 0.0

    def _size(self) -> int:
        """The most bytes to fetch; few after a failure, as something may break connections within large responses."""
        sizes = self._client.fetch_sizes
        left = max(self._until - self._offset, 0)
        return sizes.first if self._failures else sizes.next(self._partition.topic, left)

    def _max_wait_ms(self) -> int:
        """The broker's wait for records, which doubles with each response without any, as before an open transaction."""
        wait_ms = self._wanted.max_wait_ms
        return max(min(wait_ms << min(self._empty, 10), _LONGEST_WAIT_MS), wait_ms)

    def _part(self) -> Part:
        position = Position(self._offset, self._broker.epoch, self._last_epoch)
        return Part(self._partition, self._topic_id, position)

    def _fetch_version(self, connection: Connection) -> int:
        return connection.version(FETCH, min(newest_version([self._part()]), self._client.newest_fetch))

    def _fail(self, error: KafkaError, backoff: Backoff) -> None:
        """Note an error, and request the leader again after a wait."""
        self._failures += 1
        now = self._clock()
        self._retry_at = max(self._retry_at, now + backoff.wait_s(self._failures))
        self._broker.forget()
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._events.note(error)
            return
        # A broker that has just started may not know it yet.
        self._unknown_since = now if self._unknown_since is None else self._unknown_since
        if now - self._unknown_since >= self._client.settings.propagation_s:
            self._events.note(error)

    def _take(self, fetched: Fetched, until: int, poll: Poll) -> Records | None:
        """Records, or an event for the poll, or neither: then the fetch is to be repeated."""
        if fetched.throttle_ms > 0:
            self._retry_at = self._clock() + fetched.throttle_ms / 1000
        if fetched.error != NONE:
            self._take_error(fetched.error, poll)
            return None
        self._failures, self._unknown_since = 0, None
        self.by_id &= fetched.by_id
        if fetched.diverging is not None:
            self._stop(poll)
            epoch, end = fetched.diverging
            poll.truncation = (
                f"leader epoch {self._last_epoch} is unknown to the leader: epoch {epoch} ends at offset {end}"
            )
            return None
        if not fetched.records:
            self._take_nothing(fetched, poll)
            return None
        return self._advance(span_of(fetched.records), fetched, until)

    def _take_error(self, code: int, poll: Poll) -> None:
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            if not self._broker.is_replica:  # a follower may be behind
                self._stop(poll)
            self._broker.leave_replica()
        elif code in _OTHER_TOPIC:
            # From now on by name, as librdkafka fetches: the reader decides whether to read another topic of the name.
            self._topic_id = None
            poll.gone = True
        elif code in RETRIABLE:
            self._fail(KafkaError(code), self._client.settings.retry_backoff)
        else:
            raise Unsupported(f"error {code} of a fetch")

    def _stop(self, poll: Poll) -> None:
        """Fetch no more until the reader has decided where to go on."""
        self._is_stopped = True
        poll.out_of_range = True

    def _take_nothing(self, fetched: Fetched, poll: Poll) -> None:
        """No records: the log has ended, or the broker names a nearer replica, or another fetch finds more."""
        if fetched.replica >= 0:
            with self._noting_loss():
                self._broker.prefer(fetched.replica)
            return
        self._empty += 1
        end = fetched.last_stable_offset if self._wanted.read_committed else fetched.high_watermark
        if self._offset == end != self._end_told:
            self._end_told = poll.end = end

    def _advance(self, span: Span, fetched: Fetched, until: int) -> Records:
        """Move past the records, and request the next ones."""
        if span.first_offset is None or span.next_offset is None or span.next_offset <= self._offset:
            raise Unsupported(f"a fetch at offset {self._offset} without a whole batch after it")
        # The first batch may begin before the offset, or behind a gap.
        offsets = span.next_offset - min(span.first_offset, self._offset)
        self._client.fetch_sizes.note(self._partition.topic, offsets, span.size)
        self._offset, self._last_epoch, self._empty = span.next_offset, span.last_epoch, 0
        self._validated_epoch = self._broker.epoch  # by which the leader's response was fenced
        if span.next_offset < until and self._clock() >= self._retry_at:
            with self._noting_loss():
                self._send_to_broker(self._clock())
        aborted = (fetched.aborted or ()) if self._wanted.read_committed else None
        return Records(fetched.records[: span.size], aborted, span.next_offset)
