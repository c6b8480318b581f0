"""Every znode that real brokers and consumers wrote is recognised, decoded, and encoded to the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_zkafka.errors import CodecError, OptionError
from pyspark_zkafka.protocol.model import Broker, Endpoint, PartitionState, TopicPartition
from pyspark_zkafka.protocol.znodes import admin, brokers, groups
from pyspark_zkafka.protocol.znodes import topics as znodes

VECTORS = Path(__file__).parents[3] / "vectors" / "znodes.json"

RoundTrip = Callable[[str, bytes], bytes]

ROUND_TRIPS: dict[str, RoundTrip] = {
    r"/brokers/ids/\d+": lambda p, d: brokers.encode_broker(brokers.decode_broker(p, d)),
    r"/brokers/topics/[^/]+": lambda p, d: znodes.encode_topic(znodes.decode_topic(p, d)),
    r"/brokers/topics/[^/]+/partitions/\d+/state": lambda p, d: znodes.encode_partition_state(
        znodes.decode_partition_state(p, d)
    ),
    r"/controller": lambda p, d: znodes.encode_controller(znodes.decode_controller(p, d)),
    r"/controller_epoch": lambda p, d: znodes.encode_controller_epoch(znodes.decode_controller_epoch(p, d)),
    r"/cluster/id": lambda p, d: znodes.encode_cluster_id(znodes.decode_cluster_id(p, d)),
    r"/feature": lambda p, d: znodes.encode_features(znodes.decode_features(p, d)),
    r"/config/topics/[^/]+": lambda p, d: admin.encode_topic_config(admin.decode_topic_config(p, d)),
    r"/config/changes/config_change_\d{10}": lambda p, d: admin.encode_config_change(admin.decode_config_change(p, d)),
    r"/admin/reassign_partitions": lambda p, d: admin.encode_reassignment(admin.decode_reassignment(p, d)),
    r"/admin/preferred_replica_election": lambda p, d: admin.encode_preferred_election(
        admin.decode_preferred_election(p, d)
    ),
    r"/latest_producer_id_block": lambda p, d: admin.encode_producer_id_block(admin.decode_producer_id_block(p, d)),
    r"/consumers/[^/]+/ids/[^/]+": lambda p, d: groups.encode_registration(groups.decode_registration(p, d)),
    r"/consumers/[^/]+/owners/[^/]+/\d+": lambda p, d: groups.encode_owner(groups.decode_owner(p, d)),
    r"/consumers/[^/]+/offsets/[^/]+/\d+": lambda p, d: groups.encode_offset(groups.decode_offset(p, d)),
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

OUT_OF_SCOPE = [r"/(isr_change_notification|log_dir_event_notification)"]
"""What only brokers tell each other."""


def recorded() -> list[tuple[str, str, bytes | None]]:
    """Scenario, path and data of each recorded znode that existed."""
    scenarios = json.loads(VECTORS.read_text())
    return [
        (name, znode["path"], None if znode["value"] is None else znode["value"].encode())
        for name, scenario in scenarios.items()
        for znode in scenario["znodes"]
        if "value" in znode
    ]


def matching(path: str, patterns: object) -> list[str]:
    """The patterns that the whole of a path matches."""
    return [pattern for pattern in patterns if re.fullmatch(pattern, path)]


@pytest.mark.parametrize("scenario", sorted({name for name, _, _ in recorded()}))
def test_golden_znodes_encode_to_the_bytes_that_were_recorded(scenario: str) -> None:
    """Each znode with data is decoded by one codec, and encoded again to the very bytes of the JVM."""
    with_data = [(path, data) for name, path, data in recorded() if name == scenario and data]
    for path, data in with_data:
        (pattern,) = matching(path, ROUND_TRIPS)
        assert ROUND_TRIPS[pattern](path, data) == data, path


def test_golden_znodes_without_data_are_all_known() -> None:
    """Each znode that was recorded without data is one of those that have none, or is listed as out of scope."""
    for _, path, data in recorded():
        if not data:
            assert matching(path, WITHOUT_DATA + OUT_OF_SCOPE), path


def test_golden_paths_are_the_paths_that_we_build() -> None:
    """The path functions give the paths that were recorded."""
    paths = {path for _, path, _ in recorded()}
    tp = TopicPartition("peer-a", 3)
    assert {
        brokers.broker_path(0),
        znodes.topic_path("peer-a"),
        znodes.partition_state_path(tp),
        admin.topic_config_path("w"),
        admin.config_change_path(2),
        admin.delete_topic_path("exp-del0"),
        groups.group_path("g-two"),
        groups.id_path("g-two", groups.consumer_id("g-two", "c1")),
        groups.owner_path("g-two", tp),
        groups.offset_path("g-two", tp),
    } <= paths


# --- brokers

BROKERS = [
    pytest.param(b"creator-1:kafka1:9092", 0, "creator-1", id="0.7 as it was"),
    pytest.param(b"kafka1:9092", 0, None, id="0.7 as documented"),
    pytest.param(b'{"jmx_port":-1,"timestamp":"1","host":"kafka1","version":1,"port":9092}', 1, None, id="1"),
    pytest.param(
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":2,"port":9092}',
        2,
        None,
        id="2",
    ),
    pytest.param(
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":3,"port":9092}',
        3,
        None,
        id="3",
    ),
    pytest.param(
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://kafka1:9092"],'
        b'"jmx_port":-1,"host":"kafka1","timestamp":"1","port":9092,"version":4}',
        4,
        None,
        id="4",
    ),
    pytest.param(
        b'{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://kafka1:9092"],"jmx_port":-1,"port":9092,"host":"kafka1","version":5,"timestamp":"1"}',
        5,
        None,
        id="5",
    ),
]


@pytest.mark.parametrize(("data", "version", "creator"), BROKERS)
def test_a_broker_of_every_version_gives_its_endpoint(data: bytes, version: int, creator: str | None) -> None:
    """All versions of a registration give the same broker, and their own bytes again."""
    found = brokers.decode_broker("/brokers/ids/7", data)
    assert found.broker == Broker(7, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092),))
    assert (found.version, found.creator) == (version, creator)
    assert brokers.encode_broker(found) == data


def test_a_broker_without_plaintext_listener_is_reached_by_its_endpoints() -> None:
    """Host is null and port -1 then; listeners have names, protocols, IPv6 addresses and empty hosts; there is a rack."""
    data = (
        b'{"listener_security_protocol_map":{"IN":"SSL","OUT":"SASL_SSL"},"endpoints":["IN://[::1]:9093","OUT://:9094"],'
        b'"rack":"r1","jmx_port":9999,"host":null,"timestamp":"1","port":-1,"version":4}'
    )
    found = brokers.decode_broker("/brokers/ids/7", data)
    assert (found.host, found.port, found.jmx_port) == (None, -1, 9999)
    assert found.broker == Broker(7, (Endpoint("IN", "SSL", "::1", 9093), Endpoint("OUT", "SASL_SSL", "", 9094)), "r1")
    assert brokers.encode_broker(found) == data


def test_a_listener_that_the_map_lacks_is_named_by_its_protocol() -> None:
    """Version 2 has no map, and a newer version may have more keys and a higher number."""
    found = brokers.decode_broker(
        "/brokers/ids/7",
        b'{"version":9,"host":"h","port":1,"endpoints":["SSL://h:2"],"listener_security_protocol_map":{},"x":1}',
    )
    assert found.broker.endpoints == (Endpoint("SSL", "SSL", "h", 2),)


BAD_BROKERS = [
    None,
    b"",
    b"\xff\xfe",
    b"kafka1",
    b"kafka1:port",
    b"kafka1:99999",
    b"[]",
    b"7",
    b'{"host":"h","port":1}',
    b'{"version":0,"host":"h","port":1}',
    b'{"version":true,"host":"h","port":1}',
    b'{"version":1,"host":null,"port":-1}',
    b'{"version":1,"host":"h","port":"9092"}',
    b'{"version":1,"host":"h","port":9092.0}',
    b'{"version":1,"host":"h","port":70000}',
    b'{"version":2,"host":"h","port":1}',
    b'{"version":2,"host":"h","port":1,"endpoints":"PLAINTEXT://h:1"}',
    b'{"version":2,"host":"h","port":1,"endpoints":[1]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["h:1"]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://::1:1"]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:99999"]}',
    b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}',
    b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{"A":1}}',
    b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{},"rack":7}',
    b'{"version":5,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{},"features":{"f":1}}',
    b'{"version":5,"host":"h","port":NaN}',
    b'{"version":1,"host":"\\ud800","port":1}',
]


@pytest.mark.parametrize("data", BAD_BROKERS)
def test_a_malformed_broker_is_an_error_that_quotes_its_path(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys name the znode."""
    with pytest.raises(CodecError, match="Znode /brokers/ids/7 cannot be read"):
        brokers.decode_broker("/brokers/ids/7", data)


