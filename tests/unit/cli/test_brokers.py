"""``zkafka brokers`` and ``zkafka controller`` on views of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_zkafka.cli.brokers import brokers, controller
from pyspark_zkafka.cli.output import Row

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
