"""``zkafka admin`` and ``zkafka plan`` on a real cluster, next to Kafka's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.testing import LocalCluster, run_kafka_tool
from pyspark_zkafka.tools import app
from pyspark_zkafka.tools.admin_config import read_config, write_config
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

if TYPE_CHECKING:
    from conftest import Chroot

NewTopic = Callable[..., str]
Run = Callable[..., Result]
KAFKA = "3.9.1"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def run(zkafka_cluster: LocalCluster) -> Run:
    """Runs a command on the cluster: ``run("admin", "show")``."""

    def command(*arguments: str, connect: str = zkafka_cluster.zookeeper_connect) -> Result:
        return CliRunner().invoke(app, [*arguments, "--zookeeper", connect], env={"ZKAFKA_BOOTSTRAP_SERVER": ""})

    return command


@pytest.fixture
def rows(run: Run) -> Callable[..., list[dict[str, Any]]]:
    """Runs a command that must succeed, and returns the rows of its JSON."""

    def command(*arguments: str) -> list[dict[str, Any]]:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    return command


Rows = Callable[..., "list[dict[str, Any]]"]


def replicas(rows: Rows, topic: str) -> list[list[int]]:
    """Return the replicas of a topic's partitions."""
    return [row["replicas"] for row in rows("topics", "describe", topic)]


