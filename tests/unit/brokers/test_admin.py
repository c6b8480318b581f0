"""Requests to the brokers: metadata, offsets of logs, topics and configurations."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin, LogPosition, cluster_snapshot, topic_id
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, NoLeader, OptionError, UnknownTopic, ZKafkaError
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.model.nouns import Broker, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, HIGH_WATERMARK, LATEST, AtTimestamp
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.wire.metadata_messages import METADATA, Metadata, Node, PartitionMetadata, TopicMetadata
from pyspark_zkafka.wire.offset_messages import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, EpochEndOffset
from pyspark_zkafka.wire.protocol import Reader, array, int8, int16, int32, int64, string
from pyspark_zkafka.wire.topic_messages import ALTER_CONFIGS, CREATE_TOPICS, DELETE_TOPICS
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_groups import SILENT, Answers, api_ranges

T0, T1, T9 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)
UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize("most", [1, 1_000])
@pytest.mark.parametrize("read_committed", [False, True])
def test_offsets(servers: str, monkeypatch: pytest.MonkeyPatch, read_committed: bool, most: int) -> None:
    """Each partition gets the offset of its position, in any number of requests, in the order of the positions."""
    monkeypatch.setattr("pyspark_zkafka.brokers.admin._MOST_PARTITIONS", most)
    positions = {T1: EARLIEST, T0: LATEST, TopicPartition("t", 2): HIGH_WATERMARK, TopicPartition("t", 3): AtTimestamp(0)}
    with KafkaAdmin(servers, {}, read_committed=read_committed) as admin:
        found = admin.list_offsets(positions)
        assert list(found) == list(positions)
        assert found[T1] == 0
        assert found[T0] == 5


def test_unknown_partition(servers: str) -> None:
    """A partition that does not exist gets its own error, or fails a lookup that needs all partitions."""
    with KafkaAdmin(servers, {}) as admin:
        found, failed = admin.list_offsets_each({T0: LATEST, T9: LATEST})
        assert found == {T0: 5}
        assert list(failed) == [T9]
        with pytest.raises(UnknownTopic, match="t-9"):
            admin.list_offsets({T0: LATEST, T9: LATEST})


@pytest.mark.parametrize(("read_committed", "ends"), [(False, {}), (True, {T0: 5})])
def test_high_watermarks(servers: str, read_committed: bool, ends: dict[TopicPartition, int]) -> None:
    """High watermarks are looked up if the latest offset may differ from them."""
    with KafkaAdmin(servers, {}, read_committed=read_committed) as admin:
        assert admin.high_watermarks([T0]) == ends


def test_unreachable_brokers() -> None:
    """If no broker is reachable, the error of a lookup has partitions and cause."""
    with (
        KafkaAdmin(UNREACHABLE, {"socket.timeout.ms": 300}) as admin,
        pytest.raises(BrokersUnavailable, match=r"The leaders of t-0, t-1 did not answer: .*Connection refused"),
    ):
        admin.list_offsets({T0: LATEST, T1: LATEST})


def test_brokers_out_of_reach() -> None:
    """If no broker answers, the error names the request."""
    with KafkaAdmin(UNREACHABLE, {"socket.timeout.ms": 300}) as admin:
        for request in (
            admin.topic_names,
            admin.snapshot,
            lambda: admin.check_topic_config("orders", {"retention.ms": "1"}),
        ):
            with pytest.raises(BrokersUnavailable, match="requesting metadata at 127"):
                request()


def test_bootstrap_servers(servers: str) -> None:
    """Without bootstrap servers, a connection uses the servers of a snapshot."""
    connection = parse_connection({"zookeeper.connect": "zk1:2181"})
    with KafkaAdmin.of(connection, servers) as admin:
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_brokers_with_new_addresses(servers: str) -> None:
    """A client whose brokers are all gone uses the present ones."""
    with KafkaAdmin(UNREACHABLE, {"socket.timeout.ms": 2000}) as admin:
        admin.follow(servers)
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}
        assert set(admin.servers.split(",")) == set(servers.split(","))


def test_not_open() -> None:
    """A client outside its with block is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        KafkaAdmin(UNREACHABLE, {}).topic_names()


