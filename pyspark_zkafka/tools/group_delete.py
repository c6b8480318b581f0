"""``zkafka groups delete``: groups without active members, or what they have of one topic.

References
----------
kafka.admin.ConsumerGroupCommand, kafka.admin.AdminUtils.deleteConsumerGroupInZK (Kafka 1.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from pyspark_zkafka.brokers.group_offsets import group_active
from pyspark_zkafka.conditions import INVALID_OPTION, OFFSETS_CHANGED, UNKNOWN_TOPIC
from pyspark_zkafka.errors import ZKafkaError, listing
from pyspark_zkafka.group.commits import no_members
from pyspark_zkafka.inspect.reads import read_kafka_groups, unknown_groups
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.codec import is_znode_name
from pyspark_zkafka.tools.command import Target, changes_cluster, open_servers, require_no_consumers
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import group_activity
from pyspark_zkafka.zookeeper.transactions import MAX_TRANSACTION_BYTES, Conflict, Delete, Reason, pieces

_COLUMNS = columns("group topic znodes", right="znodes")
_IN_KAFKA = columns("group topic offsets", right="offsets")
_ATTEMPTS = 5


@changes_cluster
def delete(
    target: Target,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups.", show_default=False)],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="T", help="Delete only the groups' owners and offsets of this topic.")
    ] = None,
) -> None:
    """Delete groups, with their offsets, from ZooKeeper; offsets in Kafka stay. Without ZooKeeper, delete them from Kafka.

    Examples: zkafka groups delete billing --dry-run; zkafka groups delete billing --bootstrap-server broker1:9092
    """
    names = list(dict.fromkeys(groups))
    if target.connection.zookeeper is None:
        _delete_in_kafka(target, names, topic)
        return
    if topic is not None and not is_znode_name(topic):
        raise INVALID_OPTION(f"--topic {topic!r} cannot be the name of a znode; write the name of a topic")
    with target.zookeeper() as client:
        require_existing(client, names)
        for name, activity in group_activity(client, names).items():
            not_done = f"Delete for group '{name}' failed because its consumers are still active"
            require_no_consumers(client, name, activity, not_done)
        paths = {name: group_znodes_of(client, name, topic) for name in names}
        rows = [{"group": name, "topic": topic, "znodes": len(paths[name])} for name in names]
        if without := [row["group"] for row in rows if not row["znodes"]]:
            raise UNKNOWN_TOPIC(
                f"The groups {listing(without)} have neither owners nor offsets of topic {topic}; nothing was deleted. "
                "Correct the names, see zkafka groups list",
            )
        target.output.rows(rows, _COLUMNS)
        if whole := [name for name in names if topic is not None and paths[name][-1] == group_znodes.group_path(name)]:
            target.output.note(f"These groups have no other topic, and are deleted as a whole: {listing(whole)}.")
        of_topic = "" if topic is None else f"topic '{topic}' of "
        if not target.proceed(f"Delete {of_topic}{'this group' if len(names) == 1 else f'these {len(names)} groups'}?"):
            return
        what = "all consumer group information" if topic is None else "consumer group information"
        of_topic = "" if topic is None else f" topic '{topic}'"
        for name in target.output.track(names, "Deleting groups"):
            delete_group(client, name, topic)
            target.output.note(f"Deleted {what} for group '{name}'{of_topic} in zookeeper.")


def _delete_in_kafka(target: Target, names: list[str], topic: str | None) -> None:
    """Delete groups that Kafka coordinates, or their offsets of a topic."""
    with open_servers(target) as servers:
        brokers = servers.brokers
        reports = read_kafka_groups(brokers, names, logs=False)
        offsets = {
            name: [tp for tp in group.kafka_offsets if topic in (None, tp.topic)] for name, group in reports.groups.items()
        }
        if topic is None:
            for name, group in reports.groups.items():
                if group.in_kafka is not None and group.in_kafka.problem is not None:
                    raise group.in_kafka.problem
                if group.kafka_members:
                    raise group_active(name, f"deleting group {name}")
        if without := [name for name in names if topic is not None and not offsets[name]]:
            raise UNKNOWN_TOPIC(
                f"The groups {listing(without)} have no offsets of topic {topic}; nothing was deleted. Correct the names, "
                "see zkafka groups list",
            )
        target.output.rows([{"group": name, "topic": topic, "offsets": len(offsets[name])} for name in names], _IN_KAFKA)
        of_topic = "" if topic is None else f"topic '{topic}' of "
        if not target.proceed(f"Delete {of_topic}{'this group' if len(names) == 1 else f'these {len(names)} groups'}?"):
            return
        if topic is None:
            brokers.delete_groups(names)
            target.output.note(f"Deleted {listing(names)}.")
            return
        failed: list[ZKafkaError] = []
        for name in names:
            try:
                refused = list(brokers.delete_offsets(name, offsets[name]).values())
            except ZKafkaError as error:
                refused = [error]
            if not refused:
                target.output.note(f"Deleted the offsets of topic '{topic}' of group '{name}'.")
            failed += refused
        if failed:
            raise failed[0]


def require_existing(client: ZooKeeperConnection, groups: Iterable[str]) -> None:
    """Raise GroupError for groups without a znode under ``/consumers``; blocks for one round of requests."""
    paths = {group_znodes.group_path(group): group for group in groups}
    existing = client.exists_many(paths)
    missing = [group for path, group in paths.items() if path not in existing]
    if missing:
        raise unknown_groups(missing, client.config.chroot)


def group_znodes_of(client: ZooKeeperConnection, group: str, topic: str | None = None) -> list[str]:
    """Return the paths of a group's znodes, children before parents; with a topic, only of its claims and offsets.

    If the group has no other topic, all of its znodes are returned. Blocks for one round of requests per level.
    """
    roots = [group_znodes.group_path(group)]
    if topic is not None:
        above = (group_znodes.owners_path(group), group_znodes.offsets_path(group))
        topics = {name for names in client.children_many(above).values() for name in names}
        if topics != {topic}:
            roots = [group_znodes.topic_owners_path(group, topic), group_znodes.topic_offsets_path(group, topic)]
    found: list[str] = []
    level = list(client.exists_many(roots))
    while level:
        found += level
        level = [f"{path}/{name}" for path, names in client.children_many(level).items() for name in names]
    return found[::-1]


def delete_group(client: ZooKeeperConnection, group: str, topic: str | None = None) -> int:
    """Delete a group, or its claims and offsets of a topic, and return the number of deleted znodes.

    Each transaction proves that no member is registered. More than some 4,000 partitions need several transactions. Raises
    GroupError if the group has members or owners, and GroupContended if another client keeps writing its znodes.
    """
    deleted = 0
    reason = Reason.NOT_EMPTY
    for _ in range(_ATTEMPTS):
        paths = group_znodes_of(client, group, topic)
        stopped = f"Delete stopped after {deleted} znode(s)" if deleted else "Delete failed"
        require_no_consumers(client, group, group_activity(client, [group])[group], stopped)
        for piece in pieces(paths, lambda path: [Delete(path)], client.config.chroot, MAX_TRANSACTION_BYTES - 1024):
            conflict = _delete(client, group, piece)
            if conflict is not None:
                reason = conflict.reason
                break
            deleted += len(piece)
        else:
            return deleted
    raise OFFSETS_CHANGED(
        f"Delete stopped after {deleted} znode(s): others keep changing group {group} ({reason.value}); find out who "
        "commits for this group, and run this again",
        group=group,
    )


def _delete(client: ZooKeeperConnection, group: str, paths: list[str]) -> Conflict | None:
    """Delete some znodes. If ``ids`` is one of them, that is proof enough: it cannot be deleted while there are members."""
    path = group_znodes.ids_path(group)
    proof = no_members(client, group, client.get_many([path]).get(path))
    return client.transact([*(() if path in paths else proof), *map(Delete, paths)]).conflict
