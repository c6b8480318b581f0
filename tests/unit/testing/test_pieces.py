"""The small pure parts: deadlines, records, replica lists, the checks before a start."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.producing import _arguments
from pyspark_zkafka.testing.topics import spread
from pyspark_zkafka.testing.waiting import Deadline


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_deadline_looks_until_found() -> None:
    """The thing looked for is returned as soon as it is there."""
    time = Time()
    deadline = Deadline(1, lambda: time.now, time.sleep)
    assert deadline.until(lambda: "there" if time.now >= 0.2 else None) == "there"
    assert 0.2 <= time.now < 0.3


def test_deadline_passes() -> None:
    """After the deadline the answer is None, and one that has passed before still looks once."""
    time = Time()
    deadline = Deadline(1, lambda: time.now, time.sleep)
    assert deadline.until(lambda: None) is None
    assert time.now == pytest.approx(1)
    assert deadline.until(lambda: "there") == "there"


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (("k", "v"), {"key": "k", "value": "v"}),
        ((None, b"v", 3, None, 5), {"value": b"v", "partition": 3, "timestamp": 5}),
        ({"value": b"v", "headers": {"h": b"1"}}, {"value": b"v", "headers": [("h", b"1")]}),
        ({"value": b"v", "headers": [("h", None), ("h", b"2")]}, {"value": b"v", "headers": [("h", None), ("h", b"2")]}),
        ({}, {}),
    ],
)
def test_records(record: Any, arguments: dict[str, Any]) -> None:
    """A record is a dict or a tuple; what is None is left out."""
    assert _arguments(record) == arguments


@pytest.mark.parametrize("record", ["text", b"bytes", {"value": b"v", "topic": "t"}, (1, 2, 3, 4, 5, 6)])
def test_bad_records(record: Any) -> None:
    """Anything else is refused: a bare value, an unknown field, a tuple that is too long."""
    with pytest.raises(LocalClusterError, match="BAD_RECORD"):
        _arguments(record)


def test_spread() -> None:
    """Replicas go round the brokers, whatever their ids, from the first partition that is asked for."""
    assert spread(range(2), 2, [0, 5]) == {0: [0, 5], 1: [5, 0]}
    assert spread(range(3, 4), 1, [0, 1]) == {3: [1]}
    with pytest.raises(LocalClusterError, match="3 replicas were asked for; 2 brokers are there"):
        spread(range(1), 3, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"brokers": 0}, "brokers is 0"),
        ({"racks": ["a"]}, "1 entries for 3 brokers"),
        ({"kafka_version": "0.8.2.2", "listeners": {"A": "PLAINTEXT"}}, "no named listeners"),
        ({"kafka_version": "4.0.0"}, "does not run with ZooKeeper"),
    ],
)
def test_refused_before_anything_starts(arguments: dict[str, Any], said: str) -> None:
    """A constructor only stores; what cannot be is refused by start, before any process."""
    cluster = LocalCluster(**arguments)
    with pytest.raises(LocalClusterError, match=said):
        cluster.start()


def test_not_running() -> None:
    """A cluster that was not started raises an error that names the remedy; `close` does nothing."""
    cluster = LocalCluster()
    cluster.close()
    with pytest.raises(LocalClusterError, match=r"CLUSTER_NOT_RUNNING.*with LocalCluster"):
        _ = cluster.zookeeper_connect
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        _ = cluster.bootstrap_servers
