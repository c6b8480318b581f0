"""``zkafka admin reassign`` on an ensemble of values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.tools.admin_reassign import reassign
from pyspark_zkafka.tools.output import Row
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def file(client: EnsembleClient, tmp_path: Path) -> Path:
    """A file that moves a partition to broker 2, which is live, as is a controller."""
    registration = {"version": 2, "host": "broker2", "port": 9092, "endpoints": ["PLAINTEXT://broker2:9092"]}
    client.put("/brokers/ids/2", json.dumps(registration).encode())
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    client.put("/admin")
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}')
    return file


def test_proposal(file: Path, run: Callable[..., list[Row]]) -> None:
    """A proposal has all partitions of the topics, on the listed brokers."""
    rows = run(reassign, generate=True, topics="t", broker_list="1,2")
    assert [(row["partition"], row["current_replicas"]) for row in rows] == [(0, [1]), (1, [1])]
    assert {replica for row in rows for replica in row["replicas"]} == {1, 2}
    with pytest.raises(UnknownTopic, match="Topics do not exist: gone"):
        run(reassign, generate=True, topics="t,gone", broker_list="1,2")


def test_start(client: EnsembleClient, file: Path, run: Callable[..., list[Row]]) -> None:
    """A reassignment is requested once, and is in progress as long as the controller has not done it."""
    run(reassign, file, dry_run=True)
    assert "/admin/reassign_partitions" not in client.ensemble.nodes
    (row,) = run(reassign, file, no_wait=True)
    assert (row["partition"], row["replicas"], row["status"]) == (0, [2], "in progress")
    assert client.admin_state().reassignments != {}
    with pytest.raises(OptionError, match="t-0 is being reassigned already"):
        run(reassign, file, no_wait=True)


def test_verify(file: Path, run: Callable[..., list[Row]]) -> None:
    """A move that nobody has asked for has failed, which is the exit status."""
    with pytest.raises(typer.Exit) as caught:
        run(reassign, file, verify=True)
    assert caught.value.exit_code == 1
