"""Reassignments: files, validation, proposals and status, beside what Kafka's own tool does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.operations.placement import place_replicas
from pyspark_zkafka.operations.reassignment import move_problems, moves, parse_reassignment, propose
from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.znodes.admin import AdminState

RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "cli" / "admin" / "admin.json").read_text())
RACKS = {int(broker): rack for broker, rack in RECORDED["racks"].items()}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SNAPSHOT = ClusterSnapshot(
    brokers={n: Broker(n, (), "ab"[n % 2]) for n in range(4)},
    topics={"t": Topic("t", {0: (0, 1), 1: (1, 2)})},
    states={T0: PartitionState(0, 0, (0, 1)), T1: PartitionState(1, 0, (1,))},
)


def generated() -> list[tuple[list[int], bool, dict[str, dict[int, tuple[int, ...]]]]]:
    """The brokers, whether racks count, and the proposal of each recorded ``--generate``."""
    found = []
    for call in RECORDED["calls"]:
        if "--generate" in call["arguments"]:
            brokers = call["arguments"][call["arguments"].index("--broker-list") + 1]
            proposal: dict[str, dict[int, tuple[int, ...]]] = {}
            for item in json.loads(call["output"].strip().splitlines()[-1])["partitions"]:
                proposal.setdefault(item["topic"], {})[item["partition"]] = tuple(item["replicas"])
            found.append(([int(b) for b in brokers.split(",")], "--disable-rack-aware" not in call["arguments"], proposal))
    return found


@pytest.mark.parametrize(("brokers", "rack_aware", "proposal"), generated())
def test_placement_of_kafka(brokers: list[int], rack_aware: bool, proposal: dict[str, dict[int, tuple[int, ...]]]) -> None:
    """What Kafka's tool has proposed is a placement of ours, for some start and shift."""
    racks = {broker: RACKS[broker] if rack_aware else None for broker in brokers}
    for partitions in proposal.values():
        expected = [replicas for _, replicas in sorted(partitions.items())]
        tried = itertools.product(range(len(brokers)), repeat=2)
        assert any(place_replicas(racks, len(expected), len(expected[0]), *both) == expected for both in tried)


def test_placement_without_enough_brokers_or_racks() -> None:
    """Replicas need as many brokers, and either all or none of these have a rack."""
    with pytest.raises(OptionError, match="3 replicas need as many brokers, and 2 are listed"):
        place_replicas({0: None, 1: None}, 1, 3, 0, 0)
    with pytest.raises(OptionError, match="Brokers 1 have no rack, and others have one; use --disable-rack-aware"):
        place_replicas({0: "a", 1: None}, 1, 1, 0, 0)


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
