"""Collector for Prometheus that reads a cluster at each scrape, in bounded time, over connections that stay open."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.cluster import bootstrap_servers
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.inspect.groups import GroupReport, GroupReports, OffsetsStorage
from pyspark_zkafka.inspect.metrics import (
    Gauge,
    cluster_metrics,
    group_metrics,
    kafka_member_metrics,
    log_metrics,
    partition_metrics,
)
from pyspark_zkafka.inspect.reads import (
    Choice,
    ClusterReport,
    read_cluster,
    read_groups,
    read_kafka_groups,
    read_logs,
    unreadable_groups,
)
from pyspark_zkafka.options.values import ConnectionOptions, ZooKeeperConfig
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)
_EVERYTHING = re.compile("")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Reports of the cluster and its groups from ZooKeeper alone; without ZooKeeper, from the brokers.

    If the groups are `in_kafka`, `kafka_problem` says why some of them cannot be read.
    """

    cluster: ClusterReport
    groups: Mapping[str, GroupReport] = field(default_factory=dict)
    in_kafka: bool = False
    kafka_problem: str | None = None


class EnsembleReader:
    """Reader of the cluster's state in ZooKeeper. It reconnects after an error. Use it from one thread.

    Only topics and groups with a match in their name are read.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        topics: re.Pattern[str] = _EVERYTHING,
        groups: re.Pattern[str] = _EVERYTHING,
        connect: Callable[[ZooKeeperConfig], AbstractContextManager[ZooKeeperClient]] = ZooKeeperClient,
    ) -> None:
        self._config = config
        self._connect = connect
        self._topics = topics
        self._groups = groups
        self._opened = ExitStack()
        self._client: ZooKeeperClient | None = None

    def read(self) -> Ensemble:
        """The cluster's state; blocks for some seven rounds of requests.

        Groups come first: with logs that are read later, no lag is negative because of a commit between the two.
        """
        try:
            client = self._client = self._client or self._opened.enter_context(self._connect(self._config))
            groups = read_groups(client, matching=self._groups).groups
            return Ensemble(read_cluster(client, ("topics", "controller"), _matching(self._topics)), groups)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the session, if there is one."""
        self._client = None
        self._opened.close()


class KafkaReader:
    """Reader of the state of a cluster without ZooKeeper; see `EnsembleReader`."""

    def __init__(
        self,
        connection: ConnectionOptions,
        timeout_s: float,
        topics: re.Pattern[str] = _EVERYTHING,
        groups: re.Pattern[str] = _EVERYTHING,
    ) -> None:
        self._connection = connection
        self._properties = _limited(connection, timeout_s)
        self._topics = topics
        self._groups = groups
        self._opened = ExitStack()
        self._client: GroupAdmin | None = None

    def read(self) -> Ensemble:
        """The cluster's state; blocks for some requests to each broker."""
        try:
            if self._client is None:
                servers = self._connection.bootstrap_servers or ""
                self._client = self._opened.enter_context(GroupAdmin(servers, self._properties))
            found = read_kafka_groups(self._client, matching=self._groups, logs=False)
            cluster = read_cluster(self._client, ("topics", "controller"), _matching(self._topics))
            return Ensemble(cluster, found.groups, in_kafka=True, kafka_problem=found.kafka_problem)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._client = None
        self._opened.close()


def _matching(pattern: re.Pattern[str]) -> Choice:
    return lambda names: list(filter(pattern.search, names))


def _limited(connection: ConnectionOptions, timeout_s: float) -> dict[str, Any]:
    """Return the connection's properties, with a shorter time-out of requests."""
    timeout_ms = min(int(connection.kafka.get("socket.timeout.ms", 30_000)), int(timeout_s * 1000))
    return {**connection.kafka, "socket.timeout.ms": timeout_ms}


