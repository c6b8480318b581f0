"""Groups in Kafka without a reachable broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import BrokersUnavailable, OptionError
from pyspark_zkafka.model.nouns import TopicPartition

PLACE = TopicPartition("t", 0)


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
