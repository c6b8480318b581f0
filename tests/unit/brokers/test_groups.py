"""Groups in Kafka without a reachable broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.groups import GroupAdmin, KafkaGroupOffsets
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, OptionError
from pyspark_zkafka.model.nouns import TopicPartition


def test_a_client_that_cannot_be_replaced() -> None:
    """After a lost connection, each request tries to replace the client, even if that fails because of a missing file."""
    with GroupAdmin("127.0.0.1:1", {}) as admin:
        first = admin._client
        admin._reports(KafkaError(KafkaError._TRANSPORT))
        admin._config |= {"security.protocol": "ssl", "ssl.ca.location": "/missing.pem"}
        for _ in range(2):
            with pytest.raises(OptionError, match="UNUSABLE_KAFKA_PROPERTY"):
                admin._begin_request()
        admin._config |= {"security.protocol": "plaintext", "ssl.ca.location": ""}
        admin._begin_request()
        assert admin._client is not first


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_request_without_an_answer(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's own time-out is longer than ours: it aborts the process if a coordinator is found in between."""
    timeouts_s: list[float] = []
    futures: list[Future[Any]] = []

    def record(name: str) -> None:
        call = getattr(AdminClient, name)

        def recorded(*arguments: Any, request_timeout: float) -> dict[str, Future[Any]]:
            timeouts_s.append(request_timeout)
            found: dict[str, Future[Any]] = call(*arguments, request_timeout=request_timeout)
            futures.extend(found.values())
            return found

        monkeypatch.setattr(AdminClient, name, recorded)

    record("describe_consumer_groups")
    record("alter_consumer_group_offsets")
    with GroupAdmin(silent, {"socket.timeout.ms": 300}) as admin:
        admin._has_offsets_topic = True
        with pytest.raises(BrokersUnavailable, match="describing group g"):
            admin.group_states(["g"])
        assert min(timeouts_s) > 60
        assert not any(future.done() for future in futures)
    with KafkaGroupOffsets(silent, {}, "g", timeout_s=0.5) as offsets:
        offsets._has_coordinator = True
        with pytest.raises(BrokersUnavailable, match="committing the offsets of group g"):
            offsets.commit({PLACE: 5})
    assert len(timeouts_s) > 1
    assert min(timeouts_s) > 60


def test_offsets_are_read_by_a_new_client(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows coordinators is replaced before it reads offsets: an old one's refusal would end the process."""
    monkeypatch.setattr(GroupAdmin, "_ask_offsets", lambda self, group: Future())
    monkeypatch.setattr(GroupAdmin, "_offsets", lambda self, group, future: [])
    with GroupAdmin(silent, {}) as admin:  # a lost connection would replace the client, too
        admin._has_offsets_topic = True
        first = admin._client
        assert admin.committed("g") == {}
        assert admin._client is first
        done: Future[str] = Future()
        done.set_result("described")
        admin._of_group("g", "describing", done)
        assert admin.committed("g") == {}
        assert admin._client is not first


def test_replaced_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is made later uses the bootstrap servers set last."""
    made: list[str] = []

    def make(config: dict[str, Any], **_: object) -> None:
        made.append(config["bootstrap.servers"])
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr("pyspark_zkafka.brokers.groups.AdminClient", make)
    with KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=0.1) as offsets:
        offsets._has_coordinator = True
        for servers in ("127.0.0.1:1", "127.0.0.1:2"):
            offsets.follow(servers)
            with pytest.raises(BrokersUnavailable):
                offsets.commit({PLACE: 5})
    assert made == ["127.0.0.1:1", "127.0.0.1:2"]


PLACE = TopicPartition("t", 0)
HANDSHAKE_FAILURE = bytes.fromhex("15 0303 0002 0228")


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


def test_refused_while_reading(refusing: str) -> None:
    """A refusal ends a lookup of offsets long before its time-out."""
    with (
        KafkaGroupOffsets(refusing, {"security.protocol": "ssl"}, "g", timeout_s=300) as offsets,
        pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER\] reading the offsets of group g: _SSL"),
    ):
        offsets.committed([PLACE])


def test_refused_while_committing(refusing: str) -> None:
    """A commit without a coordinator, because brokers refuse the client, reports the refusal."""
    with (
        KafkaGroupOffsets(refusing, {"security.protocol": "ssl"}, "g", timeout_s=4) as offsets,
        pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER\] committing the offsets of group g: _SSL"),
    ):
        offsets.commit({PLACE: 1})


@pytest.mark.parametrize("doing", ["reading", "committing"])
def test_unreachable(doing: str) -> None:
    """Unreachable brokers raise a retriable error."""
    with KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=1) as offsets:
        with pytest.raises(ClusterStateError, match=rf"BROKERS_UNAVAILABLE\] {doing} the offsets of group g") as caught:
            _ = offsets.committed([PLACE]) if doing == "reading" else offsets.commit({PLACE: 1})
        assert caught.value.retriable


def test_further_attempt_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt writes only the partitions that are due, also after a lost answer. Without any, nothing is written."""
    attempts: list[list[int]] = []

    def attempt(self: KafkaGroupOffsets, positions: list[Any], timeout_s: float) -> None:
        attempts.append([position.partition for position in positions])
        raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no answer")

    monkeypatch.setattr(KafkaGroupOffsets, "_attempt", attempt)
    offsets = KafkaGroupOffsets("127.0.0.1:1", {}, "g", timeout_s=30)
    places = [TopicPartition("t", number) for number in range(3)]
    due = iter([places[:2], places[:1], []])
    offsets.commit(dict.fromkeys(places, 5), lambda wanted: next(due))
    assert attempts == [[0, 1], [0]]


def test_partition_lost_between_the_requests_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a commit is checked right before it is sent, not only the first one."""
    attempts: list[int] = []
    monkeypatch.setattr(KafkaGroupOffsets, "_attempt", lambda self, positions, _: attempts.append(len(positions)))
    places = [TopicPartition("t", number) for number in range(2_001)]
    KafkaGroupOffsets("broker1:9092", {}, "g").commit(
        dict.fromkeys(places, 5), lambda wanted: [place for place in wanted if not attempts or place.partition % 2]
    )
    assert attempts == [1_000, 500]


def test_commit_of_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of thousands of partitions takes several requests, as brokers limit the size of one."""
    sizes: list[int] = []
    monkeypatch.setattr(KafkaGroupOffsets, "_commit", lambda self, positions, due: sizes.append(len(positions)))
    KafkaGroupOffsets("broker1:9092", {}, "g").commit({TopicPartition("t", number): 5 for number in range(2_001)})
    assert sizes == [1_000, 1_000, 1]
