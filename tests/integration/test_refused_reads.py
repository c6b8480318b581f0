"""Batch reads that are refused before any task runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, DataLoss, UnknownTopic, ZooKeeperError
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


class TestRefused:
    """Refused options and unreadable clusters."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"subscribe": "t", "startingOffset": "earliest"}, "did you mean startingOffsets"),
            ({"subscribe": "t", "assign": '{"t":[0]}'}, "subscribe and assign contradict"),
            ({}, "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
            ({"subscribe": "t", "startingOffsets": "latest"}, "a batch that starts at latest reads nothing"),
            ({"subscribe": "t", "endingOffsets": "earliest"}, "a batch that ends at earliest reads nothing"),
            ({"subscribe": "t", "minPartitions": "0"}, "minPartitions is '0'"),
            ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
            ({"subscribe": "t", "kafka.key.deserializer": "x"}, "key.deserializer"),
            ({"subscribe": "t", "startingOffsets": "committed"}, "needs group.id"),
            ({"subscribe": "t", "topic": "x"}, "topic is an option of a write"),
        ],
    )
    def test_options(self, read: Read, options: dict[str, str], expected: str) -> None:
        """An invalid option raises an error that names it and the remedy."""
        with pytest.raises(Exception, match=expected):
            read(options).collect()

    def test_all_at_once(self, read: Read) -> None:
        """One error lists all invalid options."""
        with pytest.raises(Exception, match=r"3 problem\(s\)") as caught:
            read({"subscribe": "t", "failOnDataLoss": "perhaps", "maxRecordsPerPartition": "-1", "speed": "11"}).collect()
        for name in ("failOnDataLoss", "maxRecordsPerPartition", "speed"):
            assert name in str(caught.value)

    def test_unknown_topic(self, zookeeper: dict[str, str]) -> None:
        """An unknown topic raises an error that names it."""
        with pytest.raises(UnknownTopic, match="no-such-topic"):
            plan_batch(parse_read({**zookeeper, "subscribe": "no-such-topic"}))

    def test_unknown_partition(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """An unknown partition raises an error that names it."""
        topic = new_topic(partitions=2)
        with pytest.raises(UnknownTopic, match=f"{topic}-7"):
            plan_batch(parse_read({**zookeeper, "assign": f'{{"{topic}":[0,7]}}'}))

    def test_wrong_chroot(self, zookeeper: dict[str, str]) -> None:
        """A missing chroot raises an error that names it."""
        hosts = zookeeper["zookeeper.connect"].partition("/")[0]
        with pytest.raises(ZooKeeperError, match="/nowhere"):
            plan_batch(parse_read({"zookeeper.connect": f"{hosts}/nowhere", "subscribe": "t"}))

    def test_no_zookeeper(self) -> None:
        """An unreachable ensemble raises an error within the connection time-out."""
        options = {"zookeeper.connect": "127.0.0.1:1", "zookeeper.connection.timeout.ms": "1500", "subscribe": "t"}
        begin = time.monotonic()
        with pytest.raises(ZooKeeperError, match=r"127\.0\.0\.1:1"):
            plan_batch(parse_read({**options, "fetchOffset.numRetries": "0"}))
        assert time.monotonic() - begin < 5

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("servers", "cause"),
        [("127.0.0.1:1", "refused"), ("no-such-host.invalid:9092", "resolve")],
    )
    def test_no_brokers(self, servers: str, cause: str) -> None:
        """Unreachable brokers raise an error within seconds, with the cause."""
        options = {"kafka.bootstrap.servers": servers, "subscribe": "t", "fetchOffset.numRetries": "0"}
        begin = time.monotonic()
        with pytest.raises(BrokersUnavailable, match=f"{servers}.*{cause}"):
            plan_batch(parse_read(options))
        assert time.monotonic() - begin < 15

    def test_start_outside_the_log(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """An explicit start beyond the end of the log fails planning as data loss."""
        topic = new_topic()
        with pytest.raises(DataLoss, match=rf"{topic}-0: starting offset 5 is outside the log"):
            plan_batch(parse_read({**zookeeper, "subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":5}}}}'}))

    def test_no_record_at_timestamp(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """A starting timestamp later than all records is an error, unless the strategy is latest."""
        topic = new_topic()
        options: dict[str, Any] = {**zookeeper, "subscribe": topic, "startingTimestamp": "1700000000000"}
        with pytest.raises(ClusterStateError, match=rf"NO_OFFSET_FOR_TIMESTAMP.*{topic}-0"):
            plan_batch(parse_read(options))
        assert plan_batch(parse_read({**options, "startingOffsetsByTimestampStrategy": "latest"})).splits == ()
