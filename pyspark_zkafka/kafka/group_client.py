"""The interface between a member of a group that Kafka coordinates and its client, which `GroupConsumer` implements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["CommitAnswer", "GroupClient", "GroupEvents", "Standing", "commit_requests"]

Standing = Literal["done", "again", "fenced"]

_MOST_PER_COMMIT = 1_000  # the coordinator writes a commit as one batch, which max.message.bytes limits


class GroupClient(Protocol):
    """A connection to the group's coordinator, for one thread; `close` may block, `discard` does not."""

    def open(self) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None: ...
    def subscribe(self, topics: Collection[str]) -> None: ...
    def poll(self) -> ZKafkaError | None: ...
    def poll_within(self) -> None: ...
    def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...
    def topic_names(self) -> list[str]: ...
    @property
    def member_id(self) -> str: ...


class GroupEvents(Protocol):
    """A member's callbacks, all of them called from within `GroupClient.poll`, on the same thread."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """The coordinator has assigned partitions, in addition to those before."""
        ...

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """The coordinator revokes partitions, and waits until this returns."""
        ...

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """The coordinator has expelled the member: other members may own the partitions already."""
        ...

    def answered(self, answer: CommitAnswer) -> None:
        """The coordinator has answered a commit."""
        ...


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The answer to a commit of `offsets`.

    `again` is for a member that has to rejoin or to find its coordinator first, `fenced` for one that is none any more.
    `error` is the reason of either, or that of a partition whose offset was refused.
    """

    offsets: Mapping[TopicPartition, int]
    standing: Standing = "done"
    error: ZKafkaError | None = None


def commit_requests(offsets: Mapping[TopicPartition, int]) -> Iterator[dict[TopicPartition, int]]:
    """The offsets of each request of a commit, in order.

    >>> [len(some) for some in commit_requests({TopicPartition("t", n): 0 for n in range(2_001)})]
    [1000, 1000, 1]
    """
    rest = iter(offsets.items())
    while some := dict(islice(rest, _MOST_PER_COMMIT)):
        yield some
