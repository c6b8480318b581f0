"""``zkafka groups delete``: ZooKeeper groups without active members."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.errors import listing
from pyspark_zkafka.tools.command import Target, changes_cluster
from pyspark_zkafka.tools.group_stores import with_progress
from pyspark_zkafka.tools.output import columns

__all__ = ["add_to"]

_COLUMNS = columns("group topic znodes", right="znodes")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("delete")(delete)


@changes_cluster
def delete(
    target: Target,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups.", show_default=False)],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="T", help="Delete the groups' owners and offsets of one topic alone.")
    ] = None,
) -> None:
    """Delete groups, with their offsets, from ZooKeeper; offsets in Kafka stay.

    Example: zkafka groups delete billing --dry-run
    """
    from pyspark_zkafka.model.znodes.paths import is_znode_name
    from pyspark_zkafka.tools.group_deletion import delete_group, group_znodes_of, require_groups
    from pyspark_zkafka.zookeeper.groups import group_activity, require_inactive

    names = list(dict.fromkeys(groups))
    if topic is not None and not is_znode_name(topic):
        raise INVALID_OPTION(f"--topic {topic!r} cannot be the name of a znode; write the name of a topic")
    with target.zookeeper() as client:
        require_groups(client, names)
        for name, activity in group_activity(client, names).items():
            require_inactive(name, activity, f"Delete for group '{name}' failed because its consumers are still active")
        rows = [{"group": name, "topic": topic, "znodes": len(group_znodes_of(client, name, topic))} for name in names]
        if without := [row["group"] for row in rows if not row["znodes"]]:
            raise UNKNOWN_TOPIC(
                f"The groups {listing(without)} have neither owners nor offsets of topic {topic}; nothing was deleted. "
                "Correct the names, see zkafka groups list",
            )
        target.rows(rows, _COLUMNS)
        if not target.proceed(f"Delete {'this group' if len(names) == 1 else f'these {len(names)} groups'}?"):
            return
        for name in with_progress(target, names, "Deleting groups"):
            delete_group(client, name, topic)
            target.output.note(_deleted(name, topic))


def _deleted(group: str, topic: str | None) -> str:
    if topic is None:
        return f"Deleted all consumer group information for group '{group}' in zookeeper."
    return f"Deleted consumer group information for group '{group}' topic '{topic}' in zookeeper."
