"""Offsets of many groups, from brokers that answer as scripted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.committed_offsets import find_metadata
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.records.select import find_offset_metadata
from pyspark_zkafka.wire.group_messages import CommittedOffset
from pyspark_zkafka.wire.protocol import NO_TAGS, LoginRefused, Reader, array, int16, int32, int64, string
from tests.support.scripted_broker import RANGES, Received, ScriptedBroker, framed

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIND_COORDINATOR, OFFSET_FETCH = 10, 9
OF_GROUPS = {**RANGES, FIND_COORDINATOR: (0, 6), OFFSET_FETCH: (1, 10)}
FOUND = CommittedOffset(0, 5, "entry")


def text(value: str) -> bytes:
    return string(value, flexible=True)


def many(elements: Iterable[bytes]) -> bytes:
    return array(list(elements), flexible=True)


class Coordinator:
    """A broker that coordinates all groups, with the `groups`' errors and answers; `without` has the errors of others."""

    def __init__(
        self,
        groups: dict[str, tuple[int, dict[TopicPartition, CommittedOffset]]],
        without: dict[str, int] | None = None,
    ) -> None:
        self._groups = groups
        self._without = without or {}
        self.port = 0
        self.asked: list[tuple[dict[str, dict[str, list[int]]], int]] = []

    def __call__(self, request: Received) -> bytes:
        """Answer FindCoordinator 4 and OffsetFetch 8."""
        asked = Reader(request.rest, request.version, flexible=True)
        asked._flexible = False
        asked.string()  # the client's name has its length in 16 bits
        asked._flexible = True
        asked.tags()
        body = self._coordinators(asked) if request.api == FIND_COORDINATOR else self._offsets(asked)
        asked.finish()
        return framed(int32(request.correlation_id) + NO_TAGS + int32(0) + body + NO_TAGS)

    def _coordinators(self, asked: Reader) -> bytes:
        assert asked.int8() == 0
        groups = asked.array(asked.required_string)
        asked.tags()
        place = int32(1) + text("127.0.0.1") + int32(self.port)
        return many(text(g) + place + int16(self._without.get(g, 0)) + text("") + NO_TAGS for g in groups)

    def _offsets(self, asked: Reader) -> bytes:
        def topic() -> tuple[str, list[int]]:
            found = asked.required_string(), asked.array(asked.int32)
            asked.tags()
            return found

        def group() -> tuple[str, dict[str, list[int]]]:
            found = asked.required_string(), dict(asked.array(topic))
            asked.tags()
            return found

        groups, stable = dict(asked.array(group)), asked.int8()
        asked.tags()
        self.asked.append((groups, stable))
        return many(self._group(name) for name in groups)

    def _group(self, name: str) -> bytes:
        error, answers = self._groups[name]
        rows = [
            int32(tp.partition) + int64(c.offset) + int32(-1) + text(c.metadata) + int16(c.error) + NO_TAGS
            for tp, c in answers.items()
        ]
        topics = [text("t") + many(rows) + NO_TAGS] if rows else []
        return text(name) + many(topics) + int16(error) + NO_TAGS


def found(
    coordinator: Coordinator, asked: dict[str, Collection[TopicPartition]], *, stable: bool = True
) -> dict[str, dict[TopicPartition, str]]:
    """Return the metadata that a client finds."""
    with ScriptedBroker(coordinator, OF_GROUPS) as broker:
        coordinator.port = broker.address[1]
        with DirectClient(settings_of({"bootstrap.servers": f"127.0.0.1:{coordinator.port}"})) as client:
            return find_metadata(client, asked, stable=stable)


@pytest.mark.parametrize("stable", [True, False])
def test_one_request_for_all_groups(stable: bool) -> None:
    """All groups are in one request to their coordinator. A partition without an offset has no metadata."""
    coordinator = Coordinator({"a": (0, {T0: FOUND, T1: CommittedOffset(0, -1, "")}), "b": (0, {T1: FOUND})})
    asked: dict[str, Collection[TopicPartition]] = {"a": [T0, T1], "b": [T1]}
    assert found(coordinator, asked, stable=stable) == {"a": {T0: "entry"}, "b": {T1: "entry"}}
    assert coordinator.asked == [({"a": {"t": [0, 1]}, "b": {"t": [1]}}, int(stable))]


