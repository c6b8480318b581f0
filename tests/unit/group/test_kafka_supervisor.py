"""The supervisor of a member's client, with a fake client and without a loop."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, GroupError, OptionError, ZKafkaError
from pyspark_zkafka.group.kafka_checks import CHECK_TIMEOUT_S, FinalAssignment, Pauses
from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.group.kafka_supervisor import ClientSupervisor
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, SubscribePattern
from tests.support.options import group_options, kafka_group_options

T0 = TopicPartition("t", 0)
AWAY = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moves")
PAUSES = Pauses(lookup_s=5.0, confirm_s=2.0, join_s=60.0, check_s=1.5)


class Client:
    """A client that notes its calls in `calls`, and knows the topics in `topics`."""

    member_id = "c-1"

    def __init__(self, calls: list[object], topics: list[str]) -> None:
        self.calls, self.topics = calls, topics

    def open(self) -> None:
        self.calls.append("open")

    def discard(self) -> None:
        self.calls.append("discard")

    def subscribe(self, topics: Collection[str]) -> None:
        self.calls.append(tuple(topics))

    def topic_names(self) -> list[str]:
        return self.topics


class World:
    """An open supervisor, with everything that it talks to. A test moves `now`."""

    now = 0.0
    refusal: ZKafkaError | None = None

    def __init__(self, subscription: Any, is_final: Callable[..., bool] | None = None, **kafka: Any) -> None:
        self.calls: list[object] = []
        self.topics = ["t"]
        options = group_options("g", membership="kafka", kafka=kafka_group_options(**kafka))
        self.own = Ownership(options, lambda: self.now)
        self.final = FinalAssignment(is_final, 10.0)
        self.supervisor = ClientSupervisor(
            self.connect,
            subscription,
            self.own,
            self.final,
            lambda: self.now,
            is_consumer_protocol=options.kafka.protocol == "consumer",
            pauses=PAUSES,
        )
        self.supervisor.open(lambda event: None)
        assert self.taken() == ["open"]

    def connect(self, on_event: object) -> Any:
        if self.refusal is not None:
            raise self.refusal
        return Client(self.calls, self.topics)

    def taken(self) -> list[object]:
        """Return the calls since the last time."""
        taken, self.calls[:] = list(self.calls), ()
        return taken


def test_subscription() -> None:
    """A client is subscribed once to named topics, and again if a pattern finds other topics."""
    world = World(Subscribe(("t",)))
    for world.now in (0.0, 100.0):
        world.supervisor.subscribe()
    assert world.taken() == [("t",)]
    world = World(SubscribePattern("t.*"))
    for world.now in (0.0, 4.0, 5.0):
        world.own.assign([T0], "c-1")
        world.supervisor.subscribe()
        world.topics[:] = ["t", "t2"]
    assert world.taken() == [("t",), ("t", "t2")]
    assert not world.own.state.is_assigned


def test_pattern_without_topics() -> None:
    """A member whose pattern matches no topic has its final assignment, once a second lookup agrees."""
    world = World(SubscribePattern("u"), lambda *asked: False)
    for world.now in (0.0, 2.0):
        assert not world.final.covers(world.own.state)
        world.supervisor.subscribe()
    assert world.final.covers(world.own.state)
    assert world.taken() == []


def test_rejoin() -> None:
    """A member that rejoins leaves its group first, between two lookups too. A refused attempt is repeated."""
    world = World(SubscribePattern("t"))
    world.supervisor.subscribe()
    world.supervisor.request_rejoin()
    world.now = 1.0
    world.supervisor.subscribe()
    world.supervisor.subscribe()
    assert world.taken() == [("t",), (), ("t",)]


def test_overdue_join(caplog: pytest.LogCaptureFixture) -> None:
    """A client without an assignment after a minute is replaced; the next client subscribes. An assignment starts anew."""
    world = World(Subscribe(("t",)))
    world.supervisor.subscribe()
    world.own.note_error(AWAY)
    world.now = 59.0
    world.supervisor.check_client()
    assert world.taken() == [("t",)]
    world.now = 60.0
    world.supervisor.check_client()
    world.supervisor.subscribe()
    assert world.taken() == ["open", "discard", ("t",)]
    assert "joining takes long; a new client joins" in caplog.text
    world.own.assign([T0], "c-1")
    world.supervisor.check_client()
    world.own.end_revocation()
    world.now = 120.0
    world.supervisor.check_client()
    assert world.taken() == ["open", "discard"]


@pytest.mark.parametrize("case", ["KIP-848", "failed", "assigned"])
def test_join_that_is_not_overdue(case: str) -> None:
    """A client of KIP-848, with an error that no retry resolves, or with an assignment, is not replaced."""
    world = World(Subscribe(("t",)), protocol="consumer" if case == "KIP-848" else "classic")
    world.supervisor.subscribe()
    if case == "failed":
        world.own.note_error(GroupError("INSTANCE_ID_TAKEN", "another member has it"))
    elif case == "assigned":
        world.own.assign([T0], "c-1")
    world.now = 1000.0
    world.supervisor.check_client()
    assert world.taken() == [("t",)]


def test_client_that_cannot_be_replaced() -> None:
    """If no client can be made, the error is kept, the old client stays, and the next check tries again."""
    world = World(Subscribe(("t",)))
    world.supervisor.subscribe()
    world.taken()
    old, world.now = world.supervisor.client, 60.0
    world.refusal = OptionError("UNUSABLE_KAFKA_PROPERTY", "there is no such file")
    world.supervisor.check_client()
    assert world.own.error is world.refusal
    assert world.supervisor.client is old
    assert world.taken() == []
    world.refusal = None
    world.supervisor.check_client()
    assert world.supervisor.client is not old
    assert world.taken() == ["open", "discard"]


def test_admission() -> None:
    """A member of KIP-848 without an assignment asks after a pause, and is settled if it gets no partitions."""
    asked: list[tuple[object, ...]] = []

    def is_final(*given: object) -> bool:
        asked.append(given)
        if len(asked) == 1:
            raise AWAY
        return True

    world = World(Subscribe(("t",)), is_final, protocol="consumer")
    world.supervisor.subscribe()
    for world.now in (1.4, 1.5, 2.9):
        world.supervisor.check_admission()
    assert asked == [("c-1", {}.keys(), ("t",), CHECK_TIMEOUT_S)]
    assert world.own.error is AWAY
    assert not world.final.covers(world.own.state)
    world.now = 3.0
    world.supervisor.check_admission()
    assert world.final.covers(world.own.state)
    assert world.own.state.is_member
    for world.now in (10.0, 20.0):
        world.supervisor.check_admission()
    assert len(asked) == 2