def test_a_broker_whose_znode_is_not_a_number_is_an_error() -> None:
    """The broker's id is the znode's name."""
    with pytest.raises(CodecError, match="/brokers/ids/seven"):
        brokers.decode_broker("/brokers/ids/seven", b"kafka1:9092")


# --- topics and partition states

TOPICS = [
    b'{"version":1,"partitions":{"2":[7],"1":[7],"3":[7],"0":[7]}}',
    b'{"version":2,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
    b'{"partitions":{"0":[2,1]},"topic_id":"E6OlbAbfTgySrDUMentLjg","adding_replicas":{},"removing_replicas":{},"version":3}',
]


@pytest.mark.parametrize("data", TOPICS)
def test_a_topic_of_every_version_encodes_to_its_bytes(data: bytes) -> None:
    """Partitions keep the order of the znode."""
    assert znodes.encode_topic(znodes.decode_topic("/brokers/topics/t", data)) == data


def test_a_topics_partitions_come_in_numeric_order() -> None:
    """The planner's topic is ordered, and knows its identity."""
    topic = znodes.decode_topic("/brokers/topics/t", TOPICS[0]).topic("t", 42)
    assert list(topic.partitions) == [0, 1, 2, 3]
    assert (topic.name, topic.topic_id, topic.czxid) == ("t", None, 42)
    assert znodes.decode_topic("/brokers/topics/t", TOPICS[2]).topic("t").topic_id == "E6OlbAbfTgySrDUMentLjg"


