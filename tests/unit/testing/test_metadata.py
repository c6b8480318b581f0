"""Views of brokers, made up or from librdkafka's mock cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.servers import BrokerView, MetadataWatch, client_settings


@pytest.mark.parametrize(
    ("leaders", "is_led"),
    [({"t": {0: 1, 1: 2}}, True), ({"t": {0: 1, 1: -1}}, False), ({"t": {0: 1}}, False), ({}, False)],
)
def test_led_topics(leaders: dict[str, dict[int, int]], is_led: bool) -> None:
    """A topic is led if it has all its partitions and each has a leader."""
    assert BrokerView(frozenset({1, 2}), leaders).is_led("t", 2) is is_led


def test_settings_for_old_brokers() -> None:
    """Brokers before 0.10 are not asked for their API versions, and other settings take precedence."""
    assert client_settings("b:1", (0, 9, 0, 1), {})["api.version.request"] is False
    assert "api.version.request" not in client_settings("b:1", (0, 10, 0, 0), {})
    assert client_settings("b:1", (3, 9, 1), {"log_level": "7"})["log_level"] == "7"


def test_watch() -> None:
    """Brokers agree once each of them responds and the condition holds; otherwise, the error shows their views."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 2, "log_level": 0})
    producer.produce("t", b"v", partition=0)
    producer.flush(10)
    brokers = producer.list_topics(timeout=10).brokers
    watch = MetadataWatch({n: client_settings(f"{b.host}:{b.port}", (3, 9, 1), {}) for n, b in brokers.items()})
    try:
        assert watch.uninformed({1, 2}) == set()
        assert watch.uninformed({1, 9}) == {1, 2}
        views = watch.agree(lambda found: all("t" in view.leaders for view in found), "t is unknown", 10)
        assert len(views) == 2
        with pytest.raises(LocalClusterError, match=r"t is deleted, after 0 s; the brokers' metadata are .*BrokerView"):
            watch.agree(lambda found: not any(view.leaders for view in found), "t is deleted", 0)
    finally:
        watch.close()
