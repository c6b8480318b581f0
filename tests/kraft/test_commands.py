"""``zkafka`` on a cluster without ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tiers import seldom

if TYPE_CHECKING:
    from typer.testing import Result

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.parametrize("kraft_cluster", ["4.3.1", *seldom("3.9.1")], indirect=True)


def test_commands_of_brokers(rows_of: Callable[..., Any], kraft_cluster: LocalCluster, topic: str) -> None:
    """Commands about brokers, topics and plans work with --bootstrap-server alone."""
    assert [row["id"] for row in rows_of("brokers")] == kraft_cluster.broker_ids
    assert topic in {row["topic"] for row in rows_of("topics", "list")}
    assert [row["partition"] for row in rows_of("topics", "describe", topic)] == [0, 1]
    assert [row["records"] for row in rows_of("plan", "--topic", topic)] == [10, 10]


def test_controller(run_kraft: Callable[..., Result]) -> None:
    """``zkafka controller`` shows no controller in KRaft mode, and names the tool that shows it."""
    result = run_kraft("controller", "--json")
    (row,) = json.loads(result.stdout)
    assert row["broker"] is None
    assert row["cluster_id"]
    assert "kafka-metadata-quorum" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        "admin show",
        "admin elect --all --yes",
        "admin delete-topic some --yes",
        "admin config describe",
        "groups import FILE --yes",
        "groups migrate g --to kafka --yes",
        "groups reset-offsets g --all-topics --to-earliest --offsets-storage both --yes",
        "groups list --offsets-storage both",
        "groups describe g --offsets-storage zookeeper",
        "exporter --offsets-storage both",
    ],
)
def test_commands_of_zookeeper(run_kraft: Callable[..., Result], tmp_path: Path, command: str) -> None:
    """A command that needs ZooKeeper says so in one line, and exits with the status of wrong options."""
    offsets = tmp_path / "offsets"
    offsets.write_text("/consumers/g/offsets/t/0:5\n")
    result = run_kraft(*command.replace("FILE", str(offsets)).split(), status=2)
    (line,) = result.stderr.splitlines()
    assert "--zookeeper" in line or "zookeeper.connect" in line