def test_a_topic_that_is_being_reassigned_says_which_replicas_move() -> None:
    """Version 2 has the replicas that are added and removed."""
    found = znodes.decode_topic("/brokers/topics/t", TOPICS[1])
    assert (found.partitions, found.adding, found.removing) == ({0: (1, 2, 3)}, {0: (3,)}, {0: (1,)})


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
def test_a_malformed_topic_is_an_error_that_quotes_its_path(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys name the znode."""
    with pytest.raises(CodecError, match="/brokers/topics/t "):
        znodes.decode_topic("/brokers/topics/t", data)


def test_a_topic_of_0_7_has_no_data_and_counts_by_broker() -> None:
    """A topic's znode without data has the layout of 0.7: each broker's child says how many partitions it has."""
    path = znodes.legacy_partition_count_path("login", 3)
    assert path == "/brokers/topics/login/3"
    assert znodes.is_legacy_topic(None)
    assert not znodes.is_legacy_topic(TOPICS[0])
    assert znodes.decode_legacy_partition_count(path, b"2") == 2
    assert znodes.encode_legacy_partition_count(2) == b"2"
    for data in (None, b"", b"-1", b"two"):
        with pytest.raises(CodecError, match="/brokers/topics/login/3"):
            znodes.decode_legacy_partition_count(path, data)


STATE = '{"controller_epoch":61,"leader":%s,"version":1,"leader_epoch":5,"isr":[0,2,1]}'


@pytest.mark.parametrize(("leader", "expected"), [("0", 0), ("-1", -1), ("-2", -1), ("null", -1)])
def test_a_partition_without_leader_is_led_by_minus_one(leader: str, expected: int) -> None:
    """No leader, a null one and one under deletion are the same to us."""
    found = znodes.decode_partition_state("/p/state", (STATE % leader).encode())
    assert found == PartitionState(expected, 5, (0, 2, 1), 61)


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
def test_a_malformed_partition_state_is_an_error_that_quotes_its_path(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys name the znode."""
    with pytest.raises(CodecError, match="/p/state "):
        znodes.decode_partition_state("/p/state", data)


# --- controller, cluster, features


@pytest.mark.parametrize(
    ("data", "broker", "version"),
    [
        (b"160", 160, 0),
        (b'{"version":1,"brokerid":160,"timestamp":"1452068227409"}', 160, 1),
        (b'{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}', 0, 2),
    ],
)
def test_a_controller_of_every_version_encodes_to_its_bytes(data: bytes, broker: int, version: int) -> None:
    """The bare id of the first 0.8 is understood, too."""
    found = znodes.decode_controller(znodes.CONTROLLER, data)
    assert (found.broker, found.version) == (broker, version)
    assert znodes.encode_controller(found) == data


def test_the_levels_of_feature_version_1_are_the_highest_ones() -> None:
    """Version 1 has bounds where version 2 has a level."""
    data = b'{"features":{"m":{"min_version_level":1,"max_version_level":3}},"version":1,"status":0}'
    assert znodes.decode_features(znodes.FEATURE, data) == znodes.FeatureInfo({"m": 3}, 1, 0)


Decoder = Callable[[str, "bytes | None"], object]

BAD: list[tuple[Decoder, bytes | None]] = [
    (znodes.decode_controller, None),
    (znodes.decode_controller, b""),
    (znodes.decode_controller, b"one"),
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
    (znodes.decode_features, b'{"version":2,"status":1}'),
    (znodes.decode_features, b'{"features":{"m":"1"},"version":2,"status":1}'),
    (znodes.decode_features, b'{"features":{"m":{}},"version":1,"status":1}'),
    (admin.decode_topic_config, None),
    (admin.decode_topic_config, b'{"version":1}'),
    (admin.decode_topic_config, b'{"version":1,"config":{"retention.ms":1}}'),
    (admin.decode_config_change, b""),
    (admin.decode_config_change, b'"t'),
    (admin.decode_config_change, b'{"version":3,"entity_path":"topics/t"}'),
    (admin.decode_config_change, b'{"version":2}'),
    (admin.decode_config_change, b'{"version":1,"entity_type":"topics"}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":{}}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[1]}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}'),
    (admin.decode_preferred_election, None),
    (admin.decode_preferred_election, b'{"version":1,"partitions":[{"partition":0}]}'),
    (admin.decode_producer_id_block, b'{"version":1,"broker":0,"block_start":0,"block_end":"9"}'),
    (admin.decode_producer_id_block, b'{"version":1,"broker":0,"block_start":"a","block_end":"9"}'),
    (groups.decode_owner, None),
    (groups.decode_owner, b""),
    (groups.decode_owner, b"\xff"),
]


@pytest.mark.parametrize(("decode", "data"), BAD)
def test_malformed_data_is_an_error_that_quotes_the_path(decode: Decoder, data: bytes | None) -> None:
    """Each decoder names the znode and shows what it found."""
    with pytest.raises(CodecError, match=r"Znode /some/path cannot be read: found"):
        decode("/some/path", data)


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (b'"orders"', admin.ConfigChange("topics/orders", 0)),
        (b'{"version":1,"entity_type":"topics","entity_name":"orders"}', admin.ConfigChange("topics/orders", 1)),
        (b'{"version":2,"entity_path":"users/u/clients/c"}', admin.ConfigChange("users/u/clients/c", 2)),
    ],
)
def test_config_changes_of_every_version(data: bytes, change: admin.ConfigChange) -> None:
    """All three forms say whose configuration changed, and encode to their bytes."""
    assert admin.decode_config_change("/c", data) == change
    assert admin.encode_config_change(change) == data


