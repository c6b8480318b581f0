"""The calls to brokers of `GroupAdmin`, for tests of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.brokers.admin import LogPosition
from pyspark_zkafka.brokers.groups import STABLE, GroupAdmin, GroupState
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST

__all__ = ["CALLS", "COMMITTED", "GROUPS", "LOST", "PARTITIONS", "TOPIC", "BrokerCall"]

LOST = 1
"""The broker that is lost. It leads the partition of this number, which has no other replica."""
TOPIC, GROUPS = "led-by-each", [f"group-{n}" for n in range(6)]
PARTITIONS = [TopicPartition(TOPIC, n) for n in range(3)]
COMMITTED = dict.fromkeys(PARTITIONS, 7)
LEFT = {tp: 1 for tp in PARTITIONS if tp.partition != LOST}


@dataclass(frozen=True)
class BrokerCall:
    """A call, and what it must return or name.

    Attributes
    ----------
    is_right : callable
        Whether a result is right; a call without a right result must fail.
    named : str
        A pattern of what the error must name.
    waits : int
        How many of its requests wait for an answer one after the other, each for the time-out.
    """

    do: Callable[[GroupAdmin], Any]
    is_right: Callable[[Any], bool] = lambda result: False
    named: str = "no error is allowed"
    waits: int = 1


CALLS = {
    "topic_names": BrokerCall(GroupAdmin.topic_names, lambda names: TOPIC in names),
    "snapshot": BrokerCall(GroupAdmin.snapshot, lambda found: {0, 2} <= set(found.brokers)),
    "topic_ids": BrokerCall(lambda admin: admin.topic_ids([TOPIC]), lambda found: list(found) == [TOPIC]),
    "check_topic_config": BrokerCall(
        lambda admin: admin.check_topic_config(TOPIC, {"retention.ms": "1000"}), lambda result: True, TOPIC
    ),
    "create_topic": BrokerCall(
        lambda admin: admin.create_topic("created", 1, 1, {}, validate_only=True), lambda result: True, "created"
    ),
    "add_partitions": BrokerCall(
        lambda admin: admin.add_partitions(TOPIC, 4, validate_only=True), lambda result: True, TOPIC
    ),
    "delete_topic": BrokerCall(lambda admin: admin.delete_topic("missing"), named="missing"),
    "broker_config": BrokerCall(lambda admin: admin.broker_config(LOST, "log.dirs"), named=f"broker {LOST}"),
    "list_offsets": BrokerCall(
        lambda admin: admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST)), named=f"{TOPIC}-{LOST}"
    ),
    "list_offsets_each": BrokerCall(
        lambda admin: admin.list_offsets_each(dict.fromkeys(PARTITIONS, EARLIEST)),
        lambda result: (
            set(result[0]) == set(LEFT) and list(result[1]) == [PARTITIONS[LOST]] and f"{TOPIC}-{LOST}" in str(result[1])
        ),
    ),
    "high_watermarks": BrokerCall(lambda admin: admin.high_watermarks(PARTITIONS), named=f"{TOPIC}-{LOST}"),
    "find_truncated": BrokerCall(
        lambda admin: admin.find_truncated({tp: LogPosition(1, 0) for tp in PARTITIONS}, dict.fromkeys(PARTITIONS, 0)),
        lambda result: result == ({}, {PARTITIONS[LOST]}),
    ),
    "group_names": BrokerCall(GroupAdmin.group_names, lambda names: set(GROUPS) <= set(names), f"broker {LOST}", 2),
    "known_group_names": BrokerCall(GroupAdmin.known_group_names, lambda found: bool(found[0]), waits=2),
    "group_state": BrokerCall(
        lambda admin: admin.group_state(GROUPS[0]), lambda state: not state.is_active, GROUPS[0], waits=3
    ),
    "group_states": BrokerCall(
        lambda admin: admin.group_states(GROUPS),
        lambda states: all(_is_empty_or_named(group, state) for group, state in states.items()),
        waits=3,
    ),
    "committed": BrokerCall(lambda admin: admin.committed(GROUPS[0]), lambda found: found == COMMITTED, GROUPS[0], 2),
    "committed_many": BrokerCall(
        lambda admin: admin.committed_many(GROUPS), lambda found: found == dict.fromkeys(GROUPS, COMMITTED), "group-", 2
    ),
    "committed_each": BrokerCall(
        lambda admin: admin.committed_each(GROUPS),
        lambda result: (
            all(offsets == COMMITTED for offsets in result[0].values())
            and {*result[0], *result[1]} == set(GROUPS)
            and all(group in str(error) for group, error in result[1].items())
        ),
        waits=2,
    ),
    "committed_metadata": BrokerCall(
        lambda admin: admin.committed_metadata({GROUPS[0]: PARTITIONS}),
        lambda found: set(found[GROUPS[0]]) == set(PARTITIONS),
        GROUPS[0],
    ),
    "alter_offsets": BrokerCall(
        lambda admin: admin.alter_offsets(GROUPS[0], COMMITTED), lambda refused: refused == {}, GROUPS[0]
    ),
    "delete_groups": BrokerCall(lambda admin: admin.delete_groups(["none"]), lambda result: True, "none", 2),
    "delete_offsets": BrokerCall(
        lambda admin: admin.delete_offsets(GROUPS[1], [TopicPartition("other", 0)]), lambda result: True, GROUPS[1]
    ),
    "has_coordinators": BrokerCall(lambda admin: admin.has_coordinators(GROUPS[0]), lambda result: result),
}
"""Each public call that waits for brokers. Those that must fail are about the lost broker alone."""


def _is_empty_or_named(group: str, state: GroupState) -> bool:
    if state.problem is not None:
        return group in str(state.problem)
    return state.name != STABLE and not state.members