class BrokerReader:
    """Reader of the logs' bounds and of offsets in Kafka. It reconnects after an error. Use it from one thread."""

    def __init__(
        self,
        connection: ConnectionOptions,
        storage: OffsetsStorage,
        timeout_s: float,
        connect: Callable[[str, Mapping[str, Any]], AbstractContextManager[GroupAdmin]] = GroupAdmin,
    ) -> None:
        self._connection = connection
        self._connect = connect
        self._properties = _limited(connection, timeout_s)
        self._storage = storage
        self._opened = ExitStack()
        self._client: GroupAdmin | None = None
        self._servers = ""

    def read(self, ensemble: Ensemble) -> GroupReports:
        """Add the brokers' facts to the groups. Blocks for two requests to each leader, and two to each coordinator."""
        try:
            servers = bootstrap_servers(self._connection, ensemble.cluster.snapshot)
            if self._client is None or servers != self._servers:
                self.close()
                self._client = self._opened.enter_context(self._connect(servers, self._properties))
                self._servers = servers
            client, groups, problem = self._client, ensemble.groups, ensemble.kafka_problem
            if self._storage != "zookeeper" and self._connection.zookeeper is not None:
                (offsets, failed), states = client.committed_each(groups), client.group_states(groups)
                groups = {
                    name: replace(
                        group,
                        kafka_offsets=offsets.get(name, {}),
                        in_kafka=states[name],
                        has_unread_offsets=name in failed,
                    )
                    for name, group in groups.items()
                }
                problem = unreadable_groups(states, failed)
            return GroupReports(groups, self._storage, read_logs(lambda: client, ensemble.cluster.snapshot), problem)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._client = None
        self._opened.close()


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The newest result of a call, None if there is none or the call failed.

    `age_s` is the time since the start of the call that returned `value`. `timed_out` means that a later call did not end
    in time.
    """

    value: T | None = None
    age_s: float = 0.0
    timed_out: bool = False


class SharedCall(Generic[T]):
    """A call in a thread of its own, whose callers wait for a limited time. Only one call runs at a time.

    A late result is served to later callers, until the next call ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = Lock()
        self._call: Future[tuple[T, float]] | None = None
        self._before: Future[tuple[T, float]] | None = None  # the last call that has ended, while another one runs
        self._was_late = False

    def start(self, call: Callable[[], T]) -> None:
        """Start a call, unless one is running."""
        with self._lock:
            if self._call is None or self._call.done():
                self._before, self._call = self._call, self._executor.submit(self._timed, call)

    def result(self, timeout_s: float) -> Reading[T]:
        """Wait for the running call, if there is one, and return the result of the last call that has ended.

        After an error of any kind, there is no result. The log has an error, and a line for a call that does not end in
        time.
        """
        with self._lock:
            call, before = self._call, self._before
        is_late = call is not None and bool(wait([call], max(0.0, timeout_s)).not_done)
        if is_late and not self._was_late:
            _log.warning("%s did not answer in time. Scrapes show its last answer, if there was one", self._name)
        self._was_late, ended = is_late, before if is_late else call
        if ended is None or ended.exception() is not None:
            return Reading(timed_out=is_late)
        value, began = ended.result()
        return Reading(value, time.monotonic() - began, is_late)

    def close(self) -> None:
        """Wait for the running call, if there is one, and end the thread."""
        self._executor.shutdown(cancel_futures=True)

    def _timed(self, call: Callable[[], T]) -> tuple[T, float]:
        began = time.monotonic()
        try:
            return call(), began
        except ZKafkaError as error:
            _log.warning("%s cannot be read: %s", self._name, error)
            raise
        except BaseException:
            _log.exception("%s cannot be read, because of an unexpected error", self._name)
            raise