class Cluster:
    """A broker, in this process, that leads all partitions of topic ``t``."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self.leader = 1
        self.error = 0
        self.partitions = 1

    def open(self, handlers: dict[Any, Callable[[Reader], bytes | None]], **versions: int) -> KafkaAdmin:
        """Open the broker and a client; `versions` are the newest versions of APIs, by default 1."""
        newest = {api: versions.get(api.name, 1) for api in handlers}
        ranges = api_ranges((METADATA, 1), *newest.items())
        self.broker = self._opened.enter_context(ScriptedBroker(Answers({METADATA: self._metadata, **handlers}), ranges))
        servers = "{}:{}".format(*self.broker.address)
        return self._opened.enter_context(KafkaAdmin(servers, {"socket.timeout.ms": 3000}))

    def asked(self, api: Any) -> int:
        """Return the number of requests of an API."""
        return sum(request.api == api.key for request in self.broker.received)

    def _metadata(self, request: Reader) -> bytes:
        host, port = self.broker.address
        brokers = array([int32(1) + string(host) + int32(port) + string("rack-1")])
        row = [int16(0) + int32(n) + int32(self.leader) + 2 * array([int32(1)]) for n in range(self.partitions)]
        topics = array([int16(self.error) + string("t") + int8(0) + array(row)])
        return brokers + int32(1) + topics


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that is not open yet."""
    with ExitStack() as opened:
        yield Cluster(opened)


def listed(*rows: tuple[int, int, int]) -> bytes:
    """ListOffsets 1: partition, error and offset."""
    return array([string("t") + array([int32(n) + int16(error) + int64(-1) + int64(at) for n, error, at in rows])])


def test_leader_that_moves(cluster: Cluster) -> None:
    """After an answer that another broker leads, metadata are requested again, and then the leader."""
    errors = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER])
    admin = cluster.open({LIST_OFFSETS: lambda request: listed((0, next(errors, 0), 7))})
    assert admin.list_offsets({T0: LATEST}) == {T0: 7}
    assert admin.list_offsets({T0: LATEST}) == {T0: 7}
    assert cluster.asked(METADATA) == 2
    assert cluster.asked(LIST_OFFSETS) == 3


def test_partition_without_a_leader(cluster: Cluster) -> None:
    """A partition without a leader is looked up twice."""
    cluster.leader = -1
    admin = cluster.open({LIST_OFFSETS: lambda request: None})
    _, failed = admin.list_offsets_each({T0: LATEST})
    assert isinstance(failed[T0], NoLeader)
    assert cluster.asked(METADATA) == 2


def test_added_partition(cluster: Cluster) -> None:
    """A partition that the known metadata lack is looked up."""
    admin = cluster.open({LIST_OFFSETS: lambda request: listed((0, 0, 7), (1, 0, 8))})
    assert admin.list_offsets({T0: LATEST}) == {T0: 7}
    cluster.partitions = 2
    assert admin.list_offsets({T1: LATEST}) == {T1: 8}


def test_hidden_topic(cluster: Cluster) -> None:
    """A topic that an ACL hides is refused, with the missing right, in lookups and in snapshots."""
    cluster.error = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    admin = cluster.open({LIST_OFFSETS: lambda request: None})
    for request in (lambda: admin.list_offsets({T0: LATEST}), lambda: admin.snapshot(["t"])):
        with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER.*an ACL must allow"):
            request()
    assert not admin.snapshot().topics


