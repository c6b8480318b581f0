"""Topics, brokers and controller as shown by zkafka, compared with recorded output of Kafka's tools.

The znodes are written from what zkafka showed at the time of the recording.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.inspect.reads import read_cluster
from pyspark_zkafka.inspect.view_rows import broker_rows, controller_rows, partition_rows, topic_rows
from pyspark_zkafka.tools.views import brokers, controller, describe_topics, list_topics
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run

FOLDER = Path(__file__).parents[2] / "vectors" / "cli" / "topics"
RECORDED = {version: json.loads((FOLDER / f"{version}.json").read_text()) for version in ("1.1.1", "3.9.1")}
UNDER_REPLICATED, UNAVAILABLE = "describe --under-replicated-partitions", "describe --unavailable-partitions"
by_version = pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)

Row = dict[str, Any]


def ms(time: str) -> str:
    """Return a recorded time as in a znode."""
    return str(round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000))


def ensemble(recorded: dict[str, Any], *filters: str, stopped: int | None = None) -> EnsembleClient:
    """Return the ensemble of a recorded cluster; `filters` are the commands whose partitions were recorded last."""
    client = EnsembleClient()

    def put(path: str, content: object) -> None:
        client.put(path, json.dumps(content).encode())

    for row in recorded["brokers"]["zkafka"]:
        if row["id"] != stopped:
            given = ("version", "host", "port", "rack", "endpoints")
            shown = {name: row[name] for name in given if row[name] is not None}
            protocols = {"listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}}
            put(f"/brokers/ids/{row['id']}", {**shown, **protocols, "timestamp": ms(row["registered"])})
    (row,) = recorded["controller"]["zkafka"]
    client.put("/controller", recorded["controller"]["kafka"].strip().splitlines()[-1].encode())
    client.put("/controller_epoch", str(row["epoch"]).encode())
    put("/cluster/id", {"version": "1", "id": row["cluster_id"]})
    replicas: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for row in (row for command in ("describe", *filters) for row in recorded[command]["zkafka"]):
        replicas[row["topic"]][row["partition"]] = row["replicas"]
        state = {"version": 1, "leader": row["leader"], "isr": row["isr"], "leader_epoch": 0, "controller_epoch": 1}
        put(f"/brokers/topics/{row['topic']}/partitions/{row['partition']}/state", state)
    for row in recorded["list"]["zkafka"]:
        topic = {"version": 1 if row["topic_id"] is None else 3, "topic_id": row["topic_id"]}
        put(f"/brokers/topics/{row['topic']}", {**topic, "partitions": replicas[row["topic"]]})
        put(f"/config/topics/{row['topic']}", {"version": 1, "config": row["configs"]})
    return client


@pytest.fixture
def shown(views: Any, run: Run) -> Run:
    """A function that runs a command with ``--json`` on an ensemble, and returns its rows."""

    def shown(client: EnsembleClient, command: Any, **options: bool) -> list[Row]:
        report = read_cluster(client, ("brokers", "topics", "configs", "controller"))
        assert not report.unreadable
        views.rows.update(brokers=broker_rows(report), topics=topic_rows(report), controller=controller_rows(report))
        views.rows["partitions"] = partition_rows(report)
        return run(command, **options)

    return shown


def fields(line: str) -> dict[str, str]:
    """Return the tab-separated fields of a line of kafka-topics, ``Name: value`` or ``Name:value``."""
    pairs = (field.split(":", 1) for field in line.strip().split("\t"))
    return {name.strip(): value.strip() for name, value in pairs}


def ids(text: str) -> list[int]:
    """Return comma-separated broker ids."""
    return [int(word) for word in text.split(",") if word]


def partitions(output: str) -> Iterator[Row]:
    """Yield the partitions that kafka-topics describes as rows of zkafka."""
    for found in (fields(line) for line in output.splitlines() if line.startswith("\t")):
        yield {
            "topic": found["Topic"],
            "partition": int(found["Partition"]),
            "leader": None if found["Leader"] in ("none", "-1") else int(found["Leader"]),
            "replicas": ids(found["Replicas"]),
            "isr": ids(found["Isr"]),
        }


def in_kafka(rows: list[Row]) -> list[Row]:
    """Return rows of partitions without the columns that kafka-topics does not have."""
    return [{name: row[name] for name in ("topic", "partition", "leader", "replicas", "isr")} for row in rows]


def summaries(output: str) -> Iterator[Row]:
    """Yield the topics that kafka-topics describes as rows of zkafka, without broker settings, which 3.9.1 adds."""
    for found in (fields(line) for line in output.splitlines() if line.startswith("Topic:")):
        settings = dict(pair.split("=") for pair in found["Configs"].split(",") if pair)
        settings.pop("unclean.leader.election.enable", None)
        yield {
            "topic": found["Topic"],
            "topic_id": found.get("TopicId"),
            "partitions": int(found["PartitionCount"]),
            "replication": int(found["ReplicationFactor"]),
            "config": settings,
        }


@by_version
def test_topics(recorded: dict[str, Any], shown: Run) -> None:
    """The topics equal those of kafka-topics --list, and their values equal those of --describe."""
    found = shown(ensemble(recorded), list_topics)
    assert [row["topic"] for row in found] == recorded["list"]["kafka"].split()
    assert found == list(summaries(recorded["describe"]["kafka"]))


@by_version
def test_partitions(recorded: dict[str, Any], shown: Run) -> None:
    """The command lists the same partitions as kafka-topics --describe."""
    assert in_kafka(shown(ensemble(recorded), describe_topics)) == list(partitions(recorded["describe"]["kafka"]))


@by_version
@pytest.mark.parametrize("chosen", [UNDER_REPLICATED, UNAVAILABLE])
def test_partitions_without_a_broker(recorded: dict[str, Any], chosen: str, shown: Run) -> None:
    """Without a broker, the command lists the same under-replicated and unavailable partitions as kafka-topics."""
    client = ensemble(recorded, UNDER_REPLICATED, UNAVAILABLE, stopped=2)
    option = {UNDER_REPLICATED: "under_replicated", UNAVAILABLE: "unavailable"}[chosen]
    assert in_kafka(shown(client, describe_topics, **{option: True})) == list(partitions(recorded[chosen]["kafka"]))


@by_version
def test_brokers(recorded: dict[str, Any], shown: Run) -> None:
    """The brokers equal those of kafka-broker-api-versions, sorted by id."""
    lines = recorded["brokers"]["kafka"].splitlines()
    told = [re.match(r"(.*):(\d+) \(id: (\d+) rack: (.*)\) -> \(", line) for line in lines]
    expected = sorted((int(m[3]), m[1], int(m[2]), None if m[4] == "null" else m[4]) for m in told if m)
    found = shown(ensemble(recorded), brokers)
    assert len(expected) == len(lines)
    assert [(row["id"], row["host"], row["port"], row["rack"]) for row in found] == expected
    assert [row["timestamp"] for row in found] == [row["registered"] for row in recorded["brokers"]["zkafka"]]


@by_version
def test_controller(recorded: dict[str, Any], shown: Run) -> None:
    """The controller equals the one in the znode /controller, as shown by zookeeper-shell."""
    told = json.loads(recorded["controller"]["kafka"].strip().splitlines()[-1])
    (row,) = shown(ensemble(recorded), controller)
    assert row["broker"] == told["brokerid"]
    assert ms(row["timestamp"]) == told["timestamp"]
