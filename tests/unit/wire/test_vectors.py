"""Requests and responses in each version, compared with bytes that tests/vectors/KafkaMessages.java recorded."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire import connection_messages as connections
from pyspark_zkafka.wire import group_messages as groups
from pyspark_zkafka.wire import metadata_messages, offset_messages
from pyspark_zkafka.wire import topic_messages as topics
from pyspark_zkafka.wire.connection_messages import Authentication, Supported
from pyspark_zkafka.wire.group_messages import (
    CommittedOffset,
    CommittedOffsets,
    DescribedGroup,
    DescribedMember,
    FoundCoordinator,
    ListedGroup,
)
from pyspark_zkafka.wire.metadata_messages import Metadata, Node, PartitionMetadata, TopicMetadata
from pyspark_zkafka.wire.offset_messages import AskedEpoch, AskedOffset, EpochEndOffset, ListedOffset
from pyspark_zkafka.wire.protocol import Api, MalformedResponse, Reader, Request, Unsupported
from pyspark_zkafka.wire.topic_messages import Outcome
from tests.support.recorded_messages import (
    CLIENT_ID,
    CORRELATION_ID,
    RECORDED,
    REQUEST,
    RESPONSE,
    TAGGED,
    Vector,
    needed,
    recorded,
)

MODULES = (connections, groups, metadata_messages, offset_messages, topics)
APIS = {api.name: api for module in MODULES for api in vars(module).values() if isinstance(api, Api)}

UNSUPPORTED = "ApiVersions", "unsupported version"


A0, A1, A2, A3 = (TopicPartition("a", number) for number in range(4))
G0, G1 = (TopicPartition("größe", number) for number in range(2))
ID = uuid.UUID("01234567-89ab-cdef-8877-665544332211")
TOKEN = bytes((number + 100) % 256 for number in range(200))
TIME_MS = 1_700_000_000_000
FAR = 2**40
ASKED = {A0: AskedOffset(-1), A3: AskedOffset(-2, 7), G1: AskedOffset(TIME_MS, 0)}


def create(topic: str, partitions: int, replicas: int, config: dict[str, str], *, only: bool) -> Callable[[int], Request]:
    return lambda v: topics.create_topic_request(v, topic, partitions, replicas, config, 30_000, validate_only=only)


REQUESTS: dict[tuple[str, str], Callable[[int], Request]] = {
    ("ApiVersions", "client"): lambda v: connections.api_versions_request(v, "1.2.3"),
    ("SaslHandshake", "mechanism"): lambda v: connections.sasl_handshake_request(v, "SCRAM-SHA-512"),
    ("SaslAuthenticate", "token"): lambda v: connections.sasl_authenticate_request(v, TOKEN),
    ("SaslAuthenticate", "empty"): lambda v: connections.sasl_authenticate_request(v, b""),
    ("Metadata", "all topics"): lambda v: metadata_messages.metadata_request(v, None),
    ("Metadata", "no topics"): lambda v: metadata_messages.metadata_request(v, []),
    ("Metadata", "topics"): lambda v: metadata_messages.metadata_request(v, ["a", "größe"]),
    ("Metadata", "created topic"): lambda v: metadata_messages.metadata_request(v, ["a"], create=True),
    ("ListOffsets", "ends"): lambda v: offset_messages.list_offsets_request(v, ASKED, read_committed=False),
    ("ListOffsets", "ends of committed records"): lambda v: offset_messages.list_offsets_request(
        v, ASKED, read_committed=True
    ),
    ("ListOffsets", "nothing"): lambda v: offset_messages.list_offsets_request(v, {}, read_committed=False),
    ("OffsetForLeaderEpoch", "epochs"): lambda v: offset_messages.epoch_ends_request(
        v, {A0: AskedEpoch(7, 6), G1: AskedEpoch(2, 2), A2: AskedEpoch(-1, 0)}
    ),
    ("FindCoordinator", "group"): lambda v: groups.find_coordinators_request(v, groups.GROUP, ["grüppe"]),
    ("FindCoordinator", "transactional id"): lambda v: groups.find_coordinators_request(v, groups.TRANSACTION, ["id"]),
    ("FindCoordinator", "groups"): lambda v: groups.find_coordinators_request(v, groups.GROUP, ["g", "h"]),
    ("OffsetFetch", "partitions"): lambda v: groups.offset_fetch_request(v, {"grüppe": [A0, A2, G1]}, stable=True),
    ("OffsetFetch", "no partitions"): lambda v: groups.offset_fetch_request(v, {"g": []}, stable=False),
    ("OffsetFetch", "all partitions"): lambda v: groups.offset_fetch_request(v, {"g": None}, stable=False),
    ("OffsetFetch", "groups"): lambda v: groups.offset_fetch_request(v, {"g": None, "h": [A0]}, stable=True),
    ("OffsetCommit", "offsets"): lambda v: groups.offset_commit_request(v, "grüppe", {A0: FAR, A2: 0, G1: 5}),
    ("OffsetDelete", "partitions"): lambda v: groups.offset_delete_request(v, "grüppe", [A0, A2]),
    ("ListGroups", "all"): groups.list_groups_request,
    ("DescribeGroups", "groups"): lambda v: groups.describe_groups_request(v, ["g", "grüppe"]),
    ("ConsumerGroupDescribe", "groups"): lambda v: groups.consumer_group_describe_request(v, ["g", "grüppe"]),
    ("DeleteGroups", "groups"): lambda v: groups.delete_groups_request(v, ["g", "grüppe"]),
    ("CreateTopics", "topic"): create("größe", 3, 2, {"cleanup.policy": "compact", "x": "ä"}, only=False),
    ("CreateTopics", "checked topic with defaults"): create("a", -1, -1, {}, only=True),
    ("CreatePartitions", "topic"): lambda v: topics.create_partitions_request(v, "größe", 12, 30_000, validate_only=False),
    ("CreatePartitions", "checked topic"): lambda v: topics.create_partitions_request(v, "a", 2, 1, validate_only=True),
    ("DeleteTopics", "topics"): lambda v: topics.delete_topics_request(v, ["a", "größe"], 30_000),
    ("DescribeConfigs", "setting of a broker"): lambda v: topics.describe_config_request(
        v, topics.BROKER, "1001", "offsets.retention.minutes"
    ),
    ("AlterConfigs", "checked topic"): lambda v: topics.validate_config_request(
        v, topics.TOPIC, "größe", {"cleanup.policy": "compact", "x": "ä"}
    ),
}


def cluster(v: int) -> Metadata:
    """The metadata of the sample, without the fields that version `v` lacks."""
    partitions = {
        0: PartitionMetadata(0, 1, 40 if v >= 7 else -1, (1, 1001), (1, 1001)),
        1: PartitionMetadata(9, 1001, 41 if v >= 7 else -1, (1, 1001), (1001,)),
        2: PartitionMetadata(5, -1, 42 if v >= 7 else -1, (1,), ()),
    }
    return Metadata(
        {1: Node("broker-1.example", 9092, "zone ä" if v >= 1 else None), 1001: Node("::1", 65_535)},
        {
            "a": TopicMetadata(0, partitions, ID if v >= 10 else None),
            "__consumer_offsets": TopicMetadata(0, {}),
            "größe": TopicMetadata(29, {}),
        },
        1001 if v >= 1 else None,
        "abcDEF123_-" if v >= 2 else None,
    )


def listed_offsets(v: int) -> dict[TopicPartition, ListedOffset]:
    """The offsets of the sample, without the fields that version `v` lacks."""
    return {
        A0: ListedOffset(0, FAR, TIME_MS if v >= 1 else -1, 7 if v >= 4 else -1),
        A3: ListedOffset(0, 5),
        A1: ListedOffset(6, -1),
        G0: ListedOffset(0, 0, -1, 0 if v >= 4 else -1),
    }


def listed_groups(v: int) -> tuple[int, list[ListedGroup]]:
    """The groups of the sample, without the fields that version `v` lacks."""
    rows = [
        ("grüppe", "consumer", "Stable", "consumer"),
        ("g", "", "Empty", "classic"),
        ("", "connect", "PreparingRebalance", "share"),
    ]
    return 0, [ListedGroup(*row[: 2 + (v >= 4) + (v >= 5)]) for row in rows]


def described_groups(v: int) -> dict[str, DescribedGroup]:
    """The groups of the sample, without the fields that version `v` lacks."""
    members = (
        DescribedMember("m-1", "client", "/10.0.0.1", None, frozenset({A0, G1})),
        DescribedMember("m-2", "clïent", "/::1", "instänz" if v >= 4 else None, frozenset({A1, A2})),
        DescribedMember("m-3", "", ""),
        DescribedMember("m-4", "client", "/10.0.0.1"),
        DescribedMember("m-5", "client", "/10.0.0.1", None, None),
    )
    worker = DescribedMember("m", "worker", "/10.0.0.2", None, None)
    return {
        "g": DescribedGroup(0, "Stable", "consumer", "range", members),
        "grüppe": DescribedGroup(0, "Stable", "connect", "sessioned", (worker,)),
    }


CONSUMER_GROUPS = {
    "g": DescribedGroup(
        0,
        "Reconciling",
        "consumer",
        "uniform",
        (
            DescribedMember("m-1", "clïent", "/10.0.0.1", "instänz", frozenset({A0, A1}), frozenset({A0, A1})),
            DescribedMember("m-2", "clïent", "/10.0.0.1", None, frozenset(), frozenset({G1})),
            DescribedMember("m-3", "clïent", "/10.0.0.1", None, frozenset({G1}), frozenset()),
        ),
    ),
    "grüppe": DescribedGroup(69, "", "consumer", "", (), "Group grüppe is not a consumer group."),
}
COMMITTED = {
    A0: CommittedOffset(0, FAR, "späte Daten"),
    A2: CommittedOffset(0, -1),
    A1: CommittedOffset(0, 5),
    G1: CommittedOffset(88, -1),
}
SETTINGS = {"offsets.retention.minutes": "10080", "ssl.keystore.password": None, "größe": ""}


def features(v: int) -> dict[str, int]:
    return {"metadata.version": 25, "größe": 2} if v >= 3 else {}


def without_members(v: int) -> dict[str, DescribedGroup]:
    missing = (69, "Gruppe h nicht gefunden") if v >= 6 else (0, None)
    return {
        "g": DescribedGroup(0, "Empty", "consumer"),
        "h": DescribedGroup(missing[0], "Dead", message=missing[1]),
        "i": DescribedGroup(16),
    }


def outcomes(message: str | None, error: int) -> Callable[[int], dict[str, Outcome]]:
    return lambda v: {"a": Outcome(0), "größe": Outcome(error, message)}


EXPECTED: dict[tuple[str, str], Callable[[int], Any]] = {
    ("ApiVersions", "cluster"): lambda v: Supported({0: (3, 13), 3: (0, 12), 18: (0, 4)}, features(v)),
    ("ApiVersions", "plain"): lambda v: Supported({36: (2, 2)}, {}),
    ("SaslHandshake", "accepted"): lambda v: (0, ["PLAIN", "SCRAM-SHA-512"]),
    ("SaslHandshake", "refused"): lambda v: (33, []),
    ("SaslAuthenticate", "accepted"): lambda v: Authentication(0, TOKEN, 3_600_000_000_000 if v >= 1 else 0),
    ("SaslAuthenticate", "refused"): lambda v: Authentication(58, b""),
    ("Metadata", "cluster"): cluster,
    ("Metadata", "starting broker"): lambda v: Metadata({}, {}),
    ("Metadata", "unknown id"): lambda v: Metadata({}, {"": TopicMetadata(100, {}, ID)}),
    ("ListOffsets", "offsets"): listed_offsets,
    ("ListOffsets", "nothing"): lambda v: {},
    ("OffsetForLeaderEpoch", "ends"): lambda v: {
        A0: EpochEndOffset(0, 6, FAR),
        A2: EpochEndOffset(75, -1, -1),
        G1: EpochEndOffset(0, -1, -1),
    },
    ("OffsetForLeaderEpoch", "nothing"): lambda v: {},
    ("FindCoordinator", "found"): lambda v: {"grüppe": FoundCoordinator(0, 1001, ("broker-1.example", 9092))},
    ("FindCoordinator", "refused"): lambda v: {"grüppe": FoundCoordinator(15, -1, ("", -1))},
    ("FindCoordinator", "several"): lambda v: {
        "g": FoundCoordinator(0, 1, ("a", 65_535)),
        "h": FoundCoordinator(30, -1, ("", -1)),
    },
    ("OffsetFetch", "offsets"): lambda v: {"grüppe": CommittedOffsets(0, COMMITTED)},
    ("OffsetFetch", "no offsets"): lambda v: {"grüppe": CommittedOffsets(0)},
    ("OffsetFetch", "refused"): lambda v: {"grüppe": CommittedOffsets(30)},
    ("OffsetFetch", "groups"): lambda v: {"g": CommittedOffsets(0, {A0: CommittedOffset(0, 3)}), "h": CommittedOffsets(16)},
    ("OffsetCommit", "outcomes"): lambda v: {A0: 0, A2: 12, G1: 25},
    ("OffsetCommit", "nothing"): lambda v: {},
    ("OffsetDelete", "outcomes"): lambda v: (0, {A0: 0, A2: 86}),
    ("OffsetDelete", "refused"): lambda v: (69, {}),
    ("ListGroups", "groups"): listed_groups,
    ("ListGroups", "starting coordinator"): lambda v: (14, []),
    ("DescribeGroups", "groups"): described_groups,
    ("DescribeGroups", "groups without members"): without_members,
    ("ConsumerGroupDescribe", "groups"): lambda v: CONSUMER_GROUPS,
    ("ConsumerGroupDescribe", "nothing"): lambda v: {},
    ("DeleteGroups", "outcomes"): lambda v: {"g": 0, "grüppe": 68},
    ("DeleteGroups", "nothing"): lambda v: {},
    ("CreateTopics", "outcomes"): outcomes("Topic 'größe' already exists.", 36),
    ("CreateTopics", "nothing"): lambda v: {},
    ("CreatePartitions", "outcomes"): outcomes("größe hat schon 12", 37),
    ("CreatePartitions", "nothing"): lambda v: {},
    ("DeleteTopics", "outcomes"): outcomes(None, 73),
    ("DeleteTopics", "nothing"): lambda v: {},
    ("DescribeConfigs", "settings"): lambda v: (Outcome(0, "" if v >= 1 else None), SETTINGS),
    ("DescribeConfigs", "refused"): lambda v: (Outcome(31, "Zugriff verweigert für 1001"), {}),
    ("AlterConfigs", "accepted"): lambda v: Outcome(0),
    ("AlterConfigs", "refused"): lambda v: Outcome(40, "Unbekannt: „x“"),
}
READERS: dict[str, Callable[[Reader], Any]] = {
    "ApiVersions": connections.read_api_versions,
    "SaslHandshake": connections.read_sasl_handshake,
    "SaslAuthenticate": connections.read_sasl_authenticate,
    "Metadata": metadata_messages.read_metadata,
    "ListOffsets": offset_messages.read_list_offsets,
    "OffsetForLeaderEpoch": offset_messages.read_epoch_ends,
    # Old versions answer for the one key or group of the request, and do not name it.
    "FindCoordinator": lambda r: groups.read_coordinators(r, ["grüppe"]),
    "OffsetFetch": lambda r: groups.read_offset_fetch(r, ["grüppe"]),
    "OffsetCommit": groups.read_offset_commit,
    "OffsetDelete": groups.read_offset_delete,
    "ListGroups": groups.read_list_groups,
    "DescribeGroups": groups.read_describe_groups,
    "ConsumerGroupDescribe": groups.read_consumer_group_describe,
    "DeleteGroups": groups.read_delete_groups,
    "CreateTopics": lambda r: topics.read_outcomes(r, topics.CREATE_TOPICS),
    "CreatePartitions": lambda r: topics.read_outcomes(r, topics.CREATE_PARTITIONS),
    "DeleteTopics": lambda r: topics.read_outcomes(r, topics.DELETE_TOPICS),
    "DescribeConfigs": topics.read_describe_config,
    "AlterConfigs": topics.read_alter_config,
}
NUMBER_LEFT = {("ApiVersions", 1), ("ApiVersions", 2), ("Metadata", 8), ("Metadata", 9), ("Metadata", 10)}
"""Versions that end with a number that nothing reads: a throttle time, the cluster's authorized operations."""
REQUEST_VECTORS = recorded(REQUEST, APIS)
RESPONSE_VECTORS = [vector for kind in (RESPONSE, TAGGED) for vector in recorded(kind, APIS) if vector[:2] != UNSUPPORTED]


