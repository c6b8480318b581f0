"""What librdkafka must be told about old brokers, by the answers of scripted ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyspark_zkafka.brokers import dialects
from pyspark_zkafka.brokers.dialects import find_dialect, with_dialect
from pyspark_zkafka.brokers.requests import BrokerDialect
from pyspark_zkafka.wire.metadata_messages import METADATA
from pyspark_zkafka.wire.protocol import Reader
from tests.support.scripted_broker import Received, ScriptedBroker, answered
from tests.support.scripted_groups import Answers, api_ranges, metadata

PRODUCE = 0
OLD = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
PLAIN = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}


@contextmanager
def broker(produce: int) -> Iterator[ScriptedBroker]:
    """A broker with Produce up to this version."""

    def describe(request: Reader) -> bytes:
        return metadata({1: opened.address})

    ranges = {**api_ranges((METADATA, 1)), PRODUCE: (0, produce)}
    with ScriptedBroker(Answers({METADATA: describe}), ranges) as opened:
        yield opened


@contextmanager
def broker_of_0_8() -> Iterator[ScriptedBroker]:
    """A broker that closes the connection after ApiVersions, and knows one other broker and no topic."""

    def script(request: Received) -> bytes | None:
        if request.api != METADATA.key:
            return None
        nodes = metadata({1: opened.address})
        rack, controller = 2, 4
        return answered(request, nodes[: -controller - 4 - rack] + nodes[-4:])  # without the fields of version 1

    with ScriptedBroker(script, ranges=None) as opened:
        yield opened


@pytest.mark.parametrize(("produce", "record_format", "added"), [(1, 0, PLAIN), (2, 1, PLAIN), (3, 2, {})])
def test_formats(produce: int, record_format: int, added: dict[str, Any]) -> None:
    """Brokers that take no records of format 2 get no idempotent producer, and one request at a time."""
    with broker(produce) as opened:
        servers = "{}:{}".format(*opened.address)
        assert find_dialect(servers, {}) == BrokerDialect(record_format)
        properties = {"bootstrap.servers": servers, "enable.idempotence": True}
        assert with_dialect(properties) == {**properties, **added}
        own = {"bootstrap.servers": servers, "enable.idempotence": "false"}
        assert with_dialect(own) == own


def test_release() -> None:
    """librdkafka must be told the release of brokers without ApiVersions, unless the user has told it."""
    with broker_of_0_8() as opened:
        servers = "{}:{}".format(*opened.address)
        assert with_dialect({"bootstrap.servers": servers}) == {"bootstrap.servers": servers, **OLD}
        own = {"bootstrap.servers": servers, "broker.version.fallback": "0.8.1"}
        assert with_dialect(own) == own


def test_upgrade() -> None:
    """Old brokers are asked each time, and others once."""
    for produce, asked in ((2, 2), (3, 1)):
        with broker(produce) as opened:
            for _ in range(2):
                find_dialect("{}:{}".format(*opened.address), {})
            assert len([request for request in opened.received if request.api == METADATA.key]) == asked


def test_unreachable_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer in time, the properties stay: librdkafka reports the error."""
    monkeypatch.setattr(dialects, "_PATIENCE_S", 0.2)
    properties = {"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": True}
    assert with_dialect(properties) == properties
