"""Batches of a ConsumerGroup: limits, options, and the options of the write that commits them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_zkafka.consumer_group import _REFUSED, ConsumerGroup, GroupBatch
from pyspark_zkafka.errors import GroupError, OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import (
    Broker,
    Claim,
    ClaimOwner,
    ClusterSnapshot,
    OffsetRange,
    PartitionState,
    Topic,
    TopicPartition,
)
from pyspark_zkafka.model.offsets import EARLIEST, Position
from pyspark_zkafka.model.planning import Assign
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.option import Option
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import TABLE, is_connection_option
from pyspark_zkafka.read.stream_session import StreamSession
from pyspark_zkafka.retries import Retry
from tests.support.option_examples import example

VECTORS = Path(__file__).parents[1] / "vectors" / "librdkafka_config_names.json"
LIBRDKAFKA: dict[str, str] = json.loads(VECTORS.read_text(encoding="utf-8"))["properties"]
RANGES = (OffsetRange(TopicPartition("t", 0), 3, 7),)
CONNECTING = {
    "zookeeper.session.timeout.ms": "9000",
    "zookeeper.connection.timeout.ms": "8000",
    "zookeeper.auth": "digest:alice:open-sesame",
    "zookeeper.acl": "creator",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": "/ca.pem",
    "Kafka.Bootstrap.Servers": "b:1",
    "listener.name": "BOTH",
    "transport": "librdkafka",
    "offsets.storage": "kafka",
    "dual.commit.enabled": "true",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "open-sesame",
    "kafka.enable.ssl.certificate.verification": "false",
    "kafka.https.ca.location": "/https.pem",
    "kafka.socket.keepalive.enable": "true",
    "kafka.socket.connection.setup.timeout.ms": "5000",
    "kafka.send.buffer.bytes": "100000",
    "kafka.connections.max.idle.ms": "60000",
    "kafka.reconnect.backoff.max.ms": "500",
    "kafka.retry.backoff.ms": "50",
    "kafka.metadata.max.age.ms": "60000",
    "kafka.broker.address.family": "v4",
    "kafka.client.id": "me",
    "kafka.client.dns.lookup": "use_all_dns_ips",
    "kafka.request.timeout.ms": "20000",
    "kafka.receive.message.max.bytes": "20000000",
    "kafka.api.version.request": "true",
    "kafka.debug": "broker",
}
READING = {
    "failOnDataLoss": "false",
    "minPartitions": "3",
    "maxOffsetsPerTrigger": "10",
    "rebalance.backoff.ms": "500",
    "kafka.fetch.max.bytes": "10000000",
    "kafka.isolation.level": "read_committed",
    "kafka.max.in.flight": "9",
    "kafka.allow.auto.create.topics": "false",
    "kafka.message.max.bytes": "2000000",
    "groupIdPrefix": "of-tasks",
}


def batch(options: dict[str, str], ranges: tuple[OffsetRange, ...] = RANGES) -> GroupBatch:
    """Return a batch of a group that is not joined."""
    member = ConsumerGroup("zk:2181/kafka", "g", subscribe=["t"], options=options)
    return GroupBatch(member, cast("Any", None), ranges, ClaimOwner("g_me", 5), commits_as_member=False)


def test_what_connects_the_group_connects_its_write() -> None:
    """A write gets all options with which the group connects, spelled as given, and no read options."""
    found = batch(CONNECTING | READING).commit_options
    committing = {"group.id": "g", "commitOffsets": '{"t":{"0":7}}', "commitOwner": "g_me@0x5"}
    assert found == {"zookeeper.connect": "zk:2181/kafka", **CONNECTING, **committing}


def test_the_write_accepts_them() -> None:
    """The write parses the group's options to the same connection."""
    group = batch(CONNECTING | READING)
    joined = {"zookeeper.connect": "zk:2181/kafka", "subscribe": "t", "group.id": "g", **CONNECTING, **READING}
    ours = parse_stream(joined).read.connection
    theirs = parse_write({**group.commit_options, "topic": "out"}).connection
    assert theirs.zookeeper == ours.zookeeper
    assert theirs.bootstrap_servers == ours.bootstrap_servers
    assert theirs.listener == ours.listener
    assert theirs.transport == ours.transport == "librdkafka"
    assert theirs.kafka.items() - ours.kafka.items() == {("request.timeout.ms", "20000")}
    not_theirs = {name for name in READING if name.startswith("kafka.")}
    assert {n for n in ours.kafka if f"kafka.{n}" not in not_theirs} - theirs.kafka.keys() == {
        "max.in.flight.requests.per.connection",
        "socket.timeout.ms",
    }


