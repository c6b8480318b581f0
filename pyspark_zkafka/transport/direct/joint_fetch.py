"""The begins of several splits of a task, fetched from each leader in one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.direct.client import DirectClient
from pyspark_zkafka.transport.direct.connection import Buffer, Connection
from pyspark_zkafka.transport.direct.errors import closed_by_errors
from pyspark_zkafka.transport.direct.fetch import (
    Fetched,
    Part,
    Position,
    fetch_request,
    id_bytes,
    newest_version,
    read_fetch,
)
from pyspark_zkafka.transport.direct.leader import planned_leader
from pyspark_zkafka.transport.direct.link import Address
from pyspark_zkafka.transport.direct.messages import FETCH

__all__ = ["JointFetches"]

_Place = tuple[TopicPartition, int]

_ROOM_BYTES = 2 * 1024 * 1024
# Of the response for a partition, beside its records: the topic's name, and some aborted transactions.
_PART_BYTES = 512


class JointFetches:
    """What one request to each planned leader has fetched for the splits of a task, for their fetchers to begin with.

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

    def take(self, partition: TopicPartition, offset: int, deadline: float) -> Fetched | None:
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

    def take(self, place: _Place, deadline: float) -> Fetched | None:
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
        connection.send(fetch_request(self._version, self._parts, wanted))
        self._under_way = connection

    def _room(self) -> int:
        """The most bytes of records; the whole response must not exceed what a connection takes."""
        settings = self._client.settings
        most = settings.socket.most_response_bytes - _PART_BYTES * len(self._parts)
        return max(min(max(settings.wanted.partition_max_bytes, _ROOM_BYTES), most), 0)

    def _receive(self, connection: Connection, deadline: float) -> None:
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
