"""Java consumers that join a workload's group for a while, and journal what they read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from tests.faults.harness.history import Event, Life, Read
from tests.faults.harness.journal import Journal
from tests.faults.harness.values import UNKNOWN, digest
from tests.faults.harness.workloads import SESSION_MS, Workload
from tests.support.java_consumer import JavaConsumer

__all__ = ["join_for"]

_POLL_S = 0.2


def join_for(
    cluster: LocalCluster, workload: Workload, number: int, lasts_s: float, folder: Path, journal: Journal
) -> None:
    """Run a Java consumer in a workload's group for some seconds; it leaves in an orderly way."""
    name = f"java-{number}"
    journal.add(Life(time.time(), name, 0, "started"))
    try:
        (_in_kafka if workload.in_kafka else _in_zookeeper)(cluster, workload, name, lasts_s, folder, journal)
    finally:
        journal.add(Life(time.time(), name, 0, "stopped"))


def _in_zookeeper(
    cluster: LocalCluster, workload: Workload, name: str, lasts_s: float, folder: Path, journal: Journal
) -> None:
    with OldConsumer(
        cluster.zookeeper_connect, workload.name, topics={workload.name: 1}, consumer_id=name, properties=_PATIENT
    ) as consumer:
        end, seen = time.monotonic() + lasts_s, 0
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            seen += _journal(
                journal, name, workload.name, [(r.partition, r.offset, r.value or b"") for r in consumer.records[seen:]]
            )
        with suppress(LocalClusterError):  # the wait for its end is limited; records already read count
            consumer.stop()
        _journal(journal, name, workload.name, [(r.partition, r.offset, r.value or b"") for r in consumer.records[seen:]])


def _in_kafka(cluster: LocalCluster, workload: Workload, name: str, lasts_s: float, folder: Path, journal: Journal) -> None:
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": workload.name,
        "client.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "session.timeout.ms": str(SESSION_MS),
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }
    consumer = JavaConsumer(workload.name, properties, folder / f"{name}.log")
    end, seen = time.monotonic() + lasts_s, 0
    try:
        while time.monotonic() < end and consumer.running:
            time.sleep(_POLL_S)
            seen += _journal(journal, name, workload.name, [(*found, b"") for found in consumer.records[seen:]])
        if consumer.running:
            consumer.close()
    finally:
        consumer.kill()
        _journal(journal, name, workload.name, [(*found, b"") for found in consumer.records[seen:]])


_PATIENT = {"rebalance.max.retries": "20", "rebalance.backoff.ms": "1000", "auto.commit.interval.ms": "500"}


def _journal(journal: Journal, name: str, topic: str, records: list[tuple[int, int, bytes]]) -> int:
    """Journal records, in order within each partition; returns their number."""
    journal.add(*_reads(name, topic, records))
    return len(records)


def _reads(name: str, topic: str, records: list[tuple[int, int, bytes]]) -> Iterable[Event]:
    ordered = sorted(records, key=lambda record: record[0])  # stable: keeps the order within a partition
    for partition, found in groupby(ordered, key=lambda record: record[0]):
        offsets, values = zip(*((offset, value) for _, offset, value in found), strict=True)
        digests = tuple(digest(value) if value else UNKNOWN for value in values)
        yield Read(time.time(), name, 0, -1, topic, partition, offsets, digests)