# --- consumers

ONE = {"a": 1}
ACCEPTED = [
    (b'{"pattern":"static","subscription":{"a":1}}', groups.ConsumerRegistration(ONE)),
    (b'{"subscription":{"a":1},"x":[],"pattern":"static","timestamp":5}', groups.ConsumerRegistration(ONE, timestamp="5")),
    (b' {"subscription" : {"a" : 1} , "pattern" : "static"}\n', groups.ConsumerRegistration(ONE)),
    (b'{"version":1,"subscription":{"a":1},"pattern":"new"}', groups.ConsumerRegistration(ONE)),
    (b'{"version":1,"subscription":{},"pattern":"static"}', groups.ConsumerRegistration({})),
    (
        b'{"version":1,"subscription":{"a.*":1,"b.*":2},"pattern":"white_list"}',
        groups.ConsumerRegistration({"a.*": 1}, "white_list"),
    ),
    (b'{"version":1,"subscription":{"(":1},"pattern":"static"}', groups.ConsumerRegistration({"(": 1})),
    (
        b'{ "pattern":"static", "subscription":{ "a":1, "b":2 }, "timestamp":"7", "version":1 }',
        groups.ConsumerRegistration({"a": 1, "b": 2}, "static", "7", groups.Form.SPACED),
    ),
    (b'{ "a": 4,"b": 1 }', groups.ConsumerRegistration({"a": 4, "b": 1}, form=groups.Form.LEGACY)),
    (b'{"a":4}', groups.ConsumerRegistration({"a": 4}, form=groups.Form.LEGACY)),
    (b"*2*a.*", groups.ConsumerRegistration({"a.*": 2}, "white_list", form=groups.Form.LEGACY)),
    (b"!1!a|b", groups.ConsumerRegistration({"a|b": 1}, "black_list", form=groups.Form.LEGACY)),
]


@pytest.mark.parametrize(("data", "expected"), ACCEPTED)
def test_registrations_that_the_jvm_accepts(data: bytes, expected: groups.ConsumerRegistration) -> None:
    """What Kafka's 1.1.1 consumer was seen to accept is accepted, and the forms of 0.8.0 and 0.7."""
    assert groups.decode_registration("/consumers/g/ids/c", data) == expected


