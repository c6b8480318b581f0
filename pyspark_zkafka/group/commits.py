"""Commits of a group's offsets to ZooKeeper, in transactions that also check a proof.

A proof is a value with ZooKeeper operations, which fail a transaction unless the group's owners are as expected.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_zkafka.conditions import COMMIT_CONTENDED, INVALID_OFFSET, OFFSETS_CHANGED, PARTITION_OWNED, ZOOKEEPER_REFUSED
from pyspark_zkafka.errors import GroupContended, ZooKeeperError, listing
from pyspark_zkafka.group.claims import claim_paths, is_claim_of, thread_of
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import LegacyPartition, Partition, offset_parents, owner_parents
from pyspark_zkafka.retries import Backoff
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import group_activity, require_inactive
from pyspark_zkafka.zookeeper.transactions import (
    MAX_TRANSACTION_BYTES,
    Check,
    Conflict,
    Create,
    Delete,
    Operation,
    Reason,
    SetData,
    pieces,
)

_ATTEMPTS = 10
_BACKOFF = Backoff(0.04, 1.0)
_MAX_UNANSWERED = 3
_SHOWN = 3
_NEVER = 2**31 - 1  # a version that no znode has: a missing znode must not be created meanwhile


@dataclass(frozen=True, slots=True)
class Lookups:
    """Paths to read, by kind of request."""

    get: Iterable[str] = ()
    children: Iterable[str] = ()
    exists: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """Proof that a member's live session owns the partitions.

    A ZooKeeper transaction can check a znode's version, but not its owner. If another member deletes a claim and creates it
    again, its version starts at 0. A member therefore writes its claims twice, unlike JVM consumers, and writes
    ``owners/T`` with each claim. If both versions are unchanged, and ``owners/T`` was read before the claims, the claims
    are the same.
    """

    owner: ClaimOwner

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims, and their parents, which must be read first."""
        return Lookups(get=claim_paths(group, partitions), exists=owner_parents(group, partitions))

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """The partitions that the session does not own."""
        paths = claim_paths(group, partitions)
        return {tp for path, tp in paths.items() if not is_claim_of(found.nodes.get(path), self.owner)}

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """Check the versions of the claims and of ``owners/T``."""
        stats = {path: found.stats.get(path) for path in owner_parents(group, partitions)[1:]}
        for path in claim_paths(group, partitions):
            stats[path] = found.nodes[path].stat if path in found.nodes else None
        return [Check(path, _NEVER if stat is None else stat.version) for path, stat in stats.items()]


@dataclass(frozen=True, slots=True)
class NoOwner:
    """Proof that no member owns any of the partitions."""

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The existing claims, and their parents."""
        above = owner_parents(group, partitions)
        return Lookups(children=above, exists=above)

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """Return the empty set. Raises PartitionOwned if a partition has an owner."""
        existing = {f"{parent}/{child}" for parent, names in found.children.items() for child in names}
        paths = claim_paths(group, partitions)
        owners = client.get_many(existing & paths.keys())
        if owners:
            owned = {paths[path]: owners[path] for path in paths if path in owners}
            shown = (
                f"{tp} ({thread_of(node) or 'nameless'}, session {session_text(node.stat.ephemeral_owner)})"
                for tp, node in owned.items()
            )
            raise PARTITION_OWNED(
                f"The offsets of group {group} were not committed: its members own {listing(shown, _SHOWN)}; stop these "
                "consumers and wait until the sessions of dead ones have expired, join the group with ConsumerGroup, or "
                "use another group.id",
                partitions=sorted(owned),
            )
        return set()

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """Create and delete each claim, which fails if the claim exists."""
        paths = [path for path in owner_parents(group, partitions) if path not in found.stats]
        paths += claim_paths(group, partitions)
        return [*(Create(path, b"") for path in paths), *(Delete(path) for path in reversed(paths))]


@dataclass(frozen=True, slots=True)
class NoJvmOwner:
    """Proof that no JVM consumer owns the partitions. A JVM owner may have uncommitted progress, or another start.

    For the start of a group. Offsets that the group already has are kept, whatever their values.
    """

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims."""
        return Lookups(get=claim_paths(group, partitions))

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """The partitions that a JVM consumer has claimed. JVM consumers write a claim only once."""
        paths = claim_paths(group, partitions)
        return {tp for path, tp in paths.items() if path in found.nodes and found.nodes[path].stat.version == 0}

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """Return no operations. The owner of a claim made meanwhile reads the offset either before or after the commit."""
        return []


