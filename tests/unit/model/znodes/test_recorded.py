"""Recorded znodes of brokers and consumers, all of which are recognized and decoded to the content of their text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import PartitionState, TopicPartition
from pyspark_zkafka.model.znodes import cluster, groups

VECTORS = Path(__file__).parents[3] / "vectors" / "znodes.json"

Contents = tuple[object, object]
"""The decoded value, and the expected value from the znode's text as plain JSON."""


def of_broker(path: str, data: bytes) -> Contents:
    """Return a broker's registration by its fields."""
    found, text = cluster.decode_broker(path, data), json.loads(data)
    urls = [f"{e.listener}://{e}" for e in found.broker.endpoints]
    fields = (found.broker.id, found.version, found.host, found.port, found.timestamp, urls)
    expected = [text[key] for key in ("version", "host", "port", "timestamp")]
    return fields, (
        int(path.rpartition("/")[2]),
        *expected,
        text.get("endpoints", [f"PLAINTEXT://{text['host']}:{text['port']}"]),
    )


def of_topic(path: str, data: bytes) -> Contents:
    """Return a topic's id and replicas."""
    found, text = cluster.decode_topic(path, data), json.loads(data)
    replicas = {int(partition): tuple(ids) for partition, ids in text["partitions"].items()}
    return (found.name, found.topic_id, found.partitions), (path.rpartition("/")[2], text.get("topic_id"), replicas)


def of_state(path: str, data: bytes) -> Contents:
    """Return a partition's leader, epochs and ISR."""
    text = json.loads(data)
    expected = PartitionState(text["leader"], text["leader_epoch"], tuple(text["isr"]), text["controller_epoch"])
    return cluster.decode_partition_state(path, data), expected


def of_controller(path: str, data: bytes) -> Contents:
    """Return the controller and the time of its election."""
    text = json.loads(data)
    return cluster.decode_controller(path, data), cluster.ControllerInfo(text["brokerid"], text["timestamp"])


def of_reassignment(path: str, data: bytes) -> Contents:
    """Return the replicas of partitions."""
    return cluster.decode_reassignment(path, data), [(partition_of(p), tuple(p["replicas"])) for p in partitions_of(data)]


def of_election(path: str, data: bytes) -> Contents:
    """Return the partitions to elect leaders for."""
    return cluster.decode_preferred_election(path, data), tuple(map(partition_of, partitions_of(data)))


def partitions_of(data: bytes) -> list[dict[str, Any]]:
    """Return the list of partitions in a znode of administration."""
    found: list[dict[str, Any]] = json.loads(data)["partitions"]
    return found


def partition_of(fields: dict[str, Any]) -> TopicPartition:
    """Return a partition from its fields in such a list."""
    return TopicPartition(fields["topic"], fields["partition"])


CONTENTS: dict[str, Callable[[str, bytes], Contents]] = {
    r"/brokers/ids/\d+": of_broker,
    r"/brokers/topics/[^/]+": of_topic,
    r"/brokers/topics/[^/]+/partitions/\d+/state": of_state,
    r"/controller": of_controller,
    r"/controller_epoch": lambda p, d: (cluster.decode_controller_epoch(p, d), int(d)),
    r"/cluster/id": lambda p, d: (cluster.decode_cluster_id(p, d), json.loads(d)["id"]),
    r"/config/topics/[^/]+": lambda p, d: (cluster.decode_topic_config(p, d), json.loads(d)["config"]),
    r"/admin/reassign_partitions": of_reassignment,
    r"/admin/preferred_replica_election": of_election,
    r"/consumers/[^/]+/ids/[^/]+": lambda p, d: (groups.encode_registration(groups.decode_registration(p, d)), d),
    r"/consumers/[^/]+/owners/[^/]+/\d+": lambda p, d: (groups.encode_owner(groups.decode_owner(p, d)), d),
    r"/consumers/[^/]+/offsets/[^/]+/\d+": lambda p, d: (groups.encode_offset(groups.decode_offset(p, d)), d),
}

WITHOUT_DATA = [
    r"/(brokers|config|admin|cluster|consumers)",
    r"/brokers/(ids|seqid|topics)",
    r"/brokers/topics/[^/]+/partitions(/\d+)?",
    r"/config/(brokers|changes|clients|ips|topics|users)",
    r"/admin/delete_topics(/[^/]+)?",
    r"/consumers/[^/]+(/(ids|owners|offsets))?",
    r"/consumers/[^/]+/(owners|offsets)/[^/]+",
]

OUT_OF_SCOPE = [
    r"/(isr_change_notification|log_dir_event_notification|feature|latest_producer_id_block)",
    r"/config/changes/config_change_\d{10}",
]
"""Znodes that only brokers read."""


def recorded() -> list[tuple[str, str, bytes | None]]:
    """Return scenario, path and data of each recorded znode that existed."""
    scenarios = json.loads(VECTORS.read_text())
    return [
        (name, znode["path"], None if znode["value"] is None else znode["value"].encode())
        for name, scenario in scenarios.items()
        for znode in scenario["znodes"]
        if "value" in znode
    ]


def matching(path: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match the whole path."""
    return [pattern for pattern in patterns if re.fullmatch(pattern, path)]


@pytest.mark.parametrize("scenario", sorted({name for name, _, _ in recorded()}))
def test_recorded_znodes_with_data(scenario: str) -> None:
    """Each znode with data is decoded by one codec to the content of its text, or is listed as out of scope."""
    for path, data in [(path, data) for name, path, data in recorded() if name == scenario and data]:
        if matching(path, OUT_OF_SCOPE):
            continue
        (pattern,) = matching(path, CONTENTS)
        found, expected = CONTENTS[pattern](path, data)
        assert found == expected, path


def test_recorded_znodes_without_data() -> None:
    """Each znode recorded without data is listed as having none or as out of scope."""
    for _, path, data in recorded():
        if not data:
            assert matching(path, WITHOUT_DATA + OUT_OF_SCOPE), path


def test_paths() -> None:
    """The path functions return paths that were recorded."""
    paths = {path for _, path, _ in recorded()}
    tp = TopicPartition("peer-a", 3)
    assert {
        f"{cluster.BROKER_IDS}/0",
        cluster.topic_path("peer-a"),
        cluster.partition_state_path(tp),
        cluster.topic_config_path("w"),
        f"{cluster.DELETE_TOPICS}/exp-del0",
        groups.group_path("g-two"),
        groups.id_path("g-two", groups.consumer_id("g-two", "c1")),
        groups.owner_path("g-two", tp),
        groups.offset_path("g-two", tp),
    } <= paths
