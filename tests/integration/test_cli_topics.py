"""``zkafka topics`` and ``brokers`` on real clusters: changes, watched partitions, and lag."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from pyspark_zkafka.testing import run_kafka_tool
from pyspark_zkafka.tools import app
from tests.support.eventually import eventually
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

KAFKA = "3.9.1"
Run = Callable[..., Result]


def runner(*connection: str) -> Run:
    """Return a function that runs commands on a cluster."""
    environment = {"ZKAFKA_ZOOKEEPER": "", "ZKAFKA_BOOTSTRAP_SERVER": ""}
    return lambda *arguments: CliRunner().invoke(app, [*arguments, *connection], env=environment)


@pytest.fixture(params=["zookeeper", "brokers"])
def run(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster) -> Run:
    """Runs a command on the shared cluster, through ZooKeeper or through brokers only."""
    if request.param == "zookeeper":
        return runner("--zookeeper", zkafka_cluster.zookeeper_connect)
    return runner("--bootstrap-server", zkafka_cluster.bootstrap_servers)


def rows(result: Result) -> list[dict[str, Any]]:
    """Return the rows of a command that succeeded."""
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def check_changes(run: Run, topic: str, replicas: int) -> None:
    """Create a topic, add partitions, and create and delete another topic, with dry runs and refusals."""
    settings = ("--partitions", "3", "--replication-factor", str(replicas), "--config", "retention.ms=60000")
    assert run("topics", "create", topic, *settings, "--dry-run").exit_code == 0
    assert topic not in [row["topic"] for row in rows(run("topics", "list", "--json"))]
    assert "use --yes or --dry-run" in run("topics", "create", topic, *settings).stderr
    rows(run("topics", "create", topic, *settings, "--yes", "--json"))
    (row,) = eventually(
        lambda: [row for row in rows(run("topics", "list", "--json")) if row["topic"] == topic],
        30,
        "the topic is not listed",
    )
    assert row["partitions"] == 3
    assert row["replication"] == replicas

    again = run("topics", "create", topic, *settings, "--yes")
    assert again.exit_code == 1
    assert "TOPIC_REFUSED" in again.stderr
    assert "already exists" in again.stderr
    assert run("topics", "create", topic, "--if-not-exists").exit_code == 0
    many = run("topics", "create", f"{topic}-many", "--replication-factor", "99", "--yes")
    assert many.exit_code == 1
    assert "TOPIC_REFUSED" in many.stderr
    wrong = run("topics", "create", f"{topic}-wrong", "--config", "retention.ms=long", "--yes")
    assert wrong.exit_code == 2
    assert "INVALID_TOPIC_CONFIG" in wrong.stderr

    assert run("topics", "alter", topic, "--partitions", "5", "--dry-run").exit_code == 0
    assert "can only grow" in run("topics", "alter", topic, "--partitions", "3", "--yes").stderr
    assert "UNKNOWN_TOPIC" in run("topics", "alter", f"{topic}-none", "--partitions", "3", "--yes").stderr
    rows(run("topics", "alter", topic, "--partitions", "5", "--yes", "--json"))
    eventually(lambda: len(rows(run("topics", "describe", topic, "--json"))) == 5, 30, "there are not 5 partitions")

    old = f"{topic}-old"
    rows(run("topics", "create", old, "--partitions", "2", "--yes", "--json"))
    assert run("topics", "delete", old, "--dry-run").exit_code == 0
    assert [row["topic"] for row in rows(run("topics", "delete", old, "--yes", "--json"))] == [old]
    assert old not in [row["topic"] for row in rows(run("topics", "list", "--json"))]
    again = run("topics", "delete", old, "--yes")
    assert again.exit_code == 1
    assert "UNKNOWN_TOPIC" in again.stderr


@pytest.mark.parametrize("run", ["zookeeper", *seldom("brokers")], indirect=True)
def test_changes(run: Run, zkafka_cluster: LocalCluster) -> None:
    """Topics are created and altered as Kafka's own tool confirms, and refusals give the brokers' reason."""
    topic = f"cli-{secrets.token_hex(4)}"
    check_changes(run, topic, 2)
    where = ("--bootstrap-server", zkafka_cluster.bootstrap_servers)
    told = run_kafka_tool(
        KAFKA, "org.apache.kafka.tools.TopicCommand", *where, "--describe", "--topic", topic, timeout_s=120
    )
    assert "PartitionCount: 5" in str(told)
    assert "ReplicationFactor: 2" in str(told)
    assert "retention.ms=60000" in str(told)


@pytest.mark.long
def test_changes_in_kraft_mode(kafka4: LocalCluster) -> None:
    """The same commands change topics of a cluster without ZooKeeper."""
    check_changes(runner("--bootstrap-server", kafka4.bootstrap_servers), f"cli-{secrets.token_hex(4)}", 1)


def test_brokers(
    run: Run, request: pytest.FixtureRequest, new_topic: Callable[..., str], zkafka_cluster: LocalCluster
) -> None:
    """Each partition counts for its leader; only ZooKeeper has the controller, and when the brokers registered."""
    topic = new_topic(partitions=4)
    found = rows(run("brokers", "--json"))
    leaders = [row["leader"] for row in rows(run("topics", "describe", topic, "--json"))]
    assert len(leaders) == 4
    assert Counter(leaders) <= Counter({row["id"]: row["leaders"] for row in found})
    controllers = [row["id"] for row in found if row["controller"]]
    assert {row["timestamp"] is None for row in found} == {request.node.callspec.params["run"] == "brokers"}
    if request.node.callspec.params["run"] == "brokers":
        assert controllers == []
    else:
        (named,) = rows(runner("--zookeeper", zkafka_cluster.zookeeper_connect)("controller", "--json"))
        assert controllers == [named["broker"]]
    assert "VERSION" not in run("brokers").stdout


def test_lag(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """`groups list --lag` shows the lag of a group in ZooKeeper."""
    topic, group = new_topic(partitions=2), f"g-{secrets.token_hex(4)}"
    zkafka_cluster.produce(topic, [{"partition": n % 2} for n in range(10)])
    with zkafka_cluster.zookeeper() as client:
        for partition, offset in enumerate([b"2", b"5"]):
            client.create(f"/consumers/{group}/offsets/{topic}/{partition}", offset, makepath=True)
    run = runner("--zookeeper", zkafka_cluster.zookeeper_connect)
    (row,) = [row for row in rows(run("groups", "list", "--lag", "--json")) if row["group"] == group]
    assert row["lag"] == 3
    assert "LAG" not in run("groups", "list").stdout
