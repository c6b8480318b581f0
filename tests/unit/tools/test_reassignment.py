"""Reassignments: files, validation, proposals and status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.admin import AdminState
from pyspark_zkafka.tools.reassignment import move_problems, moves, parse_reassignment, propose

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SNAPSHOT = ClusterSnapshot(
    brokers={n: Broker(n, (), "ab"[n % 2]) for n in range(4)},
    topics={"t": Topic("t", {0: (0, 1), 1: (1, 2)})},
    states={T0: PartitionState(0, 0, (0, 1)), T1: PartitionState(1, 0, (1,))},
)


def test_proposal() -> None:
    """A proposal covers all partitions of the topics with as many replicas as now, on live brokers that are listed."""
    proposed = propose(["t"], [1, 2, 3], SNAPSHOT)
    assert list(proposed) == [T0, T1]
    assert all(len(set(replicas)) == 2 and set(replicas) <= {1, 2, 3} for replicas in proposed.values())
    assert all(len({SNAPSHOT.brokers[b].rack for b in replicas}) == 2 for replicas in proposed.values())
    with pytest.raises(UnknownTopic, match="Topics do not exist: no;"):
        propose(["no"], [1], SNAPSHOT)
    with pytest.raises(OptionError, match="--broker-list names no live broker 8, 9;"):
        propose(["t"], [9, 8, 1], SNAPSHOT)


def test_problems() -> None:
    """All reasons that the controller would have to ignore a reassignment are found at once."""
    wanted: dict[TopicPartition, tuple[int, ...]] = {T0: (1, 9, 1), T1: (), TopicPartition("no", 0): (1,)}
    state = AdminState({T1: (1,)}, deletions=("t",))
    assert move_problems(wanted, SNAPSHOT, state) == [
        "t-0: the topic is being deleted",
        "t-0 lists a replica twice",
        "t-0: no live broker 9",
        "t-1: the topic is being deleted",
        "t-1 is being reassigned already",
        "t-1 has an empty list of replicas",
        "no-0 does not exist",
    ]
    assert move_problems({T0: (1, 2)}, SNAPSHOT, AdminState()) == []


def test_moves() -> None:
    """A move is under way while it is requested, then completed if the replicas are the wanted ones."""
    wanted: dict[TopicPartition, tuple[int, ...]] = {T1: (1, 2), T0: (1, 0)}
    found = moves(wanted, SNAPSHOT, AdminState({T1: (1, 2)}))
    assert [(m.partition, m.status, m.in_sync) for m in found] == [(T0, "failed", 2), (T1, "in progress", 1)]
    assert moves({T1: (1, 2)}, SNAPSHOT, AdminState())[0].status == "completed"
    assert moves({TopicPartition("no", 0): (1,)}, SNAPSHOT, AdminState())[0].status == "failed"


def test_files() -> None:
    """A file is Kafka's own, with log directories that do not matter, or the JSON that this command writes."""
    expected = {T1: (2, 1), T0: (3,)}
    items: list[dict[str, Any]] = [
        {"topic": "t", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
        {"topic": "t", "partition": 0, "current_replicas": [0, 1], "replicas": [3]},
    ]
    for value in ({"version": 1, "partitions": items}, {"partitions": items}, items):
        found = parse_reassignment(json.dumps(value), "f")
        assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'f is not a reassignment: JSON such as {"version":1'),
        ("[1]", "f is not a reassignment"),
        ('{"partitions":[]}', "f lists no partition"),
        (
            '[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]',
            "f lists t-0 more than",
        ),
        ('[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data"]}]', "f names log directories"),
    ],
)
def test_wrong_files(text: str, problem: str) -> None:
    """What is wrong with a file is said, with its name."""
    with pytest.raises(OptionError) as caught:
        parse_reassignment(text, "f")
    assert problem in caught.value.message
