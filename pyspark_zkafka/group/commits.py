"""Committing a batch's end offsets to a group that nobody is a live member of, or at least not for these partitions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_zkafka.clients.transactions import Conflict, Create, Delete, Operation, SetData, request_bytes
from pyspark_zkafka.clients.zookeeper_connection import Answers, Znode, ZooKeeperConnection
from pyspark_zkafka.errors import GroupError, OptionError, PartitionOwned, ZooKeeperError
from pyspark_zkafka.protocol import group_znodes
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["CommitResult", "commit_offsets"]

MAX_TRANSACTION_BYTES = 512 * 1024
ATTEMPTS = 10
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
_MAX_LOST = 3
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of each partition's offset: `written`, or `kept` with the stored one, which is as high or higher."""

    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    kept: Mapping[TopicPartition, int] = field(default_factory=dict)


def commit_offsets(
    client: ZooKeeperConnection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> CommitResult:
    """Move a group's offsets forward, unless somebody owns one of the partitions.

    All offsets are written in one transaction, which also proves that no partition has an owner: it creates and deletes
    each owner's znode, which fails where there is one, and leaves nothing behind. An offset never falls: each write holds
    for the version that was read. Parents that are missing are made with null data, as the old consumer does it.

    More partitions than fit into a request (some 1,500; ZooKeeper's ``jute.maxbuffer`` is 1 MB by default) go in several
    transactions. All partitions are then checked for owners before the first, but should a later one fail, the earlier ones
    stay committed; that is safe to repeat.

    Parameters
    ----------
    client : ZooKeeperConnection
        Open.
    group : str
        The consumer group.
    offsets : mapping
        The next offset to read, 0 or more, by partition.
    max_transaction_bytes : int
        The largest transaction to send; below the servers' ``jute.maxbuffer``.
    attempts : int
        How often to read and try, for each transaction, when others commit at the same time or the connection is lost.
    sleep, jitter : callable
        Wait for some seconds; a random number in [0, 1).

    Returns
    -------
    CommitResult
        Has each partition of `offsets` once.

    Raises
    ------
    OptionError
        An offset is negative, or no znode can be named after the group.
    PartitionOwned
        A member of the group owns a partition.
    CodecError
        A stored offset is malformed.
    GroupError
        Others kept changing the offsets.
    ZooKeeperError, ZooKeeperRefused
        No answer; an ACL forbids it.

    Notes
    -----
    Blocks for two rounds of requests, and up to about 5 s of pauses when it has to try again, three connection timeouts
    when there is no answer. Consumers do not watch owners, so none is disturbed. A consumer of the JVM reads the offsets
    before it claims: one that joins at the same moment may still start at the old offset.
    """
    _require_offsets(offsets)
    commit = _Commit(client, group, offsets, attempts, sleep, jitter)
    chunks = list(_chunks(commit, sorted(offsets), max_transaction_bytes))
    if len(chunks) > 1:
        commit.require_no_owner(sorted(offsets))
    for chunk in chunks:
        commit.run(chunk)
    return CommitResult(commit.written, commit.kept)


@dataclass(slots=True)
class _Lost:
    """How many answers got lost, and the partitions that may have been committed without our knowledge."""

    count: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Commit:
    client: ZooKeeperConnection
    group: str
    offsets: Mapping[TopicPartition, int]
    attempts: int
    sleep: Callable[[float], None]
    jitter: Callable[[], float]
    written: dict[TopicPartition, int] = field(default_factory=dict)
    kept: dict[TopicPartition, int] = field(default_factory=dict)

    def run(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit some partitions in one transaction, trying again while others interfere or the connection is lost."""
        lost = _Lost()
        conflict: Conflict | None = None
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt) * (0.5 + self.jitter()))
            try:
                conflict = self._attempt(partitions, lost)
            except ZooKeeperError as error:
                lost.count += 1
                if not error.retriable or lost.count == _MAX_LOST:
                    raise
            else:
                if conflict is None:
                    return
        raise _contended(self.group, conflict, self.attempts)

    def require_no_owner(self, partitions: Sequence[TopicPartition]) -> None:
        """Raise `PartitionOwned` when any of the partitions has an owner now."""
        self._refuse_owners(partitions, self.client.children_many(self._owner_parents(partitions)))

    def bytes_of(self, partition: TopicPartition) -> tuple[int, int]:
        """What a partition adds to a transaction, at the most: with what its topic needs, and without."""
        chroot = self.client.config.chroot
        whole = self.operations([partition], Answers())
        alone = [o for o in whole if o.path.endswith(f"/{partition.partition}")]
        return request_bytes(whole, chroot), request_bytes(alone, chroot)

    def operations(self, partitions: Sequence[TopicPartition], found: Answers) -> list[Operation]:
        """What commits the partitions, given what is stored; nothing when all stored offsets are as high."""
        writes = [self._write(tp, found) for tp in partitions if not self._is_kept(tp, found)]
        if not writes:
            return []
        parents = [Create(path, None) for path in self._offset_parents(partitions) if path not in found.stats]
        return [*parents, *self._proof(partitions, found), *writes]

    def _attempt(self, partitions: Sequence[TopicPartition], lost: _Lost) -> Conflict | None:
        found = self._read(partitions)
        operations = self.operations(partitions, found)
        moved = {tp for tp in partitions if not self._is_kept(tp, found)}
        try:
            conflict = self.client.transaction(operations)
        except ZooKeeperError:
            lost.partitions |= moved
            raise
        if conflict is None:
            self._report(partitions, found, moved, lost.partitions)
        return conflict

    def _report(
        self,
        partitions: Sequence[TopicPartition],
        found: Answers,
        moved: set[TopicPartition],
        in_doubt: set[TopicPartition],
    ) -> None:
        for tp in partitions:
            stored = self._stored(tp, found)
            if tp in moved or stored is None or (tp in in_doubt and stored == self.offsets[tp]):
                self.written[tp] = self.offsets[tp]
            else:
                self.kept[tp] = stored

    def _read(self, partitions: Sequence[TopicPartition]) -> Answers:
        above_owners = self._owner_parents(partitions)
        found = self.client.ask(
            get=map(self._offset_path, partitions),
            children=above_owners,
            exists=[*self._offset_parents(partitions), *above_owners],
        )
        self._refuse_owners(partitions, found.children)
        return found

    def _refuse_owners(self, partitions: Sequence[TopicPartition], children: Mapping[str, Sequence[str]]) -> None:
        existing = {f"{parent}/{child}" for parent, names in children.items() for child in names}
        paths = {group_znodes.owner_path(self.group, tp): tp for tp in partitions}
        owners = self.client.get_many(existing & paths.keys())
        if owners:
            raise _owned(self.group, {paths[path]: owners[path] for path in paths if path in owners})

    def _proof(self, partitions: Sequence[TopicPartition], found: Answers) -> list[Operation]:
        """Operations that fail where a partition has an owner, and change nothing."""
        paths = [path for path in self._owner_parents(partitions) if path not in found.stats]
        paths += [group_znodes.owner_path(self.group, tp) for tp in partitions]
        return [*(Create(path, b"") for path in paths), *(Delete(path) for path in reversed(paths))]

    def _write(self, partition: TopicPartition, found: Answers) -> Operation:
        path, data = self._offset_path(partition), group_znodes.encode_offset(self.offsets[partition])
        node = found.nodes.get(path)
        return Create(path, data) if node is None else SetData(path, data, node.stat.version)

    def _is_kept(self, partition: TopicPartition, found: Answers) -> bool:
        stored = self._stored(partition, found)
        return stored is not None and stored >= self.offsets[partition]

    def _stored(self, partition: TopicPartition, found: Answers) -> int | None:
        path = self._offset_path(partition)
        node = found.nodes.get(path)
        return None if node is None else group_znodes.decode_offset(path, node.data)

    def _offset_path(self, partition: TopicPartition) -> str:
        return group_znodes.offset_path(self.group, partition)

    def _offset_parents(self, partitions: Sequence[TopicPartition]) -> list[str]:
        offsets = group_znodes.offsets_path(self.group)
        above = [group_znodes.CONSUMERS, group_znodes.group_path(self.group), offsets]
        return [*above, *(f"{offsets}/{topic}" for topic in _topics(partitions))]

    def _owner_parents(self, partitions: Sequence[TopicPartition]) -> list[str]:
        owners = group_znodes.owners_path(self.group)
        return [owners, *(f"{owners}/{topic}" for topic in _topics(partitions))]


def _topics(partitions: Sequence[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(tp.topic for tp in partitions))


def _chunks(commit: _Commit, partitions: Sequence[TopicPartition], max_bytes: int) -> Iterator[list[TopicPartition]]:
    """The partitions, in order, in pieces whose transactions are small enough even if every znode is missing."""
    piece: list[TopicPartition] = []
    size = 0
    for tp in partitions:
        with_topic, alone = commit.bytes_of(tp)
        more = alone if piece and piece[-1].topic == tp.topic else with_topic
        if piece and size + more > max_bytes:
            yield piece
            piece, size, more = [], 0, with_topic
        piece.append(tp)
        size += more
    if piece:
        yield piece


def _require_offsets(offsets: Mapping[TopicPartition, int]) -> None:
    bad = [f"{tp} at {offset}" for tp, offset in sorted(offsets.items()) if not 0 <= offset < 2**63]
    if bad:
        raise OptionError(
            "INVALID_OFFSET",
            f"Offsets to commit must be 0 or more, and fit 64 bits; found {', '.join(bad)}; "
            "give the next offset to read, not -1 (latest) or -2 (earliest)",
        )


def _owned(group: str, owners: Mapping[TopicPartition, Znode]) -> PartitionOwned:
    shown = [f"{tp} by {_thread(node)} (session 0x{node.stat.ephemeral_owner:x})" for tp, node in owners.items()]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return PartitionOwned(
        "PARTITION_OWNED",
        f"The offsets of group {group} were not committed: the group owns {', '.join(shown[:_SHOWN])}{more}; "
        "stop these consumers (one that died is gone when its session expires), or use another group.id",
        partitions=sorted(owners),
    )


def _thread(node: Znode) -> str:
    return (node.data or b"").decode("utf-8", "replace") or "a nameless owner"


def _contended(group: str, conflict: Conflict | None, attempts: int) -> GroupError:
    found = "" if conflict is None else f", the last time {conflict.operation.path}: {conflict.reason.value}"
    return GroupError(
        "COMMIT_CONTENDED",
        f"The offsets of group {group} were not committed: {attempts} times others changed them meanwhile{found}; "
        "find out who else commits to this group, or try again",
    )
