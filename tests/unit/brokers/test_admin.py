"""Offsets of logs, from librdkafka's mock cluster."""

from __future__ import annotations

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.offset_lookups import LookupSizes
from pyspark_zkafka.errors import BrokersUnavailable, NoLeader
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp
from pyspark_zkafka.options.batch import parse_connection

T0, T1, T9 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)
SIZES = [LookupSizes(), LookupSizes(request=1), LookupSizes(request=1, bulk=2)]
UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=["one request", "two requests", "in bulk"])
def test_offsets(servers: str, sizes: LookupSizes, read_committed: bool) -> None:
    """Each partition has the offset of its own position, however many requests are made."""
    with KafkaAdmin(servers, {}, read_committed=read_committed, sizes=sizes) as admin:
        assert admin.list_offsets({T0: LATEST, T1: EARLIEST}) == {T0: 5, T1: 0}


@pytest.mark.parametrize("sizes", SIZES, ids=["one request", "two requests", "in bulk"])
def test_partitions_without_a_leader(servers: str, sizes: LookupSizes) -> None:
    """A partition without a leader has an error of its own, or, where all are needed, ends the lookup."""
    with KafkaAdmin(servers, {}, sizes=sizes) as admin:
        found, failed = admin.list_offsets_each({T0: LATEST, T9: LATEST})
        assert (found, list(failed)) == ({T0: 5}, [T9])
        with pytest.raises(NoLeader, match="t-9"):
            admin.list_offsets({T0: LATEST, T9: LATEST})


def test_timestamps(servers: str) -> None:
    """Timestamps are never looked up in bulk, which knows only the ends of logs."""
    with KafkaAdmin(servers, {}, sizes=LookupSizes(bulk=1)) as admin:
        assert set(admin.list_offsets({T0: AtTimestamp(0)})) == {T0}


@pytest.mark.parametrize(("read_committed", "ends"), [(False, {}), (True, {T0: 5})])
def test_high_watermarks(servers: str, read_committed: bool, ends: dict[TopicPartition, int]) -> None:
    """High watermarks are looked up where the latest offset may be another one."""
    with KafkaAdmin(servers, {}, read_committed=read_committed) as admin:
        assert admin.high_watermarks([T0]) == ends


def test_unreachable_brokers() -> None:
    """If no broker can be reached, the error of a lookup names the partitions; a refresh of metadata reports nothing."""
    with KafkaAdmin(UNREACHABLE, {"socket.timeout.ms": 300}) as admin:
        with pytest.raises(BrokersUnavailable, match="The leaders of t-0 did not answer"):
            admin.list_offsets({T0: LATEST})
        admin.refresh_metadata(["t"])


def test_bootstrap_servers(servers: str) -> None:
    """A connection without bootstrap servers gets those of a snapshot."""
    connection = parse_connection({"zookeeper.connect": "zk1:2181"})
    with KafkaAdmin.of(connection, servers) as admin:
        assert admin.list_offsets({T0: LATEST}) == {T0: 5}


def test_not_open() -> None:
    """An admin client outside of its with block is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        KafkaAdmin(UNREACHABLE, {}).list_offsets({T0: LATEST})
