"""A member's claims on partitions, and the proofs that allow a commit.

A claim is the ephemeral znode ``/consumers/G/owners/T/P``. A member creates all of its claims or none. A proof is a value
with ZooKeeper operations, which fail a transaction unless the group's owners are as expected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_zkafka.conditions import CLAIMS_CONTENDED, PARTITION_OWNED, ZOOKEEPER_REFUSED
from pyspark_zkafka.errors import GroupContended, PartitionOwned, listing
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import Partition, owner_parents
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, pieces

_SHOWN = 3
_NEVER = 2**31 - 1  # a version that no znode has: a missing znode must not be created meanwhile
_ATTEMPTS = 10
_KEPT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Lookups:
    """Paths to read, by kind of request."""

    get: Iterable[str] = ()
    children: Iterable[str] = ()
    exists: Iterable[str] = ()


def claim_paths(group: str, partitions: Iterable[TopicPartition]) -> dict[str, TopicPartition]:
    """The partitions, in their order, by the paths of their claims."""
    return {group_znodes.owner_path(group, tp): tp for tp in partitions}


def thread_of(node: Znode) -> str:
    """The thread that a claim names. Undecodable bytes are replaced: any client may have written them."""
    return (node.data or b"").decode("utf-8", "replace")


def is_claim_by(node: Znode, consumer: str) -> bool:
    """True if the znode is a member's claim, of any session.

    Members of this package write each claim twice. The version of a JVM consumer's claim stays 0.
    """
    return node.stat.version > 0 and group_znodes.consumer_of_thread(thread_of(node)) == consumer


def is_claim_of(node: Znode | None, owner: ClaimOwner) -> bool:
    """True if the znode is a claim of the member's present session."""
    return node is not None and node.stat.ephemeral_owner == owner.session and is_claim_by(node, owner.consumer)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Another owner of a partition that is assigned to the member."""

    partition: TopicPartition
    thread: str
    session: int

    def __str__(self) -> str:
        return f"{self.partition} is owned by {self.thread or 'a nameless owner'} (session {session_text(self.session)})"


class Claims:
    """The claims of a member's session. The client is open.

    Not thread-safe, except for `owned`, which is replaced and never modified. Calls block for a few round trips.
    """

    def __init__(self, client: ZooKeeperConnection, group: str) -> None:
        self._client = client
        self._group = group
        self._sequence = 0
        self._in_doubt: set[TopicPartition] = set()
        self.owned: Mapping[TopicPartition, Claim] = {}

    def forget(self) -> None:
        """Forget all claims after the end of their session.

        The next session may have made some claims again before the end was noticed: `verify` finds these claims.
        """
        self._in_doubt |= self.owned.keys()
        self.owned = {}

    def claim(self, threads: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        """Claim all partitions for threads of the member. If others own some, claim none, and return these owners.

        Claims of the member's earlier sessions are replaced. Claims of this session for another thread are changed in
        place: no other member can claim the partition meanwhile.
        """
        claimed, held = list[TopicPartition](), self.owned.keys()
        chroot = self._client.config.chroot
        for chunk in pieces(sorted(threads), lambda tp: self._claiming(tp, threads[tp], owner), chroot):
            self._in_doubt.update(chunk)
            blockers = self._claim({tp: threads[tp] for tp in chunk}, owner)
            if blockers:
                self._in_doubt.difference_update(chunk)
                self.release([tp for tp in claimed if tp not in held], owner)
                return blockers
            claimed += chunk
            self._add({tp: threads[tp] for tp in chunk})
        return []

    def release(self, partitions: Collection[TopicPartition], owner: ClaimOwner) -> None:
        """Remove partitions from `owned`, then delete the claims that are still the session's own."""
        for chunk in pieces(sorted(partitions), self._releasing, self._client.config.chroot):
            released = set(chunk)
            self._in_doubt |= released
            self.owned = {tp: claim for tp, claim in self.owned.items() if tp not in released}
            self._release(chunk, owner)
            self._in_doubt -= released

    def verify(self, owner: ClaimOwner) -> list[TopicPartition]:
        """Remove partitions whose claims are gone from `owned`, and return them.

        Also resolves creations and deletions that received no answer.
        """
        paths = claim_paths(self._group, sorted({*self.owned, *self._in_doubt}))
        nodes = {paths[path]: node for path, node in self._client.get_many(paths).items() if is_claim_of(node, owner)}
        added = {tp: thread_of(node) for tp, node in nodes.items() if tp not in self.owned}
        lost = sorted(self.owned.keys() - nodes.keys())
        self.owned = {tp: claim for tp, claim in self.owned.items() if tp in nodes}
        self._in_doubt = set()
        self._add(added)
        return lost

    def _claiming(self, partition: TopicPartition, thread: str, owner: ClaimOwner) -> Iterator[Operation]:
        """All operations that a claim needs if its parents are missing and it replaces another claim."""
        yield from self._parents([partition], Results())
        yield Delete(self._path(partition))
        yield from self._change(partition, thread, None, owner)

    def _releasing(self, partition: TopicPartition) -> Iterator[Operation]:
        yield from (Check(path) for path in owner_parents(self._group, [partition])[1:])
        yield Delete(self._path(partition))

    def _add(self, threads: Mapping[TopicPartition, str]) -> None:
        self._in_doubt.difference_update(threads)
        self._sequence += 1
        before = {tp: self.owned[tp].sequence for tp in threads if tp in self.owned}
        added = {tp: Claim(thread, before.get(tp, self._sequence)) for tp, thread in threads.items()}
        self.owned = {**self.owned, **added}

    def _claim(self, threads: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        above = owner_parents(self._group, threads)
        for _ in range(_ATTEMPTS):
            found = self._client.ask(exists=self._group_parents, get=[*above, *map(self._path, threads)])
            nodes = {tp: node for tp in threads if (node := found.nodes.get(self._path(tp))) is not None}
            others = {tp: node for tp, node in nodes.items() if not is_claim_by(node, owner.consumer)}
            if others:
                return [Blocker(tp, thread_of(node), node.stat.ephemeral_owner) for tp, node in others.items()]
            changes = [o for tp, thread in threads.items() for o in self._change(tp, thread, nodes.get(tp), owner)]
            if not changes or self._client.transact([*self._parents(threads, found), *changes]).conflict is None:
                return []
        raise _contended(self._group)

    def _parents(self, partitions: Iterable[TopicPartition], found: Results) -> Iterator[Operation]:
        """Create missing parents. Write each ``owners/T``: proofs of ownership check its version."""
        above = owner_parents(self._group, partitions)
        yield from (Create(path, None) for path in self._group_parents if path not in found.stats)
        yield from (Create(path, None) for path in above if path not in found.nodes)
        yield from (SetData(path, _kept(found.nodes[path].data)) for path in above[1:] if path in found.nodes)

    def _change(self, partition: TopicPartition, thread: str, node: Znode | None, owner: ClaimOwner) -> Iterator[Operation]:
        path, data = self._path(partition), group_znodes.encode_owner(thread)
        if node is not None and is_claim_of(node, owner):
            if node.data != data:
                yield SetData(path, data, node.stat.version)
            return
        if node is not None:
            yield Delete(path, node.stat.version)
        yield Create(path, data, ephemeral=True)
        yield SetData(path, data, 0)  # version 1: see OwnedBy

    def _release(self, partitions: Sequence[TopicPartition], owner: ClaimOwner) -> None:
        above = owner_parents(self._group, partitions)[1:]
        for _ in range(_ATTEMPTS):
            found = self._client.ask(exists=above, get=map(self._path, partitions))
            ours = {path: node for path, node in found.nodes.items() if is_claim_of(node, owner)}
            if not ours:
                return
            checks = [Check(path, found.stats[path].version) for path in above if path in found.stats]
            deletes = [Delete(path, node.stat.version) for path, node in ours.items()]
            if self._client.transact([*checks, *deletes]).conflict is None:
                return
        raise _contended(self._group)

    @property
    def _group_parents(self) -> list[str]:
        return [group_znodes.CONSUMERS, group_znodes.group_path(self._group)]

    def _path(self, partition: TopicPartition) -> str:
        return group_znodes.owner_path(self._group, partition)


def _kept(data: bytes | None) -> bytes | None:
    """The data of a parent, or None if too large for the transaction. Consumers write no data."""
    return None if data is not None and len(data) > _KEPT_BYTES else data


def _contended(group: str) -> GroupContended:
    return CLAIMS_CONTENDED(
        f"The claims of group {group} changed {_ATTEMPTS} times while they were read; try again, "
        "and if that does not help, find the client that deletes and creates the znodes of its owners",
    )


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """A member's live session owns the partitions.

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
    """Nobody owns any of the partitions."""

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
            raise _owned(group, {paths[path]: owners[path] for path in paths if path in owners})
        return set()

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """Create and delete each claim, which fails if one exists."""
        paths = [path for path in owner_parents(group, partitions) if path not in found.stats]
        paths += claim_paths(group, partitions)
        return [*(Create(path, b"") for path in paths), *(Delete(path) for path in reversed(paths))]


@dataclass(frozen=True, slots=True)
class NoJvmOwner:
    """No JVM consumer owns the partitions: such an owner may have read more than it has committed, or start elsewhere.

    For the start of a group. Offsets that the group has are kept, whatever their values.
    """

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims."""
        return Lookups(get=claim_paths(group, partitions))

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """The partitions that a JVM consumer has claimed. It writes a claim only once."""
        paths = claim_paths(group, partitions)
        return {tp for path, tp in paths.items() if path in found.nodes and found.nodes[path].stat.version == 0}

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """None: the owner of a claim made meanwhile reads the offset either before or after the commit."""
        return []


def no_members(client: ZooKeeperConnection, group: str, ids: Znode | None) -> list[Operation]:
    """Make operations that fail a transaction if the group has registered members. `ids` is the znode of registrations.

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
    """Nobody has written the offsets since an operator read them, and the group has no members.

    Attributes
    ----------
    versions : mapping
        The versions of the offset znodes that were read. Partitions without a znode are absent.
    inactive_only : bool
        False to write next to running members. Their next commits win.
    """

    versions: Mapping[Partition, int] = field(default_factory=dict)
    inactive_only: bool = True

    def lookups(self, group: str, partitions: Sequence[Partition]) -> Lookups:
        """The parent of members' registrations."""
        return Lookups(get=[group_znodes.ids_path(group)] if self.inactive_only else ())

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[Partition], found: Results
    ) -> set[TopicPartition]:
        """None: an operator needs to own nothing."""
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


def _owned(group: str, owners: Mapping[TopicPartition, Znode]) -> PartitionOwned:
    shown = [
        f"{tp} ({thread_of(node) or 'nameless'}, session {session_text(node.stat.ephemeral_owner)})"
        for tp, node in owners.items()
    ]
    return PARTITION_OWNED(
        f"The offsets of group {group} were not committed: its members own {listing(shown, _SHOWN)}; "
        "stop these consumers and wait until the sessions of dead ones have expired, join the group with ConsumerGroup, "
        "or use another group.id",
        partitions=sorted(owners),
    )
