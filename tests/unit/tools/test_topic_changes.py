"""``zkafka topics create``, ``alter`` and ``delete`` with fake brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyspark_zkafka.conditions import TOPIC_REFUSED
from pyspark_zkafka.errors import ClusterStateError, OptionError, UnknownTopic, ZKafkaError
from pyspark_zkafka.model.nouns import ClusterSnapshot, Topic
from pyspark_zkafka.tools.topic_changes import alter, create, delete
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show


@dataclass
class Admin:
    """The part of `KafkaAdmin` that these commands use, with topics, their numbers of partitions, and refusals by topic."""

    topics: dict[str, int] = field(default_factory=lambda: {"t": 2})
    ids: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, ZKafkaError] = field(default_factory=dict)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def snapshot(self, names: Collection[str]) -> ClusterSnapshot:
        found = {
            n: Topic(n, dict.fromkeys(range(count), (1,)), topic_id=self.ids.get(n))
            for n, count in self.topics.items()
            if n in names
        }
        return ClusterSnapshot({}, found)

    def create_topic(self, name: str, partitions: int, replication: int, config: Mapping[str, str], **how: bool) -> None:
        self._ask("create", name, partitions, replication, dict(config), how["validate_only"])

    def add_partitions(self, name: str, total: int, **how: bool) -> None:
        self._ask("alter", name, total, how["validate_only"])

    def delete_topic(self, name: str) -> None:
        self._ask("delete", name)
        del self.topics[name]

    def _ask(self, *request: Any) -> None:
        self.asked.append(request)
        if request[1] in self.refusals:
            raise self.refusals[request[1]]


@pytest.fixture
def validator() -> Admin:
    """Fake brokers, instead of those of the other commands' tests."""
    return Admin()


def test_create(validator: Admin, run: Run) -> None:
    """Brokers check a topic before they create it, and missing values are left to their defaults."""
    rows = run(create, "new", partitions=3, replication_factor=2, config=["cleanup.policy=[compact,delete]"])
    settings = {"cleanup.policy": "compact,delete"}
    assert rows == [{"topic": "new", "partitions": 3, "replication": 2, "config": settings}]
    assert validator.asked == [("create", "new", 3, 2, settings, True), ("create", "new", 3, 2, settings, False)]
    run(create, "plain")
    assert validator.asked[-1] == ("create", "plain", -1, -1, {}, False)


def test_dry_runs(validator: Admin, show: Show) -> None:
    """A dry run only lets the brokers check the request."""
    out, err = show(create, "new", dry_run=True)
    assert "new" in out
    assert err == "Dry run: nothing was changed.\n"
    show(alter, "t", 4, dry_run=True)
    assert validator.asked == [("create", "new", -1, -1, {}, True), ("alter", "t", 4, True)]


def test_existing_topic(validator: Admin, show: Show, run: Run) -> None:
    """With --if-not-exists, nothing is requested for an existing topic."""
    assert show(create, "t", if_not_exists=True) == ("", "Topic t exists already; nothing was changed.\n")
    assert run(create, "t", if_not_exists=True) == []
    assert validator.asked == []
    show(create, "new", if_not_exists=True)
    assert len(validator.asked) == 2


def test_impossible_changes_are_refused(validator: Admin, show: Show) -> None:
    """A change that brokers refuse is not requested, and arguments that cannot be valid are refused without brokers."""
    validator.refusals = dict.fromkeys(["new", "t"], TOPIC_REFUSED("no"))
    with pytest.raises(ClusterStateError, match="TOPIC_REFUSED"):
        show(create, "new")
    with pytest.raises(ClusterStateError, match="TOPIC_REFUSED"):
        show(alter, "t", 4)
    assert len(validator.asked) == 2
    with pytest.raises(OptionError, match="TOPIC"):
        show(create, "a/b")
    with pytest.raises(OptionError, match="TOPIC"):
        show(alter, "", 4)
    with pytest.raises(ClusterStateError, match="t has 2 partitions, and their number can only grow"):
        show(alter, "t", 2)
    with pytest.raises(UnknownTopic):
        show(alter, "other", 4)
    assert len(validator.asked) == 2


def test_alter(validator: Admin, run: Run) -> None:
    """Brokers check the new number of partitions before they add them."""
    assert run(alter, "t", 4) == [{"topic": "t", "partitions": 2, "new_partitions": 4}]
    assert validator.asked == [("alter", "t", 4, True), ("alter", "t", 4, False)]


def test_delete(validator: Admin, run: Run) -> None:
    """Existing topics are deleted, and shown as they were."""
    validator.topics = {"t": 2, "u": 1, "v": 1}
    rows = run(delete, ["u", "t", "u"])
    assert [tuple(row.values()) for row in rows] == [("t", 2, 1), ("u", 1, 1)]
    assert validator.asked == [("delete", "t"), ("delete", "u")]
    assert validator.topics == {"v": 1}


def test_impossible_deletions_are_refused(validator: Admin, show: Show) -> None:
    """A dry run, an unknown topic and Kafka's own topics delete nothing. A refusal names the topics deleted before it."""
    assert show(delete, ["t"], dry_run=True)[1] == "Dry run: nothing was changed.\n"
    with pytest.raises(UnknownTopic, match="gone"):
        show(delete, ["t", "gone"])
    for name in ("", "a.*", "a,b", "../x"):
        with pytest.raises(OptionError, match="TOPIC"):
            show(delete, ["t", name])
    validator.topics["__consumer_offsets"] = 1
    with pytest.raises(OptionError, match="internal topic"):
        show(delete, ["__consumer_offsets", "t"])
    assert validator.asked == []


def test_partial_deletion(validator: Admin, show: Show, capsys: Any) -> None:
    """If the brokers refuse a topic, the error is preceded by the topics that they delete."""
    validator.topics = {"t": 2, "u": 1}
    validator.refusals = {"u": TOPIC_REFUSED("no")}
    with pytest.raises(ClusterStateError, match="TOPIC_REFUSED"):
        show(delete, ["t", "u"])
    assert "The brokers delete t, but not the other topics." in capsys.readouterr().err


def test_deletion_of_a_topic_that_is_created_again(validator: Admin, show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends when the deleted topic is gone, also if a producer has created another one of its name."""
    validator.ids["t"] = "first"
    monkeypatch.setattr(validator, "delete_topic", lambda name: validator.ids.update({name: "second"}))
    assert show(delete, ["t"])[1].splitlines()[-1] == "Deleted: t"
    monkeypatch.setattr(validator, "delete_topic", lambda name: None)
    with pytest.raises(ClusterStateError, match="ADMIN_UNFINISHED"):
        show(delete, ["t"], timeout=0)


def test_deletion_that_waits_for_a_broker(validator: Admin, client: EnsembleClient, show: Show) -> None:
    """With ZooKeeper, the command waits until the controller has deleted all replicas, although no broker lists them."""
    client.put("/admin/delete_topics/t")
    with pytest.raises(ClusterStateError, match="ADMIN_UNFINISHED"):
        show(delete, ["t"], timeout=0)
    assert validator.topics == {}
