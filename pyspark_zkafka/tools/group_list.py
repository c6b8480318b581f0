"""``zkafka groups list``: the groups, as kafka-consumer-groups lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.tools.command import Target, open_servers, reads_cluster
from pyspark_zkafka.tools.group_describe import StorageOption
from pyspark_zkafka.tools.output import Row, columns

if TYPE_CHECKING:
    from pyspark_zkafka.brokers.groups import GroupAdmin
    from pyspark_zkafka.inspect.groups import GroupReport

_COLUMNS = columns("group members topics state store", right="members")
_JSON_ONLY = columns("unreadable_offsets")
_STATES = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}


@reads_cluster
def list_(target: Target, storage: StorageOption = "zookeeper") -> None:
    """List the groups, with the number of their members, their topics, and where their offsets are.

    With --offsets-storage kafka or both, groups that only the brokers have are listed, too. A group with the store
    `ledger` has no consumers: it holds what an exactly-once query has recorded (zkafka ledger).

    Example: zkafka groups list --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.inspect.group_reads import read_groups

    with open_servers(target) as servers:
        groups = read_groups(servers.ensemble).groups
        in_kafka = [] if storage == "zookeeper" else servers.brokers.group_names()
        rows = [_row(group, name in in_kafka) for name, group in groups.items()]
        only_in_kafka = [name for name in in_kafka if name not in groups]
        rows += _kafka_rows(servers.brokers, only_in_kafka) if only_in_kafka else []
    shown = [row for row in rows if storage != "kafka" or row["store"] in ("kafka", "both", "ledger")]
    ordered = sorted(shown, key=lambda row: str(row["group"]))
    unreadable = [f"{row['group']} ({row['unreadable_offsets']})" for row in ordered if row.get("unreadable_offsets")]
    if target.output.as_json:
        target.rows(ordered, (*_COLUMNS, *_JSON_ONLY))
    else:
        marked = [{**row, "store": f"{row['store']}*"} if row.get("unreadable_offsets") else row for row in ordered]
        target.rows(marked, _COLUMNS, "There is no group.")
    if unreadable:
        target.output.note(f"* Offsets that cannot be read: {listing(unreadable)}; `zkafka groups describe` shows why.")


def _row(group: GroupReport, is_in_kafka: bool) -> Row:
    is_in_zookeeper = bool(group.offsets or group.unreadable_offsets)
    stores = {(True, True): "both", (True, False): "zookeeper", (False, True): "kafka"}
    return {
        "group": group.name,
        "members": group.member_count,
        "topics": sorted(group.topics),
        "state": group.state,
        "store": stores.get((is_in_zookeeper, is_in_kafka)),
        "unreadable_offsets": len(group.unreadable_offsets),
    }


def _kafka_rows(brokers: GroupAdmin, names: Sequence[str]) -> list[Row]:
    """The rows of groups that ZooKeeper does not have."""
    offsets = brokers.committed_many(names)
    return [
        {
            "group": name,
            "members": len(state.members),
            "topics": sorted({tp.topic for tp in offsets[name]}),
            "state": _STATES.get(state.name, state.name.capitalize()),
            "store": "kafka" if LedgerGroup.parse(name) is None else "ledger",
        }
        for name, state in brokers.group_states(names).items()
    ]