def no_members(client: ZooKeeperConnection, group: str, ids: Znode | None) -> list[Operation]:
    """Make operations that fail a transaction if the group has registered members.

    `ids` is the znode of registrations, None if it is missing.

    A transaction cannot check the number of children, but ZooKeeper refuses to delete a znode with children. The operations
    delete ``/consumers/G/ids`` and create it again unchanged, or create and delete a missing one, after the creation of
    ``/consumers/G``. The transaction fails if a member has registered before. A member that registers later reads what the
    transaction has written. Only registered members watch this znode.

    Blocks for a round trip, to read a present znode's ACL. Raises ZooKeeperRefused if the server masks the ACL's digests,
    as it does for clients without the right admin: with such an ACL, nobody could use the znode.
    """
    path = group_znodes.ids_path(group)
    if ids is None:
        return [Create(path, b""), Delete(path)]
    acl = client.acl(path)
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(":x") for entry in acl or ()):
        raise ZOOKEEPER_REFUSED(
            f"The ACL of {path} is kept only if the client has the right admin there; set zookeeper.auth to a user "
            "with this right",
        )
    return [Delete(path, ids.stat.version), Create(path, ids.data, acl=acl)]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Proof that no client has written the offsets since an operator read them, and that the group has no members.

    `versions` has the versions of the offset znodes that were read. Partitions without a znode are absent. `inactive_only`
    is False to write even while members run. Their next commits then win.
    """

    versions: Mapping[Partition, int] = field(default_factory=dict)
    inactive_only: bool = True

    def lookups(self, group: str, partitions: Sequence[Partition]) -> Lookups:
        """The parent of members' registrations."""
        return Lookups(get=[group_znodes.ids_path(group)] if self.inactive_only else ())

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[Partition], found: Results
    ) -> set[TopicPartition]:
        """Return the empty set. An operator need not own the partitions."""
        return set()

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[Partition], found: Results
    ) -> list[Operation]:
        """Prove that no member is registered. The writes check the versions."""
        if not self.inactive_only:
            return []
        return no_members(client, group, found.nodes.get(group_znodes.ids_path(group)))


Proof = OwnedBy | NoOwner | NoJvmOwner | Unchanged
"""A proof: `lookups` has the paths to read before a commit. From the results, `lost` finds the partitions to leave out, and
`operations` makes operations that fail the transaction if the results are outdated."""

NOBODY = NoOwner()


