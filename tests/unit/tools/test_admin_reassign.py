"""``zkafka admin reassign`` with a fake ensemble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.cluster import AdminState
from pyspark_zkafka.tools.admin_reassign import move_problems, moves, parse_reassignment, reassign
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SNAPSHOT = ClusterSnapshot(
    brokers={n: Broker(n, (), "ab"[n % 2]) for n in range(4)},
    topics={"t": Topic("t", {0: (0, 1), 1: (1, 2)})},
    states={T0: PartitionState(0, 0, (0, 1)), T1: PartitionState(1, 0, (1,))},
)


@pytest.fixture
def file(client: EnsembleClient, tmp_path: Path) -> Path:
    """A file that moves a partition to the live broker 2, in a cluster with a controller."""
    registration = {"version": 2, "host": "broker2", "port": 9092, "endpoints": ["PLAINTEXT://broker2:9092"]}
    client.put("/brokers/ids/2", json.dumps(registration).encode())
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    client.put("/admin")
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}')
    return file


def test_start(client: EnsembleClient, file: Path, run: Run) -> None:
    """A reassignment is requested once, and is in progress until the controller has done it."""
    run(reassign, file, dry_run=True)
    assert "/admin/reassign_partitions" not in client.ensemble.nodes
    (row,) = run(reassign, file, no_wait=True)
    assert row["partition"] == 0
    assert row["replicas"] == [2]
    assert row["status"] == "in progress"
    assert client.admin_state().reassignments != {}
    with pytest.raises(OptionError, match="t-0 is being reassigned already"):
        run(reassign, file, no_wait=True)


def test_verify(file: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A move that was never requested is shown as failed with exit status 1."""
    with pytest.raises(typer.Exit) as caught:
        run(reassign, file, verify=True)
    assert caught.value.exit_code == 1
    assert [(row["partition"], row["status"]) for row in json.loads(capsys.readouterr().out)] == [(0, "failed")]


def test_problems() -> None:
    """All reasons why the controller would ignore a reassignment are found at once."""
    wanted: dict[TopicPartition, tuple[int, ...]] = {T0: (1, 9, 1), T1: (), TopicPartition("no", 0): (1,)}
    state = AdminState({T1: (1,)}, deletions=("t",))
    assert list(move_problems(wanted, SNAPSHOT, state)) == [
        "t-0: the topic is being deleted",
        "t-0 lists a replica twice",
        "t-0: no live broker 9",
        "t-1: the topic is being deleted",
        "t-1 is being reassigned already",
        "t-1 has an empty list of replicas",
        "no-0 does not exist",
    ]
    assert not list(move_problems({T0: (1, 2)}, SNAPSHOT, AdminState()))


def test_moves() -> None:
    """A move is in progress while it is requested; afterwards, it is completed if the replicas are the requested ones."""
    wanted: dict[TopicPartition, tuple[int, ...]] = {T1: (1, 2), T0: (1, 0)}
    found = moves(wanted, SNAPSHOT, AdminState({T1: (1, 2)}))
    assert [(m.partition, m.status, m.isr) for m in found] == [(T0, "failed", (0, 1)), (T1, "in progress", (1,))]
    assert moves({T1: (1, 2)}, SNAPSHOT, AdminState())[0].status == "completed"
    assert moves({TopicPartition("no", 0): (1,)}, SNAPSHOT, AdminState())[0].status == "failed"


def test_files() -> None:
    """A file has Kafka's own format, and its log directories are ignored."""
    expected = {T1: (2, 1), T0: (3,)}
    items: list[dict[str, Any]] = [
        {"topic": "t", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
        {"topic": "t", "partition": 0, "current_replicas": [0, 1], "replicas": [3]},
    ]
    for value in ({"version": 1, "partitions": items}, {"partitions": items}):
        found = parse_reassignment(json.dumps(value), "f")
        assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'f is not a reassignment: JSON such as {"version":1'),
        ("[1]", "f is not a reassignment"),
        ('{"partitions":[]}', "f lists no partition"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "f lists t-0 more than",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data"]}]}',
            "f names log directories",
        ),
    ],
)
def test_wrong_files_are_refused(text: str, problem: str) -> None:
    """An error says what is wrong with a file, and names the file."""
    with pytest.raises(OptionError) as caught:
        parse_reassignment(text, "f")
    assert problem in caught.value.message
