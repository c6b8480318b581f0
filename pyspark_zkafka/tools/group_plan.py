"""``zkafka groups plan``: the assignment of a group's partitions to its members, by several strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from pyspark_zkafka.conditions import NO_MEMBERS
from pyspark_zkafka.inspect.reads import read_groups
from pyspark_zkafka.model.assignors import Subscribers, assign, threads_by_topic, topics_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, consumer_of_thread
from pyspark_zkafka.tools.command import Group, Target, reads_cluster
from pyspark_zkafka.tools.output import Column, columns

_BY_DEFAULT = ("range", "roundrobin", "sticky")
_MEMBERS = columns("member consumer_id")
_SUMMARY = columns("strategy moves partitions threads fewest most", right="moves partitions threads fewest most")

_Strategy = Annotated[
    list[str] | None, typer.Option("--strategy", help="A strategy; repeatable. range, roundrobin and sticky by default.")
]


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """The owner of each partition under a strategy.

    `moves` counts the partitions whose present owner is another thread. `fewest` and `most` are the smallest and the
    largest number of partitions of a thread.
    """

    strategy: str
    owners: Mapping[TopicPartition, str]
    moves: int
    threads: int
    fewest: int
    most: int

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.owners)


def plan_assignments(
    strategies: Iterable[str],
    members: Mapping[str, ConsumerRegistration],
    partitions: Mapping[str, Sequence[int]],
    owners: Mapping[TopicPartition, str],
) -> list[AssignmentPlan]:
    """Return a plan for each strategy.

    `partitions` has the partitions of all existing topics that members may subscribe to, `owners` the present owners.
    """
    threads = threads_by_topic(members, partitions)
    subscribers = Subscribers(threads, {topic: tuple(sorted(found)) for topic, found in partitions.items()}, owners)
    everyone = {thread for found in threads.values() for thread in found}
    plans = []
    for strategy in strategies:
        planned = assign(strategy, subscribers)
        moves = sum(tp in owners and owners[tp] != thread for tp, thread in planned.items())
        shares = Counter(planned.values())
        counts = [shares[thread] for thread in everyone]
        fewest, most = min(counts, default=0), max(counts, default=0)
        plans.append(AssignmentPlan(strategy, planned, moves, len(everyone), fewest, most))
    return plans


@reads_cluster
def plan(target: Target, group: Group, strategy: _Strategy = None) -> None:
    """Show each partition's owner under range, roundrobin and sticky, or under --strategy, and how many partitions move.

    Nothing is changed. A move is a partition that another thread owns now.

    Example: zkafka groups plan billing --zookeeper zk1:2181/kafka
    """
    with target.zookeeper() as client:
        state = read_groups(client, names=[group]).groups[group]
        for znode in state.unreadable_members.values():
            target.output.note(f"Left out, and may stop JVM members: {znode.error.message}")
        members = state.registrations
        if not members:
            raise NO_MEMBERS(f"Group {group} has no members to plan for. Start its consumers first")
        existing = client.topic_names()
        topics = client.topics({topic for one in members.values() for topic in topics_of(one, existing)})
    partitions = {name: list(topic.partitions) for name, topic in topics.items()}
    owners = {tp: owner.thread for tp, owner in state.owners.items()}
    plans = plan_assignments(strategy or _BY_DEFAULT, members, partitions, owners)
    _show_partitions(target, group, plans, owners)
    if not target.output.as_json:
        target.output.lines("")
        target.output.rows([{column.name: getattr(one, column.name) for column in _SUMMARY} for one in plans], _SUMMARY)


def _show_partitions(
    target: Target, group: str, plans: Sequence[AssignmentPlan], owners: Mapping[TopicPartition, str]
) -> None:
    """Write a row for each partition; in the table, without the prefix that all thread ids of a group have.

    If the table does not fit, members have numbers, and another table has their ids.
    """
    rows: list[Row] = [
        {**tp._asdict(), "owner": owners.get(tp), **{one.strategy: one.owners.get(tp) for one in plans}}
        for tp in sorted({tp for one in plans for tp in one.owners})
    ]

    def layout(shorten: Callable[[str], str]) -> list[Column]:
        threads = ("owner", *(one.strategy for one in plans))
        owned = (Column(name, readable=lambda thread: thread and shorten(thread)) for name in threads)
        return [*columns("topic partition", right="partition"), *owned]

    shown, empty = layout(lambda thread: thread.removeprefix(f"{group}_")), "No partition is subscribed to."
    if target.output.as_json or target.output.fits(rows, shown):
        target.output.rows(rows, shown, empty)
        return
    threads = [*owners.values(), *(thread for one in plans for thread in one.owners.values())]
    numbers = {consumer: f"#{n}" for n, consumer in enumerate(sorted(set(map(consumer_of_thread, threads))), 1)}

    def numbered(thread: str) -> str:
        consumer = consumer_of_thread(thread)
        return numbers[consumer] + thread.removeprefix(consumer)

    target.output.rows(rows, layout(numbered), empty)
    target.output.lines("")
    target.output.rows([{"member": n, "consumer_id": consumer} for consumer, n in numbers.items()], _MEMBERS)
