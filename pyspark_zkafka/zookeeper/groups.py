"""Consumer groups in ZooKeeper: the znodes of many groups in few rounds, and the proof that a group has no members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.conditions import GROUP_ACTIVE
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.znodes.groups import group_path, ids_path, offsets_path, owners_path
from pyspark_zkafka.zookeeper.connection import Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create, Delete, Operation

_SHOWN = 3


def group_children(zookeeper: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, list[str]]:
    """The names below each group, and below its ids, owners and offsets, by path. Blocks for one round of requests."""
    parts = (group_path, ids_path, owners_path, offsets_path)
    return zookeeper.children_many(part(group) for group in groups for part in parts)


def group_znodes(
    zookeeper: ZooKeeperConnection,
    children: Mapping[str, list[str]],
    choose: Callable[[Iterable[str]], Iterable[str]] = list,
) -> dict[str, Znode]:
    """The undecoded znodes of consumers, claims and offsets, by path. Blocks for one or two rounds of requests.

    Parameters
    ----------
    children : mapping
        The names below ``/consumers/G/ids``, ``owners`` or ``offsets``, by path. Other paths are ignored.
    choose : callable
        Selects topics below ``owners`` or ``offsets``.
    """
    consumers, topics = [], []
    for path, names in children.items():
        part = path.split("/")[3:]
        if part == ["ids"]:
            consumers += [f"{path}/{name}" for name in names]
        elif part:
            topics += [f"{path}/{name}" for name in choose(names)]
    partitions = zookeeper.children_many(topics) if topics else {}
    return zookeeper.get_many([*consumers, *(f"{path}/{name}" for path, names in partitions.items() for name in names)])


@dataclass(frozen=True, slots=True)
class Activity:
    """A group's registered members, and the claims ``T/P`` under its owners, both sorted."""

    members: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.members or self.claims)


def group_activity(client: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, Activity]:
    """The activity of each group. Blocks for two rounds of requests for any number of groups."""
    names = list(dict.fromkeys(groups))
    parents = [path(group) for group in names for path in (ids_path, owners_path)]
    children = client.children_many(parents)
    owners = [owners_path(group) for group in names]
    claims = client.children_many(f"{path}/{topic}" for path in owners for topic in children.get(path, []))
    found: dict[str, Activity] = {}
    for group, path in zip(names, owners, strict=True):
        claimed = (f"{topic}/{key}" for topic in children.get(path, []) for key in claims.get(f"{path}/{topic}", []))
        found[group] = Activity(tuple(children.get(ids_path(group), ())), tuple(claimed))
    return found


def require_inactive(group: str, activity: Activity, not_done: str) -> None:
    """Raise GroupError if a group has members or claims. The message starts with `not_done`."""
    if not activity:
        return
    members, claims = listing(activity.members, _SHOWN), listing(activity.claims, _SHOWN)
    found = f"it has the members {members}" if members else f"its partitions {claims} have owners"
    raise GROUP_ACTIVE(
        f"{not_done}: group {group} must be inactive, but {found}; stop its consumers (one that died is gone when its "
        "session expires), and run this again",
        group=group,
    )


@dataclass(frozen=True, slots=True)
class NoMembers:
    """Proof for a transaction that no member of a group is registered.

    A transaction cannot check the number of children, but ZooKeeper refuses to delete a znode with children. The operations
    delete ``/consumers/G/ids`` and create it again unchanged, or create and delete a missing one. The transaction fails if
    a member has registered before. A member that registers later reads what the transaction has written. Only registered
    members watch this znode.

    `ids` is the present znode, and `acl` its ACL.
    """

    group: str
    ids: Znode | None
    acl: tuple[object, ...] | None

    @classmethod
    def read(cls, client: ZooKeeperConnection, group: str) -> NoMembers:
        """Read the present znode. Blocks for two round trips."""
        path = ids_path(group)
        ids = client.get_many([path]).get(path)
        return cls(group, ids, None if ids is None else client.acl(path))

    @property
    def path(self) -> str:
        """``/consumers/G/ids``."""
        return ids_path(self.group)

    def operations(self) -> Sequence[Operation]:
        """The operations, for after the creation of ``/consumers/G``."""
        if self.ids is None:
            return Create(self.path, b""), Delete(self.path)
        return Delete(self.path, self.ids.stat.version), Create(self.path, self.ids.data, acl=self.acl)
