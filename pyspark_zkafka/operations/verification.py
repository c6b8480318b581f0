"""Verification of a ZooKeeper group: ownership of partitions, claims, registrations and offsets.

`verify_group` finds all that kafka.tools.VerifyConsumerRebalance finds, a partition of a subscribed topic that no
registered thread owns, and also stale and foreign claims, unreadable znodes, offsets outside the log, and owners that no
assignor computes.

References
----------
kafka.tools.VerifyConsumerRebalance (Kafka 1.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark_zkafka.errors import listing
from pyspark_zkafka.operations.group_state import Committed, GroupState, LogBounds, Owner, logs_by_topic
from pyspark_zkafka.protocol.assignors import STRATEGIES, Subscribers, assign, threads_by_topic
from pyspark_zkafka.protocol.model import TopicPartition, session_text
from pyspark_zkafka.protocol.planning import INTERNAL_TOPICS
from pyspark_zkafka.protocol.znodes import groups as group_znodes

__all__ = ["Problem", "verify_group", "verify_groups", "verify_kinds"]

_UNNAMED_STRATEGIES = ("range", "roundrobin", "roundrobin-0.8", "legacy-range")
_SHOWN, _SHOWN_BYTES = 3, 40

_LEADER = "check that the partition has a leader that is reachable from here, and run this again"
_REBALANCE = "run this again when the rebalance is over; if it stays, restart a member, and see the members' logs"
_MAY_BE_READABLE = "JVM members cannot rebalance, unless Java accepts this regex; if they work, leave it, else "
_EXPIRY = "wait until its session expires; restart a member if the partition has no owner then"


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding: its kind, the state that was found, and what to do; `partition` is None where all are concerned."""

    group: str
    topic: str | None
    partition: int | None
    problem: str
    found: str
    remedy: str


def verify_groups(groups: Iterable[GroupState], logs: Mapping[TopicPartition, LogBounds]) -> list[Problem]:
    """The problems of groups, in their order; `logs` as for `verify_group`, of the topics of all of them."""
    by_topic = logs_by_topic(logs)
    problems: list[Problem] = []
    for group in groups:
        topics = group.all_topics(by_topic)
        problems += verify_group(group, {tp: logs[tp] for topic in topics for tp in by_topic.get(topic, ())})
    return problems


def verify_kinds(in_both: Mapping[str, tuple[int, int]]) -> list[Problem]:
    """The problems of groups with members in ZooKeeper and in Kafka; the values are their numbers, in this order.

    >>> [problem.found for problem in verify_kinds({"g": (2, 1)})]
    ['2 in ZooKeeper and 1 in Kafka; neither kind sees the other, and both read all partitions']
    """
    return [
        Problem(
            name,
            None,
            None,
            "members of both kinds",
            f"{here} in ZooKeeper and {there} in Kafka; neither kind sees the other, and both read all partitions",
            "stop one kind; docs/migrate-to-kafka-groups.md has the order",
        )
        for name, (here, there) in in_both.items()
    ]


def verify_group(group: GroupState, logs: Mapping[TopicPartition, LogBounds]) -> list[Problem]:
    """The problems of a group: of its znodes, its owners by partition, its offsets by partition, and its assignment.

    Parameters
    ----------
    logs : mapping
        The bounds of all existing partitions of the group's topics.
    """
    threads = threads_by_topic(group.registrations, {tp.topic for tp in logs}, INTERNAL_TOPICS - _topics_of_members(group))
    owners = list(_owner_problems(group, threads, logs))
    offsets = group_znodes.offsets_path(group.name) + "/"
    is_settled = not owners and all(path.startswith(offsets) for path in group.unreadable)
    return [
        *_unreadable(group),
        *owners,
        *_offset_problems(group, logs),
        *(_assignment_problems(group, threads, logs) if is_settled else ()),
    ]


def _topics_of_members(group: GroupState) -> set[str]:
    """The topics that registered members own: if there are internal ones, their filters do not exclude these."""
    return {tp.topic for tp, owner in group.owners.items() if owner.consumer in group.members}


def _unreadable(group: GroupState) -> Iterator[Problem]:
    ids = group_znodes.ids_path(group.name) + "/"
    for path, error in sorted(group.unreadable.items()):
        data = error.parameters["data"]
        found = f"{'no data' if data is None else repr(data[:_SHOWN_BYTES])}, expected {error.parameters['expected']}"
        effect = ""
        if path.startswith(ids):
            is_regex = group_znodes.BOUNDED_REGEX in error.parameters["expected"]
            effect = _MAY_BE_READABLE if is_regex else "JVM members cannot rebalance; "
        yield Problem(group.name, None, None, "unreadable znode", found, f"{effect}correct or delete {path}")


# --- owners ------------------------------------------------------------------------------------------------------------


