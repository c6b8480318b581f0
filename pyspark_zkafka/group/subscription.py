"""Time at which a group subscribed to a topic, by the traces that its members leave in ZooKeeper.

A partition without a committed offset is either older than the group's subscription, and then `auto.offset.reset` sets
its start, or it was created later, and then the group reads all of it. The order of ZooKeeper's transactions decides, for
every member alike, and also after any of them has ended. The transaction that created the partition's state comes before
its first record. A member creates ``owners/T`` for each topic that it names when it joins, which JVM consumers do with
their first claim. A pattern also covers topics that do not exist yet: there, the group's own znode counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.paths import child_path
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create, Reason, pieces

__all__ = ["leave_trace", "subscribed_since", "younger"]

_ATTEMPTS = 20


def leave_trace(client: ZooKeeperConnection, group: str, topics: Collection[str]) -> None:
    """Create ``owners/T`` of each topic, where it is missing, with null data as JVM consumers do; the group exists."""
    owners = group_znodes.owners_path(group)
    paths = [owners, *(child_path(owners, topic) for topic in topics)]
    for chunk in pieces(paths, lambda path: [Create(path, None)], client.config.chroot):
        _create(client, chunk)


def subscribed_since(
    client: ZooKeeperConnection, group: str, topics: Collection[str], *, by_pattern: bool
) -> dict[str, int]:
    """The ZooKeeper transaction by which the group subscribed to each topic; topics without a trace are absent."""
    if by_pattern:
        path = group_znodes.group_path(group)
        return {topic: stat.czxid for stat in client.exists_many([path]).values() for topic in topics}
    parents = (group_znodes.owners_path(group), group_znodes.offsets_path(group))
    stats = client.exists_many(child_path(parent, topic) for parent in parents for topic in topics)
    traces = {
        topic: [stats[p].czxid for parent in parents if (p := child_path(parent, topic)) in stats] for topic in topics
    }
    return {topic: min(found) for topic, found in traces.items() if found}


def younger(
    partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, since: Mapping[str, int]
) -> set[TopicPartition]:
    """The partitions created after the group subscribed to their topics.

    >>> from pyspark_zkafka.protocol.model import PartitionState
    >>> state = PartitionState(1, 0, (1,), czxid=70)
    >>> t0 = TopicPartition("t", 0)
    >>> younger([t0], ClusterSnapshot({}, states={t0: state}), {"t": 60})
    {TopicPartition(topic='t', partition=0)}
    """
    created = {tp: snapshot.states[tp].czxid for tp in partitions if tp in snapshot.states}
    return {tp for tp, czxid in created.items() if czxid is not None and czxid > since.get(tp.topic, czxid)}


def _create(client: ZooKeeperConnection, paths: Collection[str]) -> None:
    for _ in range(_ATTEMPTS):
        existing = client.exists_many(paths)
        conflict = client.transact([Create(path, None) for path in paths if path not in existing]).conflict
        if conflict is None:
            return
        if conflict.reason is not Reason.NODE_EXISTS:
            break
    raise GroupContended(
        "GROUP_CONTENDED",
        f"{next(iter(paths))} was not created: it or its parents were created or deleted {_ATTEMPTS} times meanwhile; "
        "try again",
    )
