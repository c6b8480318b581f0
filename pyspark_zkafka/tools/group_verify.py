"""``zkafka groups verify``: check the owners of groups' partitions, and compare offsets with the logs.

`verify_group` finds everything that kafka.tools.VerifyConsumerRebalance finds: a partition of a subscribed topic without a
registered owner. It also finds stale and foreign claims, unreadable znodes, offsets outside the log, and owners that no
strategy assigns.

References
----------
kafka.tools.VerifyConsumerRebalance (Kafka 1.1.1).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from pyspark_zkafka.errors import listing
from pyspark_zkafka.inspect.groups import GroupReport, GroupReports, LogBounds, Owner, partitions_by_topic
from pyspark_zkafka.model.assignors import STRATEGIES, Subscribers, assign, threads_by_topic
from pyspark_zkafka.model.nouns import TopicPartition, session_text
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.tools.command import FAILED, AllGroups, Groups, Target, open_servers, reads_cluster, require_groups
from pyspark_zkafka.tools.output import columns

_UNREGISTERED = tuple(name for name, strategy in STRATEGIES.items() if not strategy.is_registered)
_SHOWN, _SHOWN_BYTES = 3, 40

_LEADER = "check that the partition has a leader that is reachable from here, and run this again"
_REBALANCE = "run this again when the rebalance is over; if it stays, restart a member, and see the members' logs"
_MAY_BE_READABLE = "JVM members cannot rebalance if Java rejects this regex; if so, "
_EXPIRY = "wait until its session expires; restart a member if the partition has no owner then"
_SAME_STRATEGY = "set the same partition.assignment.strategy for all members"

COLUMNS = columns("group topic partition problem found remedy", right="partition")
_JSON_ONLY = columns("owner expected_owner")  # people read them in `found`
_PAUSE_S = 1.0

_Timeout = Annotated[
    float, typer.Option(min=0.0, metavar="S", help="While problems remain, verify again for up to this many seconds.")
]


@reads_cluster
def verify(target: Target, groups: Groups = None, all_groups: AllGroups = False, timeout: _Timeout = 0.0) -> None:
    """Verify groups: each partition of a subscribed topic has its expected owner, and offsets are within the logs.

    Without ZooKeeper, verify that groups in Kafka can be read, and that their offsets are within the logs.

    The expected owner is the thread that the members' strategy assigns the partition to. JVM members do not name their
    strategy; verify assumes the strategy that fits the present owners best.

    The exit status is 1 if a problem is found. While members rebalance, partitions have no owner for some seconds: see
    --timeout.

    Example: zkafka groups verify billing --timeout 30 --zookeeper zk1:2181/kafka
    """
    names, deadline = require_groups(groups, all_groups), time.monotonic() + timeout
    with open_servers(target) as servers:
        while True:
            reports = servers.read_groups(names, target.storage(None))
            problems = verify_groups(reports)
            if not problems or time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
    target.output.note(*reports.logs.problems, *reports.member_notes)
    is_unknown = servers.zookeeper is None and reports.kafka_problem is not None
    rows = list(map(asdict, problems))
    if target.output.as_json or target.output.fits(rows, COLUMNS):
        empty = "No problem was found in what can be read." if is_unknown else "No problem was found."
        target.output.rows(rows, COLUMNS, empty, in_json=(*COLUMNS, *_JSON_ONLY))
    else:  # paragraphs, because the remedy may be a command to copy
        for problem in problems:
            place = "" if problem.topic is None else f" {TopicPartition(problem.topic, problem.partition or 0)}"
            found, remedy = f"  {problem.found}", f"  -> {problem.remedy}"
            target.output.lines(f"{problem.group}{place}: {problem.problem}", found, remedy)
    if any(problem.remedy.startswith("zkafka groups ") for problem in problems):
        target.output.note("Stop the consumers of a group before a command changes its offsets.")
    if problems or is_unknown:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding: its kind, the state that was found, and what to do.

    `topic` and `partition` are None if the problem concerns the whole group. `owner` is the thread that owns the partition
    in ZooKeeper, and `expected_owner` the thread that the members' strategy assigns it to. Either is None if there is no
    such thread.
    """

    group: str
    topic: str | None
    partition: int | None
    problem: str
    found: str
    remedy: str
    owner: str | None = None
    expected_owner: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The owner of each partition by a strategy."""

    strategy: str
    owners: Mapping[TopicPartition, str]


def verify_groups(reports: GroupReports) -> list[Problem]:
    """Return the problems of groups, in their order. Groups with members in ZooKeeper and in Kafka come first."""
    by_topic, logs = partitions_by_topic(reports.logs.bounds), reports.logs.bounds
    found = "{} in ZooKeeper and {} in Kafka; neither kind sees the other, and both read all partitions"
    remedy = "stop one kind; docs/migrate-to-kafka-groups.md has the order"
    problems = [
        Problem(name, None, None, "members of both kinds", found.format(here, there), remedy)
        for name, (here, there) in reports.member_counts.items()
        if here and there
    ]
    for group in reports.groups.values():
        topics = group.all_topics(by_topic)
        of_group = {tp: logs[tp] for topic in topics for tp in by_topic.get(topic, ())}
        if reports.storage == "kafka":
            offsets = {tp: StoredOffset(offset) for tp, offset in group.kafka_offsets.items()}
            problems += _offset_problems(group, offsets, of_group)
        else:
            problems += verify_group(group, of_group)
    return problems


def verify_group(group: GroupReport, logs: Mapping[TopicPartition, LogBounds]) -> list[Problem]:
    """Return the problems of a group: of its znodes, its strategies, its owners by partition, and its offsets by partition.

    `logs` has the bounds of all existing partitions of the group's topics.
    """
    # If members own internal topics, their filters do not exclude these.
    owned = {tp.topic for tp, owner in group.owners.items() if owner.consumer in group.members}
    threads = threads_by_topic(group.registrations, {tp.topic for tp in logs}, INTERNAL_TOPICS - owned)
    expected = expected_assignment(group, threads, logs)
    problems = [
        *_znode_problems(group),
        *_strategy_problems(group),
        *_owner_problems(group, threads, logs, expected),
        *_offset_problems(group, group.offsets, logs),
    ]
    owners = {tp: owner.thread for tp, owner in group.owners.items()}
    return [_with_owners(problem, owners, {} if expected is None else expected.owners) for problem in problems]


def _with_owners(problem: Problem, owners: Mapping[TopicPartition, str], expected: Mapping[TopicPartition, str]) -> Problem:
    if problem.topic is None or problem.partition is None:
        return problem
    tp = TopicPartition(problem.topic, problem.partition)
    return replace(problem, owner=owners.get(tp), expected_owner=expected.get(tp))


def expected_assignment(
    group: GroupReport, threads: Mapping[str, tuple[str, ...]], partitions: Iterable[TopicPartition]
) -> Assignment | None:
    """Return the assignment that the members compute. It leaves out members with unreadable registrations.

    If registrations name no strategy, it is the assignment of JVM members' strategies that changes the fewest owners.
    Return None without members, if members have different strategies, or if their strategy is unknown here.

    `threads` has the threads that subscribe to each topic, and `partitions` the existing partitions.
    """
    named = {registration.assignor for registration in group.registrations.values()}
    if len(named) != 1 or not named <= {None, *STRATEGIES}:
        return None
    owners = {tp: owner.thread for tp, owner in group.owners.items()}
    numbers = {topic: tuple(tp.partition for tp in found) for topic, found in partitions_by_topic(partitions).items()}
    subscribers = Subscribers(threads, numbers, owners)
    strategies = list(filter(None, named)) or _UNREGISTERED
    assignments = [Assignment(strategy, assign(strategy, subscribers)) for strategy in strategies]
    return min(assignments, key=lambda found: sum(owners.get(tp, thread) != thread for tp, thread in found.owners.items()))


def _strategy_problems(group: GroupReport) -> Iterator[Problem]:
    named = {registration.assignor for registration in group.registrations.values()}
    if len(named) > 1:
        found = f"members assign by {', '.join(sorted(strategy or 'range or roundrobin' for strategy in named))}"
        yield Problem(group.name, None, None, "different strategies", found, _SAME_STRATEGY)


def _znode_problems(group: GroupReport) -> Iterator[Problem]:
    ids = group_znodes.ids_path(group.name) + "/"
    for znode in sorted(group.unreadable, key=lambda znode: znode.path):
        data, expected = znode.error.parameters["data"], znode.error.parameters["expected"]
        found = f"{'no data' if data is None else repr(data[:_SHOWN_BYTES])}, expected {expected}"
        effect = ""
        if znode.path.startswith(ids):
            effect = _MAY_BE_READABLE if group_znodes.BOUNDED_REGEX in expected else "JVM members cannot rebalance; "
        yield Problem(group.name, None, None, "unreadable znode", found, f"{effect}correct or delete {znode.path}")


def _owner_problems(
    group: GroupReport,
    threads: Mapping[str, tuple[str, ...]],
    logs: Mapping[TopicPartition, LogBounds],
    expected: Assignment | None,
) -> list[Problem]:
    """Return the problems of missing and improper owners; if there are none, of owners that are not the expected ones."""
    unreadable = {znode.path for znode in group.unreadable_owners}
    problems = []
    for tp in sorted({*group.owners, *(tp for tp in logs if tp.topic in threads)}):
        owner = group.owners.get(tp)
        if owner is not None:
            found = _claim_problem(group, tp, owner, threads.get(tp.topic, ()), tp in logs)
        elif group_znodes.owner_path(group.name, tp) in unreadable:
            found = None
        else:
            found = ("no owner", f"subscribed by {listing(threads[tp.topic], _SHOWN)}", _REBALANCE)
        if found is not None:
            kind, text, remedy = found
            if expected is not None and tp in expected.owners:
                text = f"{text}; {expected.strategy} assigns the partition to {expected.owners[tp]}"
            problems.append(Problem(group.name, tp.topic, tp.partition, kind, text, remedy))
    if problems or group.unreadable_members or unreadable or expected is None:
        return problems
    return [
        Problem(
            *(group.name, tp.topic, tp.partition, "unexpected assignment"),
            f"{group.owners[tp].thread} owns it; {expected.strategy} assigns the partition to {thread}",
            _SAME_STRATEGY,
        )
        for tp, thread in expected.owners.items()
        if group.owners[tp].thread != thread
    ]


def _claim_problem(
    group: GroupReport, tp: TopicPartition, owner: Owner, threads: tuple[str, ...], exists: bool
) -> tuple[str, str, str] | None:
    """Return the kind of a claim's problem, what was found, and the remedy; None if a live thread of the topic owns it."""
    member, path = group.members.get(owner.consumer), group_znodes.owner_path(group.name, tp)
    if member is None:
        if owner.consumer in group.unreadable_members:
            return None
        if owner.session:
            return "zombie claim", f"{owner.thread} of session {session_text(owner.session)} is not registered", _EXPIRY
        return "zombie claim", f"{owner.thread} is not registered, and the claim is not ephemeral", f"delete {path}"
    if not exists:
        return "claim of an unknown partition", f"{owner.thread} owns it", f"restart {owner.consumer}, or create the topic"
    if not threads:
        return "claim of an unsubscribed topic", f"{owner.thread} owns it", f"restart {owner.consumer}"
    if owner.thread not in threads:
        found = f"{owner.thread} owns it; subscribed by {listing(threads, _SHOWN)}"
        return "claim of another thread", found, f"restart {owner.consumer}"
    if owner.session != member.session:
        sessions = f"{session_text(owner.session)}, and {owner.consumer} is registered by {session_text(member.session)}"
        remedy = _EXPIRY if owner.session else f"delete {path}"
        return "claim of another session", f"it belongs to session {sessions}", remedy
    return None


