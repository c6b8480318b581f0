"""The znodes of many consumer groups, read together: as many rounds of requests for a thousand groups as for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark_zkafka.protocol.znodes.groups import group_path, ids_path, offsets_path, owners_path
from pyspark_zkafka.zookeeper.connection import Znode, ZooKeeperConnection

__all__ = ["group_children", "member_znodes", "partition_znodes"]


def group_children(zookeeper: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, list[str]]:
    """The names below each group, and below its ids, owners and offsets, by path; blocks for one round of requests."""
    parts = (group_path, ids_path, owners_path, offsets_path)
    return zookeeper.children_many(part(group) for group in groups for part in parts)


def member_znodes(zookeeper: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, Znode]:
    """The znodes of the consumers of all groups by path, undecoded; blocks for two rounds of requests."""
    return zookeeper.get_many(_below(zookeeper.children_many(map(ids_path, groups))))


def partition_znodes(
    zookeeper: ZooKeeperConnection, parents: Iterable[str], choose: Callable[[Iterable[str]], list[str]]
) -> dict[str, Znode]:
    """The znodes of partitions by path, undecoded; blocks for three rounds of requests.

    Parameters
    ----------
    parents : iterable of str
        Paths of owners or offsets, ``/consumers/G/owners``.
    choose : callable
        Which of the topics below a parent to read.
    """
    topics = {parent: choose(names) for parent, names in zookeeper.children_many(parents).items()}
    return zookeeper.get_many(_below(zookeeper.children_many(_below(topics))))


def _below(children: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"{path}/{name}" for path, names in children.items() for name in names]
