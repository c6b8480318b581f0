"""What a ZooKeeper transaction must prove of the owners of partitions before it moves their offsets, or their claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark_zkafka.errors import PartitionOwned
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation

__all__ = ["Lookups", "NoJvmOwner", "NoOwner", "OwnedBy", "OwnerProof", "is_claim_of", "owner_parents"]

_SHOWN = 3
_NEVER = 2**31 - 1  # a version that no znode has: what was missing must not have come back meanwhile


@dataclass(frozen=True, slots=True)
class Lookups:
    """What to read, by kind of request."""

    get: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    exists: list[str] = field(default_factory=list)


class OwnerProof(Protocol):
    """Who must own partitions for their offsets to move."""

    def lookups(self, partitions: Sequence[TopicPartition]) -> Lookups:
        """What to read before the transaction."""
        ...

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """Those of the partitions that must be left out; PartitionOwned when nothing may be done."""
        ...

    def operations(self, partitions: Sequence[TopicPartition], found: Results) -> list[Operation]:
        """What fails where the answers no longer hold, and changes nothing."""
        ...


def owner_parents(group: str, partitions: Iterable[TopicPartition]) -> list[str]:
    """``owners``, and ``owners/T`` of each topic, in the order of the partitions."""
    owners = group_znodes.owners_path(group)
    return [owners, *(f"{owners}/{topic}" for topic in dict.fromkeys(tp.topic for tp in partitions))]


def is_claim_of(node: Znode | None, owner: ClaimOwner) -> bool:
    """Whether a znode is a claim that a member's present session made.

    Its version tells it from a claim that a JVM consumer made, which stays at 0: ours are written twice.
    """
    if node is None or node.stat.ephemeral_owner != owner.session or node.stat.version == 0:
        return False
    return group_znodes.consumer_of_thread((node.data or b"").decode("utf-8", "replace")) == owner.consumer


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """A member's live session owns the partitions.

    ZooKeeper can check a znode's version in a transaction, and not whose it is; and a claim that somebody deleted and
    somebody else made anew begins at version 0 again. So a member writes its claims twice, which no JVM consumer does, and
    writes ``owners/T`` with each claim: the versions of both, read before the claims were looked at, hold only as long as
    these claims are the same.
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
        """Which claims there are, and which of the znodes above them."""
        above = owner_parents(self.group, partitions)
        return Lookups(children=above, exists=above)

    def lost(self, partitions: Sequence[TopicPartition], found: Results) -> set[TopicPartition]:
        """None; PartitionOwned when any of the partitions has an owner."""
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
        """Nothing: a claim that is made meanwhile does no harm, as its owner reads the offset before or after it."""
        return []


def _owned(group: str, owners: Mapping[TopicPartition, Znode]) -> PartitionOwned:
    shown = [f"{tp} by {_thread(node)} (session {session_text(node.stat.ephemeral_owner)})" for tp, node in owners.items()]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return PartitionOwned(
        "PARTITION_OWNED",
        f"The offsets of group {group} were not committed: the group owns {', '.join(shown[:_SHOWN])}{more}; "
        "stop these consumers (one that died is gone when its session expires), join the group with ConsumerGroup, "
        "or use another group.id",
        partitions=sorted(owners),
    )


def _thread(node: Znode) -> str:
    return (node.data or b"").decode("utf-8", "replace") or "a nameless owner"
