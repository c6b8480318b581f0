"""Requests to the brokers: errors, descriptions and configurations."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Node, TopicPartitionInfo, Uuid

from pyspark_zkafka.brokers import log_lookups
from pyspark_zkafka.brokers.admin import (
    KafkaAdmin,
    covering_topics,
    described_snapshot,
    invalid_config,
    topic_id,
    unknown_topics,
)
from pyspark_zkafka.brokers.clients import MessageClient
from pyspark_zkafka.brokers.log_lookups import LookupSizes
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE
from pyspark_zkafka.errors import BrokersUnavailable, NoLeader, OptionError, ZKafkaError
from pyspark_zkafka.model.nouns import Broker, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing.processes import LOOPBACK
from pyspark_zkafka.wire import protocol
from tests.support.scripted_broker import Received, ScriptedBroker, answered
from tests.support.scripted_cluster import METADATA

T0, T1, T9 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)
SIZES = [LookupSizes(), LookupSizes(request=1), LookupSizes(request=1, bulk=2)]
UNREACHABLE = "127.0.0.1:1"
NO_LEADERS = "Failed to query partition leaders: No leaders found"


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=["one request", "two requests", "in bulk"])
def test_offsets(servers: str, sizes: LookupSizes, read_committed: bool) -> None:
    """Each partition gets the offset of its position, in any number of requests."""
    with KafkaAdmin(servers, {}, read_committed=read_committed, sizes=sizes) as admin:
        assert admin.list_offsets({T0: LATEST, T1: EARLIEST}) == {T0: 5, T1: 0}


@pytest.mark.parametrize("sizes", SIZES, ids=["one request", "two requests", "in bulk"])
def test_partitions_without_a_leader(servers: str, sizes: LookupSizes) -> None:
    """A partition without a leader gets its own error, or fails a lookup that needs all partitions."""
    with KafkaAdmin(servers, {}, sizes=sizes) as admin:
        found, failed = admin.list_offsets_each({T0: LATEST, T9: LATEST})
        assert (found, list(failed)) == ({T0: 5}, [T9])
        with pytest.raises(NoLeader, match="t-9"):
            admin.list_offsets({T0: LATEST, T9: LATEST})


@pytest.mark.parametrize("has_controller", [True, False])
def test_metadata_is_requested_first(servers: str, monkeypatch: pytest.MonkeyPatch, has_controller: bool) -> None:
    """Each client requests the metadata of topics once before it lists their offsets, of all without a controller."""
    requested: list[str] = []

    def metadata(self: KafkaAdmin, *topic: str, timeout_s: float) -> None:
        requested.extend(topic or sorted(topics)[1:])
        self._learned.update(topic or topics)

    def describe(self: KafkaAdmin, client: object, topics: Sequence[str], timeout_s: float) -> dict[str, object]:
        if not has_controller:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        requested.extend(topics)
        return {}

    monkeypatch.setattr(KafkaAdmin, "_metadata", metadata)
    monkeypatch.setattr(KafkaAdmin, "_described", describe)
    monkeypatch.setattr(KafkaAdmin, "_list_offsets", lambda *_: {})
    topics = [f"topic-{number}" for number in range(60)]
    with KafkaAdmin(servers, {}) as admin:
        for _ in range(2):
            admin.list_offsets_each({TopicPartition(topic, 0): LATEST for topic in topics})
        assert requested == sorted(topics)
        admin._replace_client()
        requested.clear()
        admin.list_offsets_each({TopicPartition(topic, 0): LATEST for topic in topics})
        assert requested == sorted(topics)


def test_described_topics_are_known(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of described topics are not requested again before their offsets are listed."""
    with KafkaAdmin(servers, {}) as admin:
        monkeypatch.setattr(admin, "_described", lambda *_: {"t": None})
        admin._describe(["t"])
        monkeypatch.setattr(admin, "_learn", lambda *_, **_more: pytest.fail("requested again"))
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_timestamps(servers: str) -> None:
    """Timestamps are never looked up in bulk, which only finds the ends of logs."""
    with KafkaAdmin(servers, {}, sizes=LookupSizes(bulk=1)) as admin:
        assert set(admin.list_offsets({T0: AtTimestamp(0)})) == {T0}


