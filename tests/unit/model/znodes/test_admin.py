"""Znodes of topic configuration and administration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes import cluster
from tests.support.cases import each


def test_topic_config() -> None:
    """A topic's configuration keeps the order of the znode."""
    found = cluster.decode_topic_config("/c", b'{"version":1,"config":{"retention.ms":"1","cleanup.policy":"compact"}}')
    assert list(found.items()) == [("retention.ms", "1"), ("cleanup.policy", "compact")]


def test_reassignment_and_election() -> None:
    """Partitions keep the order of the znode, and reassignments have the new replicas."""
    moves = b'{"topic":"t","partition":1,"replicas":[2,1]},{"topic":"s","partition":0,"replicas":[3]}'
    data = b'{"version":1,"partitions":[%s]}' % moves
    assert cluster.decode_reassignment("/r", data) == [
        (TopicPartition("t", 1), (2, 1)),
        (TopicPartition("s", 0), (3,)),
    ]
    assert cluster.decode_preferred_election("/e", data) == (TopicPartition("t", 1), TopicPartition("s", 0))


Decoder = Callable[[str, "bytes | None"], object]

BAD: list[tuple[Decoder, bytes | None]] = [
    (cluster.decode_topic_config, None),
    (cluster.decode_topic_config, b'{"version":1}'),
    (cluster.decode_topic_config, b'{"version":1,"config":{"retention.ms":1}}'),
    (cluster.decode_reassignment, b'{"version":1,"partitions":{}}'),
    (cluster.decode_reassignment, b'{"version":1,"partitions":[1]}'),
    (cluster.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (cluster.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}'),
    (cluster.decode_preferred_election, None),
    (cluster.decode_preferred_election, b'{"version":1,"partitions":[{"partition":0}]}'),
]


@each(("decode", "data"), BAD)
def test_malformed_data(decode: Decoder, data: bytes | None) -> None:
    """Each decoder's error names the znode and shows its data."""
    with pytest.raises(CodecError, match=r"Znode /some/path cannot be read: found"):
        decode("/some/path", data)


RECORDED = json.loads((Path(__file__).parents[3] / "vectors" / "cli" / "admin" / "admin.json").read_text())


def written(path: str) -> list[bytes]:
    """Return the data that Kafka's tools wrote to znodes with this prefix."""
    znodes = [znode for call in RECORDED["calls"] for znode in call["znodes"].items()]
    return [data.encode() for name, data in znodes if name.startswith(path) and data is not None]


def test_bytes_of_kafkas_tools() -> None:
    """Requests and configurations are encoded to the bytes that Kafka's tools write."""
    (moves,), (elected,) = written(cluster.REASSIGN_PARTITIONS), written(cluster.PREFERRED_REPLICA_ELECTION)
    assert cluster.encode_reassignment(dict(cluster.decode_reassignment("/r", moves))) == moves
    assert cluster.encode_preferred_election(cluster.decode_preferred_election("/e", elected)) == elected
    configs = written(cluster.topic_config_path("orders"))
    assert len(configs) == 4
    assert [cluster.encode_topic_config(cluster.decode_topic_config("/c", data)) for data in configs] == configs
    assert set(written(cluster.CONFIG_CHANGE)) == {cluster.encode_config_change("orders", 4)}
    paths = [path for call in RECORDED["calls"] for path in call["znodes"]]
    assert cluster.delete_topic_path("totals") in paths
    assert cluster.CONFIG_CHANGE + "0000000000" in paths


def test_notices_for_old_brokers() -> None:
    """Brokers of 0.8 get a topic's name, and brokers of 0.9 to 0.10.1 get version 1 of the JSON."""
    assert cluster.encode_config_change("t", 1) == b'"t"'
    assert cluster.encode_config_change("t", 3) == b'{"version":1,"entity_type":"topics","entity_name":"t"}'


@each(
    ("name", "good", "bad"),
    [
        ("retention.ms", ["-1", "+5", "86400000"], ["-2", "soon", "1.5", "", "9223372036854775808", "-+5", "\u0665"]),
        ("retention.bytes", ["-1", "0"], ["1k"]),
        ("segment.bytes", ["14", "1073741824"], ["13", "2147483648"]),
        ("cleanup.policy", ["compact", "delete", "compact,delete", "compact, delete"], ["", "none", "compact,"]),
        ("compression.type", ["producer", "zstd"], ["zip"]),
        ("min.cleanable.dirty.ratio", ["0", "0.5", "1", ".5", "1.", "5e-1"], ["1.1", "nan", "half", "0_1", "\u0661", "."]),
        ("preallocate", ["true", "false"], ["yes"]),
        ("message.timestamp.type", ["CreateTime"], ["createtime"]),
        ("leader.replication.throttled.replicas", ["0:1,1:2", "*"], []),
    ],
)
def test_values_of_settings(name: str, good: list[str], bad: list[str]) -> None:
    """A value must have the type and range that Kafka expects."""
    assert [value for value in good if cluster.config_problems({name: value})] == []
    for value in bad:
        (problem,) = cluster.config_problems({name: value})
        assert problem.startswith(f"{name} is {value!r}; expected ")


def test_unknown_settings() -> None:
    """All problems are reported, and an unknown name is reported in Kafka's words."""
    assert cluster.config_problems({"retention.msec": "5", "preallocate": "maybe"}) == [
        "Unknown topic config name: retention.msec",
        "preallocate is 'maybe'; expected true or false",
    ]