def test_format_without_timestamps(cluster: Cluster) -> None:
    """In a topic whose format has no timestamps, no record is at or after a time."""
    code = int(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    admin = cluster.open({LIST_OFFSETS: lambda request: listed((0, code, -1))})
    assert admin.list_offsets({T0: AtTimestamp(7)}) == {T0: -1}


def test_timestamps_before_kafka_0_10_1(cluster: Cluster) -> None:
    """Old brokers return starts of segments for a time, by the times of files: they are refused. Ends are found."""

    def answer(request: Reader) -> bytes:
        return array([string("t") + array([int32(0) + int16(0) + array([int64(7)])])])

    admin = cluster.open({LIST_OFFSETS: answer}, ListOffsets=0)
    assert admin.list_offsets({T0: LATEST}) == {T0: 7}
    with pytest.raises(ZKafkaError, match=r"listing the offsets of t-0.*does not find records by their time"):
        admin.list_offsets({T0: AtTimestamp(7)})


@pytest.mark.parametrize(
    ("error", "end", "is_truncated"),
    [
        (0, (1, 5), True),
        (0, (1, 10), False),
        (0, (-1, -1), False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, (-1, -1), False),
    ],
)
def test_truncated_logs(cluster: Cluster, error: int, end: tuple[int, int], is_truncated: bool) -> None:
    """A log whose leader ends the epoch before the position was truncated. A leader without the epoch proves nothing."""
    asked: list[tuple[int, ...]] = []

    def answer(request: Reader) -> bytes:
        request.int32(), request.string(), request.int32()  # the number of topics, a name, the number of partitions
        asked.append((request.int32(), request.int32(), request.int32()))
        row = int16(error) + int32(0) + int32(end[0]) + int64(end[1])
        return int32(0) + array([string("t") + array([row])])

    admin = cluster.open({OFFSET_FOR_LEADER_EPOCH: answer}, OffsetForLeaderEpoch=2)
    truncated, unanswered = admin.find_truncated({T0: LogPosition(10, 1)}, {T0: 3})
    assert truncated == ({T0: EpochEndOffset(0, *end)} if is_truncated else {})
    assert unanswered == set()
    assert asked == [(0, 3, 1)]


def test_truncation_without_an_answer(cluster: Cluster) -> None:
    """A leader that does not answer, or has another epoch now, says nothing about its log."""
    code = int(ErrorCode.FENCED_LEADER_EPOCH)
    row = int16(code) + int32(0) + int32(-1) + int64(-1)
    answers = [int32(0) + array([string("t") + array([row])])]
    admin = cluster.open({OFFSET_FOR_LEADER_EPOCH: lambda request: answers[0] if answers else None}, OffsetForLeaderEpoch=2)
    for _ in range(2):
        assert admin.find_truncated({T0: LogPosition(10, 1)}, {T0: 3}, 0.5) == ({}, {T0})
        answers.clear()


def outcome(error: int, words: str | None) -> bytes:
    """AlterConfigs 0."""
    return int32(0) + array([int16(error) + string(words) + int8(2) + string("orders")])


@pytest.mark.parametrize("code", [ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION])
def test_invalid_configuration(cluster: Cluster, code: ErrorCode) -> None:
    """A configuration that a broker rejects is an option error with the broker's words."""
    admin = cluster.open({ALTER_CONFIGS: lambda request: outcome(code, "Unknown topic config name: retention")})
    with pytest.raises(OptionError) as caught:
        admin.check_topic_config("orders", {"retention": "1"})
    assert caught.value.condition == "INVALID_TOPIC_CONFIG"
    text = "The configuration of orders is not valid: Unknown topic config name: retention; correct the name or the value"
    assert caught.value.message == text


def test_broker_that_does_not_know_the_request(cluster: Cluster) -> None:
    """A broker without the request, as in Kafka before 0.11, validates nothing, which is no option error."""
    admin = cluster.open({ALTER_CONFIGS: lambda request: None}, AlterConfigs=-1)
    with pytest.raises(ZKafkaError, match="the broker is too old for this") as caught:
        admin.check_topic_config("t", {"retention.ms": "1"})
    assert caught.value.condition != "INVALID_TOPIC_CONFIG"


@pytest.mark.parametrize(
    ("code", "condition"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TOPIC_REFUSED"),
        (ErrorCode.INVALID_CONFIG, "INVALID_TOPIC_CONFIG"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "REFUSED_BY_BROKER"),
    ],
)
def test_topic_that_is_refused(cluster: Cluster, code: ErrorCode, condition: str) -> None:
    """The controller's refusal is an error with its words."""
    response = array([string("orders") + int16(code) + string("It says why.")])
    admin = cluster.open({CREATE_TOPICS: lambda request: response})
    with pytest.raises(ZKafkaError) as caught:
        admin.create_topic("orders", 1, 1, {}, validate_only=True)
    assert caught.value.condition == condition
    assert condition == "REFUSED_BY_BROKER" or "It says why" in caught.value.message


def test_deletion_that_is_disabled(cluster: Cluster) -> None:
    """The setting that forbids deletions is named."""
    code = int(ErrorCode.TOPIC_DELETION_DISABLED)
    admin = cluster.open({DELETE_TOPICS: lambda request: int32(0) + array([string("t") + int16(code)])})
    with pytest.raises(ZKafkaError, match=r"delete\.topic\.enable is false"):
        admin.delete_topic("t")


def test_topic_that_a_response_lacks(cluster: Cluster) -> None:
    """A change that the response does not mention is an error."""
    admin = cluster.open({DELETE_TOPICS: lambda request: int32(0) + array([])})
    with pytest.raises(ZKafkaError, match="the response lacks t"):
        admin.delete_topic("t")


def test_change_without_an_answer(cluster: Cluster) -> None:
    """A change is requested once: the controller may have carried it out, and would refuse its repetition."""
    admin = cluster.open({DELETE_TOPICS: lambda request: None})
    with pytest.raises(BrokersUnavailable, match="see whether it was carried out nevertheless"):
        admin.delete_topic("t")
    assert cluster.asked(DELETE_TOPICS) == 1


def test_controller_that_moves(cluster: Cluster) -> None:
    """A change that a broker refuses because it is no longer the controller is requested again."""
    codes = iter([int(ErrorCode.NOT_CONTROLLER), 0])
    admin = cluster.open({DELETE_TOPICS: lambda request: int32(0) + array([string("t") + int16(next(codes))])})
    admin.delete_topic("t")
    assert cluster.asked(DELETE_TOPICS) == 2


def test_ends_without_an_answer(cluster: Cluster) -> None:
    """A lookup of ends that is not answered leaves time for the lookup of times, which is another request."""
    cluster.partitions = 2

    def answer(request: Reader) -> bytes:
        is_of_times = request.span(request.left)[-1] == 7
        return listed((1, 0, 8)) if is_of_times else SILENT

    admin = cluster.open({LIST_OFFSETS: answer})
    found, failed = admin.list_offsets_each({T0: LATEST, T1: AtTimestamp(7)}, 1.0)
    assert found == {T1: 8}
    assert list(failed) == [T0]


ID = uuid.UUID(int=2**127 + 1)
TOPIC = TopicMetadata(0, {1: PartitionMetadata(0, -1, 3, (2, 1), ()), 0: PartitionMetadata(0, 2, 3, (2, 1), (2,))}, ID)


def test_snapshot() -> None:
    """Brokers and partitions are in order, and a partition without a leader has -1."""
    brokers = {2: Node("b2", 9092, "r2"), 1: Node("b1", 9092)}
    found = cluster_snapshot(Metadata(brokers, {"t": TOPIC}, 2, "c"), "SSL")
    assert list(found.brokers.values()) == [
        Broker(1, (Endpoint("SSL", "SSL", "b1", 9092),)),
        Broker(2, (Endpoint("SSL", "SSL", "b2", 9092),), "r2"),
    ]
    assert found.topics == {"t": Topic("t", {0: (2, 1), 1: (2, 1)}, topic_id(TOPIC))}
    assert found.states == {T0: PartitionState(2, -1, (2,)), T1: PartitionState(-1, -1, ())}
    assert found.controller == 2
    assert found.cluster_id == "c"


def test_topic_ids() -> None:
    """Ids are in the URL-safe alphabet without padding; a topic without an id has None."""
    assert topic_id(TOPIC) == "gAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id(TopicMetadata(0, {}, uuid.UUID(bytes=b"\xfb" * 16))) == "-_v7-_v7-_v7-_v7-_v7-w"
    assert topic_id(TopicMetadata(0, {})) is None