@pytest.mark.parametrize(
    ("position", "offset", "timestamp", "is_refused"),
    [(AtTimestamp(3), 7, -1, True), (AtTimestamp(3), 7, 3, False), (AtTimestamp(3), -1, -1, False), (LATEST, 7, -1, False)],
)
def test_timestamps_before_kafka_0_10_1(
    servers: str, monkeypatch: pytest.MonkeyPatch, position: Position, offset: int, timestamp: int, is_refused: bool
) -> None:
    """An offset for a time is refused if it has no time: old brokers return starts of segments, by times of files."""
    answer: Future[SimpleNamespace] = Future()
    answer.set_result(SimpleNamespace(offset=offset, timestamp=timestamp, leader_epoch=None))
    monkeypatch.setattr(KafkaAdmin, "_list_offsets", lambda self, positions, timeout_s: dict.fromkeys(positions, answer))
    with KafkaAdmin(servers, {}) as admin:
        found, failed = admin.list_offsets_each({T0: position})
    assert found == ({} if is_refused else {T0: offset})
    assert list(failed) == ([T0] if is_refused else [])
    assert all("The leader of t-0 does not find records by their time" in str(error) for error in failed.values())


@pytest.mark.parametrize("is_done", [True, False])
def test_format_without_timestamps(servers: str, monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    """In a topic whose format has no timestamps, no record is at or after a time."""
    refused = KafkaException(KafkaError(KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT))
    with KafkaAdmin(servers, {}) as admin:
        answer: Future[Any] = Future()
        monkeypatch.setattr(admin, "_list_offsets", lambda positions, timeout_s: dict.fromkeys(positions, answer))
        monkeypatch.setattr(admin, "_result", lambda doing, future: future.set_exception(refused) or future.result())
        if is_done:
            answer.set_exception(refused)
        assert admin.list_offsets({T0: AtTimestamp(7)}) == {T0: -1}


@pytest.mark.parametrize(("read_committed", "ends"), [(False, {}), (True, {T0: 5})])
def test_high_watermarks(servers: str, read_committed: bool, ends: dict[TopicPartition, int]) -> None:
    """High watermarks are looked up if the latest offset may differ from them."""
    with KafkaAdmin(servers, {}, read_committed=read_committed) as admin:
        assert admin.high_watermarks([T0]) == ends


def test_unreachable_brokers() -> None:
    """If no broker is reachable, the error of a lookup has partitions and cause; a refresh of metadata reports nothing."""
    with KafkaAdmin(UNREACHABLE, {"socket.timeout.ms": 300}) as admin:
        with pytest.raises(BrokersUnavailable, match=r"The leaders of t-0, t-1 did not answer: .*Connection refused"):
            admin.list_offsets({T0: LATEST, T1: LATEST})
        admin.refresh_metadata(["t"])


def test_a_client_that_cannot_be_replaced(servers: str) -> None:
    """A client stays if a missing file prevents its replacement. The next attempt replaces it."""
    with KafkaAdmin(servers, {}) as admin:
        first = admin._client
        admin._config |= {"security.protocol": "ssl", "ssl.ca.location": "/missing.pem"}
        for _ in range(2):
            with pytest.raises(OptionError, match="UNUSABLE_KAFKA_PROPERTY"):
                admin._replace_client()
            assert admin._client is first
        admin._config |= {"security.protocol": "plaintext", "ssl.ca.location": ""}
        admin._replace_client()
        assert admin._client is not first
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_clients_that_have_forgotten_the_brokers(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows topics but no brokers, which librdkafka repairs after minutes, is replaced at once."""

    def list_topics(*topic: str, timeout: float) -> None:
        time.sleep(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def list_offsets(positions: Mapping[object, object], **_options: object) -> dict[object, Future[Any]]:
        answers: dict[object, Future[Any]] = {partition: Future() for partition in positions}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError._NOENT, NO_LEADERS)))
        return answers

    with KafkaAdmin(servers, {"socket.timeout.ms": 1000}) as admin:
        monkeypatch.setattr(admin, "_servers", UNREACHABLE)  # the bootstrap servers are replaced by other brokers
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}
        monkeypatch.setattr(admin._client, "list_topics", list_topics)
        monkeypatch.setattr(admin._client, "list_offsets", list_offsets)
        assert admin.list_offsets({T0: LATEST, T1: EARLIEST}) == {T0: 5, T1: 0}


def test_clients_without_brokers_are_not_asked_for_offsets(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new client whose brokers do not answer lists no offsets: librdkafka would look up the leaders, and may crash."""

    def list_topics(*topic: str, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with KafkaAdmin(servers, {"socket.timeout.ms": 300}) as admin:
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}
        admin._servers = admin._config["bootstrap.servers"] = UNREACHABLE
        monkeypatch.setattr(admin._client, "list_topics", list_topics)
        admin.refresh_metadata(["t"])
        monkeypatch.setattr(admin._client, "list_offsets", lambda *_, **_more: pytest.fail("asked for offsets"))
        with pytest.raises(BrokersUnavailable, match="The leaders of t-0 did not answer"):
            admin.list_offsets({T0: LATEST})
        admin._servers = admin._config["bootstrap.servers"] = servers
        admin._replace_client()
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_bulk_lookups_after_a_failure(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client for bulk lookups is replaced after a lookup without an answer, and not needed if it cannot be made."""
    positions = {T0: LATEST, T1: LATEST}

    def without_token(client: MessageClient) -> None:
        raise BROKERS_UNAVAILABLE("no token")

    with KafkaAdmin(servers, {}, sizes=LookupSizes(bulk=2)) as admin:
        assert admin.list_offsets(positions) == {T0: 5, T1: 5}
        used = admin._lookup
        assert used is not None
        monkeypatch.setattr(log_lookups, "_PATIENCE_S", 0)
        assert admin.list_offsets(positions) == {T0: 5, T1: 5}
        assert admin._lookup is None
        monkeypatch.undo()
        assert admin.list_offsets(positions) == {T0: 5, T1: 5}
        assert admin._lookup not in (None, used)
        admin._close_lookup()
        monkeypatch.setattr(MessageClient, "__enter__", without_token)
        assert admin.list_offsets(positions) == {T0: 5, T1: 5}


def test_bootstrap_servers(servers: str) -> None:
    """A connection without bootstrap servers uses those of a snapshot."""
    connection = parse_connection({"zookeeper.connect": "zk1:2181"})
    with KafkaAdmin.of(connection, servers) as admin:
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_not_open() -> None:
    """An admin client outside its with block is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        KafkaAdmin(UNREACHABLE, {}).list_offsets({T0: LATEST})


NODES = [Node(2, "b2", 9092, "r2"), Node(1, "b1", 9092, None)]
TOPIC = SimpleNamespace(
    name="t",
    topic_id=Uuid(1, 2),
    partitions=[TopicPartitionInfo(1, None, NODES, []), TopicPartitionInfo(0, NODES[0], NODES, NODES[:1])],
)


def cluster(controller: int = 2, brokers: Sequence[int] = (2, 1), **topics: Sequence[Sequence[int]]) -> SimpleNamespace:
    """Return a cluster's metadata: its brokers, and its topics with the replicas of each partition."""
    return SimpleNamespace(
        brokers={number: SimpleNamespace(id=number, host=f"b{number}", port=9092) for number in brokers},
        controller_id=controller,
        cluster_id="c",
        topics={
            name: SimpleNamespace(
                error=None, partitions={n: SimpleNamespace(replicas=list(ids)) for n, ids in enumerate(replicas)}
            )
            for name, replicas in topics.items()
        },
    )


def test_snapshot() -> None:
    """Brokers and partitions are in order, and a partition without a leader has -1."""
    found = described_snapshot(cluster(), {"t": TOPIC}, "SSL", ["t"])
    assert list(found.brokers.values()) == [
        Broker(1, (Endpoint("SSL", "SSL", "b1", 9092),)),
        Broker(2, (Endpoint("SSL", "SSL", "b2", 9092),), "r2"),
    ]
    assert found.topics == {"t": Topic("t", {0: (2, 1), 1: (2, 1)}, topic_id(TOPIC))}
    assert found.states == {
        TopicPartition("t", 0): PartitionState(2, -1, (2,)),
        TopicPartition("t", 1): PartitionState(-1, -1, ()),
    }
    assert (found.controller, found.cluster_id) == (2, "c")


def test_racks_alone() -> None:
    """Topics that were described only for their brokers' racks are not in the snapshot."""
    found = described_snapshot(cluster(brokers=(1, 2, 3)), {"t": TOPIC}, "SSL", [])
    assert {number: broker.rack for number, broker in found.brokers.items()} == {1: None, 2: "r2", 3: None}
    assert not found.topics
    assert not found.states


def test_no_controller() -> None:
    """A cluster may have no controller for a moment."""
    assert described_snapshot(cluster(-1), {}, "SSL", []).controller is None


def test_covering_topics() -> None:
    """Covering topics are chosen so that each adds a broker."""
    topics = {"a": [[1], [2]], "b": [[2, 1]], "c": [[2], [3]], "d": [], "e": [[4]]}
    assert covering_topics(cluster(**topics)) == ["a", "c", "e"]
    assert covering_topics(cluster()) == []


def test_unknown_topics() -> None:
    """A topic with an error in metadata is not expected in the descriptions."""
    metadata = cluster(a=[[1]], b=[[1]], c=[[2]])
    metadata.topics["c"].error = "LEADER_NOT_AVAILABLE"
    assert unknown_topics(metadata, {"a": TOPIC}, ["a", "b", "c", "d"]) == ["b"]
    assert unknown_topics(metadata, {}, covering_topics(metadata)) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AAAAAAAAAAAAAAAAAAAAAA==", None),
        ("AAAAAAAAAAAAAAAAAAAAAA", None),
        ("a+b/cdefghijklmnopqrst==", "a-b_cdefghijklmnopqrst"),
    ],
)
def test_topic_ids(text: str, expected: str | None) -> None:
    """Ids are in the URL-safe alphabet without padding; an id of zeros is None."""
    assert topic_id(SimpleNamespace(topic_id=text)) == expected


@pytest.mark.parametrize("code", [KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION])
def test_invalid_configuration(code: int) -> None:
    """A configuration that a broker rejects raises an option error with the broker's text."""
    error = invalid_config("orders", KafkaError(code, "Unknown topic config name: retention"))
    assert error is not None
    assert error.condition == "INVALID_TOPIC_CONFIG"
    text = "The configuration of orders is not valid: Unknown topic config name: retention; correct the name or the value"
    assert error.message == text
    assert not error.retriable


@pytest.mark.parametrize(
    "code", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNSUPPORTED_VERSION]
)
def test_other_errors(code: int) -> None:
    """Other errors are not treated as errors of the configuration."""
    assert invalid_config("orders", KafkaError(code)) is None


