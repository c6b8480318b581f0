"""The cluster's state from brokers that have just started, and know no other brokers yet; a broker of the test's own."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.kafka.admin import KafkaAdmin
from tests.support.scripted_broker import Received, ScriptedBroker, answered

UNKNOWN_TOPIC = 3
Request = Callable[[KafkaAdmin], object]


def text(value: str) -> bytes:
    """A string with its length before it."""
    return struct.pack(">h", len(value)) + value.encode()


class StartingBroker:
    """Answers metadata requests of version 7, those of the given ordinals with no broker; it has no topic."""

    def __init__(self, silent: range) -> None:
        self._silent = silent
        self._count = 0
        self.broker = ScriptedBroker(self)

    def __call__(self, request: Received) -> bytes:
        is_silent = self._count in self._silent
        self._count += 1
        host, port = self.broker.address
        row = struct.pack(">i", 1) + text(host) + struct.pack(">ih", port, -1)
        brokers, controller = (struct.pack(">i", 0), -1) if is_silent else (struct.pack(">i", 1) + row, 1)
        return answered(
            request, struct.pack(">i", 0) + brokers + text("c") + struct.pack(">i", controller) + self._topics(request)
        )

    def _topics(self, request: Received) -> bytes:
        (length,) = struct.unpack_from(">h", request.rest)
        (count,) = struct.unpack_from(">i", request.rest, 2 + length)
        if count <= 0:
            return struct.pack(">i", 0)
        (length_of_name,) = struct.unpack_from(">h", request.rest, 6 + length)
        name = request.rest[6 + length : 8 + length + length_of_name]
        return struct.pack(">ih", 1, UNKNOWN_TOPIC) + name + struct.pack(">bi", 0, 0)


@pytest.mark.parametrize("silent", [range(3), range(1, 3), range(2, 5), range(3, 8)])
@pytest.mark.parametrize(
    "request_",
    [KafkaAdmin.topic_names, KafkaAdmin.snapshot, lambda a: a.snapshot([]), lambda a: a.snapshot(["t"])],
    ids=["names", "all", "brokers", "topic"],
)
def test_brokers_that_start(request_: Request, silent: range) -> None:
    """They are asked again until they know the brokers; librdkafka's DescribeCluster would abort this process."""
    server = StartingBroker(silent)
    with server.broker as broker, KafkaAdmin("{}:{}".format(*broker.address), {}) as admin:
        for _ in range(3):
            request_(admin)
        assert set(admin.snapshot([]).brokers) == {1}


@pytest.mark.parametrize("request_", [KafkaAdmin.topic_names, lambda a: a.snapshot(["t"])], ids=["names", "topic"])
def test_brokers_that_never_know_any(request_: Request) -> None:
    """After the time-out of a request, the error is that no broker is available."""
    server = StartingBroker(range(10_000))
    with (
        server.broker as broker,
        KafkaAdmin("{}:{}".format(*broker.address), {"socket.timeout.ms": 1500}) as admin,
        pytest.raises(BrokersUnavailable, match="requesting metadata at"),
    ):
        request_(admin)