@pytest.mark.parametrize("data", [data for data, _ in ACCEPTED[7:9] + ACCEPTED[10:]])
def test_registrations_of_old_releases_encode_to_their_bytes(data: bytes) -> None:
    """0.8.0 sorts keys and writes blanks, 0.7 has no keys."""
    assert groups.encode_registration(groups.decode_registration("/c", data)) == data


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff",
        b"peer-a",
        b"[]",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"subscription":{"a":1},"timestamp":"1"}',
        b'{"version":1,"subscription":{"a":1},"pattern":null}',
        b'{"version":1,"subscription":{"a":1},"pattern":1}',
        b'{"version":1,"pattern":"static"}',
        b'{"version":1,"subscription":[],"pattern":"static"}',
        b'{"version":1,"subscription":{"a":1.0},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":"1"},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":0},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":true},"pattern":"static"}',
        b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
        b'{"a":0}',
        b'{"a":{}}',
        b"*0*a",
        b"*2!a",
        b"*2*(",
        b"*9999999999*a",
    ],
)
def test_registrations_that_the_jvm_refuses(data: bytes | None) -> None:
    """What Kafka's 1.1.1 consumer was seen to refuse is an error that names the znode."""
    with pytest.raises(CodecError, match="/consumers/g/ids/c"):
        groups.decode_registration("/consumers/g/ids/c", data)


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"20", 20), (b"+7", 7), (b"007", 7), (b"-1", -1), (b"-0", 0), (b"9223372036854775807", 2**63 - 1)],
)
def test_offsets_that_java_parses(data: bytes, offset: int) -> None:
    """Offsets are parsed as Long.parseLong does it."""
    assert groups.decode_offset("/o", data) == offset


@pytest.mark.parametrize(
    "data",
    [None, b"", b" 7", b"7 ", b"7\n", b"abc", b"7.0", b"1_0", b"0x1", b"+", b"--1", b"9223372036854775808", "٧".encode()],
)
def test_offsets_that_are_errors(data: bytes | None) -> None:
    """Blanks, fractions, more than 64 bits and other scripts are errors that name the znode."""
    with pytest.raises(CodecError, match="Znode /o "):
        groups.decode_offset("/o", data)


def test_keys_of_owners_and_offsets_are_partitions_in_both_layouts() -> None:
    """A number is a partition, two numbers are a broker's partition of 0.7; anything else names the znode."""
    assert groups.parse_key("/x", "t", "12") == TopicPartition("t", 12)
    assert groups.parse_key("/x", "t", "3-12") == groups.LegacyPartition("t", 3, 12)
    assert groups.owner_path("g", groups.LegacyPartition("t", 3, 12)) == "/consumers/g/owners/t/3-12"
    for key in ("", "a", "-1", "01", "1-", "1-2-3", "9999999999", "\udc80"):
        with pytest.raises(CodecError, match="Znode /x "):
            groups.parse_key("/x", "t", key)


@pytest.mark.parametrize("group", ["", ".", "..", "a/b", "a\0"])
def test_a_group_that_no_znode_can_be_named_after_is_an_option_error(group: str) -> None:
    """The path is never built."""
    with pytest.raises(OptionError, match="INVALID_GROUP"):
        groups.offsets_path(group)


@pytest.mark.parametrize(
    ("regex", "normal"),
    [
        ("a,b", "a|b"),
        (" a , b ", "a|b"),
        ("'a.*'", "a.*"),
        ('"\'a"', "a"),
        ("a'b", "a'b"),
        ("\ta\n", "a"),
        ("a\tb", "a\tb"),
        ("' a'", "a"),
    ],
)
def test_filters_are_normalised_as_the_consumer_does_it(regex: str, normal: str) -> None:
    """Commas become alternatives, blanks and surrounding quotes go."""
    assert groups.normalise_filter(regex) == normal


def test_a_thread_belongs_to_what_stands_before_its_last_dash() -> None:
    """Host names have dashes, too; the ids are the recorded ones."""
    consumer = groups.generated_consumer_id("g-static1", "vm", 1795228857340, 0xA1264592_0123_4567)
    assert consumer == "g-static1_vm-1795228857340-a1264592"
    assert groups.thread_id(consumer, 10) == "g-static1_vm-1795228857340-a1264592-10"
    assert groups.consumer_of_thread(groups.thread_id(consumer, 10)) == consumer
    assert groups.consumer_of_thread("nodash") == "nodash"
