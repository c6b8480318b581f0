"""``zkafka brokers``, ``controller`` and ``topics`` on views of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.errors import UnknownTopic
from pyspark_zkafka.tools.output import Row
from pyspark_zkafka.tools.views import brokers, controller, describe, list_


def topic(name: str, config: Any = ()) -> Row:
    return {"topic": name, "topic_id": None, "partitions": 2, "replication": 3, "config": config}


def partition(name: str, number: int, leader: int | None = 1, *, under_replicated: bool = False) -> Row:
    state = {"under_replicated": under_replicated, "offline": leader in (None, -1)}
    return {"topic": name, "partition": number, "leader": leader, "replicas": [1, 2], "isr": [1], **state}


@pytest.fixture(autouse=True)
def rows(views: Any) -> None:
    """Two topics, one of them internal, whose partitions are whole, under-replicated, and without a leader."""
    views.rows["topics"] = [topic("__internal"), topic("t", [("retention.ms", "1"), ("cleanup.policy", "compact")])]
    views.rows["partitions"] = [
        partition("__internal", 0),
        partition("t", 0),
        partition("t", 1, under_replicated=True),
        partition("t", 2, -1, under_replicated=True),
        partition("t", 3, None),
    ]


def numbers(found: list[Row]) -> list[tuple[str, int]]:
    return [(row["topic"], row["partition"]) for row in found]


def test_list(run: Callable[..., list[Row]]) -> None:
    """A topic is shown with its counts, and with its own settings as an object."""
    found = run(list_)
    assert [row["topic"] for row in found] == ["__internal", "t"]
    assert (found[1]["partitions"], found[1]["replication"]) == (2, 3)
    assert found[1]["config"] == {"retention.ms": "1", "cleanup.policy": "compact"}


def test_unknown_settings(views: Any, run: Callable[..., list[Row]]) -> None:
    """Settings that the brokers do not tell are null, as against a topic without any."""
    views.rows["topics"] = [topic("a", None), topic("b")]
    assert [row["config"] for row in run(list_)] == [None, {}]


@pytest.mark.parametrize("command", [list_, describe])
def test_internal_topics(run: Callable[..., list[Row]], command: Any) -> None:
    """Internal topics are left out where that is asked for, with their partitions."""
    assert {row["topic"] for row in run(command)} == {"__internal", "t"}
    assert {row["topic"] for row in run(command, exclude_internal=True)} == {"t"}


def test_under_replicated(run: Callable[..., list[Row]]) -> None:
    """Under-replicated partitions are those whose ISR lacks a replica."""
    assert numbers(run(describe, under_replicated=True)) == [("t", 1), ("t", 2)]


def test_unavailable(run: Callable[..., list[Row]]) -> None:
    """Unavailable partitions are those without a live leader; in a row, none is null."""
    found = run(describe, unavailable=True)
    assert [(row["partition"], row["leader"]) for row in found] == [(2, None), (3, None)]


def test_both_states(run: Callable[..., list[Row]]) -> None:
    """Partitions in both states are shown where both are asked for."""
    assert numbers(run(describe, under_replicated=True, unavailable=True)) == [("t", 2)]


def test_named_topics(views: Any, run: Callable[..., list[Row]]) -> None:
    """Named topics restrict both views; one that does not exist is an error."""
    run(describe, ["t", "__internal"])
    restricted = {"subscribe": "t,__internal"}
    assert views.restricted == [("topics", restricted), ("partitions", restricted)]
    with pytest.raises(UnknownTopic, match="Topics do not exist: gone"):
        run(describe, ["t", "gone"])


def test_tables(show: Callable[..., tuple[str, str]]) -> None:
    """For people, the topics come before their partitions, but for a search of partitions."""
    text, _ = show(describe, ["t"])
    assert text.index("retention.ms=1,cleanup.policy=compact") < text.index("LEADER")
    assert "REPLICATION" not in show(describe, ["t"], unavailable=True)[0]


def test_nothing_found(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Without a topic, or a partition in the state, there is a note."""
    views.rows = {"topics": [], "partitions": []}
    assert show(list_)[1] == "There is no topic.\n"
    assert show(describe)[1] == "There is no topic.\n"
    assert show(describe, unavailable=True) == ("", "No partition is in this state.\n")


# --- brokers and the controller ----------------------------------------------------------------------------------------

BY_BROKERS = {"kafka.bootstrap.servers": "broker1:9092"}
KRAFT_NOTE = "In KRaft mode, use Kafka's kafka-metadata-quorum --bootstrap-server ... describe --status.\n"
BROKER = {
    "id": 1,
    "host": "broker1",
    "port": 9092,
    "rack": None,
    "version": 4,
    "timestamp": 1795228865441000,
    "endpoints": ["PLAINTEXT://broker1:9092"],
}
CONTROLLER = {"broker": 1, "epoch": 3, "timestamp": 1795228865441000, "cluster_id": "c"}


def test_brokers(views: Any, run: Callable[..., list[Row]]) -> None:
    """A broker is shown with its registration, the time of which is ISO 8601 in UTC."""
    views.rows["brokers"] = [BROKER]
    (row,) = run(brokers)
    assert list(row) == ["id", "host", "port", "rack", "version", "timestamp", "endpoints"]
    assert (row["id"], row["timestamp"], row["endpoints"]) == (1, "2026-11-21T02:41:05.441Z", BROKER["endpoints"])


def test_broker_without_registration(views: Any, run: Callable[..., list[Row]]) -> None:
    """What brokers do not tell of themselves is null."""
    views.rows["brokers"] = [{key: BROKER[key] for key in ("id", "host", "port", "rack", "endpoints")}]
    (row,) = run(brokers)
    assert (row["version"], row["timestamp"]) == (None, None)


def test_no_broker(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Without brokers there is a note, and no table."""
    views.rows["brokers"] = []
    assert show(brokers) == ("", "No broker is registered.\n")


def test_controller(views: Any, run: Callable[..., list[Row]]) -> None:
    """The controller is shown with its epoch, the time of its election and the cluster's id."""
    views.rows["controller"] = [CONTROLLER]
    expected = {"broker": 1, "epoch": 3, "timestamp": "2026-11-21T02:41:05.441Z", "cluster_id": "c"}
    assert run(controller) == [expected]


def test_controller_in_kraft_mode(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Where the brokers do not name the controller, Kafka's own tool is named; with ZooKeeper there is none at all."""
    views.rows["controller"] = [{"broker": None, "epoch": None, "timestamp": None, "cluster_id": "c"}]
    assert show(controller, connection=BY_BROKERS)[1] == KRAFT_NOTE
    assert show(controller)[1] == ""
    views.rows["controller"] = [CONTROLLER]
    assert show(controller, connection=BY_BROKERS)[1] == ""
