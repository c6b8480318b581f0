"""The fetches of a task's partitions: requests one ahead, the first ones of several splits together, and errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.librdkafka_errors import from_kafka
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import PartitionEvents, Poll, Unsupported
from pyspark_zkafka.records.direct.client import RETRIABLE, DirectClient, PartitionBroker, planned_leader
from pyspark_zkafka.records.direct.connection import Address, Buffer, Connection, Deadline
from pyspark_zkafka.records.direct.fetch import (
    FIRST_DIVERGING,
    FIRST_LIMITED,
    Fetched,
    Part,
    Position,
    fetch_request,
    id_bytes,
    newest_version,
    read_fetch,
)
from pyspark_zkafka.records.direct.messages import (
    FETCH,
    NONE,
    OFFSET_FOR_LEADER_EPOCH,
    epoch_end_request,
    read_epoch_end,
)
from pyspark_zkafka.records.direct.settings import Backoff
from pyspark_zkafka.records.direct.wire import ConnectionLost, MalformedResponse, Reader, closed_by_errors
from pyspark_zkafka.records.native.record_decoder import Fed

Feed = Callable[[memoryview, Sequence[tuple[int, int]] | None], Fed]
"""Takes the record batches of a response, and its aborted transactions, as `RecordDecoder.feed`."""

_Place = tuple[TopicPartition, int]

_OTHER_TOPIC = frozenset({100, 103})  # UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID
# Before Kafka 2.3, OffsetForLeaderEpoch was allowed to brokers alone, where there are ACLs.
_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_ANSWER_S = 3.0
_LONGEST_WAIT_MS = 500  # the default of fetch.max.wait.ms
_ROOM_BYTES = 2 * 1024 * 1024
# What the response has for a partition in addition to records: the topic's name, and some aborted transactions.
_PART_BYTES = 512


class Fetcher:
    """Fetches one partition through a client's connections; what `joint` has fetched of it is taken first.

    Records go to `feed`, and are valid until the next response but one; the next request is sent before `fetch` returns.
    Errors of the broker or of a connection are noted in `events`, and retried with a back-off. `by_id` is True if the
    brokers have compared the topic's id in each fetch until now.
    """

    def __init__(
        self,
        client: DirectClient,
        split: Split,
        events: PartitionEvents,
        feed: Feed,
        sleep: Callable[[float], None] = time.sleep,
        joint: JointFetches | None = None,
    ) -> None:
        self._client = client
        self._joint = joint
        self._partition = split.partition
        self._topic_id = id_bytes(split.topic_id)
        self._events = events
        self._feed = feed
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
        self._reported_end = -1
        self.by_id = True

    def seek(self, offset: int) -> None:
        """Fetch from an offset on, at once if there is a connection; a request that is under way is dropped."""
        self.abandon()
        self._offset, self._last_epoch = offset, -1
        self._is_stopped, self._reported_end, self._empty = False, -1, 0
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

    def fetch(self, until: int, deadline: Deadline, poll: Poll) -> Fed | None:
        """Feed the next records; None after an event, which is added to the poll, or at the deadline.

        The next request is sent if the records do not reach offset `until`. Raises Unsupported.
        """
        while self._wait(deadline):
            fetched = None
            with self._noting_loss():
                fetched = self._exchange(deadline)
            if fetched is not None:
                fed = self._take(fetched, until, poll)
                if fed is not None or poll.end is not None or poll.out_of_range or poll.gone:
                    return fed
            elif deadline.has_passed:
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
        """Look the leader up again before the next request to it."""
        self._broker.forget()

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLost as error:
            self._under_way = None
            self._fail(KafkaError(KafkaError._TRANSPORT, str(error)), self._client.settings.reconnect_backoff)

    def _wait(self, deadline: Deadline) -> bool:
        """Wait until a request may be sent, or a response be received; False if that is not before the deadline."""
        if self._under_way is not None:
            return True
        until = deadline.at if self._is_stopped else min(self._retry_at, deadline.at)
        pause_s = until - self._clock()
        if pause_s > 0:
            self._sleep(pause_s)
        return not self._is_stopped and self._clock() >= self._retry_at

    def _exchange(self, deadline: Deadline) -> Fetched | None:
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

    def _receive(self, connection: Connection, deadline: Deadline) -> Reader | None:
        begin = self._clock()
        response = connection.receive(self._client.buffers[self._buffer], deadline)
        self._waited_s += self._clock() - begin
        return response

    def _send_to_broker(self, deadline: Deadline) -> Fetched | None:
        """Send a request to the leader, or the preferred replica, if there is a leader now, and its log has the position.

        If it has not, nothing is sent; returns the response of a broker that reports this. Nor is anything sent if there is
        no connection at the deadline.
        """
        code = self._broker.find(deadline)
        if code:
            self._fail(KafkaError(code), self._client.settings.retry_backoff)
        connection = None if code != NONE else self._broker.connect(deadline)
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
            end = read_epoch_end(leader.ask(request, self._client.deadline(_ANSWER_S)), self._partition)
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

    def _take(self, fetched: Fetched, until: int, poll: Poll) -> Fed | None:
        """Records fed, or an event for the poll, or neither: then the fetch is to be repeated."""
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
        return self._advance(fetched, until)

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
        """Fetch no more until the reader has decided where to continue."""
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
        if self._offset == end != self._reported_end:
            self._reported_end = poll.end = end

    def _advance(self, fetched: Fetched, until: int) -> Fed:
        """Feed the records, move past them, and request the next ones."""
        fed = self._feed(fetched.records, (fetched.aborted or ()) if self._wanted.read_committed else None)
        if fed.is_malformed:
            raise MalformedResponse(f"a record batch of wrong length after offset {max(self._offset, fed.next_offset)}")
        if fed.is_exhausted or (fed.size and fed.next_offset <= self._offset):
            raise Unsupported(f"a fetch at offset {self._offset} without a whole batch after it")
        if not fed.size:
            return fed  # the decoder says what is wrong with the first batch
        # The first batch may start before the offset, or after a gap.
        offsets = fed.next_offset - min(fed.first_offset, self._offset)
        self._client.fetch_sizes.note(self._partition.topic, offsets, fed.size)
        self._offset, self._last_epoch, self._empty = fed.next_offset, fed.last_epoch, 0
        self._validated_epoch = self._broker.epoch  # by which the leader's response was fenced
        if fed.next_offset < until and self._clock() >= self._retry_at:
            with self._noting_loss():
                self._send_to_broker(self._client.deadline(0))
        return fed


class JointFetches:
    """The first bytes of several splits of a task, fetched in one request per planned leader, for their fetchers to take.

    A task that reads many small splits spends more time on a request for each than on their records. The response is about
    as large as the first one for a long range of a single partition; a split that has no records in it, or not all of them,
    is fetched further by its own `Fetcher`, which also handles the errors of its partition. The records are valid until the
    task ends.

    Uses a client's connections for itself. Not thread-safe.
    """

    def __init__(self, client: DirectClient, splits: Iterable[Split]) -> None:
        by_leader: dict[Address, dict[TopicPartition, Split]] = {}
        for split in splits:
            leader = planned_leader(split, client.settings.wanted.rack)
            if leader is not None:
                by_leader.setdefault(leader, {}).setdefault(split.partition, split)
        self._requests: dict[_Place, _JointRequest] = {}
        for leader, firsts in by_leader.items():
            if len(firsts) > 1:
                request = _JointRequest(client, leader, firsts.values())
                self._requests.update(dict.fromkeys(request.places, request))

    def close(self) -> None:
        """Drop what is left, and the requests under way."""
        for request in self._requests.values():
            request.close()

    def has(self, partition: TopicPartition, offset: int) -> bool:
        """True if `take` may return something for a partition from an offset on."""
        request = self._requests.get((partition, offset))
        return request is not None and (partition, offset) in request.places

    def send(self, partition: TopicPartition, offset: int) -> None:
        """Send the request that `has` this, if it is not sent yet, and there is a connection. Raises ConnectionLost."""
        self._requests[partition, offset].send_if_connected()

    def take(self, partition: TopicPartition, offset: int, deadline: Deadline) -> Fetched | None:
        """What the request that `has` this has fetched, once; None if that is nothing, or has not arrived by the deadline.

        A failed request has nothing for any split from then on. Raises ConnectionLost and Unsupported.
        """
        return self._requests[partition, offset].take((partition, offset), deadline)


class _JointRequest:
    """A request to one leader; `places` are those for which it has something, or may get it."""

    def __init__(self, client: DirectClient, leader: Address, splits: Iterable[Split]) -> None:
        self._client = client
        self._leader = leader
        self._parts = [
            Part(split.partition, id_bytes(split.topic_id), Position(split.start, split.leader_epoch)) for split in splits
        ]
        self._under_way: Connection | None = None
        self._version = 0
        self._buffer = Buffer()
        self._fetched: dict[_Place, Fetched] | None = None
        self._throttled_until = 0.0
        self.places = {_place(part) for part in self._parts}

    def close(self) -> None:
        """The connection is closed, too, if a response is due: it may be large."""
        self.places.clear()
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None

    def send_if_connected(self) -> None:
        with closed_by_errors(self.close):
            connection = None if self._is_sent else self._client.connected(self._leader)
            if connection is not None:
                self._send(connection)

    def take(self, place: _Place, deadline: Deadline) -> Fetched | None:
        with closed_by_errors(self.close):
            if not self._is_sent:
                connection = self._client.try_connect(self._leader, deadline)
                if connection is not None:
                    self._send(connection)
            if self._under_way is not None:
                self._receive(self._under_way, deadline)
        if self._fetched is None or place not in self.places:
            return None
        self.places.remove(place)
        throttled_s = max(self._throttled_until - self._client.clock(), 0.0)
        return replace(self._fetched.pop(place), throttle_ms=round(1000 * throttled_s))

    @property
    def _is_sent(self) -> bool:
        return self._under_way is not None or self._fetched is not None

    def _send(self, connection: Connection) -> None:
        wanted = self._client.settings.wanted
        wanted = wanted._replace(max_bytes=min(wanted.max_bytes, self._room()))
        self._version = connection.version(FETCH, min(newest_version(self._parts), self._client.newest_fetch))
        if self._version < FIRST_LIMITED:
            self.places.clear()
            self._fetched = {}
            return
        connection.send(fetch_request(self._version, self._parts, wanted))
        self._under_way = connection

    def _room(self) -> int:
        """The most bytes of records; the whole response must not exceed what a connection takes."""
        settings = self._client.settings
        most = settings.socket.most_response_bytes - _PART_BYTES * len(self._parts)
        return max(min(max(settings.wanted.partition_max_bytes, _ROOM_BYTES), most), 0)

    def _receive(self, connection: Connection, deadline: Deadline) -> None:
        response = connection.receive(self._buffer, deadline)
        if response is not None:
            self._under_way = None
            self._note(read_fetch(response, self._version, self._parts))

    def _note(self, fetched: list[Fetched]) -> None:
        """Keep what there is; a partition that had no room in the response is fetched as if it had not been asked for.

        A throttled client is to wait for a time from now on, not from when a fetcher takes its part.
        """
        self._fetched = dict(zip(map(_place, self._parts), fetched, strict=True))
        self._throttled_until = self._client.clock() + fetched[0].throttle_ms / 1000
        for place, each in self._fetched.items():
            if not (each.error or each.records or each.diverging or each.throttle_ms) and each.high_watermark != place[1]:
                self.places.discard(place)


def _place(part: Part) -> _Place:
    return part.partition, part.position.offset
