"""Fetches the first bytes of several splits of a task, in one request per leader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.direct.client import DirectClient, planned_leader
from pyspark_zkafka.records.direct.fetch import (
    FETCH,
    FIRST_LIMITED,
    FetchPartition,
    PartitionData,
    fetch_request,
    id_bytes,
    newest_version,
    read_fetch,
)
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.protocol import Address, closed_by_errors

_Place = tuple[TopicPartition, int]

_ROOM_BYTES = 2 * 1024 * 1024
# Space in a response for a partition, without its records: the topic's name, and some aborted transactions.
_PARTITION_BYTES = 512


class JointFetches:
    """Fetches the first bytes of several splits of a task, in one request per planned leader.

    With a request for each of many small splits, a task would spend more time on requests than on records. The `Fetcher`
    of a split takes the records fetched for it, fetches the rest, and handles errors. The records are valid until the task
    ends.

    Uses the connections of a client. Not thread-safe.
    """

    def __init__(self, client: DirectClient, splits: Iterable[Split]) -> None:
        by_leader: dict[Address, dict[TopicPartition, Split]] = {}
        for split in splits:
            leader = planned_leader(split, client.fetch.rack)
            if leader is not None:
                by_leader.setdefault(leader, {}).setdefault(split.partition, split)
        self._requests: dict[_Place, JointRequest] = {}
        for leader, firsts in by_leader.items():
            if len(firsts) > 1:
                request = JointRequest(client, leader, firsts.values())
                self._requests.update(dict.fromkeys(request.positions, request))

    def close(self) -> None:
        """Drop records that were not taken, and requests in flight."""
        for request in self._requests.values():
            request.close()

    def request(self, partition: TopicPartition, offset: int) -> JointRequest | None:
        """The request with data, or with data to come, for a partition at an offset. None if there is no such request."""
        request = self._requests.get((partition, offset))
        return request if request is not None and (partition, offset) in request.positions else None


class JointRequest:
    """A request to one leader. `positions` are the partitions and offsets with data, or with data to come."""

    def __init__(self, client: DirectClient, leader: Address, splits: Iterable[Split]) -> None:
        self._client = client
        self._leader = leader
        self._partitions = [
            FetchPartition(split.partition, id_bytes(split.topic_id), split.start, split.leader_epoch) for split in splits
        ]
        self._in_flight: Connection | None = None
        self._buffer = Buffer()
        self._fetched: dict[_Place, PartitionData] | None = None
        self._throttled_until = 0.0
        self.positions = {_position(part) for part in self._partitions}

    def close(self) -> None:
        """Drop the data. Closes the connection if a response is due, which may be large."""
        self.positions.clear()
        if self._in_flight is not None:
            self._in_flight.close()
            self._in_flight = None

    def send_if_connected(self) -> None:
        """Send the request if there is a connection, unless it was sent. Raises ConnectionLost."""
        with closed_by_errors(self.close):
            connection = None if self._is_sent else self._client.connected(self._leader)
            if connection is not None:
                self._send(connection)

    def take(self, partition: TopicPartition, offset: int, deadline: Deadline) -> PartitionData | None:
        """Return the data of a partition, only once. None without data, or if no response has arrived by the deadline.

        A failed request has data for no partition. Raises ConnectionLost and Unsupported.
        """
        position = partition, offset
        with closed_by_errors(self.close):
            if not self._is_sent:
                connection = self._client.try_connect(self._leader, deadline)
                if connection is not None:
                    self._send(connection)
            if self._in_flight is not None:
                response = self._in_flight.receive(self._buffer, deadline)
                if response is not None:
                    self._in_flight = None
                    self._note(read_fetch(response, self._partitions))
        if self._fetched is None or position not in self.positions:
            return None
        self.positions.remove(position)
        throttled_s = max(self._throttled_until - self._client.clock(), 0.0)
        return replace(self._fetched.pop(position), throttle_ms=round(1000 * throttled_s))

    @property
    def _is_sent(self) -> bool:
        return self._in_flight is not None or self._fetched is not None

    def _send(self, connection: Connection) -> None:
        client = self._client
        # The whole response must fit what a connection accepts.
        most = client.settings.socket.most_response_bytes - _PARTITION_BYTES * len(self._partitions)
        room = max(min(max(client.fetch.partition_max_bytes, _ROOM_BYTES), most), 0)
        fetch = client.fetch._replace(max_bytes=min(client.fetch.max_bytes, room))
        version = connection.version(FETCH, newest_version(self._partitions))
        if version < FIRST_LIMITED:
            self.positions.clear()
            self._fetched = {}
            return
        connection.send(fetch_request(version, self._partitions, fetch))
        self._in_flight = connection

    def _note(self, fetched: list[PartitionData]) -> None:
        """Keep the data of the response. A partition that had no room in it is left to its own fetcher.

        A throttled client waits from now on, not from the time when a fetcher takes its data.
        """
        self._fetched = dict(zip(map(_position, self._partitions), fetched, strict=True))
        self._throttled_until = self._client.clock() + fetched[0].throttle_ms / 1000
        for position, each in self._fetched.items():
            if (
                not (each.error or each.records or each.diverging or each.throttle_ms)
                and each.high_watermark != position[1]
            ):
                self.positions.discard(position)


def _position(part: FetchPartition) -> _Place:
    return part.partition, part.offset
