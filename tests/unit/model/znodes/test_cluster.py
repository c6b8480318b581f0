"""Znodes of brokers, topics, partitions, the controller, the cluster's id and administration, of every version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import Broker, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes import cluster as znodes

BROKERS = [
    (b"creator-1:kafka1:9092", 0),  # 0.7, as it was
    (b"kafka1:9092", 0),  # 0.7, as documented
    (b'{"jmx_port":-1,"timestamp":"1","host":"kafka1","version":1,"port":9092}', 1),
    (b' \n{"jmx_port":-1,"timestamp":"1","host":"kafka1","version":1,"port":9092}\n', 1),
    (
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":2,"port":9092}',
        2,
    ),
    (
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":3,"port":9092}',
        3,
    ),
    (
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://kafka1:9092"],'
        b'"jmx_port":-1,"host":"kafka1","timestamp":"1","port":9092,"version":4}',
        4,
    ),
    (
        b'{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://kafka1:9092"],"jmx_port":-1,"port":9092,"host":"kafka1","version":5,"timestamp":"1"}',
        5,
    ),
]


@pytest.mark.parametrize(("data", "version"), BROKERS)
def test_versions(data: bytes, version: int) -> None:
    """All versions of a registration are decoded to the same broker."""
    found = znodes.decode_broker("/brokers/ids/7", data)
    assert found.broker == Broker(7, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092),))
    assert found.version == version
    assert found.host == "kafka1"
    assert found.port == 9092


@pytest.mark.parametrize("port", [0, 65_535])
@pytest.mark.parametrize(
    "registration",
    [
        "kafka1:%d",
        '{"host":"kafka1","version":1,"port":%d}',
        '{"endpoints":["PLAINTEXT://kafka1:%d"],"host":"kafka1","version":2,"port":9092}',
    ],
)
def test_ports(registration: str, port: int) -> None:
    """A port is any number of 16 bits."""
    found = znodes.decode_broker("/brokers/ids/7", (registration % port).encode())
    assert found.broker.endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", port),)


def test_broker_without_plaintext_listener() -> None:
    """Without PLAINTEXT, host is null and port -1; listeners may have IPv6 addresses and empty hosts; a rack is decoded."""
    data = (
        b'{"listener_security_protocol_map":{"IN":"SSL","OUT":"SASL_SSL"},"endpoints":["IN://[::1]:9093","OUT://:9094"],'
        b'"rack":"r1","jmx_port":9999,"host":null,"timestamp":"1","port":-1,"version":4}'
    )
    found = znodes.decode_broker("/brokers/ids/7", data)
    assert found.host is None
    assert found.port == -1
    assert found.timestamp == "1"
    assert found.broker == Broker(7, (Endpoint("IN", "SSL", "::1", 9093), Endpoint("OUT", "SASL_SSL", "", 9094)), "r1")


def test_listener_without_entry_in_the_map() -> None:
    """A listener that is not in the map has its name as protocol, and a newer version may have more keys."""
    found = znodes.decode_broker(
        "/brokers/ids/7",
        b'{"version":9,"host":"h","port":1,"endpoints":["SSL://h:2"],"listener_security_protocol_map":{},"x":1}',
    )
    assert found.broker.endpoints == (Endpoint("SSL", "SSL", "h", 2),)


BAD_BROKERS = [
    (None, ""),
    (b"", ""),
    (b"\xff\xfe", " in UTF-8"),
    (b"kafka1", ""),
    (b"kafka1:port", ""),
    (b"kafka1:99999", ""),
    (b"[]", ""),
    (b"7", ""),
    (b'{"host":"h","port":1}', " (version is a 32-bit integer)"),
    (b'{"version":0,"host":"h","port":1}', " (version is 1 or more)"),
    (b'{"version":true,"host":"h","port":1}', " (version is a 32-bit integer)"),
    (b'{"version":1,"host":null,"port":-1}', " (version 1 has host and port)"),
    (b'{"version":1,"host":"h","port":"9092"}', " (port is a 32-bit integer)"),
    (b'{"version":1,"host":"h","port":9092.0}', " (port is a 32-bit integer)"),
    (b'{"version":1,"host":"h","port":70000}', " (version 1 has host and port)"),
    (b'{"version":2,"host":"h","port":1}', " (endpoints is an array)"),
    (b'{"version":2,"host":"h","port":1,"endpoints":"PLAINTEXT://h:1"}', " (endpoints is an array)"),
    (b'{"version":2,"host":"h","port":1,"endpoints":[1]}', " (an endpoint is text)"),
    (b'{"version":2,"host":"h","port":1,"endpoints":["h:1"]}', " (an endpoint is LISTENER://host:port)"),
    (b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://::1:1"]}', " (an endpoint is LISTENER://host:port)"),
    (b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:99999"]}', " (an endpoint is LISTENER://host:port)"),
    (
        b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}',
        " (listener_security_protocol_map is a JSON object)",
    ),
    (b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{"A":1}}', " (A is text)"),
    (b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{},"rack":7}', " (rack is text)"),
    (b'{"version":5,"host":"h","port":NaN}', ""),
    (b'{"version":1,"host":"\\ud800","port":1}', ""),
]
"""Data of a znode, and what its error says after the general description."""


@pytest.mark.parametrize(("data", "wrong"), BAD_BROKERS)
def test_malformed_brokers(data: bytes | None, wrong: str) -> None:
    """Wrong JSON, wrong types and missing keys are errors that name the znode and the wrong part."""
    with pytest.raises(CodecError, match="Znode /brokers/ids/7 cannot be read") as caught:
        znodes.decode_broker("/brokers/ids/7", data)
    expected = "a broker registration: JSON with version, host, port and endpoints, or host:port" + wrong
    assert caught.value.parameters == {"path": "/brokers/ids/7", "data": data, "expected": expected}


def test_znode_whose_name_is_not_a_number() -> None:
    """The broker's id is the znode's name, which must be a number."""
    with pytest.raises(CodecError, match=r"/brokers/ids/seven cannot be read: .* expected a broker id as the znode's name"):
        znodes.decode_broker("/brokers/ids/seven", b"kafka1:9092")


TOPICS = [
    b'{"version":1,"partitions":{"2":[7],"1":[7],"3":[7],"0":[7]}}',
    b'{"version":2,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
    b'{"partitions":{"0":[2,1]},"topic_id":"E6OlbAbfTgySrDUMentLjg","adding_replicas":{},"removing_replicas":{},"version":3}',
]


@pytest.mark.parametrize(
    ("version", "topic_id"),
    [(b"", None), (b'"version":1,', None), (b'"version":2,', None), (b'"version":3,', "E6Ol")],
)
def test_ids_of_topics(version: bytes, topic_id: str | None) -> None:
    """A topic without a version has version 1, and versions below 3 have no topic id."""
    data = b'{%s"partitions":{"0":[1]},"topic_id":"E6Ol"}' % version
    assert znodes.decode_topic("/brokers/topics/t", data) == Topic("t", {0: (1,)}, topic_id)


def test_versions_of_topics() -> None:
    """A topic of every version has its partitions in numeric order, and its id if the version has one."""
    first, second, third = (znodes.decode_topic("/brokers/topics/t", data, 42) for data in TOPICS)
    assert first == Topic("t", dict.fromkeys(range(4), (7,)), None, 42)
    assert list(first.partitions) == [0, 1, 2, 3]
    assert second == Topic("t", {0: (1, 2, 3)}, None, 42)
    assert third == Topic("t", {0: (2, 1)}, "E6OlbAbfTgySrDUMentLjg", 42)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\x80",
        b"null",
        b"{}",
        b'{"version":1}',
        b'{"version":0,"partitions":{}}',
        b'{"version":"1","partitions":{}}',
        b'{"version":1,"partitions":[]}',
        b'{"version":1,"partitions":{"a":[1]}}',
        b'{"version":1,"partitions":{"-1":[1]}}',
        b'{"version":1,"partitions":{"\xc2\xb2":[1]}}',
        b'{"version":1,"partitions":{"99999999999":[1]}}',
        b'{"version":1,"partitions":{"0":1}}',
        b'{"version":1,"partitions":{"0":["1"]}}',
        b'{"version":1,"partitions":{"0":[true]}}',
        b'{"version":1,"partitions":{"0":[1.0]}}',
        b'{"version":1,"partitions":{"0":[2147483648]}}',
        b'{"version":3,"partitions":{},"topic_id":7}',
        b'{"version":1,"partitions":{}',
        b"[" * 100_000,
    ],
)
def test_malformed_topics(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys are errors that name the znode."""
    with pytest.raises(CodecError, match=r"/brokers/topics/t .* expected a topic: JSON such as {"):
        znodes.decode_topic("/brokers/topics/t", data)


