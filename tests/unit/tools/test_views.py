"""``zkafka brokers``, ``controller``, ``topics`` and ``plan`` with fake views; see also test_cluster_vectors.py."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import UnknownTopic
from pyspark_zkafka.model.view_tables import VIEWS, Row
from pyspark_zkafka.tools.views import brokers, controller, describe_topics, list_topics, plan
from tests.support.running import Run, Show


def topic(name: str, config: Any = ()) -> Row:
    return {"topic": name, "topic_id": None, "partitions": 2, "replication": 3, "config": config}


def partition(name: str, number: int, leader: int | None = 1, *, under_replicated: bool = False) -> Row:
    state = {"under_replicated": under_replicated, "offline": leader in (None, -1)}
    return {"topic": name, "partition": number, "leader": leader, "replicas": [1, 2], "isr": [1], **state}


@pytest.fixture(autouse=True)
def rows(views: Any) -> None:
    """Two topics, one of them internal, with partitions that are in sync, under-replicated or without a leader."""
    views.rows["topics"] = [topic("__internal"), topic("t", [("retention.ms", "1"), ("cleanup.policy", "compact")])]
    views.rows["partitions"] = [
        partition("__internal", 0),
        partition("t", 0),
        partition("t", 1, under_replicated=True),
        partition("t", 2, -1, under_replicated=True),
        partition("t", 3, None),
    ]


def test_unknown_settings(views: Any, run: Run) -> None:
    """Unknown settings are null, but a topic without settings has an empty object."""
    views.rows["topics"] = [topic("a", None), topic("b")]
    assert [row["config"] for row in run(list_topics)] == [None, {}]


@pytest.mark.parametrize("command", [list_topics, describe_topics])
def test_internal_topics(run: Run, command: Any) -> None:
    """On request, internal topics are left out with their partitions."""
    assert {row["topic"] for row in run(command)} == {"__internal", "t"}
    assert {row["topic"] for row in run(command, exclude_internal=True)} == {"t"}


def test_all_columns_in_json(views: Any, run: Run) -> None:
    """JSON has every column of the view, including columns that the table leaves out."""
    views.rows |= {"brokers": [BROKER], "controller": [CONTROLLER]}
    assert set(VIEWS["partitions"].columns) == set(run(describe_topics)[0])
    assert set(VIEWS["brokers"].columns) == set(run(brokers)[0]) - {"leaders", "controller"}


def test_both_states(run: Run) -> None:
    """With both filters, only partitions in both states are shown."""
    (row,) = run(describe_topics, under_replicated=True, unavailable=True)
    assert row["topic"] == "t"
    assert row["partition"] == 2
    assert row["leader"] is None


def test_named_topics(views: Any, run: Run) -> None:
    """Named topics restrict both views, and an unknown topic is an error."""
    run(describe_topics, ["t", "__internal"])
    restricted = {"subscribe": "t,__internal"}
    assert views.restricted == [("topics", restricted), ("partitions", restricted)]
    with pytest.raises(UnknownTopic, match="Topics do not exist: gone"):
        run(describe_topics, ["t", "gone"])


def test_tables(show: Show) -> None:
    """In text, topics precede their partitions, unless partitions are filtered."""
    text, _ = show(describe_topics, ["t"])
    assert text.index("retention.ms=1,cleanup.policy=compact") < text.index("LEADER")
    assert "REPLICATION" not in show(describe_topics, ["t"], unavailable=True)[0]


def test_nothing_found(views: Any, show: Show) -> None:
    """A note says if there is no topic, or no partition in the state."""
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


def test_brokers(views: Any, run: Run) -> None:
    """A broker is shown with its registration, whose time is in ISO 8601 and UTC."""
    views.rows |= {"brokers": [BROKER, {**BROKER, "id": 2}], "controller": [CONTROLLER]}
    row, other = run(brokers)
    names = ["id", "host", "port", "rack", "leaders", "controller", "timestamp", "endpoints", "version"]
    assert list(row) == names
    assert row["id"] == 1
    assert row["timestamp"] == "2026-11-21T02:41:05.441Z"
    assert row["endpoints"] == BROKER["endpoints"]
    assert [(r["leaders"], r["controller"]) for r in (row, other)] == [(3, True), (0, False)]


def test_brokers_for_people(views: Any, show: Show) -> None:
    """In text, the format version of a registration is left out; without ZooKeeper, the controller is unknown."""
    views.rows |= {"brokers": [BROKER], "controller": [CONTROLLER]}
    heading, _, line = show(brokers)[0].splitlines()
    assert heading.split() == ["ID", "HOST", "PORT", "RACK", "LEADERS", "CONTROLLER", "TIMESTAMP", "ENDPOINTS"]
    assert line.split()[3:6] == ["-", "3", "yes"]
    assert show(brokers, connection=BY_BROKERS)[0].splitlines()[2].split()[3:6] == ["-", "3", "-"]


def test_broker_without_registration(views: Any, run: Run) -> None:
    """Values that brokers do not tell about themselves are null."""
    views.rows["brokers"] = [{key: BROKER[key] for key in ("id", "host", "port", "rack", "endpoints")}]
    views.rows["controller"] = []
    (row,) = run(brokers)
    assert row["version"] is None
    assert row["timestamp"] is None


def test_no_broker(views: Any, show: Show) -> None:
    """Without brokers, there is a note instead of a table."""
    views.rows["brokers"] = []
    assert show(brokers) == ("", "No broker is registered.\n")


def test_controller(views: Any, run: Run) -> None:
    """The controller is shown with its epoch, the time of its election and the cluster's id."""
    views.rows["controller"] = [CONTROLLER]
    expected = {"broker": 1, "epoch": 3, "timestamp": "2026-11-21T02:41:05.441Z", "cluster_id": "c"}
    assert run(controller) == [expected]


def test_controller_in_kraft_mode(views: Any, show: Show) -> None:
    """If brokers do not name the controller, a note names Kafka's own tool, but not with ZooKeeper."""
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
def test_options_of_the_read(views: Any, run: Run, given: dict[str, Any], restricted: dict[str, str]) -> None:
    """Topics, pattern and further options are passed to the planned read."""
    views.rows["plan"] = []
    run(plan, **given)
    assert views.restricted == [("plan", restricted)]


def test_splits(views: Any, run: Run, show: Show) -> None:
    """Each range is shown. A note counts records, ranges and Spark tasks: a task may read several ranges."""
    views.rows["plan"] = [split(0, 0, 5, 1_000_005), split(1, 0, 0, 500), split(2, 1, 0, 7)]
    assert run(plan) == views.rows["plan"]
    text, note = show(plan)
    assert note == "1,000,507 records in 3 ranges, 2 Spark tasks\n"
    assert "TASK" in text


def test_nothing_to_read(views: Any, show: Show) -> None:
    """Without records to read, there is a note instead of a table."""
    views.rows["plan"] = []
    assert show(plan) == ("", "There is nothing to read.\n")