def test_brokers_out_of_reach() -> None:
    """If no broker answers, the error names the request."""
    with KafkaAdmin("127.0.0.1:1", {"socket.timeout.ms": 300}) as admin:
        with pytest.raises(BrokersUnavailable, match="validating the configuration of orders at 127"):
            admin.check_topic_config("orders", {"retention.ms": "1"})
        with pytest.raises(BrokersUnavailable, match="describing the configuration of broker 1 at 127"):
            admin.broker_config(1, "transaction.max.timeout.ms")


def test_broker_that_does_not_know_the_request() -> None:
    """A broker without the request, as in Kafka before 0.11, validates nothing, which is no option error."""

    def metadata(request: Received) -> bytes:
        brokers = (
            protocol.int32(1)
            + protocol.int32(0)
            + protocol.string(LOOPBACK)
            + protocol.int32(broker.address[1])
            + protocol.string(None)
        )
        return answered(request, brokers + protocol.int32(0) + protocol.int32(0))

    with (
        ScriptedBroker(metadata, {METADATA: (0, 1)}) as broker,
        KafkaAdmin(f"{LOOPBACK}:{broker.address[1]}", {"socket.timeout.ms": 10_000}) as admin,
        pytest.raises(ZKafkaError, match=r"AlterConfigs .*not supported by broker") as caught,
    ):
        admin.check_topic_config("t", {"retention.ms": "1"})
    assert caught.value.condition != "INVALID_TOPIC_CONFIG"