def test_topic_of_version_0() -> None:
    """Versions of topics begin with 1, and the error says so."""
    with pytest.raises(CodecError, match=r" \(version is 1 or more\);"):
        znodes.decode_topic("/brokers/topics/t", b'{"version":0,"partitions":{}}')


STATE = '{"controller_epoch":61,"leader":%s,"version":1,"leader_epoch":5,"isr":[0,2,1]}'


@pytest.mark.parametrize(("leader", "expected"), [("0", 0), ("-1", -1), ("-2", -1), ("null", -1)])
def test_leader_of_a_partition(leader: str, expected: int) -> None:
    """The leader is -1 if it is missing or null, and during deletion."""
    found = znodes.decode_partition_state("/p/state", (STATE % leader).encode(), 42)
    assert found == PartitionState(expected, 5, (0, 2, 1), 61, 42)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{}",
        (STATE % "true").encode(),
        (STATE % '"1"').encode(),
        (STATE % "1.5").encode(),
        b'{"controller_epoch":1,"version":1,"leader_epoch":0,"isr":[1]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[null]}',
        b'{"leader":1,"version":1,"leader_epoch":0,"isr":[1]}',
    ],
)
def test_malformed_partition_states(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys are errors that name the znode."""
    with pytest.raises(CodecError, match=r"/p/state .* expected a partition state: JSON such as {"):
        znodes.decode_partition_state("/p/state", data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"160", znodes.ControllerInfo(160)),
        (b'{"version":1,"brokerid":160,"timestamp":"1452068227409"}', znodes.ControllerInfo(160, "1452068227409")),
        (b'{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}', znodes.ControllerInfo(0, "1")),
    ],
)
def test_versions_of_controllers(data: bytes, expected: znodes.ControllerInfo) -> None:
    """Controllers of every version are decoded, even the bare id of the first 0.8."""
    assert znodes.decode_controller(znodes.CONTROLLER, data) == expected


def test_topic_config() -> None:
    """A topic's configuration keeps the order of the znode."""
    found = znodes.decode_topic_config("/c", b'{"version":1,"config":{"retention.ms":"1","cleanup.policy":"compact"}}')
    assert list(found.items()) == [("retention.ms", "1"), ("cleanup.policy", "compact")]


def test_reassignment_and_election() -> None:
    """Partitions keep the order of the znode, and reassignments have the new replicas."""
    moves = b'{"topic":"t","partition":1,"replicas":[2,1]},{"topic":"s","partition":0,"replicas":[3]}'
    data = b'{"version":1,"partitions":[%s]}' % moves
    assert znodes.decode_reassignment("/r", data) == [
        (TopicPartition("t", 1), (2, 1)),
        (TopicPartition("s", 0), (3,)),
    ]
    assert znodes.decode_preferred_election("/e", data) == (TopicPartition("t", 1), TopicPartition("s", 0))


Decoder = Callable[[str, "bytes | None"], object]
EXPECTED: dict[Decoder, str] = {
    znodes.decode_controller: "a controller: JSON such as {",
    znodes.decode_controller_epoch: "a controller epoch, a bare integer",
    znodes.decode_cluster_id: "a cluster id: JSON such as {",
    znodes.decode_topic_config: "a topic config: JSON such as {",
    znodes.decode_reassignment: "a reassignment: JSON such as {",
    znodes.decode_preferred_election: "a preferred replica election: JSON such as {",
    znodes.decode_target_replicas: "a topic: JSON such as {",
}

BAD: list[tuple[Decoder, bytes | None]] = [
    (znodes.decode_controller, None),
    (znodes.decode_controller, b""),
    (znodes.decode_controller, b"one"),
    (znodes.decode_controller, b"2147483648"),
    (znodes.decode_controller, b'{"version":1}'),
    (znodes.decode_controller, b'{"version":1,"brokerid":"1"}'),
    (znodes.decode_controller_epoch, None),
    (znodes.decode_controller_epoch, b""),
    (znodes.decode_controller_epoch, b"1\n"),
    (znodes.decode_controller_epoch, b"2147483648"),
    (znodes.decode_controller_epoch, b"1" * 5000),
    (znodes.decode_cluster_id, b"abc"),
    (znodes.decode_cluster_id, b'{"version":"1"}'),
    (znodes.decode_cluster_id, b'{"version":"1","id":7}'),
    (znodes.decode_topic_config, None),
    (znodes.decode_topic_config, b'{"version":1}'),
    (znodes.decode_topic_config, b'{"version":1,"config":{"retention.ms":1}}'),
    (znodes.decode_reassignment, b'{"version":1,"partitions":{}}'),
    (znodes.decode_reassignment, b'{"version":1,"partitions":[1]}'),
    (znodes.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (znodes.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}'),
    (znodes.decode_preferred_election, None),
    (znodes.decode_preferred_election, b'{"version":1,"partitions":[{"partition":0}]}'),
    (znodes.decode_target_replicas, b'{"version":2}'),
    (znodes.decode_target_replicas, b'{"version":2,"partitions":{"x":[1]},"adding_replicas":{"x":[1]}}'),
]


@pytest.mark.parametrize(("decode", "data"), BAD)
def test_malformed_data(decode: Decoder, data: bytes | None) -> None:
    """Each decoder's error has the znode's path and data, and says what Kafka writes there."""
    with pytest.raises(CodecError, match=r"Znode /some/path cannot be read: found") as caught:
        decode("/some/path", data)
    assert caught.value.parameters["data"] == data
    assert str(caught.value.parameters["expected"]).startswith(EXPECTED[decode])


def test_wanted_replicas() -> None:
    """Replicas that Kafka 3.9.1 lists for removal are no target replicas, and partitions are in numeric order."""
    data = (
        b'{"partitions":{"0":[2,1,0],"1":[1,0,2],"2":[2,0],"3":[0,2]},"topic_id":"rzZHTTcTSKGL_v88cBTY-w",'
        b'"adding_replicas":{"0":[2],"1":[0]},"removing_replicas":{"0":[0],"1":[2]},"version":3}'
    )
    assert znodes.decode_target_replicas("/t", data) == {0: (2, 1), 1: (1, 0)}
    growing = b'{"version":2,"partitions":{"10":[1,2],"2":[1,3]},"adding_replicas":{"10":[2],"2":[3]}}'
    assert list(znodes.decode_target_replicas("/t", growing).items()) == [(2, (1, 3)), (10, (1, 2))]
    assert znodes.decode_target_replicas("/t", b'{"version":1,"partitions":{"0":[1]}}') == {}
    idle = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"0":[]},"removing_replicas":{}}'
    assert znodes.decode_target_replicas("/t", idle) == {}


