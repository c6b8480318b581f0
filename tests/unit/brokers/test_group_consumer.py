"""A member's consumer: properties, errors, and membership on librdkafka's mock cluster."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.group_consumer import (
    CommitAnswer,
    GroupConsumer,
    GroupEvent,
    PartitionsAssigned,
    Revoked,
    commit_status,
    group_properties,
    membership_error,
)
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, OptionError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.values import ConnectionOptions, KafkaGroupOptions
from tests.support.eventually import eventually
from tests.support.options import kafka_group_options

CLASSIC, CONSUMER = kafka_group_options(), kafka_group_options(protocol="consumer")
STATIC = kafka_group_options(instance_id="one")
TEXT = "joining group g"


def connection(**kafka: str) -> ConnectionOptions:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    return parse_connection({"kafka.bootstrap.servers": "b:1", **given})


def properties(options: KafkaGroupOptions = CLASSIC, **kafka: str) -> dict[str, Any]:
    return group_properties("b:1", connection(**kafka), "g", options)


class TestProperties:
    """librdkafka's properties of a member."""

    def test_nothing_is_read_or_committed_by_itself(self) -> None:
        """A member fetches almost nothing, commits nothing automatically, and creates no topic."""
        found = properties()
        assert found["enable.auto.commit"] is False
        assert found["enable.auto.offset.store"] is False
        assert found["allow.auto.create.topics"] is False
        assert found["fetch.message.max.bytes"] == 1
        assert found["group.id"] == "g"
        assert found["bootstrap.servers"] == "b:1"
        assert found["auto.offset.reset"] == "error"

    @pytest.mark.parametrize(
        ("session_ms", "heartbeat_ms"), [(45_000, 3000), (9_000, 3000), (6_000, 2000), (100, 33), (2, 1)]
    )
    def test_heartbeats(self, session_ms: int, heartbeat_ms: int) -> None:
        """At least three heartbeats are due within a session."""
        found = properties(kafka_group_options(session_timeout_ms=session_ms))
        assert found["session.timeout.ms"] == session_ms
        assert found["heartbeat.interval.ms"] == heartbeat_ms

    def test_what_the_protocol_has(self) -> None:
        """Strategy, session time-out and heartbeats are set only in the classic protocol."""
        of_classic = {"partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"}
        assert properties().keys() - properties(CONSUMER).keys() == of_classic
        assert properties(CONSUMER)["group.protocol"] == "consumer"

    def test_identity(self) -> None:
        """A static member has its instance id, a member with a rack its rack; others have neither."""
        assert not {"group.instance.id", "client.rack"} & properties().keys()
        assert properties(STATIC)["group.instance.id"] == "one"
        assert properties(client_rack="a")["client.rack"] == "a"

    @pytest.mark.parametrize(("kafka", "expected"), [({}, 5000), ({"topic_metadata_refresh_interval_ms": "900"}, "900")])
    def test_new_partitions(self, kafka: dict[str, str], expected: object) -> None:
        """New partitions are found soon, unless the user sets the interval."""
        assert properties(**kafka)["topic.metadata.refresh.interval.ms"] == expected


class TestErrors:
    """Errors of a membership."""

    @pytest.mark.parametrize(
        ("error", "options", "condition", "remedy"),
        [
            (
                KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL),
                CLASSIC,
                "INCONSISTENT_GROUP_PROTOCOL",
                "Set partition.assignment.strategy and group.protocol to theirs",
            ),
            (
                KafkaError(KafkaError.UNSUPPORTED_ASSIGNOR),
                CONSUMER,
                "INCONSISTENT_GROUP_PROTOCOL",
                "Set partition.assignment.strategy and group.protocol to theirs",
            ),
            (
                KafkaError(KafkaError.UNRELEASED_INSTANCE_ID),
                STATIC,
                "INSTANCE_ID_TAKEN",
                "another member of the group has the group.instance.id one. Give each member its own",
            ),
            (
                KafkaError(KafkaError._FATAL, "fenced by another instance", fatal=True),
                STATIC,
                "INSTANCE_ID_TAKEN",
                "Give each member its own",
            ),
            (
                KafkaError(KafkaError.UNSUPPORTED_VERSION),
                CONSUMER,
                "GROUP_PROTOCOL_UNSUPPORTED",
                "needs brokers from 4.0 on, with the feature group.version at 1 or more",
            ),
            (
                KafkaError(KafkaError._FATAL, "fatal error: Broker: The group id does not exist", fatal=True),
                CONSUMER,
                "INCONSISTENT_GROUP_PROTOCOL",
                "Set partition.assignment.strategy and group.protocol to theirs",
            ),
            (
                KafkaError(KafkaError.GROUP_MAX_SIZE_REACHED),
                CLASSIC,
                "GROUP_FULL",
                "stop another member, or raise group.max.size",
            ),
            (
                KafkaError(KafkaError._FATAL, "Broker: Consumer group has reached maximum size: Heartbeat", fatal=True),
                CONSUMER,
                "GROUP_FULL",
                "stop another member, or raise group.consumer.max.size",
            ),
            (
                KafkaError(KafkaError._FATAL, "ConsumerGroupHeartbeat failed", fatal=True),
                CONSUMER,
                "GROUP_PROTOCOL_UNSUPPORTED",
                "Set group.protocol=classic for group g",
            ),
        ],
    )
    def test_remedies(self, error: KafkaError, options: KafkaGroupOptions, condition: str, remedy: str) -> None:
        """A group error has librdkafka's name and text, and a remedy."""
        found = membership_error(error, "g", options)
        assert isinstance(found, GroupError)
        assert found.condition == condition
        assert found.message.startswith(f"{TEXT}: {error.name()} ({error.str()}); ")
        assert remedy in found.message

    def test_session_timeout(self) -> None:
        """A session time-out that the brokers refuse is an error of the option, which names their settings."""
        found = membership_error(KafkaError(KafkaError.INVALID_SESSION_TIMEOUT), "g", CLASSIC)
        assert isinstance(found, OptionError)
        assert "Set session.timeout.ms between the brokers' group.min.session.timeout.ms and " in found.message

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (KafkaError(KafkaError._TRANSPORT), BrokersUnavailable),
            (KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), ClusterStateError),
            (KafkaError(KafkaError._FATAL, "something else", fatal=True), ZKafkaError),
        ],
    )
    def test_other_errors(self, error: KafkaError, kind: type[ZKafkaError]) -> None:
        """Other errors are translated as for any request, and a fatal error in the classic protocol does not blame it."""
        found = membership_error(error, "g", CLASSIC)
        assert isinstance(found, kind)
        assert TEXT in found.message
        assert found.condition != "GROUP_PROTOCOL_UNSUPPORTED"

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            (KafkaError.ILLEGAL_GENERATION, "again"),
            (KafkaError.REBALANCE_IN_PROGRESS, "again"),
            (KafkaError.STALE_MEMBER_EPOCH, "again"),
            (KafkaError.NOT_COORDINATOR, "again"),
            (KafkaError._TIMED_OUT, "again"),
            (KafkaError.UNKNOWN_MEMBER_ID, "fenced"),
            (KafkaError.FENCED_MEMBER_EPOCH, "fenced"),
            (KafkaError.FENCED_INSTANCE_ID, "fenced"),
            (KafkaError._FATAL, "fenced"),
            (KafkaError.OFFSET_METADATA_TOO_LARGE, "done"),
            (KafkaError.GROUP_AUTHORIZATION_FAILED, "done"),
        ],
    )
    def test_status_after_a_commit(self, code: int, status: str) -> None:
        """A failed commit is repeated by a member that must rejoin, dropped by an expelled one, or refused permanently."""
        found, error = commit_status(KafkaError(code), "g", STATIC)
        assert found == status
        assert "group g" in error.message


