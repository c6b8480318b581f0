"""Commits of a group's offsets to ZooKeeper, in transactions that verify who owns the partitions, or that nobody does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_zkafka.errors import GroupContended, OptionError, ZooKeeperError
from pyspark_zkafka.group.ownership import NoJvmOwner, NoOwner, OwnedBy, OwnerProof
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.paths import child_path
from pyspark_zkafka.retries import backoff_s
from pyspark_zkafka.zookeeper.connection import Results, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import MAX_TRANSACTION_BYTES, Conflict, Create, Operation, SetData, pieces

__all__ = ["CommitResult", "commit_offsets", "commit_starts", "find_lost"]

_ATTEMPTS = 10
_MAX_UNANSWERED = 3


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit for each partition.

    `written`; or `kept`, with the stored offset, which is as high or higher; or `lost`, as the member does not own it.
    `marks` distinguish the written offsets from later ones of the same value: see `StoredOffset`. First offsets of
    partitions may be absent from it, where ZooKeeper did not return the transaction.
    """

    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    kept: Mapping[TopicPartition, int] = field(default_factory=dict)
    lost: Collection[TopicPartition] = frozenset()
    marks: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)


def commit_offsets(
    client: ZooKeeperConnection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    owner: ClaimOwner | None = None,
    resets: Collection[TopicPartition] = frozenset(),
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES,
    attempts: int = _ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> CommitResult:
    """Move a group's offsets forward: those that a member owns, or, without one, all if nobody owns any of them.

    All offsets are written in one transaction, which also verifies who owns the partitions. An offset never decreases: each
    write is conditional on the version that was read. Missing parents are created with null data, as the old consumer does.

    More partitions than fit into a request (some 1,500) go in several transactions. Without an owner, all partitions are
    then checked before the first. Should a later one fail, the earlier ones stay committed; that is safe to repeat.

    Blocks for two rounds of requests, up to about 5 s of pauses when it has to retry, and three connection timeouts when
    there is no answer. A JVM consumer reads the offsets before it claims: one that joins at the same moment may still start
    at the old offset.

    Parameters
    ----------
    offsets : mapping
        The next offset to read, 0 or more, by partition; each is in the result once.
    owner : ClaimOwner, optional
        The member that commits. Partitions that it does not own are not committed, and are returned as `lost`.
    resets : collection of TopicPartition
        Those whose stored offset may be higher: of a log that was truncated or created again.
    attempts : int
        Attempts for each transaction, when others commit at the same time or the connection is lost.

    Raises
    ------
    OptionError, CodecError
        An offset is negative, or the group's name cannot be that of a znode; a stored offset is malformed.
    PartitionOwned
        No `owner` is given, and a member of the group owns a partition.
    GroupContended, ZooKeeperError, ZooKeeperRefused
        Others kept changing the offsets (retriable); no answer; an ACL denies access.
    """
    _require_offsets(offsets)
    proof = NoOwner(group, client) if owner is None else OwnedBy(group, owner)
    return _Commit(client, group, offsets, proof, frozenset(resets), attempts, sleep, jitter).run(max_transaction_bytes)


def commit_starts(
    client: ZooKeeperConnection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Commit a group's start in partitions of which it has no offset, whichever of its members owns them.

    Members that start at the same time find different ends of a log: the first to commit decides for all of them, so a
    partition that has an offset keeps it, whatever it is. Partitions that a JVM consumer owns are left out. Where the
    offset cannot be known yet, -1, which all consumers treat as none, records the time. Raises as `commit_offsets`.
    """
    _require_offsets({tp: max(0, offset) for tp, offset in offsets.items()})
    _Commit(client, group, offsets, NoJvmOwner(group), sleep=sleep, only_missing=True).run()


def find_lost(client: ZooKeeperConnection, proof: OwnerProof, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
    """The partitions that must not be committed now; raises PartitionOwned if none may be. Blocks for a round or two."""
    asked = proof.lookups(partitions)
    return proof.lost(partitions, client.ask(get=asked.get, children=asked.children))


@dataclass(frozen=True, slots=True)
class _Commit:
    client: ZooKeeperConnection
    group: str
    offsets: Mapping[TopicPartition, int]
    proof: OwnerProof
    resets: frozenset[TopicPartition] = frozenset()
    attempts: int = _ATTEMPTS
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    only_missing: bool = False
    written: dict[TopicPartition, int] = field(default_factory=dict)
    kept: dict[TopicPartition, int] = field(default_factory=dict)
    lost: set[TopicPartition] = field(default_factory=set)
    marks: dict[TopicPartition, int] = field(default_factory=dict)
    in_doubt: set[TopicPartition] = field(default_factory=set)

    def run(self, max_bytes: int = MAX_TRANSACTION_BYTES) -> CommitResult:
        """Commit all partitions, in pieces that each fit into a transaction, even if every znode is missing."""
        chroot = self.client.config.chroot
        chunks = list(pieces(sorted(self.offsets), lambda tp: self.operations([tp], Results()), chroot, max_bytes))
        if len(chunks) > 1 and isinstance(self.proof, NoOwner):
            find_lost(self.client, self.proof, sorted(self.offsets))
        for chunk in chunks:
            self._commit(chunk)
        return CommitResult(self.written, self.kept, frozenset(self.lost), self.marks)

    def _commit(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit some partitions in one transaction; retry while others interfere or the connection is lost."""
        unanswered = 0
        conflict: Conflict | None = None
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(backoff_s(attempt, self.jitter()))
            try:
                conflict = self._attempt(partitions)
            except ZooKeeperError as error:
                unanswered += 1
                if not error.retriable or unanswered == _MAX_UNANSWERED:
                    raise
            else:
                if conflict is None:
                    return
        raise _contended(self.group, conflict, self.attempts)

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """The operations that commit the partitions, given the stored state; none if all stored offsets are as high."""
        writes = [self._write(tp, found) for tp in partitions if not self._is_kept(tp, found)]
        if not writes:
            return []
        parents = [Create(path, None) for path in self._offset_parents(partitions) if path not in found.stats]
        return [*parents, *self.proof.operations(partitions, found), *writes]

    def _attempt(self, partitions: Sequence[TopicPartition]) -> Conflict | None:
        found = self._read(partitions)
        lost = self.proof.lost(partitions, found)
        ours = [tp for tp in partitions if tp not in lost]
        changed = {tp for tp in ours if not self._is_kept(tp, found)}
        try:
            outcome = self.client.transact(self.operations(ours, found))
        except ZooKeeperError:
            self.in_doubt.update(changed)
            raise
        if outcome.conflict is None:
            self._report(ours, found, changed)
            if outcome.zxid is not None:
                self.marks.update(dict.fromkeys(changed, outcome.zxid))
            self.lost.update(lost)
        return outcome.conflict

    def _report(self, partitions: Sequence[TopicPartition], found: Results, changed: set[TopicPartition]) -> None:
        for tp in partitions:
            stored = self._stored(tp, found)
            if tp in changed or stored is None or (tp in self.in_doubt and stored == self.offsets[tp]):
                self.written[tp] = self.offsets[tp]
            else:
                self.kept[tp] = stored

    def _read(self, partitions: Sequence[TopicPartition]) -> Results:
        """Read in the order of `ask`: the versions of the parents before the claims."""
        asked = self.proof.lookups(partitions)
        return self.client.ask(
            exists=[*self._offset_parents(partitions), *asked.exists],
            children=asked.children,
            get=[*map(self._offset_path, partitions), *asked.get],
        )

    def _write(self, partition: TopicPartition, found: Results) -> Operation:
        path, data = self._offset_path(partition), group_znodes.encode_offset(self.offsets[partition])
        node = found.nodes.get(path)
        return Create(path, data) if node is None else SetData(path, data, node.stat.version)

    def _is_kept(self, partition: TopicPartition, found: Results) -> bool:
        stored, offset = self._stored(partition, found), self.offsets[partition]
        if stored is None or stored == offset:
            return stored is not None and partition not in self.resets  # written anew, it is of the present log
        return stored >= 0 if self.only_missing else stored > offset and partition not in self.resets

    def _stored(self, partition: TopicPartition, found: Results) -> int | None:
        path = self._offset_path(partition)
        node = found.nodes.get(path)
        return None if node is None else group_znodes.decode_offset(path, node.data)

    def _offset_path(self, partition: TopicPartition) -> str:
        return group_znodes.offset_path(self.group, partition)

    def _offset_parents(self, partitions: Sequence[TopicPartition]) -> list[str]:
        offsets = group_znodes.offsets_path(self.group)
        above = [group_znodes.CONSUMERS, group_znodes.group_path(self.group), offsets]
        return [*above, *(child_path(offsets, topic) for topic in dict.fromkeys(tp.topic for tp in partitions))]


def _require_offsets(offsets: Mapping[TopicPartition, int]) -> None:
    bad = [f"{tp} at {offset}" for tp, offset in sorted(offsets.items()) if not 0 <= offset < 2**63]
    if bad:
        raise OptionError(
            "INVALID_OFFSET",
            f"Offsets to commit must be 0 or more and fit 64 bits; found {', '.join(bad)}; "
            "give the next offset to read, not -1 (latest) or -2 (earliest)",
        )


def _contended(group: str, conflict: Conflict | None, attempts: int) -> GroupContended:
    found = "" if conflict is None else f", the last time {conflict.operation.path}: {conflict.reason.value}"
    return GroupContended(
        "COMMIT_CONTENDED",
        f"The offsets of group {group} were not committed: others changed them {attempts} times meanwhile{found}; "
        "try again, and if that does not help, find the other clients that commit to this group",
    )