def test_reassign_and_elect(
    rows: Rows, run: Run, zkafka_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A reassignment is verified by zkafka and by Kafka's tool, and an election makes its preferred replicas leaders."""
    topic = new_topic(partitions=2, replication=2)
    zkafka_cluster.produce(topic, [{"value": "x"}] * 20)
    before, file = replicas(rows, topic), tmp_path / "moves.json"
    wanted = [list(reversed(ids)) for ids in before]
    moves = [{"topic": topic, "partition": p, "replicas": ids} for p, ids in enumerate(wanted)]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    reassign = ("admin", "reassign", "--reassignment-json-file", str(file))

    unfinished = run(*reassign, "--verify")
    assert unfinished.exit_code == 1
    assert "failed" in unfinished.stdout
    dry = run(*reassign, "--dry-run")
    assert dry.exit_code == 0
    assert replicas(rows, topic) == before

    assert [row["status"] for row in rows(*reassign, "--yes", "--timeout", "120")] == ["completed"] * 2
    assert replicas(rows, topic) == wanted
    assert [row["status"] for row in rows(*reassign, "--verify")] == ["completed"] * 2
    where = ("--bootstrap-server", zkafka_cluster.bootstrap_servers)
    told = run_kafka_tool(KAFKA, REASSIGN, *where, "--reassignment-json-file", str(file), "--verify", timeout_s=120)
    assert all(f"Reassignment of partition {topic}-{p} is completed." in told for p in range(2))

    elected = rows("admin", "elect", "--topic", f"{topic}:0,1", "--yes", "--timeout", "120")
    assert [(row["leader"], row["election"]) for row in elected] == [(ids[0], "elected") for ids in wanted]
    again = rows("admin", "elect", "--topic", topic, "--yes")
    assert {row["election"] for row in again} == {"the preferred replica leads already"}
    assert topic not in [row["topic"] for row in rows("admin", "show")]  # others may be in progress in the shared cluster


def test_config(rows: Rows, run: Run, new_topic: NewTopic, zkafka_cluster: LocalCluster) -> None:
    """Valid settings reach the brokers; invalid ones are refused before anything is written."""
    topic = new_topic(config={"retention.ms": "86400000"})
    config = ("admin", "config")
    changed = rows(*config, "set", "--topic", topic, "retention.ms=5000", "cleanup.policy=[compact,delete]", "--yes")
    assert [(row["name"], row["value"], row["new_value"]) for row in changed] == [
        ("retention.ms", "86400000", "5000"),
        ("cleanup.policy", None, "compact,delete"),
    ]
    for setting in ("retention.ms=soon", "retention.msec=5"):
        refused = run(*config, "set", "--topic", topic, setting, "--yes")
        assert refused.exit_code == 2
        assert "[INVALID_TOPIC_CONFIG]" in refused.stderr
    rows(*config, "delete", "--topic", topic, "retention.ms", "--yes")
    assert rows(*config, "describe", "--topic", topic) == [
        {"topic": topic, "name": "cleanup.policy", "value": "compact,delete"}
    ]
    told = run_kafka_tool(
        KAFKA, "kafka.admin.ConfigCommand", "--bootstrap-server", zkafka_cluster.bootstrap_servers,
        "--entity-type", "topics", "--entity-name", topic, "--describe", timeout_s=120,
    )  # fmt: skip
    assert "cleanup.policy=compact,delete" in told
    assert "retention.ms" not in told


def test_delete_topic(rows: Rows, run: Run, new_topic: NewTopic) -> None:
    """A topic is deleted when the command returns; deleting an unknown topic fails."""
    topic = new_topic(partitions=2)
    assert [row["topic"] for row in rows("admin", "delete-topic", topic, "--yes", "--timeout", "120")] == [topic]
    assert topic not in [row["topic"] for row in rows("topics", "list")]
    assert (run("admin", "delete-topic", topic, "--yes").exit_code) == 1


def test_plan(rows: Rows, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """The ranges of a read are listed, split by the options given."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"value": "x"}] * 10)
    found = rows("plan", "--topic", topic, "--option", "minPartitions=2")
    assert [(row["start"], row["until"], row["records"]) for row in found] == [(0, 5, 5), (5, 10, 5)]


def test_concurrent_change_of_a_config(chroot: Chroot) -> None:
    """A configuration changed since it was read is not overwritten, and no change notification is written."""
    chroot.topic("t", 1)
    for path in ("/config/topics", "/config/changes"):
        chroot.other.ensure_path(path)
    with ZooKeeperClient(chroot.config) as client:
        write_config(client, read_config(client, "t"), {"a": "1"})
        assert len(chroot.other.get_children("/config/changes")) == 1
        stored = read_config(client, "t")
        assert stored.settings == {"a": "1"}
        chroot.other.set("/config/topics/t", b'{"version":1,"config":{"a":"2"}}')
        with pytest.raises(
            ClusterStateError, match=r"\[ADMIN_CONFLICT\].*changed meanwhile\. Nothing was changed; try again"
        ):
            write_config(client, stored, {"a": "3"})
    assert chroot.other.get("/config/topics/t")[0] == b'{"version":1,"config":{"a":"2"}}'
    assert len(chroot.other.get_children("/config/changes")) == 1


def test_clusters_without_a_controller_in_zookeeper_mode(run: Run, chroot: Chroot, tmp_path: Path) -> None:
    """Clusters without a controller or in migration to KRaft are refused, and so is a second reassignment."""
    chroot.topic("t", 1)
    chroot.other.ensure_path("/admin/delete_topics")
    chroot.other.ensure_path("/brokers/ids/0")
    broker = {"version": 4, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"], "listener_security_protocol_map": {}}
    chroot.other.set("/brokers/ids/0", json.dumps(broker).encode())
    file = tmp_path / "moves.json"
    file.write_text('{"partitions":[{"topic":"t","partition":0,"replicas":[0]}]}')

    def reassign() -> str:
        arguments = ("admin", "reassign", "--reassignment-json-file", str(file), "--yes", "--no-wait")
        return run(*arguments, connect=chroot.config.connect).stderr

    assert "[NO_ZOOKEEPER_CONTROLLER] The cluster has no controller" in reassign()
    chroot.other.create("/controller", b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}')
    assert "[NO_ZOOKEEPER_CONTROLLER] The cluster is being migrated" in reassign()
    chroot.other.set("/controller", b'{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}')
    assert "To undo the reassignment" in reassign()
    assert chroot.other.get("/admin/reassign_partitions")[0] == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0]}]}'
    )
    assert "t-0 is being reassigned already" in reassign()
    chroot.topic("u", 1)
    file.write_text('{"partitions":[{"topic":"u","partition":0,"replicas":[0]}]}')
    assert "[ADMIN_UNDER_WAY] The reassignment was not started" in reassign()
    shown = run("admin", "show", connect=chroot.config.connect).stdout
    assert shown.splitlines()[-1].split() == ["reassign_partitions", "t", "0", "0", "0/1"]
