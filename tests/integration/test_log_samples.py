"""Samples of logs, on real brokers, by both transports."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.log_samples import LogSamples
from pyspark_zkafka.testing import LocalCluster
from tests.support.transactions import abort, commit

NewTopic = Callable[..., str]
Sizes = dict[int, float]
UNREACHABLE = "127.0.0.1:1"


@pytest.fixture(params=["direct", "librdkafka"])
def samples(zkafka_cluster: LocalCluster, request: pytest.FixtureRequest) -> Callable[..., LogSamples]:
    """Returns samples by a transport: ``samples(topic, timeout_s=20)``."""

    def make(timeout_s: float = 20, servers: str = zkafka_cluster.bootstrap_servers, **options: str) -> LogSamples:
        given = {"kafka.bootstrap.servers": servers, "subscribe": "t", "transport": request.param, **options}
        return LogSamples(parse_read(given), servers, timeout_s)

    return make


@pytest.fixture
def split(zkafka_cluster: LocalCluster) -> Callable[..., Split]:
    """Returns the split of a range: ``split(topic, 0, 5, 7)``."""

    def make(topic: str, partition: int, start: int, until: int) -> Split:
        endpoints = tuple(zkafka_cluster.bootstrap_servers.split(",")[:1])
        return Split(TopicPartition(topic, partition), start, until, 1, -1, (1,), endpoints)

    return make


@pytest.fixture
def sample(samples: Callable[..., LogSamples], split: Callable[..., Split]) -> Callable[..., Sizes]:
    """Returns mean sizes by partition: ``sample(topic, {0: 5}, timeout_s=20)``."""

    def sizes(topic: str, offsets: dict[int, int], timeout_s: float = 20) -> Sizes:
        splits = [split(topic, partition, offset, 100_000) for partition, offset in offsets.items()]
        return {tp.partition: size for tp, size in samples(timeout_s).mean_bytes(splits).items()}

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
    large = [{"partition": 1, "value": b"l" * 300_000}] * 20 + [{"partition": 1, "value": b"s"}] * 1000
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


def test_time_is_over(samples: Callable[..., LogSamples]) -> None:
    """An unreachable cluster yields no sizes when the time-out has passed."""
    nowhere = Split(TopicPartition("t", 0), 0, 9, 1, -1, (1,), (UNREACHABLE,))
    begin = time.monotonic()
    assert samples(0.5, UNREACHABLE).mean_bytes([nowhere]) == {}
    assert 0.5 <= time.monotonic() - begin < 5


def test_leader_that_does_not_answer(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, samples: Callable[..., LogSamples], split: Callable[..., Split]
) -> None:
    """A partition whose leader is silent does not take the time of the others."""
    topic = new_topic(partitions=2)
    zkafka_cluster.produce(topic, [{"partition": 1, "value": b"1234"}])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        first = split(topic, 0, 0, 9)._replace(endpoints=(f"127.0.0.1:{silent.getsockname()[1]}",))
        assert samples(6).mean_bytes([first, split(topic, 1, 0, 9)]) == {TopicPartition(topic, 1): 4.0}


def test_compacted_start(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, samples: Callable[..., LogSamples], split: Callable[..., Split]
) -> None:
    """Aborted records before the first visible one take no part in a sample."""
    topic = new_topic()
    abort(zkafka_cluster, topic, *[b"aborted"] * 1_000)
    zkafka_cluster.produce(topic, [{"value": b"1234"}])
    found = samples(20, **{"kafka.isolation.level": "read_committed"}).mean_bytes([split(topic, 0, 0, 100_000)])
    assert found == {TopicPartition(topic, 0): 4.0}


def test_ranges_without_records(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, samples: Callable[..., LogSamples], split: Callable[..., Split]
) -> None:
    """The marker of a transaction is no record, wherever it stands; a leader that does not answer proves nothing."""
    topics = [new_topic(), new_topic()]
    for topic in topics:
        commit(zkafka_cluster, topic, b"a", b"b")
    commit(zkafka_cluster, topics[1], b"c")
    empty = [split(topic, 0, 2, 3) for topic in topics]
    assert samples().without_records(empty) == [found.partition for found in empty]
    assert samples(3).without_records([split(topics[0], 0, 1, 3), split(topics[1], 0, 2, 4)]) == []
    nowhere = [found._replace(endpoints=(UNREACHABLE,)) for found in empty]
    assert samples(0.5, UNREACHABLE).without_records(nowhere) == []


def test_headers_that_cannot_be_read(
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    sample: Callable[..., Sizes],
    header_of_any_name: Callable[[str, bytes], None],
) -> None:
    """A record with a header name that is not UTF-8 counts, with compiled code completely, else its key and value."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"value": b"v"}] * 50)  # frequent calls take another path in Python
    for _ in range(50):
        header_of_any_name(topic, b"\xff\xfe")
    zkafka_cluster.produce(topic, [{"value": b"v", "headers": [("h", b"1234")]}] * 50)
    assert sample(topic, {0: 0})[0] in {(50 + 50 + 50 * 6) / 150, (50 + 50 * 4 + 50 * 6) / 150}