class ClusterCollector(Collector):
    """Metrics of a cluster, read at each scrape. Simultaneous scrapes share their reads.

    A read that takes longer than a scrape continues, and a later scrape shows its result: ``zkafka_scrape_timed_out`` is 1,
    and ``zkafka_scrape_age_seconds`` is its age. If ZooKeeper fails, ``zkafka_up`` is 0, and only metrics of the scrape
    remain. If the brokers fail, ``zkafka_brokers_up`` is 0, and the metrics from ZooKeeper remain. No failure ends the
    process. `timeout_s` is the longest time of a scrape: less than Prometheus's ``scrape_timeout``. `server` names what
    `read_ensemble` asks: ZooKeeper, or without it Kafka.
    """

    def __init__(
        self,
        read_ensemble: Callable[[], Ensemble],
        read_brokers: Callable[[Ensemble], GroupReports],
        timeout_s: float,
        storage: OffsetsStorage = "zookeeper",
        server: str = "ZooKeeper",
    ) -> None:
        self._server = server
        self._read_ensemble = read_ensemble
        self._read_brokers = read_brokers
        self._timeout_s = timeout_s
        self._storage = storage
        self._ensemble: SharedCall[Ensemble] = SharedCall(server)
        self._brokers: SharedCall[tuple[Ensemble, GroupReports]] = SharedCall("Kafka")
        self._problems: tuple[str, ...] = ()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector reads nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics; blocks for at most the time-out."""
        started = time.monotonic()
        self._ensemble.start(self._read)
        ensemble = self._ensemble.result(self._timeout_s)
        found: Iterable[Gauge] = ()
        brokers: Reading[tuple[Ensemble, GroupReports]] = Reading()
        if ensemble.value is not None:
            brokers = self._brokers.result(started + self._timeout_s - time.monotonic())
            described, answers = brokers.value or (ensemble.value, None)
            if answers is not None:
                before, self._problems = self._problems, _problems(answers)
                for problem in self._problems:
                    if problem not in before:  # the last scrape did not have it
                        _log.warning("%s", problem)
            found = _metrics(ensemble.value, described, answers, self._storage)
        for gauge in (*found, *_health(self._server.lower(), ensemble, brokers, time.monotonic() - started)):
            family = GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.labels)
            for labels, value in gauge.values.items():
                family.add_metric(labels, value)
            yield family

    def close(self) -> None:
        """Wait for the running reads, and end their threads."""
        self._ensemble.close()
        self._brokers.close()

    def _read(self) -> Ensemble:
        """Read ZooKeeper, then start asking the brokers about the result, even if no scrape waits any longer."""
        ensemble = self._read_ensemble()
        self._brokers.start(lambda: (ensemble, self._read_brokers(ensemble)))
        return ensemble


def _metrics(
    ensemble: Ensemble, described: Ensemble, answers: GroupReports | None, storage: OffsetsStorage
) -> Iterator[Gauge]:
    """Return the metrics of a scrape.

    `ensemble` is the newest state. `described` is the state that the brokers were asked about, perhaps an earlier one:
    metrics with logs are about its groups and topics. `answers` are the brokers' answers, None if brokers do not answer.
    Without ZooKeeper, groups of `ensemble` and `described` have their offsets and states in Kafka already.
    """
    unread = storage == "both"  # the larger offset counts, and the offsets in Kafka are unknown
    unanswered = {name: replace(group, has_unread_offsets=unread) for name, group in described.groups.items()}
    reports = answers or GroupReports(unanswered, storage)
    snapshot = described.cluster.snapshot
    shown = set(snapshot.all_partitions())
    partitions = (row for row in reports.partitions if row.topic_partition in shown)
    return itertools.chain(
        cluster_metrics(ensemble.cluster, has_controller=not ensemble.in_kafka),
        log_metrics(reports.logs.bounds),
        group_metrics(ensemble.groups.values(), ensemble.cluster.snapshot.topics, in_kafka=ensemble.in_kafka),
        kafka_member_metrics(reports.groups.values()),
        partition_metrics(partitions),
    )


def _problems(answers: GroupReports) -> tuple[str, ...]:
    """Return the reasons why some logs, and some groups in Kafka, are unknown."""
    return (*answers.logs.problems, *([] if answers.kafka_problem is None else [answers.kafka_problem]))


def _health(
    server: str, ensemble: Reading[Ensemble], brokers: Reading[tuple[Ensemble, GroupReports]], seconds: float
) -> Iterator[Gauge]:
    problems = 0 if brokers.value is None else len(_problems(brokers.value[1]))
    servers: dict[tuple[str, ...], Reading[Any]] = {(server,): ensemble, ("brokers",): brokers}
    late = {server: int(reading.timed_out) for server, reading in servers.items()}
    ages = {server: reading.age_s for server, reading in servers.items() if reading.value is not None}
    yield Gauge("zkafka_up", "1 if the state of the cluster could be read.", (), {(): int(ensemble.value is not None)})
    yield Gauge("zkafka_brokers_up", "1 if the brokers could be read.", (), {(): int(brokers.value is not None)})
    yield Gauge("zkafka_scrape_timed_out", "1 if a read did not end within the time of the scrape.", ("server",), late)
    yield Gauge("zkafka_scrape_age_seconds", "Time since the read began whose result is shown.", ("server",), ages)
    yield Gauge("zkafka_scrape_problems", "Problems of partitions and znodes, as logged.", (), {(): problems})
    yield Gauge("zkafka_scrape_duration_seconds", "Duration of the scrape.", (), {(): seconds})
