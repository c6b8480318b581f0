"""Assignments of a group by several strategies, compared with its present owners."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.errors import CodecError, OptionError
from pyspark_zkafka.model.assignors import Subscribers, assign, threads_by_topic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import shown_name
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration

__all__ = ["Plan", "numbered_members", "parse_members", "plan_assignments"]

_EXAMPLE = '{"c1": 2, "c2": {"orders": 1}}'


@dataclass(frozen=True, slots=True)
class Plan:
    """The owner of each partition under a strategy.

    Parameters
    ----------
    moves : int
        Partitions whose present owner is another thread; partitions without an owner do not count.
    fewest, most : int
        Partitions of the thread with the fewest, and of that with the most.
    """

    strategy: str
    owners: Mapping[TopicPartition, str]
    moves: int
    threads: int
    fewest: int
    most: int


def plan_assignments(
    strategies: Iterable[str],
    members: Mapping[str, ConsumerRegistration],
    partitions: Mapping[str, Sequence[int]],
    owners: Mapping[TopicPartition, str],
) -> list[Plan]:
    """A plan for each strategy.

    Parameters
    ----------
    partitions : mapping
        The partitions of all existing topics that a member may subscribe to.
    owners : mapping
        The present owners.
    """
    threads = threads_by_topic(members, partitions)
    subscribers = Subscribers(threads, {topic: tuple(sorted(found)) for topic, found in partitions.items()}, owners)
    everyone = sorted({thread for found in threads.values() for thread in found})
    return [_plan(strategy, assign(strategy, subscribers), owners, everyone) for strategy in strategies]


def _plan(
    strategy: str, planned: Mapping[TopicPartition, str], owners: Mapping[TopicPartition, str], threads: Sequence[str]
) -> Plan:
    moves = sum(tp in owners and owners[tp] != thread for tp, thread in planned.items())
    shares = Counter(planned.values())
    counts = [shares[thread] for thread in threads]
    return Plan(strategy, planned, moves, len(threads), min(counts, default=0), max(counts, default=0))


def numbered_members(group: str, threads: Sequence[int], topics: Iterable[str]) -> dict[str, ConsumerRegistration]:
    """Members ``GROUP_member-1`` and so on, with so many threads each for all the topics.

    Numbers have leading zeros, so that the members' ids sort in their order.

    >>> numbered_members("g", [2], ["orders"])
    {'g_member-1': ConsumerRegistration(subscription={'orders': 2}, pattern='static', timestamp=None, assignor=None)}
    """
    names, width = list(topics), len(str(len(threads)))
    return {
        group_znodes.consumer_id(group, f"member-{number:0{width}}"): ConsumerRegistration(dict.fromkeys(names, count))
        for number, count in enumerate(threads, start=1)
    }


def parse_members(group: str, text: str, topics: Iterable[str]) -> dict[str, ConsumerRegistration]:
    """Members in JSON, by id: each a number of threads for all of `topics`, threads by topic, or a registration.

    Ids without the prefix ``GROUP_`` get it.

    Raises
    ------
    OptionError
        The text is no such JSON.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"it is not JSON: {error}") from error
    if not isinstance(found, dict) or not found:
        raise _invalid("it is no JSON object with members")
    names = list(topics)
    return {_consumer(group, name): _registration(name, value, names) for name, value in found.items()}


def _consumer(group: str, name: str) -> str:
    return name if name.startswith(f"{group}_") else group_znodes.consumer_id(group, name)


def _registration(name: str, value: Any, topics: Sequence[str]) -> ConsumerRegistration:
    fields = dict.fromkeys(topics, value) if isinstance(value, int) else value
    try:
        return group_znodes.decode_registration(name, json.dumps(fields).encode())
    except CodecError as error:
        raise _invalid(error.message) from error
    except RecursionError as error:
        raise _invalid(f"{shown_name(name)} is nested too deeply") from error


def _invalid(why: str) -> OptionError:
    return INVALID_OPTION(f"--members cannot be used: {why}; write members and threads such as {_EXAMPLE}")
