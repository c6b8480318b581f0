"""``zkafka groups list``: the groups, as kafka-consumer-groups lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.group_describe import StorageOption
from pyspark_zkafka.cli.group_stores import Storage, open_servers
from pyspark_zkafka.cli.output import Row, columns
from pyspark_zkafka.errors import listing

if TYPE_CHECKING:
    from pyspark_zkafka.kafka.group_admin import GroupAdmin
    from pyspark_zkafka.operations.group_state import GroupState

__all__ = ["add_to"]

_COLUMNS = columns("group members topics state store", right="members")
_IN_KAFKA = ("kafka", "both", "ledger")
_JSON_ONLY = columns("unreadable_offsets")
_STATES = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("list")(list_)


@reads_cluster
def list_(target: Target, storage: StorageOption = Storage.zookeeper) -> None:
    """List the groups, with the number of their members, their topics, and where their offsets are.

    With --offsets-storage kafka or both, groups that only the brokers have are listed, too; those with the store `ledger`
    are no consumers', but what exactly-once queries have recorded (zkafka ledger).

    Example: zkafka groups list --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.operations.group_reads import read_groups

    with open_servers(target) as servers:
        states = read_groups(servers.ensemble)
        in_kafka = [] if storage is Storage.zookeeper else servers.brokers.group_names()
        rows = [_list_row(state, name in in_kafka) for name, state in states.items()]
        only_in_kafka = [name for name in in_kafka if name not in states]
        rows += _kafka_groups(servers.brokers, only_in_kafka) if only_in_kafka else []
    shown = [row for row in rows if storage is not Storage.kafka or row["store"] in _IN_KAFKA]
    ordered = sorted(shown, key=lambda row: str(row["group"]))
    if target.output.as_json:
        target.rows(ordered, (*_COLUMNS, *_JSON_ONLY))
    else:
        target.rows(list(map(_marked, ordered)), _COLUMNS, "There is no group.")
    unreadable = [f"{row['group']} ({row['unreadable_offsets']})" for row in ordered if row.get("unreadable_offsets")]
    if unreadable:
        target.output.note(f"* Offsets that cannot be read: {listing(unreadable)}; `zkafka groups describe` shows why.")


def _marked(row: Row) -> Row:
    """The row with a mark at the store if offsets in ZooKeeper cannot be read."""
    return {**row, "store": f"{row['store']}*"} if row.get("unreadable_offsets") else row


def _list_row(state: GroupState, is_in_kafka: bool) -> Row:
    is_in_zookeeper = bool(state.offsets or state.unreadable_offsets)
    stores = [*(["zookeeper"] if is_in_zookeeper else []), *(["kafka"] if is_in_kafka else [])]
    return {
        "group": state.name,
        "members": state.member_count,
        "topics": sorted(state.topics),
        "state": state.state,
        "store": "both" if len(stores) > 1 else next(iter(stores), None),
        "unreadable_offsets": state.unreadable_offsets,
    }


def _kafka_groups(brokers: GroupAdmin, names: Sequence[str]) -> list[Row]:
    from pyspark_zkafka.operations.ledger_state import without_ledgers

    offsets, (_, ledgers) = brokers.committed_many(names), without_ledgers(names)
    return [
        {
            "group": name,
            "members": len(state.members),
            "topics": sorted({tp.topic for tp in offsets[name]}),
            "state": _STATES.get(state.name, state.name.capitalize()),
            "store": "ledger" if name in ledgers else "kafka",
        }
        for name, state in brokers.group_states(names).items()
    ]