def proof_of(owner: ClaimOwner | None) -> OwnedBy | NoOwner:
    """The proof that a member owns the partitions, or, without a member, that nobody does."""
    return NOBODY if owner is None else OwnedBy(owner)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit. Each partition is in one of `written`, `kept` and `lost`.

    `kept` has stored offsets that are as high, or higher, and `lost` the partitions that the member does not own. `mzxids`
    are the transactions that wrote offsets to ZooKeeper: see `StoredOffset`.
    """

    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    kept: Mapping[TopicPartition, int] = field(default_factory=dict)
    lost: Collection[TopicPartition] = frozenset()
    mzxids: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)


def commit_offsets(
    client: ZooKeeperConnection,
    group: str,
    offsets: Mapping[TopicPartition, int] | Mapping[Partition, int],
    proof: Proof = NOBODY,
    *,
    resets: Collection[TopicPartition] = frozenset(),
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> CommitResult:
    """Commit a group's offsets, in one transaction that also checks the proof.

    Offsets only move forward, unless the proof is `Unchanged`. Each write is conditional on the version of the znode that
    was read. Missing parents are created with null data, as the old consumer does.

    More partitions than fit into a request (some 1,500) take several transactions. With the proof `NoOwner`, all partitions
    are checked before the first transaction. If a later transaction fails, the earlier transactions stay committed.
    Repeating the commit is safe.

    Blocks for two rounds of requests, for about 5 s of pauses between retries, and for three connection timeouts without
    an answer. JVM consumers read offsets before they claim partitions. A JVM consumer that joins at the same moment may
    therefore start at the old offset.

    Parameters
    ----------
    offsets : mapping
        The next offset to read, 0 or more, by partition.
    proof : OwnedBy, NoOwner, NoJvmOwner or Unchanged
        Partitions without the proof are `lost`, or raise an error.
    resets : collection of TopicPartition
        Partitions that may move back, as their log was truncated or created again.

    Raises
    ------
    OptionError, CodecError
        An offset is negative, or the group's name cannot name a znode; a stored offset is malformed.
    PartitionOwned
        The proof is `NoOwner`, and a member of the group owns a partition.
    GroupError
        The proof is `Unchanged`, and the group has members, or partitions with owners.
    GroupContended
        Other clients kept changing the group's znodes (retriable). With `Unchanged`: an offset has changed since it was
        read.
    ZooKeeperError, ZooKeeperRefused
        No answer; an ACL denies access.
    """
    bad = [f"{tp} at {offset}" for tp, offset in offsets.items() if not 0 <= offset < 2**63]
    if bad:
        raise INVALID_OFFSET(
            f"Offsets to commit must be 0 or more and fit 64 bits; found {', '.join(sorted(bad))}. "
            "Give the next offset to read, not -1 (latest) or -2 (earliest)",
        )
    commit = _Commit(client, group, {**offsets}, proof, frozenset(resets), sleep, jitter)
    return commit.run(max_transaction_bytes)


def find_lost(
    client: ZooKeeperConnection, group: str, proof: Proof, partitions: Sequence[TopicPartition]
) -> set[TopicPartition]:
    """Find the partitions to leave out of a commit. Blocks for one or two rounds of requests.

    Raises PartitionOwned if the proof is `NoOwner`, and a member owns a partition.
    """
    asked = proof.lookups(group, partitions)
    return proof.lost(client, group, partitions, client.ask(get=asked.get, children=asked.children))


@dataclass(frozen=True, slots=True)
class _Commit:
    client: ZooKeeperConnection
    group: str
    offsets: Mapping[Any, int]
    proof: Proof
    resets: frozenset[TopicPartition]
    sleep: Callable[[float], None]
    jitter: Callable[[], float]
    written: dict[Any, int] = field(default_factory=dict)
    kept: dict[Any, int] = field(default_factory=dict)
    lost: set[Any] = field(default_factory=set)
    mzxids: dict[Any, int] = field(default_factory=dict)
    in_doubt: set[Any] = field(default_factory=set)

    def run(self, max_bytes: int) -> CommitResult:
        """Commit in pieces that fit into a transaction, even if every znode is missing."""
        partitions = sorted(self.offsets, key=_order)
        chunks = list(pieces(partitions, self._needed, self.client.config.chroot, max_bytes))
        if len(chunks) > 1 and isinstance(self.proof, NoOwner):
            find_lost(self.client, self.group, self.proof, partitions)
        for chunk in chunks:
            self._commit(chunk)
        return CommitResult(self.written, self.kept, frozenset(self.lost), self.mzxids)

    def _needed(self, partition: Any) -> list[Operation]:
        """All operations that a partition may need."""
        parents = [Create(path, None) for path in offset_parents(self.group, [partition])]
        proof = self.proof.operations(self.client, self.group, [partition], Results())
        return [*parents, *proof, self._write(partition, Results())]

    def _commit(self, partitions: Sequence[Any]) -> None:
        """Commit some partitions in one transaction. Retry while other clients interfere or the connection is lost."""
        unanswered = 0
        conflict: Conflict | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.sleep(_BACKOFF.wait_s(attempt) * (0.5 + self.jitter()))
            try:
                conflict = self._attempt(partitions)
            except ZooKeeperError as error:
                unanswered += 1
                if not error.retriable or unanswered == _MAX_UNANSWERED:
                    raise
            else:
                if conflict is None:
                    return
        if isinstance(self.proof, Unchanged):
            raise self._changed("" if conflict is None else f" ({conflict.operation.path}: {conflict.reason.value})")
        last = "" if conflict is None else f", the last time {conflict.operation.path}: {conflict.reason.value}"
        raise COMMIT_CONTENDED(
            f"A commit to group {self.group} failed in {_ATTEMPTS} attempts: others changed the group's znodes meanwhile"
            f"{last}; {self._progress}. Try again, and if that does not help, find the other clients of this group",
        )

    def _attempt(self, partitions: Sequence[Any]) -> Conflict | None:
        found = self._read(partitions)
        lost: set[Any] = self.proof.lost(self.client, self.group, partitions, found)
        ours = [tp for tp in partitions if tp not in lost]
        changed = [tp for tp in ours if not self._is_kept(tp, found)]
        if changed:
            self._require_inactive()
            parents = [Create(path, None) for path in offset_parents(self.group, ours) if path not in found.stats]
            proof = self.proof.operations(self.client, self.group, ours, found)
            try:
                outcome = self.client.transact([*parents, *proof, *(self._write(tp, found) for tp in changed)])
            except ZooKeeperError:
                self.in_doubt.update(changed)
                raise
            if outcome.conflict is not None:
                return outcome.conflict
            if outcome.zxid is not None:
                self.mzxids.update(dict.fromkeys(changed, outcome.zxid))
        self._report(ours, found, changed)
        self.lost.update(lost)
        return None

    def _read(self, partitions: Sequence[Any]) -> Results:
        """Read the versions of the parents before the claims, in the order of `ask`."""
        asked = self.proof.lookups(self.group, partitions)
        return self.client.ask(
            exists=[*offset_parents(self.group, partitions), *asked.exists],
            children=asked.children,
            get=[*map(self._path, partitions), *asked.get],
        )

    def _require_inactive(self) -> None:
        if isinstance(self.proof, Unchanged) and self.proof.inactive_only:
            activity = group_activity(self.client, [self.group])[self.group]
            require_inactive(self.group, activity, f"Refused, {self._progress}")

    def _is_kept(self, partition: Any, found: Results) -> bool:
        """True if the stored offset stays. Raises GroupContended if it must be `Unchanged`, and is not."""
        if isinstance(self.proof, Unchanged):
            return self._is_applied(partition, found, self.proof.versions.get(partition))
        stored = self._stored(partition, found)
        if stored is None or partition in self.resets:  # an equal offset may be of an old log: write it again
            return False
        return stored >= (0 if isinstance(self.proof, NoJvmOwner) else self.offsets[partition])

    def _is_applied(self, partition: Any, found: Results, version: int | None) -> bool:
        """True if a transaction without an answer has replaced this version; False if it is unchanged."""
        path = self._path(partition)
        node = found.nodes.get(path)
        if version == (None if node is None else node.stat.version):
            return False
        if partition in self.in_doubt and node is not None and node.data == self._data(partition):
            return True
        self._require_inactive()  # a member may have written it
        reason = Reason.NO_NODE if node is None else Reason.NODE_EXISTS if version is None else Reason.BAD_VERSION
        raise self._changed(f" ({path}: {reason.value})")

    def _report(self, partitions: Sequence[Any], found: Results, changed: Collection[Any]) -> None:
        for tp in partitions:
            stored = None if tp in changed else self._stored(tp, found)
            if stored is None or (tp in self.in_doubt and stored == self.offsets[tp]):
                self.written[tp] = self.offsets[tp]
            else:
                self.kept[tp] = stored

    def _write(self, partition: Any, found: Results) -> Operation:
        path, data = self._path(partition), self._data(partition)
        node = found.nodes.get(path)
        return Create(path, data) if node is None else SetData(path, data, node.stat.version)

    def _stored(self, partition: Any, found: Results) -> int | None:
        path = self._path(partition)
        node = found.nodes.get(path)
        return None if node is None else group_znodes.decode_offset(path, node.data)

    def _data(self, partition: Any) -> bytes:
        return group_znodes.encode_offset(self.offsets[partition])

    def _path(self, partition: Any) -> str:
        return group_znodes.offset_path(self.group, partition)

    @property
    def _progress(self) -> str:
        if not self.written:
            return "nothing was written"
        last = max(self.written, key=_order)
        done = f"the first {len(self.written)} of {len(self.offsets)} partitions, up to {last.topic}-{last.partition}"
        return f"{done}, are written, the others are not"

    def _changed(self, found: str) -> GroupContended:
        return OFFSETS_CHANGED(
            f"The offsets of group {self.group} were changed by somebody else since they were read{found}; "
            f"{self._progress}. Find out who commits for this group, and run this again",
            group=self.group,
        )


def _order(partition: Partition) -> tuple[str, int, int]:
    broker = partition.broker if isinstance(partition, LegacyPartition) else -1
    return partition.topic, broker, partition.partition
