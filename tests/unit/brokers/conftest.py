"""librdkafka's mock cluster, which supports offsets, records and groups, but no controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer


@pytest.fixture(scope="package")
def servers() -> Iterator[str]:
    """The bootstrap servers of two mock brokers with topic ``t``.

    Partitions 0 and 1 have five records with two-byte values, in leader epoch 0; partitions 2 and 3 are empty.
    """
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 2, "log_level": 0})
    for number in range(10):
        producer.produce("t", b"v%d" % number, key=b"kk", partition=number % 2)
    assert producer.flush(10) == 0
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    producer.purge()