RECORDED = json.loads((Path(__file__).parents[3] / "vectors" / "cli" / "admin" / "admin.json").read_text())


def written(path: str) -> list[bytes]:
    """Return the data that Kafka's tools wrote to znodes with this prefix."""
    found = [znode for call in RECORDED["calls"] for znode in call["znodes"].items()]
    return [data.encode() for name, data in found if name.startswith(path) and data is not None]


def test_bytes_of_kafkas_tools() -> None:
    """Requests and configurations are encoded to the bytes that Kafka's tools write."""
    (moves,), (elected,) = written(znodes.REASSIGN_PARTITIONS), written(znodes.PREFERRED_REPLICA_ELECTION)
    assert znodes.encode_reassignment(dict(znodes.decode_reassignment("/r", moves))) == moves
    assert znodes.encode_preferred_election(znodes.decode_preferred_election("/e", elected)) == elected
    configs = written(znodes.topic_config_path("orders"))
    assert len(configs) == 4
    assert [znodes.encode_topic_config(znodes.decode_topic_config("/c", data)) for data in configs] == configs
    assert set(written(znodes.CONFIG_CHANGE)) == {znodes.encode_config_change("orders", 4)}
    paths = [path for call in RECORDED["calls"] for path in call["znodes"]]
    assert znodes.delete_topic_path("totals") in paths
    assert znodes.CONFIG_CHANGE + "0000000000" in paths