def read(api: str, version: int, data: bytes) -> tuple[Any, Reader]:
    """Read a response after its header. Returns its values, and the reader behind the last byte that was read."""
    request = Request(APIS[api], version, b"")
    response = request.reader(data)
    request.read_header(response, CORRELATION_ID)
    return READERS[api](response), response


@pytest.mark.parametrize("kind", [REQUEST, RESPONSE, TAGGED])
def test_every_version_is_recorded(kind: str) -> None:
    """Each version of each API has vectors, and in flexible versions also with unknown tagged fields."""
    assert {(vector.api, vector.version) for vector in recorded(kind, APIS)} == needed(kind, APIS.values())


def test_every_sample_has_values() -> None:
    """The tables of this file have the values of each recorded sample, and no others."""
    assert {vector[:2] for vector in REQUEST_VECTORS} == REQUESTS.keys()
    assert {vector[:2] for vector in RESPONSE_VECTORS} == EXPECTED.keys()


@pytest.mark.parametrize("kind", [REQUEST, RESPONSE, TAGGED])
def test_versions_of_kafka_agree(kind: str) -> None:
    """Where both versions of Kafka's classes have a version of a message, they write the same bytes."""
    vectors = recorded(kind, APIS)
    assert len({vector[:3] for vector in vectors}) == len(vectors)


