"""Proofs that allow a commit: ZooKeeper operations that fail its transaction unless the group is as expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_zkafka.errors import PartitionOwned, listing
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import LegacyPartition
from pyspark_zkafka.protocol.znodes.paths import child_path
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.groups import NoMembers, group_activity, require_inactive
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation

Partition = TopicPartition | LegacyPartition

_SHOWN = 3
_NEVER = 2**31 - 1  # a version that no znode has: a missing znode must not be created meanwhile


@dataclass(frozen=True, slots=True)
class Lookups:
    """Paths to read, by kind of request."""

    get: Iterable[str] = ()
    children: Iterable[str] = ()
    exists: Iterable[str] = ()


def owner_parents(group: str, partitions: Iterable[TopicPartition]) -> list[str]:
    """List ``owners``, and ``owners/T`` of each topic, in the order of the partitions."""
    owners = group_znodes.owners_path(group)
    return [owners, *(child_path(owners, topic) for topic in dict.fromkeys(tp.topic for tp in partitions))]


def claim_paths(group: str, partitions: Iterable[TopicPartition]) -> dict[str, TopicPartition]:
    """The partitions, in their order, by the paths of their claims."""
    return {group_znodes.owner_path(group, tp): tp for tp in partitions}


def thread_of(node: Znode) -> str:
    """The thread that a claim names; undecodable bytes are replaced, as any client may have written it."""
    return (node.data or b"").decode("utf-8", "replace")


def is_claim_by(node: Znode, consumer: str) -> bool:
    """True if a znode is a claim that a member made, in any session.

    Its version distinguishes it from a JVM consumer's claim, which stays at 0: members of this package write theirs twice.
    """
    return node.stat.version > 0 and group_znodes.consumer_of_thread(thread_of(node)) == consumer


def is_claim_of(node: Znode | None, owner: ClaimOwner) -> bool:
    """True if a znode is a claim that a member's present session made."""
    return node is not None and node.stat.ephemeral_owner == owner.session and is_claim_by(node, owner.consumer)


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """A member's live session owns the partitions.

    A ZooKeeper transaction can check a znode's version, but not its owner; and a claim that was deleted and created again
    by another member starts at version 0 again. So a member writes its claims twice, which no JVM consumer does, and
    writes ``owners/T`` with each claim. The versions of both, with ``owners/T`` read before the claims, are valid only as
    long as these claims are the same.
    """

    owner: ClaimOwner

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims, and the znodes above them, which must be read first."""
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
        """The existing claims, and the znodes above them."""
        above = owner_parents(group, partitions)
        return Lookups(children=above, exists=above)

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """The empty set; raises PartitionOwned if any of the partitions has an owner."""
        existing = {f"{parent}/{child}" for parent, names in found.children.items() for child in names}
        paths = claim_paths(group, partitions)
        owners = client.get_many(existing & paths.keys())
        if owners:
            raise _owned(group, {paths[path]: owners[path] for path in paths if path in owners})
        return set()

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """Create and delete each claim, which fails where there is one."""
        paths = [path for path in owner_parents(group, partitions) if path not in found.stats]
        paths += claim_paths(group, partitions)
        return [*(Create(path, b"") for path in paths), *(Delete(path) for path in reversed(paths))]


@dataclass(frozen=True, slots=True)
class NoJvmOwner:
    """No JVM consumer owns the partitions: it may have read them further than it has committed, or begin elsewhere.

    This is for the start of a group: where the group has an offset, that one is kept, whatever it is.
    """

    def lookups(self, group: str, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims."""
        return Lookups(get=claim_paths(group, partitions))

    def lost(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> set[TopicPartition]:
        """The partitions that a JVM consumer has claimed: it writes a claim once, members of this package twice."""
        paths = claim_paths(group, partitions)
        return {tp for path, tp in paths.items() if path in found.nodes and found.nodes[path].stat.version == 0}

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[TopicPartition], found: Results
    ) -> list[Operation]:
        """None: a claim made meanwhile does no harm, as its owner reads the offset either before or after the commit."""
        return []


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nobody has written the offsets since an operator read them, and the group has no members.

    Attributes
    ----------
    versions : mapping
        The versions of the offsets' znodes that were read; partitions without a znode are absent.
    inactive_only : bool
        False to write next to running members, whose commits then win.
    """

    versions: Mapping[Partition, int] = field(default_factory=dict)
    inactive_only: bool = True

    def lookups(self, group: str, partitions: Sequence[Partition]) -> Lookups:
        """The znode that a member registers under."""
        return Lookups(get=[group_znodes.ids_path(group)] if self.inactive_only else ())

    def require_inactive(self, client: ZooKeeperConnection, group: str, not_done: str) -> None:
        """Raise GroupError if the group has members or claims; `not_done` is the first clause of the message."""
        if self.inactive_only:
            require_inactive(group, group_activity(client, [group])[group], not_done)

    def operations(
        self, client: ZooKeeperConnection, group: str, partitions: Sequence[Partition], found: Results
    ) -> list[Operation]:
        """Prove that no member is registered. The writes themselves check the versions."""
        if not self.inactive_only:
            return []
        path = group_znodes.ids_path(group)
        ids = found.nodes.get(path)
        return list(NoMembers(group, ids, None if ids is None else client.acl(path)).operations())


OwnerProof = OwnedBy | NoOwner | NoJvmOwner
"""Paths to read before a commit (`lookups`); given the results, the partitions that it must leave out (`lost`), and the
operations that make its transaction fail once the results are outdated."""

Proof = OwnerProof | Unchanged

NOBODY = NoOwner()


def proof_of(owner: ClaimOwner | None) -> OwnedBy | NoOwner:
    """The proof that a member owns the partitions, or, without one, that nobody does."""
    return NOBODY if owner is None else OwnedBy(owner)


def _owned(group: str, owners: Mapping[TopicPartition, Znode]) -> PartitionOwned:
    shown = [
        f"{tp} by {thread_of(node) or 'a nameless owner'} (session {session_text(node.stat.ephemeral_owner)})"
        for tp, node in owners.items()
    ]
    return PartitionOwned(
        "PARTITION_OWNED",
        f"The offsets of group {group} were not committed: the group owns {listing(shown, _SHOWN)}; "
        "stop these consumers (one that died is gone when its session expires), join the group with ConsumerGroup, "
        "or use another group.id",
        partitions=sorted(owners),
    )
