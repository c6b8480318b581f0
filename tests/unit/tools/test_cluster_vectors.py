"""Topics, brokers and controller as shown by zkafka, compared with recorded output of Kafka's tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.tools import views

FOLDER = Path(__file__).parents[2] / "vectors" / "cli" / "topics"
RECORDED = {version: json.loads((FOLDER / f"{version}.json").read_text()) for version in ("1.1.1", "3.9.1")}
DESCRIBED = ["describe", "describe --under-replicated-partitions", "describe --unavailable-partitions"]

Row = dict[str, Any]
NAMES = {
    "partition_count": "partitions",
    "replication_factor": "replication",
    "configs": "config",
    "registered": "timestamp",
    "elected": "timestamp",
    "controller": "broker",
}
"""The present names of columns, by their recorded names."""


def shown_rows(recorded: dict[str, Any], command: str) -> list[Row]:
    """Return the recorded rows of a command of zkafka."""
    return [{NAMES.get(name, name): value for name, value in row.items()} for row in recorded[command]["zkafka"]]


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


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_topics(recorded: dict[str, Any]) -> None:
    """The topics equal those of kafka-topics --list, and their values equal those of --describe."""
    shown = shown_rows(recorded, "list")
    assert [row["topic"] for row in shown] == recorded["list"]["kafka"].split()
    assert shown == list(summaries(recorded["describe"]["kafka"]))
    assert list(shown[0]) == [column.name for column in views._TOPICS]


@pytest.mark.parametrize("command", DESCRIBED)
@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_partitions(recorded: dict[str, Any], command: str) -> None:
    """The partitions equal those of kafka-topics --describe, even if a broker is missing."""
    shown = shown_rows(recorded, command)
    assert shown == list(partitions(recorded[command]["kafka"]))
    assert list(shown[0]) == [column.name for column in views._PARTITIONS]


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_brokers(recorded: dict[str, Any]) -> None:
    """The brokers equal those of kafka-broker-api-versions, sorted by id."""
    lines = recorded["brokers"]["kafka"].splitlines()
    told = [re.match(r"(.*):(\d+) \(id: (\d+) rack: (.*)\) -> \(", line) for line in lines]
    expected = sorted((int(m[3]), m[1], int(m[2]), None if m[4] == "null" else m[4]) for m in told if m)
    shown = shown_rows(recorded, "brokers")
    assert [(row["id"], row["host"], row["port"], row["rack"]) for row in shown] == expected
    assert shown[0].keys() <= {*(column.name for column in views._BROKERS), "version"}


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_controller(recorded: dict[str, Any]) -> None:
    """The controller equals the one in the znode /controller, as shown by zookeeper-shell."""
    told = json.loads(recorded["controller"]["kafka"].strip().splitlines()[-1])
    (row,) = shown_rows(recorded, "controller")
    assert row["broker"] == told["brokerid"]
    assert list(row) == [column.name for column in views._CONTROLLER]