def _owner_problems(
    group: GroupState, threads: Mapping[str, tuple[str, ...]], logs: Mapping[TopicPartition, LogBounds]
) -> Iterator[Problem]:
    unreadable = {path for path in group.unreadable if path.startswith(group_znodes.owners_path(group.name) + "/")}
    for tp in sorted({*group.owners, *(tp for tp in logs if tp.topic in threads)}):
        owner = group.owners.get(tp)
        if owner is not None:
            found = _claim_problem(group, tp, owner, threads.get(tp.topic, ()), tp in logs)
        elif group_znodes.owner_path(group.name, tp) in unreadable:
            found = None
        else:
            found = ("no owner", f"subscribed by {listing(threads[tp.topic], _SHOWN)}", _REBALANCE)
        if found is not None:
            yield Problem(group.name, tp.topic, tp.partition, *found)


def _claim_problem(
    group: GroupState, tp: TopicPartition, owner: Owner, threads: tuple[str, ...], exists: bool
) -> tuple[str, str, str] | None:
    """The problem of a claim, what was found and the remedy; None for a claim by a live thread of the topic."""
    member, path = group.members.get(owner.consumer), group_znodes.owner_path(group.name, tp)
    if member is None:
        if f"{group_znodes.ids_path(group.name)}/{owner.consumer}" in group.unreadable:
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
        return (
            "claim of another session",
            f"it belongs to session {sessions}",
            _EXPIRY if owner.session else f"delete {path}",
        )
    return None


# --- offsets -----------------------------------------------------------------------------------------------------------


def _offset_problems(group: GroupState, logs: Mapping[TopicPartition, LogBounds]) -> Iterator[Problem]:
    topics = {tp.topic for tp in logs}
    for tp, committed in sorted(group.offsets.items()):
        if tp in logs:
            found = _offset_problem(group.name, tp, committed, logs[tp])
        elif tp.topic in topics:
            path = group_znodes.offset_path(group.name, tp)
            found = ("offset of an unknown partition", f"offset {committed.offset}", f"delete {path}")
        else:
            delete = f"zkafka groups delete {group.name} --topic {tp.topic}"
            found = ("offset of an unknown topic", f"offset {committed.offset}", f"{delete}, if the topic stays deleted")
        if found is not None:
            yield Problem(group.name, tp.topic, tp.partition, *found)


def _offset_problem(group: str, tp: TopicPartition, committed: Committed, log: LogBounds) -> tuple[str, str, str] | None:
    reset = f"zkafka groups reset-offsets {group} --topic {tp.topic}:{tp.partition}"
    if committed.offset < 0:
        return None
    if log.start is None or log.end is None:
        return "unverified offset", f"offset {committed.offset}; no leader returned the bounds of the log", _LEADER
    if log.czxid is not None and committed.mzxid is not None and 0 < committed.mzxid < log.czxid and committed.offset:
        found = f"offset {committed.offset} was committed before the topic was created"
        return "offset of a deleted topic", found, f"{reset} --to-earliest"
    if committed.offset < log.start:
        found = f"offset {committed.offset}, and the log starts at {log.start}"
        return "offset before the log", found, f"{reset} --to-earliest"
    if committed.offset > log.end:
        return "offset beyond the log", f"offset {committed.offset}, and the log ends at {log.end}", f"{reset} --to-latest"
    return None


# --- assignment --------------------------------------------------------------------------------------------------------


def _assignment_problems(
    group: GroupState,
    threads: Mapping[str, tuple[str, ...]],
    logs: Mapping[TopicPartition, LogBounds],
) -> Iterator[Problem]:
    """The problem of owners that no assignor computes, if all partitions have proper owners."""
    strategies = _registered_strategies(group)
    if len(strategies) > 1:
        names = ", ".join(sorted(strategy or "range or roundrobin" for strategy in strategies))
        remedy = "set the same partition.assignment.strategy for all members"
        yield Problem(group.name, None, None, "different strategies", f"members assign by {names}", remedy)
        return
    for strategy in strategies & {None, *STRATEGIES}:
        yield from _other_assignment(group, threads, logs, _UNNAMED_STRATEGIES if strategy is None else (strategy,))


def _registered_strategies(group: GroupState) -> set[str | None]:
    """The strategies that registrations name, perhaps unknown ones; None for members whose registrations name none."""
    return {registration.assignor for registration in group.registrations.values()}


def _other_assignment(
    group: GroupState,
    threads: Mapping[str, tuple[str, ...]],
    logs: Mapping[TopicPartition, LogBounds],
    strategies: Iterable[str],
) -> Iterator[Problem]:
    owners = {tp: owner.thread for tp, owner in group.owners.items() if tp in logs}
    partitions = {topic: tuple(tp.partition for tp in found) for topic, found in logs_by_topic(logs).items()}
    subscribers = Subscribers(threads, partitions, owners)
    others = {s: [tp for tp, thread in assign(s, subscribers).items() if owners.get(tp) != thread] for s in strategies}
    nearest = min(others, key=lambda strategy: len(others[strategy]))
    if others[nearest]:
        found = f"{nearest} assigns {len(others[nearest])} partitions to others: {listing(others[nearest], _SHOWN)}"
        remedy = "set the same partition.assignment.strategy for all members; compare with zkafka groups plan"
        yield Problem(group.name, None, None, "unexpected assignment", found, remedy)