ARGUMENTS = ("zookeeper.connect", "group.id", "subscribe")
NOT_OF_A_GROUP = {*ARGUMENTS, "subscribePattern", "subscribeExceptPattern", "kafka.*", "groupMembership"}


@pytest.mark.parametrize(
    "option", [o for o in TABLE if "stream" in o.scopes and not {o.name, o.name.lower()} & {*NOT_OF_A_GROUP, *_REFUSED}]
)
def test_the_read_accepts_them(option: Option) -> None:
    """Whatever options a group has, its batch reads fixed ranges of assigned partitions."""
    given = {name: value for name, value in example(option, "stream").items() if name not in ARGUMENTS}
    found = parse_read(batch(given)._read_options())
    assert found.subscription == Assign((TopicPartition("t", 0),))
    assert found.group is None
    assert found.ignored == ()


def test_a_batch_of_nothing_commits_nothing() -> None:
    """A member that owns nothing gives its write only the connection."""
    assert batch({"transport": "librdkafka"}, ()).commit_options == {
        "zookeeper.connect": "zk:2181/kafka",
        "transport": "librdkafka",
    }


def test_a_batch_of_nothing_has_the_columns_of_its_formats() -> None:
    """An idle member loads the same columns as a reading one."""
    found = batch(
        {"value.format": "json", "value.schema": '{"properties": {"id": {"type": "integer"}}}', "includeHeaders": "true"},
        (),
    )
    spark: Any = SimpleNamespace(createDataFrame=lambda rows, schema: (rows, schema))
    found._spark = spark
    rows, schema = cast("Any", found.load())
    assert rows == []
    assert schema["value"].dataType.simpleString() == "struct<id:bigint>"
    assert "headers" in schema.names


@pytest.mark.parametrize("prefix", ["ssl.", "sasl.", "https.", "socket.", "broker.", "enable.ssl", "enable.sasl"])
def test_no_property_of_a_connection_is_left_out(prefix: str) -> None:
    """Each client property of TLS, SASL, sockets and addresses is a connection option."""
    names = {name for name in [row.name for row in PROPERTIES] + [*LIBRDKAFKA] if name.startswith(prefix)}
    assert names
    assert {name for name in names if is_connection_option(f"kafka.{name}")} == names


def test_a_write_knows_each_property_of_a_connection() -> None:
    """A producer accepts all connection properties that a group accepts."""
    connecting = {row.name for row in PROPERTIES if "C" in row.clients and is_connection_option(f"kafka.{row.name}")}
    assert connecting <= {row.name for row in PROPERTIES if "P" in row.clients}
    passed_on = set(LIBRDKAFKA) - {row.name for row in PROPERTIES}
    assert {LIBRDKAFKA[name] for name in passed_on if is_connection_option(f"kafka.{name}")} == {"*"}


def test_a_second_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is entered again in its own block refuses: its first member would never leave."""
    closed: list[int] = []
    monkeypatch.setattr(StreamSession, "open", lambda self: None)
    monkeypatch.setattr(StreamSession, "close", lambda self: closed.append(1))
    group = ConsumerGroup("zk:2181/kafka", "g", subscribe=["t"])
    with group:
        with pytest.raises(GroupError, match="ALREADY_A_MEMBER"), group:
            pass
        assert not closed
    assert closed
    with group:  # again, afterwards
        assert len(closed) == 1


def test_a_refused_join_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused member closes what it has opened, since its `with` block is never entered."""
    left: list[str] = []

    def refuse(session: StreamSession) -> None:
        session._opened.callback(left.append, "closed")
        raise GroupError("MEMBERS_IN_ZOOKEEPER", "stop them first")

    monkeypatch.setattr(StreamSession, "_connect", refuse)
    with pytest.raises(GroupError, match="stop them first"), ConsumerGroup("zk:2181/kafka", "g", subscribe=["t"]):
        pass
    assert left == ["closed"]