@pytest.mark.parametrize(Vector._fields, REQUEST_VECTORS)
def test_requests(api: str, sample: str, version: int, data: bytes) -> None:
    """A request has the same bytes as Java's for the same values, after its length."""
    request = REQUESTS[api, sample](version)
    assert request.api == APIS[api]
    assert request.version == version
    assert request.parts == ()
    assert request.encoded(CORRELATION_ID, CLIENT_ID) == len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize(Vector._fields, RESPONSE_VECTORS)
def test_responses(api: str, sample: str, version: int, data: bytes) -> None:
    """Java's response is read to its values. At its end, only one number of two APIs and tagged fields are left."""
    values, response = read(api, version, data)
    assert values == EXPECTED[api, sample](version)
    if (api, version) in NUMBER_LEFT:
        response.int32()
    if response.left:
        response.tags()
    response.finish()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_unsupported_version(version: int) -> None:
    """A broker that does not know the version of ApiVersions answers in version 0."""
    (answer,) = (vector.data for vector in recorded(RESPONSE, APIS) if vector[:2] == UNSUPPORTED)
    assert read("ApiVersions", version, answer)[0] is None


@pytest.mark.parametrize(Vector._fields, RESPONSE_VECTORS)
def test_cut_responses(api: str, sample: str, version: int, data: bytes) -> None:
    """A response that ends early is malformed. The fields at its end that nothing reads may be cut off."""
    values, response = read(api, version, data)
    required = len(data) - response.left
    for size in range(required):
        with pytest.raises(MalformedResponse):
            read(api, version, data[:size])
    for size in range(required, len(data)):
        assert read(api, version, data[:size])[0] == values


