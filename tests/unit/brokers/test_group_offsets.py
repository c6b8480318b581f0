"""A group's offsets in Kafka without a reachable broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pytest

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.model.nouns import TopicPartition

PLACE = TopicPartition("t", 0)
REQUESTS = (lambda offsets: offsets.committed([PLACE]), lambda offsets: offsets.commit({PLACE: 1}))
HANDSHAKE_FAILURE = bytes.fromhex("15 0303 0002 0228")


def test_replaced_brokers(servers: str) -> None:
    """Offsets that were opened with brokers that are gone are read from the brokers that replaced them."""
    with KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=20) as offsets:
        offsets.follow(servers)
        assert offsets.committed([PLACE]) == {}


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a TLS listener that breaks off each handshake."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.recv(4096)
                    client.sendall(HANDSHAKE_FAILURE)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    serving.join()


@pytest.mark.parametrize("request_", REQUESTS, ids=["reading", "committing"])
def test_refused_handshake(refusing: str, request_: Callable[[KafkaGroupOffsets], object]) -> None:
    """A broker that refuses the client ends a lookup or a commit long before its time-out, and is the error."""
    with (
        KafkaGroupOffsets(refusing, {"security.protocol": "ssl"}, "g", timeout_s=300) as offsets,
        pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER\] looking for coordinators at .* TLS"),
    ):
        request_(offsets)


@pytest.mark.parametrize("request_", REQUESTS, ids=["reading", "committing"])
def test_unreachable(request_: Callable[[KafkaGroupOffsets], object]) -> None:
    """Unreachable brokers raise a retriable error."""
    with KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=1) as offsets:
        with pytest.raises(ClusterStateError, match=r"BROKERS_UNAVAILABLE\] looking for coordinators at 127") as caught:
            request_(offsets)
        assert caught.value.retriable


def test_commit_without_an_answer() -> None:
    """A server that never answers ends a commit at its time-out."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        began = time.monotonic()
        with (
            KafkaGroupOffsets(silent, {}, "g", timeout_s=0.5) as offsets,
            pytest.raises(BrokersUnavailable, match="looking for coordinators at"),
        ):
            offsets.commit({PLACE: 5})
        assert time.monotonic() - began < 3


def test_further_attempt_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt writes only the partitions that are due, also after a lost answer. Without any, nothing is written."""
    attempts: list[list[int]] = []

    def attempt(self: KafkaGroupOffsets, offsets: Mapping[TopicPartition, int], deadline: object) -> None:
        attempts.append([place.partition for place in offsets])
        raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no answer")

    monkeypatch.setattr(KafkaGroupOffsets, "_attempt", attempt)
    places = [TopicPartition("t", number) for number in range(3)]
    due = iter([places[:2], places[:1], []])
    with KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=30) as offsets:
        offsets.commit(dict.fromkeys(places, 5), lambda wanted: next(due))
    assert attempts == [[0, 1], [0]]


def test_partition_lost_between_the_requests_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of thousands of partitions takes several requests. Each is checked right before it is sent."""
    attempts: list[int] = []
    monkeypatch.setattr(KafkaGroupOffsets, "_attempt", lambda self, positions, _: attempts.append(len(positions)))
    places = [TopicPartition("t", number) for number in range(2_001)]
    with KafkaGroupOffsets("broker1:9092", {}, "g") as offsets:
        offsets.commit(
            dict.fromkeys(places, 5), lambda wanted: [place for place in wanted if not attempts or place.partition % 2]
        )
    assert attempts == [1_000, 500]
