"""Joins of groups in Kafka, with a fake coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.group import membership
from pyspark_zkafka.group.membership import KafkaJoin
from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.options.batch import parse_connection
from tests.support.options import group_options


@pytest.mark.parametrize(
    ("given", "timeout_ms"),
    [
        ({}, 4000),
        ({"kafka.request.timeout.ms": "900"}, 900),
        ({"kafka.request.timeout.ms": "60000"}, 4000),
    ],
)
def test_check_of_an_assignment(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], timeout_ms: int) -> None:
    """Requests for the final assignment have a short time-out, or the shorter one of the options."""
    opened: list[tuple[str, Any]] = []

    class Admin:
        def __init__(self, servers: str, properties: Mapping[str, Any]) -> None:
            opened.append((servers, properties.get("socket.timeout.ms")))

        def __enter__(self) -> Admin:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def has_coordinators(self, group: str) -> bool:
            return False

    monkeypatch.setattr(membership, "GroupAdmin", Admin)
    connection = parse_connection({"kafka.bootstrap.servers": "k:9092", **given})
    join = KafkaJoin(connection, lambda: "k:9093", group_options("g", membership="kafka"), Subscribe(("t",)))
    with pytest.raises(BrokersUnavailable, match="there is no __consumer_offsets"):
        join.is_final("c-1", (), ("t",), 4.0)
    assert opened == [("k:9093", timeout_ms)]
