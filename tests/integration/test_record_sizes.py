"""Samples of record sizes, on real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.brokers.clients import consumer_properties
from pyspark_zkafka.brokers.log_lookups import sample_record_bytes
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Sizes = dict[int, float]


@pytest.fixture
def properties(zkafka_cluster: LocalCluster) -> dict[str, Any]:
    """A consumer's properties."""
    servers = zkafka_cluster.bootstrap_servers
    return consumer_properties(parse_connection({"kafka.bootstrap.servers": servers}), servers, "sizes")


@pytest.fixture
def sample(properties: dict[str, Any]) -> Callable[..., Sizes]:
    """Returns mean sizes by partition: ``sample(topic, {0: 5}, timeout_s=20)``."""

    def sizes(topic: str, offsets: dict[int, int], timeout_s: float = 20) -> Sizes:
        positions = {TopicPartition(topic, p): offset for p, offset in offsets.items()}
        return {tp.partition: size for tp, size in sample_record_bytes(properties, positions, timeout_s).items()}

    return sizes


def test_means(zkafka_cluster: LocalCluster, new_topic: NewTopic, sample: Callable[..., Sizes]) -> None:
    """The mean counts keys, values and headers of records from the given offset on; null counts as zero."""
    topic = new_topic(partitions=3)
    records = [
        {"partition": 0, "value": b"v" * 1000},
        {"partition": 0, "value": b"v" * 10},
        {"partition": 0, "value": b"v" * 20, "key": b"k" * 6, "headers": [("nämë", b"1234"), ("n", None)]},
        {"partition": 1, "key": b"k"},
        {"partition": 2, "value": b"", "key": b""},
    ]
    zkafka_cluster.produce(topic, records)
    assert sample(topic, {0: 1, 1: 0, 2: 0}) == {0: (10 + 20 + 6 + 6 + 4 + 1) / 2, 1: 1.0, 2: 0.0}


def test_a_sample_is_the_beginning(zkafka_cluster: LocalCluster, new_topic: NewTopic, sample: Callable[..., Sizes]) -> None:
    """A sample has at most some hundred records or 1 MiB per partition, and a large partition does not hide a small one."""
    topic = new_topic(partitions=2)
    small = [{"partition": 0, "value": b"s" * 10}] * 1000 + [{"partition": 0, "value": b"l" * 1000}] * 5000
    large = [{"partition": 1, "value": b"l" * 300_000}] * 4 + [{"partition": 1, "value": b"s"}] * 1000
    zkafka_cluster.produce(topic, small + large)
    assert sample(topic, {0: 0, 1: 0}) == {0: 10.0, 1: 300_000.0}


def test_partitions_that_give_nothing(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, sample: Callable[..., Sizes]
) -> None:
    """Partitions at their end, beyond it, or unknown are absent, and do not delay the others."""
    topic = new_topic(partitions=3)
    zkafka_cluster.produce(topic, [{"partition": 0, "value": b"1234"}, {"partition": 1, "value": b"1"}])
    begin = time.monotonic()
    assert sample(topic, {0: 0, 1: 1, 2: 7}) == {0: 4.0}
    assert sample(topic, {}) == {}
    assert time.monotonic() - begin < 10
    assert sample("no-such-topic", {0: 0}, timeout_s=1) == {}


def test_time_is_over(properties: dict[str, Any]) -> None:
    """An unreachable cluster yields no sizes when the time-out has passed."""
    nowhere = {**properties, "bootstrap.servers": "127.0.0.1:1"}
    begin = time.monotonic()
    assert sample_record_bytes(nowhere, {TopicPartition("t", 0): 0}, 0.5) == {}
    assert 0.5 <= time.monotonic() - begin < 5


def test_unusable_properties(properties: dict[str, Any]) -> None:
    """A property that librdkafka refuses raises an error with its message."""
    with pytest.raises(OptionError, match=r"making a consumer: .*statistics"):
        sample_record_bytes({**properties, "statistics.interval.ms": "often"}, {TopicPartition("t", 0): 0}, 1)


def test_headers_that_cannot_be_read(
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    sample: Callable[..., Sizes],
    header_of_any_name: Callable[[str, bytes], None],
) -> None:
    """A record with a header name that is not UTF-8 counts its key and value; later records count completely."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"value": b"v"}] * 50)  # frequent calls take another path in Python
    for _ in range(50):
        header_of_any_name(topic, b"\xff\xfe")
    zkafka_cluster.produce(topic, [{"value": b"v", "headers": [("h", b"1234")]}] * 50)
    assert sample(topic, {0: 0}) == {0: (50 + 50 + 50 * 6) / 150}
