"""Commands on an ensemble of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyspark_zkafka.cli.command import Target
from pyspark_zkafka.cli.output import Output, Row
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from tests.support.ensemble_client import EnsembleClient


class EnsembleTarget(Target):
    """The target of a command, whose ZooKeeper is an ensemble of values."""

    client: EnsembleClient

    @contextmanager
    def zookeeper(self) -> Iterator[ZooKeeperClient]:
        yield self.client


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with topic ``t``, and group ``g`` with one member that owns one of its partitions."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    registration = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1795228865441"}
    client.put("/consumers/g/ids/g_a", json.dumps(registration).encode())
    client.put("/consumers/g/owners/t/0", b"g_a-0")
    client.put("/consumers/g/offsets/t/0", b"5")
    client.put("/consumers/idle/offsets/t/1", b"7")
    return client


@pytest.fixture
def run(client: EnsembleClient, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Row]]:
    """Runs a command with ``--json``, and ``--yes`` unless ``dry_run`` is given; returns the rows that it shows."""

    def run(command: Any, *arguments: Any, dry_run: bool = False, **options: Any) -> list[Row]:
        target = EnsembleTarget({"zookeeper.connect": "zk1:2181/kafka"}, Output(as_json=True), dry_run, not dry_run)
        target.client = client
        command.__wrapped__(target, *arguments, **options)
        found: list[Row] = json.loads(capsys.readouterr().out)
        return found

    return run