# As 32 bits, 16 bits and a varint, these are large or negative.
@pytest.mark.parametrize("hostile", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe"])
def test_damaged_responses(hostile: bytes) -> None:
    """Hostile numbers in any place are read as values, or raise an error of the protocol, and no other error."""
    for api, _, version, data in recorded(RESPONSE, APIS):
        if version in (APIS[api].oldest, APIS[api].flexible, APIS[api].newest):
            for at in range(4, len(data)):
                with suppress(MalformedResponse, Unsupported):
                    read(api, version, data[:at] + hostile + data[at + 4 :])


@pytest.mark.parametrize(
    ("api", "version", "before"),
    [
        ("ApiVersions", 0, "0000"),
        ("ApiVersions", 3, "0000"),
        ("SaslHandshake", 1, "0000"),
        ("SaslAuthenticate", 0, "0000 ffff"),
        ("SaslAuthenticate", 2, "00 0000 00"),
        ("Metadata", 0, ""),
        ("Metadata", 0, "00000000"),
        ("Metadata", 3, "00000000"),
        ("Metadata", 9, "00 00000000"),
        ("Metadata", 9, "00 00000000 01 00 00000001"),
        ("ListOffsets", 0, ""),
        ("ListOffsets", 0, "00000001 000161"),
        ("ListOffsets", 0, "00000001 000161 00000001 00000000 0000"),
        ("ListOffsets", 1, "00000001 000161"),
        ("ListOffsets", 4, "00000000 00000001 000161"),
        ("OffsetForLeaderEpoch", 2, "00000000"),
        ("OffsetForLeaderEpoch", 3, "00000000 00000001 000161"),
        ("FindCoordinator", 4, "00 00000000"),
        ("OffsetFetch", 1, ""),
        ("OffsetFetch", 3, "00000000 00000001 000161"),
        ("OffsetFetch", 6, "00 00000000"),
        ("OffsetFetch", 8, "00 00000000"),
        ("OffsetFetch", 8, "00 00000000 02 0267 02 0261"),
        ("OffsetCommit", 1, ""),
        ("OffsetCommit", 7, "00000000 00000001 000161"),
        ("OffsetDelete", 0, "0000 00000000"),
        ("ListGroups", 0, "0000"),
        ("ListGroups", 5, "00 00000000 0000"),
        ("DescribeGroups", 0, ""),
        ("DescribeGroups", 0, "00000001 0000 0000 0000 0000 0000"),
        ("DescribeGroups", 0, "00000001 0000 0000 0000 0000 0000 00000001 0000 0000 0000"),
        ("DescribeGroups", 6, "00 00000000 02 0000 00 01 01 01 01"),
        ("ConsumerGroupDescribe", 0, "00 00000000"),
        ("ConsumerGroupDescribe", 1, "00 00000000 02 0000 00 01 01 00000000 00000000 01"),
        ("ConsumerGroupDescribe", 1, "00 00000000 02 0000 00 01 01 00000000 00000000 01 02 01 00 00 00000000 01 01"),
        ("DeleteGroups", 0, "00000000"),
        ("DeleteGroups", 2, "00 00000000"),
        ("CreateTopics", 1, ""),
        ("CreateTopics", 2, "00000000"),
        ("CreatePartitions", 0, "00000000"),
        ("DeleteTopics", 0, ""),
        ("DeleteTopics", 1, "00000000"),
        ("DescribeConfigs", 0, "00000000"),
        ("DescribeConfigs", 1, "00000000 00000001 0000 ffff 02 0000"),
        ("DescribeConfigs", 1, "00000000 00000001 0000 ffff 02 0000 00000001 0000 0000 000000"),
        ("AlterConfigs", 0, "00000000"),
    ],
)
def test_hostile_counts(api: str, version: int, before: str) -> None:
    """A count that is negative, or larger than the rest of the response, is malformed at once: nothing is allocated."""
    counts = ["ffffffff07", "ffffffff0f"] if version >= APIS[api].flexible else ["7fffffff", "80000000", "fffffffe"]
    for count in counts:
        data = CORRELATION_ID.to_bytes(4, "big") + bytes.fromhex(before + count) + bytes(1000)
        tracemalloc.start()
        try:
            with pytest.raises(MalformedResponse, match=r"an array of|a field of|a length of"):
                read(api, version, data)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


class TestAssignments:
    """Assignments of consumers, which are bytes in a response."""

    OWNED = frozenset({A0, A2, G1})

    @pytest.mark.parametrize(("version", "data"), RECORDED[0]["assignments"])
    def test_versions(self, version: int, data: str) -> None:
        """Each version is read to the same partitions. User data may follow them; cut partitions are no assignment."""
        encoded = bytes.fromhex(data)
        topics_end = encoded.index("größe".encode()) + len("größe".encode()) + 8
        assert int.from_bytes(encoded[:2], "big") == version
        for size in range(1, len(encoded) + 1):
            found = groups.read_assignment(memoryview(encoded)[:size])
            assert found == (self.OWNED if size >= topics_end else None)

    def test_member_without_an_assignment(self) -> None:
        """A member without an assignment owns nothing."""
        assert groups.read_assignment(b"") == frozenset()

    @pytest.mark.parametrize(
        "data",
        [
            b"\x00",
            b"no assignment",
            bytes.fromhex("0000 7fffffff 000161"),
            bytes.fromhex("0000 fffffffe"),
            bytes.fromhex("0000 00000001 0001ff 00000001 00000000"),
            bytes.fromhex("0000 00000001 ffff 00000001 00000000"),
            bytes.fromhex("0000 00000001 000161 7fffffff 00000000"),
        ],
    )
    def test_other_bytes(self, data: bytes) -> None:
        """Bytes of another form are no assignment."""
        assert groups.read_assignment(data) is None
