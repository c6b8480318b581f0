"""Collector for Prometheus that reads a cluster at each scrape, in bounded time."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

__all__ = ["ClusterCollector", "Reading", "SharedCall"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The newest result of a call, None if there is none or the call failed.

    Attributes
    ----------
    age_s : float
        The time since the call that returned it began.
    timed_out : bool
        A later call did not end in time; `value` is of an earlier one.
    """

    value: T | None = None
    age_s: float = 0.0
    timed_out: bool = False


class SharedCall(Generic[T]):
    """A call in a thread of its own, whose callers wait for a limited time. Calls begin one after the other.

    What a call returns late is the result of those who come later, until the next call ends.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = Lock()
        self._pending: Future[None] | None = None
        self._last: tuple[T, float] | None = None
        self._was_late = False

    def start(self, call: Callable[[], T]) -> None:
        """Begin a call, unless one is under way."""
        with self._lock:
            if self._pending is None or self._pending.done():
                self._pending = self._executor.submit(self._call, call)

    def result(self, timeout_s: float) -> Reading[T]:
        """The result of the call that is under way, or was the last; of an earlier one if it does not end in time.

        There is none after a ZKafkaError, of which the log has a line, like one for a call that does not end in time.
        """
        pending = self._pending
        try:
            if pending is not None:
                pending.result(max(0.0, timeout_s))
            is_late = False
        except FutureTimeoutError:
            is_late = True
        if is_late and not self._was_late:
            _log.warning("%s did not answer in time; scrapes show what was read before, if there is anything", self._name)
        self._was_late, last = is_late, self._last
        if last is None:
            return Reading(timed_out=is_late)
        value, began = last
        return Reading(value, self._clock() - began, is_late)

    def close(self) -> None:
        """Wait for a call that is under way, and end the thread."""
        self._executor.shutdown(cancel_futures=True)

    def _call(self, call: Callable[[], T]) -> None:
        began = self._clock()
        try:
            self._last = call(), began
        except ZKafkaError as error:
            self._last = None
            _log.warning("%s cannot be read: %s", self._name, error)


class ClusterCollector(Collector):
    """Metrics of a cluster, read at each scrape. Scrapes at the same time share their reads.

    A read that takes longer than a scrape goes on, and a later scrape shows what it found: ``zkafka_scrape_timed_out`` is
    1, and ``zkafka_scrape_age_seconds`` says how old it is. If ZooKeeper fails, ``zkafka_up`` is 0 and there is nothing
    else; if the brokers fail, ``zkafka_brokers_up`` is 0 and what ZooKeeper has is there. No failure ends the process.

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
        self._ensemble: SharedCall[Ensemble] = SharedCall("ZooKeeper", clock)
        self._brokers: SharedCall[tuple[Ensemble, Brokers]] = SharedCall("Kafka", clock)
        self._problems: tuple[str, ...] = ()

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering the collector reads nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics; blocks for the time-out at the most."""
        started = self._clock()
        self._ensemble.start(self._read)
        ensemble = self._ensemble.result(self._timeout_s)
        found: Iterable[Gauge] = ()
        brokers: Reading[tuple[Ensemble, Brokers]] = Reading()
        if ensemble.value is not None:
            brokers = self._brokers.result(started + self._timeout_s - self._clock())
            described, answers = brokers.value or (ensemble.value, None)
            if answers is not None:
                self._report(answers.logs.problems)
            found = _metrics(ensemble.value, described, answers, self._storage)
        yield from map(_family, (*found, *_health(ensemble, brokers, self._clock() - started)))

    def close(self) -> None:
        """Wait for reads that are under way, and end their threads."""
        self._ensemble.close()
        self._brokers.close()

    def _read(self) -> Ensemble:
        """Read ZooKeeper, and begin to ask the brokers about what was found, also when no scrape waits for it any more."""
        ensemble = self._read_ensemble()
        self._brokers.start(lambda: (ensemble, self._read_brokers(ensemble)))
        return ensemble

    def _report(self, problems: tuple[str, ...]) -> None:
        """Log the problems that the last scrape did not have."""
        before, self._problems = set(self._problems), problems
        for problem in problems:
            if problem not in before:
                _log.warning("%s", problem)


def _health(ensemble: Reading[Ensemble], brokers: Reading[tuple[Ensemble, Brokers]], seconds: float) -> Iterator[Gauge]:
    problems = 0 if brokers.value is None else len(brokers.value[1].logs.problems)
    late: dict[tuple[str, ...], float] = {}
    ages: dict[tuple[str, ...], float] = {}
    servers: dict[str, Reading[Any]] = {"zookeeper": ensemble, "brokers": brokers}
    for server, reading in servers.items():
        late[server,] = int(reading.timed_out)
        if reading.value is not None:
            ages[server,] = reading.age_s
    yield Gauge("zkafka_up", "1 if ZooKeeper could be read.", (), {(): int(ensemble.value is not None)})
    yield Gauge("zkafka_brokers_up", "1 if the brokers could be read.", (), {(): int(brokers.value is not None)})
    yield Gauge("zkafka_scrape_timed_out", "1 if a read did not end within the time of the scrape.", ("server",), late)
    yield Gauge("zkafka_scrape_age_seconds", "Time since the read began whose result is shown.", ("server",), ages)
    yield Gauge("zkafka_scrape_problems", "Problems with single partitions, as logged.", (), {(): problems})
    yield Gauge("zkafka_scrape_duration_seconds", "Duration of the scrape.", (), {(): seconds})


def _metrics(ensemble: Ensemble, described: Ensemble, answers: Brokers | None, storage: OffsetsStorage) -> Iterator[Gauge]:
    """Metrics of the ensemble; those with logs are of `described`, which was read before the brokers were asked."""
    brokers = answers or Brokers(Logs())
    descriptions = _descriptions(described, brokers, storage)
    if answers is None and storage == "both":  # the larger offset is unknown
        descriptions = (replace(row, current_offset=None) for row in descriptions)
    return itertools.chain(
        cluster_metrics(ensemble.snapshot, ensemble.controller_epoch),
        log_metrics(brokers.logs.bounds),
        group_metrics(ensemble.groups.values()),
        kafka_member_metrics(brokers.kafka_members),
        description_metrics(descriptions),
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