def test_notices_for_old_brokers() -> None:
    """Brokers of 0.8 get a topic's name, and brokers of 0.9 to 0.10.1 get version 1 of the JSON."""
    assert znodes.encode_config_change("t", 1) == b'"t"'
    for registration in (2, 3):
        change = znodes.encode_config_change("t", registration)
        assert change == b'{"version":1,"entity_type":"topics","entity_name":"t"}'


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("retention.ms", ["-1", "+5", "86400000"], ["-2", "soon", "1.5", "", "9223372036854775808", "-+5", "\u0665"]),
        ("retention.bytes", ["-1", "0"], ["1k"]),
        ("segment.bytes", ["14", "1073741824", "2147483647"], ["13", "2147483648"]),
        ("cleanup.policy", ["compact", "delete", "compact,delete", "compact, delete"], ["", "none", "compact,", "or"]),
        ("compression.type", ["producer", "zstd"], ["zip", "zstd,gzip", " zstd"]),
        ("min.cleanable.dirty.ratio", ["0", "0.5", "1", ".5", "1.", "5e-1"], ["1.1", "nan", "half", "0_1", "\u0661", "."]),
        ("preallocate", ["true", "false"], ["yes"]),
        ("message.timestamp.type", ["CreateTime"], ["createtime"]),
        ("leader.replication.throttled.replicas", ["0:1,1:2", "*"], []),
    ],
)
def test_values_of_settings(name: str, good: list[str], bad: list[str]) -> None:
    """A value must have the type and range that Kafka expects."""
    assert [value for value in good if znodes.config_problems({name: value})] == []
    for value in bad:
        (problem,) = znodes.config_problems({name: value})
        assert problem.startswith(f"{name} is {value!r}; expected ")


def test_unknown_settings() -> None:
    """All problems are reported, and an unknown name is reported in Kafka's words."""
    settings = {"message.format.version": "0.10", "retention.msec": "5", "preallocate": "maybe"}
    assert znodes.config_problems(settings) == [
        "Unknown topic config name: retention.msec",
        "preallocate is 'maybe'; expected true or false",
    ]