class Events:
    """A member's callbacks, in order."""

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()
        self.revocations: list[list[TopicPartition]] = []
        self.answers: list[CommitAnswer] = []

    def __call__(self, event: GroupEvent) -> None:
        if isinstance(event, PartitionsAssigned):
            self.owned |= set(event.partitions)
        elif isinstance(event, Revoked):
            self.revocations.append(sorted(event.partitions))
            self.owned -= set(event.partitions)
        elif isinstance(event, CommitAnswer):
            self.answers.append(event)
        else:
            self.owned.clear()


@pytest.fixture
def events() -> Events:
    """The callbacks of the member."""
    return Events()


@pytest.fixture(params=["range", "cooperative-sticky"])
def member(request: pytest.FixtureRequest, servers: str, events: Events) -> Iterator[GroupConsumer]:
    """A member of a new group on librdkafka's mock cluster, which has topic ``t`` with four partitions."""
    options = kafka_group_options(strategy=request.param, session_timeout_ms=6000)
    found = GroupConsumer(servers, connection(), f"group-{request.param}", options, events)
    found.open()
    yield found
    found.close()


class TestMember:
    """A membership from joining to leaving."""

    def test_membership(self, member: GroupConsumer, events: Events) -> None:
        """A member is assigned all partitions, its commit is answered, and it releases the partitions when it leaves."""
        everything = {TopicPartition("t", n) for n in range(4)}
        assert "t" in member.topic_names()
        member.subscribe(["t"])

        def has_happened(done: bool) -> bool:
            assert member.poll() is None
            return done

        eventually(lambda: has_happened(events.owned == everything))
        assert member.member_id
        member.commit({TopicPartition("t", 0): 3})
        eventually(lambda: has_happened(bool(events.answers)))
        assert events.answers == [CommitAnswer({TopicPartition("t", 0): 3})]
        member.subscribe([])
        eventually(lambda: has_happened(not events.owned))
        assert events.revocations == [sorted(everything)]

    def test_closing_calls_nobody(self, member: GroupConsumer, events: Events) -> None:
        """A closed member leaves without a callback, and may be closed twice."""
        member.subscribe(["t"])
        eventually(lambda: member.poll() is None and len(events.owned) == 4)
        member.close()
        member.close()
        assert events.revocations == []
        assert len(events.owned) == 4

    def test_fatal_error(self, events: Events) -> None:
        """A fatal error, which librdkafka reports once, is returned by all later polls."""
        member: Any = GroupConsumer("127.0.0.1:1", connection(), "g", STATIC, events)
        fatal = KafkaError(KafkaError._FATAL, f"Fatal error: {KafkaError(KafkaError.FENCED_INSTANCE_ID).str()}")
        reported = [fatal, KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)]
        messages = [SimpleNamespace(error=lambda error=error: error) for error in reported]
        member._consumer = SimpleNamespace(poll=lambda timeout_s: messages.pop(0) if messages else None)
        assert [member.poll().condition for _ in range(2)] == ["INSTANCE_ID_TAKEN"] * 2

    @pytest.mark.parametrize("is_closed", [False, True])
    def test_not_open(self, events: Events, is_closed: bool) -> None:
        """A member that is not open cannot be used."""
        member = GroupConsumer("127.0.0.1:1", connection(), "g", CLASSIC, events)
        if is_closed:
            member.open()
            member.close()
        with pytest.raises(RuntimeError, match="used before open, or after close"):
            member.poll()
