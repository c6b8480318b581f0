"""Commands with a fake ensemble, fake brokers and fake views."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import Target
from pyspark_zkafka.tools.output import Output
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers
from tests.support.running import Run, Show

ZOOKEEPER = {"zookeeper.connect": "zk1:2181/kafka"}


@dataclass
class Validator:
    """The part of `KafkaAdmin` that commands use: it records configurations, and refuses them if an error is set.

    `setting` is the value of each setting of a broker.
    """

    error: ZKafkaError | None = None
    setting: str | None = "true"
    checked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def check_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        self.checked.append((topic, dict(config)))
        if self.error is not None:
            raise self.error

    def broker_config(self, broker: int, name: str) -> str | None:
        return self.setting


@dataclass
class Views:
    """The rows of views by name, and the options that restricted each view."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    restricted: list[tuple[str, dict[str, str]]] = field(default_factory=list)


class EnsembleTarget(Target):
    """The target of a command with a fake ensemble, fake brokers and fake views."""

    client: EnsembleClient
    validator: Validator
    group_admin: GroupBrokers
    views: Views

    @contextmanager
    def zookeeper(self) -> Iterator[ZooKeeperClient]:
        yield self.client

    @contextmanager
    def brokers(self, snapshot: object) -> Iterator[Any]:
        yield self.validator

    @contextmanager
    def group_brokers(self, snapshot: object, timeout_s: float | None = None) -> Iterator[Any]:
        yield self.group_admin

    def view(self, name: str, topics: Collection[str] | None = None, /, **options: str) -> Sequence[Row]:
        self.views.restricted.append((name, options | ({"subscribe": ",".join(topics)} if topics else {})))
        return self.views.rows[name]


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with topic ``t``, group ``g`` with a member that owns a partition, and group ``idle`` without members."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    registration = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1795228865441"}
    client.put("/consumers/g/ids/g_a", json.dumps(registration).encode())
    client.put("/consumers/g/owners/t/0", b"g_a-0")
    client.put("/consumers/g/offsets/t/0", b"5")
    client.put("/consumers/idle/offsets/t/1", b"7")
    return client


@pytest.fixture
def memberless(client: EnsembleClient) -> None:
    """The ensemble after the member of group ``g`` has left."""
    del client.ensemble.nodes["/consumers/g/ids/g_a"]
    del client.ensemble.nodes["/consumers/g/owners/t/0"]


@pytest.fixture
def brokerless(client: EnsembleClient) -> None:
    """The ensemble after its only broker has left."""
    del client.ensemble.nodes["/brokers/ids/1"]


@pytest.fixture
def validator() -> Validator:
    """Brokers that accept any configuration."""
    return Validator()


@pytest.fixture
def group_admin() -> GroupBrokers:
    """Brokers of topic ``t``, with the offset of group ``g`` in one of its partitions."""
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    return GroupBrokers({t0: (0, 100), t1: (10, 20)}, {"g": {t1: 15}})


@pytest.fixture
def views() -> Views:
    """Views without rows."""
    return Views()


@pytest.fixture
def new_target(
    client: EnsembleClient, validator: Validator, group_admin: GroupBrokers, views: Views
) -> Callable[..., Target]:
    """A factory of fake targets: ``new_target(as_json=True, dry_run=False, connection={...})``."""

    def make(*, as_json: bool, dry_run: bool, connection: dict[str, str] | None = None) -> Target:
        target = EnsembleTarget(ZOOKEEPER if connection is None else connection, Output(as_json), dry_run, not dry_run)
        target.client, target.validator, target.group_admin, target.views = client, validator, group_admin, views
        return target

    return make


@pytest.fixture
def run(new_target: Callable[..., Target], capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command with ``--json``, and ``--yes`` unless ``dry_run`` is given, and returns its rows."""

    def run(command: Any, *arguments: Any, dry_run: bool = False, **options: Any) -> list[Row]:
        command.__wrapped__(new_target(as_json=True, dry_run=dry_run), *arguments, **options)
        found: list[Row] = json.loads(capsys.readouterr().out)
        return found

    return run


@pytest.fixture
def show(new_target: Callable[..., Target], capsys: pytest.CaptureFixture[str]) -> Show:
    """A function that runs a command without ``--json`` like ``run``, and returns its output and its notes."""

    def show(
        command: Any,
        *arguments: Any,
        dry_run: bool = False,
        connection: dict[str, str] | None = None,
        **options: Any,
    ) -> tuple[str, str]:
        command.__wrapped__(new_target(as_json=False, dry_run=dry_run, connection=connection), *arguments, **options)
        shown = capsys.readouterr()
        return shown.out, shown.err

    return show
