"""Deletion of ZooKeeper groups, or of their traces of one topic, while they have no members.

References
----------
kafka.admin.ConsumerGroupCommand, kafka.admin.AdminUtils.deleteConsumerGroupInZK (Kafka 1.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_zkafka.conditions import OFFSETS_CHANGED
from pyspark_zkafka.inspect.group_reads import unknown_groups
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.paths import child_path
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.groups import NoMembers, group_activity, require_inactive
from pyspark_zkafka.zookeeper.transactions import MAX_TRANSACTION_BYTES, Conflict, Delete, Reason, pieces

__all__ = ["delete_group", "group_znodes_of", "require_groups"]

_ATTEMPTS = 5


def require_groups(client: ZooKeeperConnection, groups: Iterable[str]) -> None:
    """Raise GroupError for groups that have no znode under ``/consumers``; blocks for a round of requests."""
    paths = {group_znodes.group_path(group): group for group in groups}
    existing = client.exists_many(paths)
    missing = [group for path, group in paths.items() if path not in existing]
    if missing:
        raise unknown_groups(missing, client.config.chroot)


def group_znodes_of(client: ZooKeeperConnection, group: str, topic: str | None = None) -> list[str]:
    """The paths of a group's znodes, children before parents; with a topic, those of its claims and offsets alone.

    A group without another topic is meant as a whole. Blocks for a round of requests for each level.
    """
    if topic is None:
        return _below(client, [group_znodes.group_path(group)])
    above = (group_znodes.owners_path(group), group_znodes.offsets_path(group))
    topics = {name for names in client.children_many(above).values() for name in names}
    if topics == {topic}:
        return _below(client, [group_znodes.group_path(group)])
    return _below(client, [child_path(path, topic) for path in above])


def _below(client: ZooKeeperConnection, roots: Iterable[str]) -> list[str]:
    found: list[str] = []
    level = list(client.exists_many(roots))
    while level:
        found += level
        level = [f"{path}/{name}" for path, names in client.children_many(level).items() for name in names]
    return found[::-1]


def delete_group(client: ZooKeeperConnection, group: str, topic: str | None = None) -> int:
    """Delete a group, or its claims and offsets of a topic; the number of znodes that were deleted.

    Each transaction proves that no member is registered. Those of more than some 4,000 partitions need several.

    Raises
    ------
    GroupError
        The group has members, or partitions with owners.
    GroupContended
        Somebody keeps writing znodes of the group.
    ZooKeeperError, ZooKeeperRefused
        No answer; an ACL denies access.
    """
    deleted = 0
    conflict: Conflict | None = None
    for _ in range(_ATTEMPTS):
        paths = group_znodes_of(client, group, topic)
        stopped = f"Delete stopped after {deleted} znode(s)" if deleted else "Delete failed"
        require_inactive(group, group_activity(client, [group])[group], stopped)
        conflict = None
        for piece in pieces(paths, lambda path: [Delete(path)], client.config.chroot, MAX_TRANSACTION_BYTES - 1024):
            conflict = _delete(client, group, piece)
            if conflict is not None:
                break
            deleted += len(piece)
        if conflict is None:
            return deleted
    reason = Reason.NOT_EMPTY if conflict is None else conflict.reason
    raise OFFSETS_CHANGED(
        f"Group {group} was not deleted: others keep changing it ({reason.value}); find out who commits for this group, "
        "and run this again",
        group=group,
    )


def _delete(client: ZooKeeperConnection, group: str, paths: list[str]) -> Conflict | None:
    """Delete some znodes; ``ids`` among them is proof enough, as it cannot be deleted while there are members."""
    proof = NoMembers.read(client, group)
    needs_proof = proof.path not in paths and proof.ids is not None
    return client.transact([*(proof.operations() if needs_proof else ()), *map(Delete, paths)]).conflict