class Joined:
    """The session of a group's only member, in a cluster with one topic, whose logs are [0, 100)."""

    cluster = member = brokers = property(lambda self: self)
    commits_as_member = False
    retry = Retry(0, 0.0, lambda s: None)

    def group_offsets(self) -> Joined:
        return self

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        return {TopicPartition("t", n): Claim("g_me-0", 1) for n in range(2)}

    def set_reading(self, partitions: object) -> None:
        """Revoke nothing."""

    def wait_settled(self) -> bool:
        return True

    def require_owner(self) -> ClaimOwner:
        return ClaimOwner("g_me", 5)

    def snapshot(self) -> ClusterSnapshot:
        states = {TopicPartition("t", n): PartitionState(1, 0, (1,)) for n in range(2)}
        return ClusterSnapshot({1: Broker(1, ())}, {"t": Topic("t", {0: (1,), 1: (1,)})}, states)

    settled_snapshot = snapshot

    def topic_names(self) -> list[str]:
        return ["t", "orders"]

    def committed(self, partitions: object, **given: Any) -> dict[TopicPartition, StoredOffset]:
        return {TopicPartition("t", n): StoredOffset(0) for n in range(2)}

    def created_after_subscription(self, partitions: object) -> set[TopicPartition]:
        return set()

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {tp: 0 if position == EARLIEST else 100 for tp, position in wanted.items()}

    def high_watermarks(self, partitions: object, timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {}

    def record_bytes(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        return dict.fromkeys(starts, 10.0)

    def commit(self, *given: object) -> None:
        """Reset nothing."""


def plan(session: Joined | None = None, **options: str) -> GroupBatch:
    """Return a member's planned batch, after the member has left."""
    member = ConsumerGroup("zk:2181/kafka", "g", subscribe=["t", "order"], options=options)
    member._session = cast("Any", session or Joined())
    found = member.plan(cast("Any", None))
    member._session = None
    return found


def test_commit_by_the_member_alone() -> None:
    """A write cannot commit the batch of a group in Kafka, also after the member has left."""
    session = Joined()
    session.commits_as_member = True
    with pytest.raises(GroupError, match=r"COMMIT_BY_MEMBER.*call batch\.commit\(\)"):
        _ = plan(session).commit_options


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [100, 100]),
        ({"maxOffsetsPerTrigger": "20"}, [10, 10]),
        ({"maxBytesPerTrigger": "100"}, [5, 5]),
    ],
)
def test_limits_of_a_batch(options: dict[str, str], sizes: list[int]) -> None:
    """A batch reads and commits no more than its limits allow, and its read does not get the limits as options."""
    found = plan(**options)
    assert [r.size for r in found.ranges] == sizes
    assert json.loads(found.commit_options["commitOffsets"])["t"]["0"] == sizes[0]
    assert not found._read_options().keys() & options.keys()


@pytest.mark.parametrize("name", ["minOffsetsPerTrigger", "maxTriggerDelay"])
def test_limits_that_a_batch_does_not_have(name: str) -> None:
    """Options that make a trigger wait for records are refused, since a batch does not wait."""
    with pytest.raises(OptionError, match=f"A ConsumerGroup does not accept {name}"):
        ConsumerGroup("zk:2181", "g", subscribe=["t"], options={name: "5"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("group.id", "group.id is given as the argument group"),
        ("Group.ID", "Group.ID is given as the argument group"),
        ("kafka.group.id", "kafka.group.id does not set the group: give the argument group, and groupIdPrefix"),
        ("SUBSCRIBE", "SUBSCRIBE is given as the argument subscribe"),
        ("subscribepattern", "subscribepattern is given as the argument subscribe_pattern"),
        ("Zookeeper.Connect", "Zookeeper.Connect is given as the argument zookeeper_connect"),
        ("Assign", "Assign: leave it out"),
        ("VIEW", "VIEW: leave it out"),
    ],
)
def test_options_that_are_arguments(name: str, says: str) -> None:
    """An option that is an argument of ConsumerGroup, or unsuitable for it, is refused in any spelling."""
    with pytest.raises(OptionError, match=f"A ConsumerGroup does not accept .*{says}"):
        ConsumerGroup("zk:2181", "g", subscribe=["t"], options={name: "x"})


def test_all_refused_options() -> None:
    """One error lists all refused options."""
    with pytest.raises(
        OptionError, match=r"accept group\.id, assign, subscribe as options: group\.id is.*; assign.*; subscribe is"
    ):
        ConsumerGroup("zk:2181", "g", options={"group.id": "h", "assign": "{}", "subscribe": "u"})


def test_missing_topics(caplog: pytest.LogCaptureFixture) -> None:
    """A topic that does not exist is logged at each plan, or is an error with missingTopics=fail."""
    plan()
    assert "There is no topic or partition order (did you mean orders?)" in caplog.text
    with pytest.raises(UnknownTopic, match="did you mean orders"):
        plan(missingTopics="fail")