@pytest.mark.parametrize(
    "answer",
    [
        (0, {T0: FOUND, T1: CommittedOffset(88, -1, "")}),  # UNSTABLE_OFFSET_COMMIT
        (0, {T0: FOUND, T1: CommittedOffset(KafkaError.TOPIC_AUTHORIZATION_FAILED, -1, "")}),
        (0, {T0: FOUND}),
        (KafkaError.NOT_COORDINATOR, {}),
        (KafkaError.NOT_COORDINATOR, {T0: CommittedOffset(0, -1, ""), T1: CommittedOffset(0, -1, "")}),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, {}),
    ],
)
def test_group_without_an_answer(answer: tuple[int, dict[TopicPartition, CommittedOffset]]) -> None:
    """A group is left out unless its coordinator answers for each partition: it may have an entry."""
    coordinator = Coordinator({"a": answer, "b": (0, {T0: FOUND})})
    assert found(coordinator, {"a": [T0, T1], "b": [T0]}) == {"b": {T0: "entry"}}


def test_group_without_a_coordinator() -> None:
    """A group without a coordinator, as before __consumer_offsets exists, is left out, and not asked for."""
    coordinator = Coordinator({"b": (0, {T0: FOUND})}, {"a": KafkaError.COORDINATOR_NOT_AVAILABLE})
    assert found(coordinator, {"a": [T0], "b": [T0]}) == {"b": {T0: "entry"}}
    assert [list(groups) for groups, _ in coordinator.asked] == [["b"]]


@pytest.mark.parametrize(("ranges", "transport"), [(RANGES, "auto"), (OF_GROUPS, "librdkafka")])
def test_connection_that_cannot_be_used(ranges: Any, transport: str) -> None:
    """Without the direct transport, or with old brokers, nothing is found, and librdkafka has to ask."""
    with ScriptedBroker(Coordinator({"a": (0, {T0: FOUND})}), ranges) as broker:
        servers = f"127.0.0.1:{broker.address[1]}"
        connection = parse_connection({"kafka.bootstrap.servers": servers, "transport": transport}, "write")
        assert find_offset_metadata(connection, servers, {"a": [T0]}, stable=True) == {}


def test_brokers_that_do_not_answer() -> None:
    """Nothing is found, and no error raised: librdkafka waits for brokers, and reports them."""
    connection = parse_connection({"kafka.bootstrap.servers": "127.0.0.1:1"}, "write")
    assert find_offset_metadata(connection, "127.0.0.1:1", {"a": [T0]}, stable=True) == {}


def test_refused_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused login is not repeated for each micro-batch: it counts towards a lock-out, as librdkafka's own."""
    logins: list[object] = []

    def refuse(client: DirectClient, *_: object) -> None:
        logins.append(client)
        raise LoginRefused("no")

    monkeypatch.setattr("pyspark_zkafka.records.select._refused_logins", {})
    monkeypatch.setattr(DirectClient, "ask_any", refuse)
    connection = parse_connection({"kafka.bootstrap.servers": "127.0.0.1:1"}, "write")
    for _ in range(3):
        assert find_offset_metadata(connection, "127.0.0.1:1", {"a": [T0]}, stable=True) == {}
    assert len(logins) == 1


def test_read_by_the_direct_transport() -> None:
    """The driver's reads use the direct transport if they can."""
    coordinator = Coordinator({"a": (0, {T0: FOUND}), "b": (0, {T0: CommittedOffset(0, -1, "")})})
    with ScriptedBroker(coordinator, OF_GROUPS) as broker:
        coordinator.port = broker.address[1]
        servers = f"127.0.0.1:{coordinator.port}"
        connection = parse_connection({"kafka.bootstrap.servers": servers}, "write")
        asked = {"a": [T0], "b": [T0]}
        assert find_offset_metadata(connection, servers, asked, stable=True) == {"a": {T0: "entry"}, "b": {}}
