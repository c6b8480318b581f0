"""Collector for Prometheus that reads a cluster at each scrape, in bounded time."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.operations.cluster_metrics import (
    Gauge,
    cluster_metrics,
    description_metrics,
    group_metrics,
    kafka_member_metrics,
    log_metrics,
)
from pyspark_zkafka.operations.cluster_reads import Brokers, Ensemble
from pyspark_zkafka.operations.group_reads import Logs
from pyspark_zkafka.operations.group_state import PartitionDescription, describe_groups

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pyspark_zkafka.operations.group_reads import OffsetsStorage

__all__ = ["ClusterCollector", "SharedCall"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


class SharedCall(Generic[T]):
    """A call in a thread of its own, whose callers wait for a limited time.

    While one is under way, further callers wait for that one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = Lock()
        self._pending: Future[T] | None = None

    def result(self, call: Callable[[], T], timeout_s: float) -> T | None:
        """The call's result; None, after a line in the log, if it raised a ZKafkaError or did not end in time."""
        with self._lock:
            if self._pending is None or self._pending.done():
                self._pending = self._executor.submit(call)
            pending = self._pending
        try:
            return pending.result(max(0.0, timeout_s))
        except FutureTimeoutError:
            _log.warning("%s did not answer in time; the scrape goes without it", self._name)
        except ZKafkaError as error:
            _log.warning("%s cannot be read: %s", self._name, error)
        return None

    def close(self) -> None:
        """Wait for a call that is under way, and end the thread."""
        self._executor.shutdown(cancel_futures=True)


class ClusterCollector(Collector):
    """Metrics of a cluster, read at each scrape. Scrapes at the same time share their reads.

    If ZooKeeper fails, ``zkafka_up`` is 0 and there is nothing else; if the brokers fail, ``zkafka_brokers_up`` is 0 and
    what ZooKeeper has is there. No failure ends the process.

    Parameters
    ----------
    timeout_s : float
        The longest time of a scrape: less than Prometheus's ``scrape_timeout``.
    """

    def __init__(
        self,
        read_ensemble: Callable[[], Ensemble],
        read_brokers: Callable[[Ensemble], Brokers],
        timeout_s: float,
        storage: OffsetsStorage = "zookeeper",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_ensemble = read_ensemble
        self._read_brokers = read_brokers
        self._timeout_s = timeout_s
        self._storage = storage
        self._clock = clock
        self._ensemble: SharedCall[Ensemble] = SharedCall("ZooKeeper")
        self._brokers: SharedCall[Brokers] = SharedCall("Kafka")
        self._problems: tuple[str, ...] = ()

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering the collector reads nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics; blocks for the time-out at the most."""
        started = self._clock()
        ensemble = self._ensemble.result(self._read_ensemble, self._timeout_s)
        brokers = None if ensemble is None else self._ask_brokers(ensemble, started + self._timeout_s)
        found = [] if ensemble is None else _metrics(ensemble, brokers, self._storage)
        yield from map(_family, (*found, *_health(ensemble, brokers, self._clock() - started)))

    def close(self) -> None:
        """Wait for reads that are under way, and end their threads."""
        self._ensemble.close()
        self._brokers.close()

    def _ask_brokers(self, ensemble: Ensemble, until: float) -> Brokers | None:
        brokers = self._brokers.result(lambda: self._read_brokers(ensemble), until - self._clock())
        if brokers is not None:
            self._report(brokers.logs.problems)
        return brokers

    def _report(self, problems: tuple[str, ...]) -> None:
        """Log the problems that the last scrape did not have."""
        before, self._problems = set(self._problems), problems
        for problem in problems:
            if problem not in before:
                _log.warning("%s", problem)


def _health(ensemble: Ensemble | None, brokers: Brokers | None, seconds: float) -> Iterator[Gauge]:
    problems = 0 if brokers is None else len(brokers.logs.problems)
    yield Gauge("zkafka_up", "1 if ZooKeeper could be read.", (), {(): int(ensemble is not None)})
    yield Gauge("zkafka_brokers_up", "1 if the brokers answered the scrape in time.", (), {(): int(brokers is not None)})
    yield Gauge("zkafka_scrape_problems", "Problems with single partitions, as logged.", (), {(): problems})
    yield Gauge("zkafka_scrape_duration_seconds", "Duration of the scrape.", (), {(): seconds})


def _metrics(ensemble: Ensemble, brokers: Brokers | None, storage: OffsetsStorage) -> Iterator[Gauge]:
    states, found = ensemble.groups.values(), brokers or Brokers(Logs())
    return itertools.chain(
        cluster_metrics(ensemble.snapshot, ensemble.controller_epoch),
        log_metrics(found.logs.bounds),
        group_metrics(states),
        kafka_member_metrics(found.kafka_members),
        description_metrics(_descriptions(ensemble, found, storage)),
    )


def _descriptions(ensemble: Ensemble, brokers: Brokers, storage: OffsetsStorage) -> Iterator[PartitionDescription]:
    """Descriptions of the groups' partitions that exist, of the topics that are shown."""
    groups = ensemble.groups.values()
    states = [replace(state, offsets={}) for state in groups] if storage == "kafka" else groups
    described = describe_groups(states, brokers.logs.bounds, brokers.kafka_offsets)
    shown = {tp for topic in ensemble.snapshot.topics for tp in ensemble.snapshot.partitions(topic)}
    return (row for rows in described.values() for row in rows if (row.topic, row.partition) in shown)


def _family(gauge: Gauge) -> Metric:
    family = GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.labels)
    for labels, value in gauge.values.items():
        family.add_metric(labels, value)
    return family
