"""A cluster's state from a scripted broker that has just started, and knows no other brokers yet."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import BrokersUnavailable
from tests.support.scripted_broker import Received
from tests.support.starting_broker import StartingBroker

Request = Callable[[KafkaAdmin], object]


@pytest.mark.parametrize("silent", [range(3), range(1, 3), range(2, 5), range(3, 8)])
@pytest.mark.parametrize(
    "request_",
    [KafkaAdmin.topic_names, KafkaAdmin.snapshot, lambda a: a.snapshot([]), lambda a: a.snapshot(["t"])],
    ids=["names", "all", "brokers", "topic"],
)
def test_brokers_that_start(request_: Request, silent: range) -> None:
    """Starting brokers are asked again until they know brokers."""
    server = StartingBroker(silent)
    with server.broker as broker, KafkaAdmin("{}:{}".format(*broker.address), {}) as admin:
        for _ in range(3):
            request_(admin)
        assert set(admin.snapshot([]).brokers) == {1}


@pytest.mark.parametrize("wanted", [None, ["t"]], ids=["all", "topic"])
def test_a_controller_that_starts(wanted: list[str] | None) -> None:
    """A topic that brokers have listed exists, even if the next broker asked does not know it yet."""
    for ordinal in range(12):
        server = StartingBroker(range(ordinal, ordinal + 2), ["t"])
        with server.broker as broker, KafkaAdmin("{}:{}".format(*broker.address), {}) as admin:
            assert [set(admin.snapshot(wanted).topics) for _ in range(3)] == [{"t"}] * 3


@pytest.mark.parametrize("request_", [KafkaAdmin.topic_names, lambda a: a.snapshot(["t"])], ids=["names", "topic"])
def test_brokers_that_never_know_any(request_: Request) -> None:
    """If brokers never know any broker, a request fails at its time-out as unavailable."""
    server = StartingBroker(range(10_000))
    with (
        server.broker as broker,
        KafkaAdmin("{}:{}".format(*broker.address), {"socket.timeout.ms": 1500}) as admin,
        pytest.raises(BrokersUnavailable, match=r"requesting metadata at .* knows no other brokers yet"),
    ):
        request_(admin)


class SlowBroker(StartingBroker):
    """Answers after 1.5 s, one request of a connection after another."""

    def __call__(self, request: Received) -> bytes:
        time.sleep(1.5)
        return super().__call__(request)


def test_slow_brokers() -> None:
    """A connected broker has most of a request's time-out for its response."""
    server = SlowBroker(range(0), ["t"])
    with (
        server.broker as broker,
        KafkaAdmin("{}:{}".format(*broker.address), {"socket.timeout.ms": 20_000}) as admin,
    ):
        assert admin.topic_names() == ["t"]


def test_topics_with_long_names() -> None:
    """A topic with too long a name does not exist."""
    server = StartingBroker(range(0))
    with server.broker as broker, KafkaAdmin("{}:{}".format(*broker.address), {}) as admin:
        assert admin.snapshot(["t" * 600]).topics == {}
