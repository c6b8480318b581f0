"""``zkafka groups migrate``: groups' offsets from ZooKeeper to Kafka, or back."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.errors import (
    BrokersUnavailable,
    ClusterStateError,
    GroupError,
    ZKafkaError,
    ZooKeeperRefused,
    listing,
)
from pyspark_zkafka.tools.command import Target, changes_cluster
from pyspark_zkafka.tools.group_stores import AllGroups, Groups, open_servers, require_groups, with_progress
from pyspark_zkafka.tools.output import Column, columns

if TYPE_CHECKING:
    from pyspark_zkafka.tools.migrate import Look, Migration
    from pyspark_zkafka.tools.migration import Outcome
    from pyspark_zkafka.tools.output import Row

__all__ = ["add_to"]

_COLUMNS = (
    *columns("group topic partition", right="partition"),
    Column("source_offset", "SOURCE", right=True),
    Column("target_before", "BEFORE", right=True),
    Column("target_after", "AFTER", right=True),
    Column("state"),
)
_JSON_COLUMNS = (*_COLUMNS, Column("reason"))
_SHOWN = 5
_FAILED = 1
_OF_A_GROUP = (GroupError, ClusterStateError, ZooKeeperRefused)


class Store(str, Enum):
    """A store of offsets."""

    zookeeper = "zookeeper"
    kafka = "kafka"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("migrate")(migrate)


@changes_cluster
def migrate(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    to: Annotated[Store, typer.Option("--to", help="The store to copy to; the other one is the source.")] = Store.kafka,
    live: Annotated[
        bool, typer.Option("--live", help="Copy while consumers run, until both stores agree or the consumers have left.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only compare the stores; exit status 1 if they differ.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also set the target back, and replace offsets that cannot be trusted.")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="With --live: seconds between two looks.")] = 1.0,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="With --live: seconds for each group.")] = 600.0,
) -> None:
    """Copy groups' offsets from ZooKeeper to Kafka, or back; never backwards without --force.

    Run it again at any time: what is equal is left alone. Both stores are compared afterwards, and the exit status is 1
    unless they agree on every partition that exists.

    Example: zkafka groups migrate billing --to kafka --live
    """
    from pyspark_zkafka.tools.migrate import Migration, require_offsets

    names = require_groups(groups, all_groups)
    if verify and (live or force):
        raise INVALID_OPTION("--verify changes nothing; use it without --live and --force")
    if live and force:
        raise INVALID_OPTION("--force could set back what running consumers commit; use it without --live")
    with open_servers(target) as servers:
        migration = Migration(servers.ensemble, servers.brokers, to.value, force)
        looks = migration.look(_all_groups(target, migration) if names is None else names)
        if names is not None:
            require_offsets(looks)
        if beyond := migration.beyond_logs(looks):
            target.output.note(
                f"Beyond the end of the log: {listing(beyond, _SHOWN)}. A consumer that starts there loses its place: "
                "check that this is the right cluster, or reset the offset with zkafka groups reset-offsets."
            )
        if verify:
            _note_activity(target, looks)
            _report(target, {name: unchanged(look) for name, look in looks.items()})
        elif _proceed(target, looks, to, live=live, force=force):
            _report(target, _run(target, migration, looks, (interval, timeout) if live else None))


def _all_groups(target: Target, migration: Migration) -> list[str]:
    """The groups that have offsets in the source, but for ledgers, and those whose names ZooKeeper does not allow."""
    from pyspark_zkafka.model.ledger import LedgerGroup
    from pyspark_zkafka.model.znodes.paths import is_znode_name

    found = migration.groups()
    ledgers = [name for name in found if LedgerGroup.parse(name) is not None]
    names = [name for name in found if name not in ledgers]
    if ledgers:
        target.output.note(f"Left out: {len(ledgers)} group(s) with the ledgers of exactly-once writes.")
    bad = [repr(name) for name in names if not is_znode_name(name)]
    if bad:
        target.output.note(f"Left out: ZooKeeper cannot have groups of the names {listing(bad, _SHOWN)}.")
    return [name for name in names if is_znode_name(name)]


def _note_activity(target: Target, looks: dict[str, Look]) -> None:
    """Say whose commits may have come between the reads of the two stores."""
    from pyspark_zkafka.inspect.groups import member_notes

    counts = {name: (len(look.activity.members), len(look.state.members)) for name, look in looks.items()}
    for note in member_notes(counts):
        target.output.note(note)
    active = [name for name, look in looks.items() if look.is_active]
    if active:
        target.output.note(f"Active, so that the stores may differ by commits under way: {listing(active, _SHOWN)}.")


def _proceed(target: Target, looks: dict[str, Look], to: Store, *, live: bool, force: bool) -> bool:
    from pyspark_zkafka.tools.migration import to_copy

    count = sum(len(to_copy(look.found, force=force)) for look in looks.values())
    asks = not (target.yes or target.output.as_json)
    if target.dry_run or asks:
        _show(target, {name: unchanged(look) for name, look in looks.items()})
    place = "Kafka" if to is Store.kafka else "ZooKeeper"
    active = [name for name, look in looks.items() if look.is_active]
    if active and not live:
        target.output.note(f"Active, so that nothing will be copied without --live: {listing(active, _SHOWN)}.")
    follow = ", and follow their consumers" if live else ""
    return target.proceed(f"Copy {count} offset(s) of {len(looks)} group(s) to {place}{follow}?")


def _run(
    target: Target, migration: Migration, looks: dict[str, Look], live: tuple[float, float] | None
) -> dict[str, list[Outcome]]:
    from pyspark_zkafka.tools.migrate import failures

    found: dict[str, list[Outcome]] = {}
    for name in with_progress(target, looks, "Migrating groups"):
        try:
            found[name] = migration.follow(name, *live) if live else migration.copy(name)
        except ZKafkaError as error:
            if len(looks) > 1 and isinstance(error, _OF_A_GROUP) and not isinstance(error, BrokersUnavailable):
                found[name] = failures(error, looks[name])
                continue
            if found:
                _show(target, found)
            raise
    return found


def unchanged(look: Look) -> list[Outcome]:
    """The report of a group that was only looked at."""
    from pyspark_zkafka.tools.migration import Outcome

    return [Outcome(d.partition, d.source, d.target, d.target, d.state, d.reason) for d in look.found]


def _report(target: Target, found: dict[str, list[Outcome]]) -> None:
    _show(target, found)
    counts = Counter(outcome.state for outcomes in found.values() for outcome in outcomes)
    shown = ", ".join(f"{counts[state]} {state}" for state in sorted(counts)) or "no offsets"
    target.output.note(f"{len(found)} group(s): {shown}.")
    if counts.keys() - {"copied", "equal", "skipped"}:
        raise typer.Exit(_FAILED)


def _show(target: Target, found: dict[str, list[Outcome]]) -> None:
    rows = [_row(name, outcome) for name, outcomes in found.items() for outcome in outcomes]
    target.rows(rows, _JSON_COLUMNS if target.output.as_json else _COLUMNS, "There are no offsets.")
    for reason, places in _reasons(found).items():
        target.output.note(f"{listing(places, _SHOWN)}: {reason}.")


def _row(group: str, outcome: Outcome) -> Row:
    from pyspark_zkafka.inspect.offsets import key_of

    return {
        "group": group,
        "topic": outcome.partition.topic,
        "partition": key_of(outcome.partition),
        "source_offset": outcome.source,
        "target_before": outcome.before,
        "target_after": outcome.after,
        "state": outcome.state,
        "reason": outcome.reason,
    }


def _reasons(found: dict[str, list[Outcome]]) -> dict[str, list[str]]:
    """Partitions by the reason for their state."""
    reasons: dict[str, list[str]] = {}
    for name, outcomes in found.items():
        for outcome in outcomes:
            if outcome.reason is not None:
                reasons.setdefault(outcome.reason, []).append(_place(name, outcome, alone=len(found) == 1))
    return reasons


def _place(group: str, outcome: Outcome, *, alone: bool) -> str:
    row = _row(group, outcome)
    partition = f"{row['topic']}-{row['partition']}"
    return partition if alone else f"{group} {partition}"
