"""``zkafka brokers``, ``controller``, ``topics`` and ``plan`` on views of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.errors import UnknownTopic
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.views import brokers, controller, describe_topics, list_topics, plan


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
    found = run(list_topics)
    assert [row["topic"] for row in found] == ["__internal", "t"]
    assert (found[1]["partitions"], found[1]["replication"]) == (2, 3)
    assert found[1]["config"] == {"retention.ms": "1", "cleanup.policy": "compact"}


def test_unknown_settings(views: Any, run: Callable[..., list[Row]]) -> None:
    """Settings that the brokers do not tell are null, as against a topic without any."""
    views.rows["topics"] = [topic("a", None), topic("b")]
    assert [row["config"] for row in run(list_topics)] == [None, {}]


@pytest.mark.parametrize("command", [list_topics, describe_topics])
def test_internal_topics(run: Callable[..., list[Row]], command: Any) -> None:
    """Internal topics are left out where that is asked for, with their partitions."""
    assert {row["topic"] for row in run(command)} == {"__internal", "t"}
    assert {row["topic"] for row in run(command, exclude_internal=True)} == {"t"}


def test_under_replicated(run: Callable[..., list[Row]]) -> None:
    """Under-replicated partitions are those whose ISR lacks a replica."""
    assert numbers(run(describe_topics, under_replicated=True)) == [("t", 1), ("t", 2)]


def test_unavailable(run: Callable[..., list[Row]]) -> None:
    """Unavailable partitions are those without a live leader; in a row, none is null."""
    found = run(describe_topics, unavailable=True)
    assert [(row["partition"], row["leader"]) for row in found] == [(2, None), (3, None)]


def test_both_states(run: Callable[..., list[Row]]) -> None:
    """Partitions in both states are shown where both are asked for."""
    assert numbers(run(describe_topics, under_replicated=True, unavailable=True)) == [("t", 2)]


def test_named_topics(views: Any, run: Callable[..., list[Row]]) -> None:
    """Named topics restrict both views; one that does not exist is an error."""
    run(describe_topics, ["t", "__internal"])
    restricted = {"subscribe": "t,__internal"}
    assert views.restricted == [("topics", restricted), ("partitions", restricted)]
    with pytest.raises(UnknownTopic, match="Topics do not exist: gone"):
        run(describe_topics, ["t", "gone"])


def test_tables(show: Callable[..., tuple[str, str]]) -> None:
    """For people, the topics come before their partitions, but for a search of partitions."""
    text, _ = show(describe_topics, ["t"])
    assert text.index("retention.ms=1,cleanup.policy=compact") < text.index("LEADER")
    assert "REPLICATION" not in show(describe_topics, ["t"], unavailable=True)[0]


def test_nothing_found(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Without a topic, or a partition in the state, there is a note."""
    views.rows = {"topics": [], "partitions": []}
    assert show(list_topics)[1] == "There is no topic.\n"
    assert show(describe_topics)[1] == "There is no topic.\n"
    assert show(describe_topics, unavailable=True) == ("", "No partition is in this state.\n")


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
    views.rows |= {"brokers": [BROKER, {**BROKER, "id": 2}], "controller": [CONTROLLER]}
    row, other = run(brokers)
    names = ["id", "host", "port", "rack", "leaders", "controller", "timestamp", "endpoints", "version"]
    assert list(row) == names
    assert (row["id"], row["timestamp"], row["endpoints"]) == (1, "2026-11-21T02:41:05.441Z", BROKER["endpoints"])
    assert [(r["leaders"], r["controller"]) for r in (row, other)] == [(3, True), (0, False)]


def test_brokers_for_people(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """The version of a registration's format is not shown; without ZooKeeper, the controller is unknown."""
    views.rows |= {"brokers": [BROKER], "controller": [CONTROLLER]}
    heading, _, line = show(brokers)[0].splitlines()
    assert heading.split() == ["ID", "HOST", "PORT", "RACK", "LEADERS", "CONTROLLER", "TIMESTAMP", "ENDPOINTS"]
    assert line.split()[3:6] == ["-", "3", "yes"]
    assert show(brokers, connection=BY_BROKERS)[0].splitlines()[2].split()[3:6] == ["-", "3", "-"]


def test_broker_without_registration(views: Any, run: Callable[..., list[Row]]) -> None:
    """What brokers do not tell of themselves is null."""
    views.rows["brokers"] = [{key: BROKER[key] for key in ("id", "host", "port", "rack", "endpoints")}]
    views.rows["controller"] = []
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


# --- the plan of a batch read -------------------------------------------------------------------------------------------


def split(partition: int, task: int, start: int, until: int) -> Row:
    place = {"topic": "t", "partition": partition, "leader": 1, "isr": [1], "rack": None}
    return {**place, "start": start, "until": until, "records": until - start, "spark_partition": task}


@pytest.mark.parametrize(
    ("given", "restricted"),
    [
        ({"topic": ["a", "b"]}, {"subscribe": "a,b"}),
        ({"pattern": "a.*"}, {"subscribePattern": "a.*"}),
        ({"pattern": ""}, {"subscribePattern": ""}),
        (
            {"topic": ["a"], "option": ["minPartitions=16", "kafka.client.id=x=y"]},
            {"subscribe": "a", "minPartitions": "16", "kafka.client.id": "x=y"},
        ),
        ({"topic": ["b"], "option": ["subscribe=a"]}, {"subscribe": "b"}),
    ],
)
def test_options_of_the_read(
    views: Any, run: Callable[..., list[Row]], given: dict[str, Any], restricted: dict[str, str]
) -> None:
    """Topics, a pattern and further options are those of the read that is planned."""
    views.rows["plan"] = []
    run(plan, **given)
    assert views.restricted == [("plan", restricted)]


def test_malformed_option(run: Callable[..., list[Row]]) -> None:
    """An option is a name and a value."""
    with pytest.raises(typer.BadParameter, match="found 'minPartitions'; write NAME=VALUE"):
        run(plan, option=["minPartitions"])


def test_splits(views: Any, run: Callable[..., list[Row]]) -> None:
    """Each range is shown with its Spark task."""
    views.rows["plan"] = [split(0, 0, 5, 8), split(1, 1, 0, 9)]
    assert [
        (row["partition"], row["start"], row["until"], row["records"], row["spark_partition"]) for row in run(plan)
    ] == [
        (0, 5, 8, 3, 0),
        (1, 0, 9, 9, 1),
    ]


def test_summary(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """For people, the number of records, ranges and tasks is noted, of which several may share one."""
    views.rows["plan"] = [split(0, 0, 0, 1_000_000), split(1, 0, 0, 500), split(2, 1, 0, 7)]
    text, note = show(plan)
    assert note == "1,000,507 records in 3 ranges, 2 Spark tasks\n"
    assert "TASK" in text


def test_nothing_to_read(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """A read without records has a note, and no table."""
    views.rows["plan"] = []
    assert show(plan) == ("", "There is nothing to read.\n")
