"""``zkafka groups plan``: assignments by each strategy, for the present members of a group or for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, NO_MEMBERS
from pyspark_zkafka.model.znodes.groups import consumer_of_thread
from pyspark_zkafka.tools.command import Target, read_text, reads_cluster
from pyspark_zkafka.tools.output import Column, Row, columns

if TYPE_CHECKING:
    from pyspark_zkafka.inspect.groups import GroupReport
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
    from pyspark_zkafka.tools.assignment_plans import Plan
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["add_to"]

_STRATEGIES = ("range", "roundrobin", "sticky")
_MEMBERS = columns("member consumer_id")
_SUMMARY = columns("strategy moves partitions threads fewest most", right="moves partitions threads fewest most")

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
_Members = Annotated[
    str | None,
    typer.Option(
        "--members",
        metavar="JSON|FILE",
        help='Members instead of the present ones: threads by id, such as {"c1": 2}, or {"c1": {"orders": 2}}, or the '
        "registrations of znodes; - is the standard input.",
    ),
]
_Threads = Annotated[
    list[int] | None,
    typer.Option(min=1, metavar="N", help="A member with N threads, instead of the present ones; repeatable."),
]
_Topics = Annotated[
    str | None, typer.Option(metavar="T[,T...]", help="The topics that --threads and --members subscribe to.")
]
_Strategy = Annotated[
    list[str] | None, typer.Option("--strategy", help="A strategy; repeatable. range, roundrobin and sticky by default.")
]
_SummaryOnly = Annotated[bool, typer.Option("--summary", help="Only the moves and shares of each strategy.")]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("plan")(plan)


@reads_cluster
def plan(
    target: Target,
    group: _Group,
    members: _Members = None,
    threads: _Threads = None,
    topics: _Topics = None,
    strategy: _Strategy = None,
    summary: _SummaryOnly = False,
) -> None:
    """Show the owner of each partition under each strategy, beside the present one, and how many partitions move.

    Nothing is changed. A move is a partition that another thread owns now.

    Examples: zkafka groups plan billing --zookeeper zk1:2181/kafka; zkafka groups plan billing --threads 4 --threads 4
    """
    from pyspark_zkafka.tools.assignment_plans import plan_assignments

    if members is not None and threads:
        raise INVALID_OPTION("--members and --threads contradict each other; use one of them")
    with target.zookeeper() as client:
        state = _state(client, group)
        for znode in state.unusable_members.values():
            target.output.note(f"Left out, and an obstacle to JVM members: {znode.error.message}")
        planned, partitions = _inputs(client, state, members, threads, None if topics is None else topics.split(","))
    owners = {tp: owner.thread for tp, owner in state.owners.items()}
    plans = plan_assignments(strategy or _STRATEGIES, planned, partitions, owners)
    if not summary:
        _show_partitions(target, group, plans, owners)
        target.output.show("")
    if summary or not target.output.as_json:
        target.rows([_summary(found) for found in plans], _SUMMARY)


def _state(client: ZooKeeperClient, name: str) -> GroupReport:
    from pyspark_zkafka.inspect.group_reads import read_groups

    return read_groups(client, names=[name]).groups[name]


def _inputs(
    client: ZooKeeperClient,
    state: GroupReport,
    members: str | None,
    threads: Sequence[int] | None,
    topics: list[str] | None,
) -> tuple[dict[str, ConsumerRegistration], dict[str, list[int]]]:
    """The members to plan for, and the partitions of the topics that may be theirs."""
    from pyspark_zkafka.model.assignors import topics_of
    from pyspark_zkafka.tools.assignment_plans import numbered_members, parse_members
    from pyspark_zkafka.tools.topics import require_topics

    existing = client.topic_names()
    names = sorted(state.all_topics(existing)) if topics is None else topics
    if threads:
        found = numbered_members(state.name, threads, names)
    elif members is not None:
        found = parse_members(state.name, members if members.lstrip().startswith("{") else read_text(members), names)
    else:
        found = state.registrations
        if not found:
            raise NO_MEMBERS(f"Group {state.name} has no members to plan for; give some with --threads or --members")
    wanted = {topic for registration in found.values() for topic in topics_of(registration, existing)}
    require_topics(topics or (), existing)
    return found, {name: list(topic.partitions) for name, topic in client.topics(wanted).items()}


def _show_partitions(target: Target, group: str, plans: Iterable[Plan], owners: Mapping[TopicPartition, str]) -> None:
    """Write a row for each partition; in the table without the prefix that all ids of a group's threads have.

    Where that is too wide for the terminal, the members have numbers, and another table has their ids.
    """
    found, prefix = list(plans), f"{group}_"
    shown = [*columns("topic partition owner", right="partition"), *(Column(one.strategy) for one in found)]
    empty = "No partition is subscribed to."
    if target.output.as_json:
        target.rows(_rows(found, owners, str), shown, empty)
        return
    rows = _rows(found, owners, lambda thread: thread.removeprefix(prefix))
    if target.output.fits(rows, shown):
        target.rows(rows, shown, empty)
        return
    numbers = _numbers([*owners.values(), *(thread for one in found for thread in one.owners.values())])
    target.rows(_rows(found, owners, lambda thread: _abbreviated(thread, numbers)), shown, empty)
    target.output.show("")
    target.rows([{"member": n, "consumer_id": consumer} for consumer, n in numbers.items()], _MEMBERS)


def _rows(plans: Sequence[Plan], owners: Mapping[TopicPartition, str], name: Callable[[str], str]) -> list[Row]:
    """A row for each partition, with what `name` returns for each thread."""
    rows: list[Row] = []
    for tp in sorted({tp for one in plans for tp in one.owners}):
        threads = {"owner": owners.get(tp), **{one.strategy: one.owners.get(tp) for one in plans}}
        named = {column: None if thread is None else name(thread) for column, thread in threads.items()}
        rows.append({"topic": tp.topic, "partition": tp.partition, **named})
    return rows


def _numbers(threads: Iterable[str]) -> dict[str, str]:
    """A number for each consumer, ascending."""
    return {consumer: f"#{n}" for n, consumer in enumerate(sorted(set(map(consumer_of_thread, threads))), 1)}


def _abbreviated(thread: str, numbers: Mapping[str, str]) -> str:
    """The thread with its consumer's number.

    >>> _abbreviated("g_c1-0", {"g_c1": "#1"})
    '#1-0'
    """
    consumer = consumer_of_thread(thread)
    return numbers[consumer] + thread.removeprefix(consumer)


def _summary(found: Plan) -> Row:
    return {
        "strategy": found.strategy,
        "moves": found.moves,
        "partitions": len(found.owners),
        "threads": found.threads,
        "fewest": found.fewest,
        "most": found.most,
    }