def _offset_problems(
    group: GroupReport, offsets: Mapping[TopicPartition, StoredOffset], logs: Mapping[TopicPartition, LogBounds]
) -> Iterator[Problem]:
    topics = {tp.topic for tp in logs}
    for tp, committed in sorted(offsets.items()):
        if tp in logs:
            found = _offset_problem(group.name, tp, committed, logs[tp])
        elif tp.topic in topics and tp in group.offsets:
            path = group_znodes.offset_path(group.name, tp)
            found = ("offset of an unknown partition", f"offset {committed.offset}", f"delete {path}")
        else:
            delete = f"zkafka groups delete {shlex.quote(group.name)} --topic {shlex.quote(tp.topic)}"
            place = "partition" if tp.topic in topics else "topic"
            remedy = f"{delete}, if the {place} stays deleted"
            found = (f"offset of an unknown {place}", f"offset {committed.offset}", remedy)
        if found is not None:
            yield Problem(group.name, tp.topic, tp.partition, *found)


def _offset_problem(group: str, tp: TopicPartition, committed: StoredOffset, log: LogBounds) -> tuple[str, str, str] | None:
    reset = f"zkafka groups reset-offsets {shlex.quote(group)} --topic {shlex.quote(f'{tp.topic}:{tp.partition}')}"
    if committed.offset < 0:
        return None
    if log.start is None or log.end is None:
        return "unverified offset", f"offset {committed.offset}; no leader returned the bounds of the log", _LEADER
    if committed.offset and committed.is_older_than(log.czxid):
        found = f"offset {committed.offset} was committed before the topic was created"
        return "offset of a deleted topic", found, f"{reset} --to-earliest"
    if committed.offset < log.start:
        found = f"offset {committed.offset}, and the log starts at {log.start}"
        return "offset before the log", found, f"{reset} --to-earliest"
    if committed.offset > log.end:
        return "offset beyond the log", f"offset {committed.offset}, and the log ends at {log.end}", f"{reset} --to-latest"
    return None
