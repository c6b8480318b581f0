"""Proofs of ownership: ZooKeeper operations that make a transaction fail unless the owners are as expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark_zkafka.errors import PartitionOwned, listing
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation

__all__ = ["Lookups", "NoJvmOwner", "NoOwner", "OwnedBy", "OwnerProof", "is_claim_of", "owner_parents"]

_SHOWN = 3
_NEVER = 2**31 - 1  # a version that no znode has: a missing znode must not be created meanwhile


@dataclass(frozen=True, slots=True)
class Lookups:
    """Paths to read, by kind of request."""

    get: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    exists: list[str] = field(default_factory=list)


class OwnerProof(Protocol):
    """The ownership of partitions that a commit of their offsets requires."""

    def lookups(self, partitions: Sequence[TopicPartition]) -> Lookups:
        """The paths to read before the transaction."""
        ...

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """The partitions that must not be committed; raises PartitionOwned if none may be."""
        ...

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """Operations that fail if the answers are no longer true, and change nothing."""
        ...


def owner_parents(group: str, partitions: Iterable[TopicPartition]) -> list[str]:
    """``owners``, and ``owners/T`` of each topic, in the order of the partitions."""
    owners = group_znodes.owners_path(group)
    return [owners, *(f"{owners}/{topic}" for topic in dict.fromkeys(tp.topic for tp in partitions))]


def is_claim_of(node: Znode | None, owner: ClaimOwner) -> bool:
    """True if a znode is a claim that a member's present session made.

    Its version distinguishes it from a JVM consumer's claim, which stays at 0: members of this package write theirs twice.
    """
    if node is None or node.stat.ephemeral_owner != owner.session or node.stat.version == 0:
        return False
    return group_znodes.consumer_of_thread((node.data or b"").decode("utf-8", "replace")) == owner.consumer


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """A member's live session owns the partitions.

    A ZooKeeper transaction can check a znode's version, but not its owner; and a claim that was deleted and created again
    by another member starts at version 0 again. So a member writes its claims twice, which no JVM consumer does, and
    writes ``owners/T`` with each claim: the versions of both, those of ``owners/T`` read before the claims, are valid only
    as long as these claims are the same.
    """

    group: str
    owner: ClaimOwner

    def lookups(self, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims, and the znodes above them, which must be read first."""
        claims = [group_znodes.owner_path(self.group, tp) for tp in partitions]
        return Lookups(get=claims, exists=owner_parents(self.group, partitions))

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """The partitions that the session does not own."""
        claims = {tp: found.nodes.get(group_znodes.owner_path(self.group, tp)) for tp in partitions}
        return {tp for tp, node in claims.items() if not is_claim_of(node, self.owner)}

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """Check the versions of the claims and of ``owners/T``."""
        above = owner_parents(self.group, partitions)[1:]
        claims = [group_znodes.owner_path(self.group, tp) for tp in partitions]
        stats = {path: found.stats.get(path) for path in above}
        stats |= {path: found.nodes[path].stat if path in found.nodes else None for path in claims}
        return [Check(path, _NEVER if stat is None else stat.version) for path, stat in stats.items()]


@dataclass(frozen=True, slots=True)
class NoOwner:
    """Nobody owns any of the partitions."""

    group: str
    client: ZooKeeperConnection

    def lookups(self, partitions: Sequence[TopicPartition]) -> Lookups:
        """The existing claims, and the znodes above them."""
        above = owner_parents(self.group, partitions)
        return Lookups(children=above, exists=above)

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """The empty set; raises PartitionOwned if any of the partitions has an owner."""
        existing = {f"{parent}/{child}" for parent, names in found.children.items() for child in names}
        paths = {group_znodes.owner_path(self.group, tp): tp for tp in partitions}
        owners = self.client.get_many(existing & paths.keys())
        if owners:
            raise _owned(self.group, {paths[path]: owners[path] for path in paths if path in owners})
        return set()

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """Create and delete each claim, which fails where there is one."""
        paths = [path for path in owner_parents(self.group, partitions) if path not in found.stats]
        paths += [group_znodes.owner_path(self.group, tp) for tp in partitions]
        return [*(Create(path, b"") for path in paths), *(Delete(path) for path in reversed(paths))]


@dataclass(frozen=True, slots=True)
class NoJvmOwner:
    """No JVM consumer owns the partitions: it may have read them further than it has committed, or begin elsewhere."""

    group: str

    def lookups(self, partitions: Sequence[TopicPartition]) -> Lookups:
        """The claims."""
        return Lookups(get=[group_znodes.owner_path(self.group, tp) for tp in partitions])

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """The partitions that a JVM consumer has claimed: it writes a claim once, members of this package twice."""
        claims = {tp: found.nodes.get(group_znodes.owner_path(self.group, tp)) for tp in partitions}
        return {tp for tp, node in claims.items() if node is not None and node.stat.version == 0}

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """None: a claim made meanwhile does no harm, as its owner reads the offset either before or after the commit."""
        return []


def _owned(group: str, owners: Mapping[TopicPartition, Znode]) -> PartitionOwned:
    shown = [f"{tp} by {_thread(node)} (session {session_text(node.stat.ephemeral_owner)})" for tp, node in owners.items()]
    return PartitionOwned(
        "PARTITION_OWNED",
        f"The offsets of group {group} were not committed: the group owns {listing(shown, _SHOWN)}; "
        "stop these consumers (one that died is gone when its session expires), join the group with ConsumerGroup, "
        "or use another group.id",
        partitions=sorted(owners),
    )


def _thread(node: Znode) -> str:
    return (node.data or b"").decode("utf-8", "replace") or "a nameless owner"
