"""The exporter's collector: its reads, their time limits, and failures of servers."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.inspect.groups import GroupReport, GroupReports, LogBounds, LogsReport, OffsetsStorage
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.tools.collector import (
    BrokerReader,
    ClusterCollector,
    Ensemble,
    EnsembleReader,
    SharedCall,
)
from pyspark_zkafka.zookeeper.connection import Results
from tests.support.ensemble_client import EnsembleClient
from tests.support.eventually import eventually
from tests.support.group_brokers import active

T0, T7, HIDDEN = TopicPartition("t", 0), TopicPartition("t", 7), TopicPartition("hidden", 0)
ENSEMBLE = Ensemble(
    ClusterReport(ClusterSnapshot({}, {"t": Topic("t", {0: (1,)})}, {T0: PartitionState(1, 0, (1,))})),
    groups={"g": GroupReport("g", offsets={T0: StoredOffset(3), T7: StoredOffset(2), HIDDEN: StoredOffset(4)})},
)
LAG = {"consumergroup": "g", "topic": "t", "partition": "0"}


def answer(ensemble: Ensemble) -> GroupReports:
    return GroupReports(ensemble.groups, logs=LogsReport({T0: LogBounds(0, 9)}))


def fail(*arguments: object) -> GroupReports:
    raise BrokersUnavailable("BROKERS_UNAVAILABLE", "nobody is there")


@pytest.fixture
def scrape() -> Iterator[Callable[..., CollectorRegistry]]:
    made: list[ClusterCollector] = []

    def make(
        read_ensemble: Callable[[], Ensemble],
        read_brokers: Callable[[Ensemble], GroupReports],
        timeout_s: float = 30,
        storage: OffsetsStorage = "zookeeper",
    ) -> CollectorRegistry:
        made.append(ClusterCollector(read_ensemble, read_brokers, timeout_s, storage))
        registry = CollectorRegistry()
        registry.register(made[-1])
        return registry

    yield make
    for one in made:
        one.close()


def test_a_scrape(scrape: Callable[..., CollectorRegistry]) -> None:
    """A scrape has the group's lag and reports successful reads, without partitions that do not exist."""
    registry = scrape(lambda: ENSEMBLE, answer)
    assert registry.get_sample_value("kafka_consumergroup_lag", LAG) == 6
    assert registry.get_sample_value("kafka_consumergroup_lag_sum", {"consumergroup": "g", "topic": "t"}) == 6
    assert registry.get_sample_value("kafka_consumergroup_current_offset", {**LAG, "topic": "hidden"}) is None
    assert registry.get_sample_value("kafka_consumergroup_current_offset", {**LAG, "partition": "7"}) is None
    assert registry.get_sample_value("zkafka_up") == registry.get_sample_value("zkafka_brokers_up") == 1


def test_zookeeper_fails(scrape: Callable[..., CollectorRegistry], caplog: pytest.LogCaptureFixture) -> None:
    """Without ZooKeeper, a scrape has only metrics of itself, the log has the reason, and the next scrape can succeed."""
    reads = iter((committed(3), None, committed(5)))

    def read() -> Ensemble:
        if (found := next(reads)) is None:
            raise ClusterStateError("NO_KAFKA_CLUSTER", "there is none")
        return found

    registry = scrape(read, answer)
    assert values(registry, UP, TIMED_OUT, OFFSET) == [1, 0, 3]
    assert {sample.name for metric in registry.collect() for sample in metric.samples} == {
        "zkafka_up",
        "zkafka_brokers_up",
        "zkafka_scrape_timed_out",
        "zkafka_scrape_problems",
        "zkafka_scrape_duration_seconds",
    }
    assert "ZooKeeper cannot be read: [NO_KAFKA_CLUSTER] there is none" in caplog.text
    assert values(registry, UP, OFFSET) == [1, 5]


def test_brokers_fail(scrape: Callable[..., CollectorRegistry], caplog: pytest.LogCaptureFixture) -> None:
    """Without brokers, a scrape has ZooKeeper's data, but no lag."""
    registry = scrape(lambda: ENSEMBLE, fail)
    samples = {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}
    assert samples["zkafka_up"] == 1
    assert samples["zkafka_brokers_up"] == 0
    assert samples["kafka_consumergroup_current_offset"] == 3
    assert "kafka_consumergroup_lag" not in samples
    assert "nobody is there" in caplog.text


@pytest.mark.parametrize("reader", ["ensemble", "brokers"])
def test_reconnects_after_an_unexpected_error(reader: str) -> None:
    """A reader closes its connection after any error, and the next scrape opens another."""
    opened: list[str] = []

    @contextmanager
    def connect(*given: object) -> Iterator[Any]:
        opened.append("open")
        try:
            yield object()
        finally:
            opened.append("closed")

    connection = parse_connection({"zookeeper.connect": "zk1:2181", "kafka.bootstrap.servers": "b:1"})
    ensembles = EnsembleReader(connection.zookeeper, connect=connect)
    brokers = BrokerReader(connection, "both", 1, connect=connect)
    for _ in range(2):
        with pytest.raises(AttributeError):
            ensembles.read() if reader == "ensemble" else brokers.read(ENSEMBLE)
    assert opened == ["open", "closed"] * 2


def test_one_of_two_stores_fails(scrape: Callable[..., CollectorRegistry]) -> None:
    """The larger offset of two stores counts, so the offset is unknown while brokers do not respond."""
    group = replace(ENSEMBLE.groups["g"], kafka_offsets={T0: 7})
    whole = scrape(lambda: ENSEMBLE, lambda ensemble: GroupReports({"g": group}, "both"), storage="both")
    assert whole.get_sample_value("kafka_consumergroup_current_offset", LAG) == 7
    broken = scrape(lambda: ENSEMBLE, fail, storage="both")
    samples = {sample.name for metric in broken.collect() for sample in metric.samples}
    assert "zkafka_consumergroup_partition_owned" in samples
    assert not samples & {"kafka_consumergroup_current_offset", "kafka_consumergroup_current_offset_sum"}


def test_members_in_kafka(scrape: Callable[..., CollectorRegistry]) -> None:
    """The number of a group's members in Kafka is a metric if they were counted."""
    labels = {"consumergroup": "g"}
    group = replace(ENSEMBLE.groups["g"], in_kafka=active(2))
    counted = scrape(lambda: ENSEMBLE, lambda ensemble: GroupReports({"g": group}, "both"), storage="both")
    assert counted.get_sample_value("zkafka_consumergroup_kafka_members", labels) == 2
    assert counted.get_sample_value("zkafka_migrated_to_kraft") == 0
    left = scrape(lambda: Ensemble(ClusterReport(ClusterSnapshot({}, kraft_epoch=3))), fail)
    assert left.get_sample_value("zkafka_migrated_to_kraft") == 1
    assert left.get_sample_value("zkafka_consumergroup_kafka_members", labels) is None


def test_a_scrape_takes_bounded_time(scrape: Callable[..., CollectorRegistry]) -> None:
    """Silent brokers do not delay a scrape beyond its time-out, and ZooKeeper's data are shown."""
    timeout_s, stop = 1, threading.Event()

    def wait(ensemble: Ensemble) -> GroupReports:
        stop.wait(60)
        return answer(ensemble)

    def read_slowly() -> Ensemble:
        time.sleep(0.7 * timeout_s)
        return ENSEMBLE

    registry = scrape(read_slowly, wait, timeout_s)
    up, duration_s = shown_once(UP, registry, BROKERS_UP, "zkafka_scrape_duration_seconds")
    stop.set()
    assert up == 0
    assert duration_s is not None
    assert duration_s < 1.4 * timeout_s


def test_a_problem_is_logged_once(scrape: Callable[..., CollectorRegistry], caplog: pytest.LogCaptureFixture) -> None:
    """A lasting problem is logged once, and again when it recurs, but each scrape counts it."""
    problems = iter([("offline",), ("offline",), (), ("offline",)])
    registry = scrape(lambda: ENSEMBLE, lambda ensemble: GroupReports(ensemble.groups, logs=LogsReport({}, next(problems))))
    assert [registry.get_sample_value("zkafka_scrape_problems") for _ in range(4)] == [1, 1, 0, 1]
    assert caplog.messages == ["offline", "offline"]


def test_registering_reads_nothing(scrape: Callable[..., CollectorRegistry]) -> None:
    """The cluster is read only when it is scraped."""
    read: list[int] = []
    scrape(lambda: read.append(1) or ENSEMBLE, answer)
    assert not read


TIMEOUT_S = 0.3


class Slow:
    """A read that waits until the test lets it finish."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read
        self._free = threading.Event()
        self.done = threading.Semaphore(0)

    def __call__(self, *arguments: Any) -> Any:
        assert self._free.wait(10)
        self._free.clear()
        found = self._read(*arguments)
        self.done.release()
        return found

    def finish(self) -> None:
        """Let one read end, whether it has begun or not."""
        self._free.set()

    def wait(self) -> None:
        """Wait until a read has ended."""
        assert self.done.acquire(timeout=10)


def committed(offset: int) -> Ensemble:
    """Return the ensemble with another offset of the group."""
    return replace(ENSEMBLE, groups={"g": GroupReport("g", offsets={T0: StoredOffset(offset)})})


def values(registry: CollectorRegistry, *names: str) -> list[float | None]:
    """Return metrics of one scrape, for the group's partition, a server or the cluster."""
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    by_name = {(sample.name, sample.labels.get("server", "")): sample.value for sample in samples}
    return [by_name.get((name, server)) for name, _, server in (name.partition("@") for name in names)]


def shown_once(server_up: str, registry: CollectorRegistry, *names: str) -> list[float | None]:
    """Return metrics of the first scrape that shows a server's data: any number of scrapes may come before."""
    return eventually(lambda: found[1:] if (found := values(registry, server_up, *names))[0] else None)


UP, BROKERS_UP, TIMED_OUT, OFFSET, LAG_NAME = (
    "zkafka_up",
    "zkafka_brokers_up",
    "zkafka_scrape_timed_out@zookeeper",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
)


def test_a_read_that_ends_late(scrape: Callable[..., CollectorRegistry]) -> None:
    """A read of ZooKeeper that outlasts a scrape is shown by the next one, with its lag and age."""
    offsets = iter((3, 5, 7))
    ensembles, asked = Slow(lambda: committed(next(offsets))), Slow(answer)
    registry = scrape(ensembles, asked, TIMEOUT_S)
    assert values(registry, UP, TIMED_OUT, OFFSET) == [0, 1, None]
    asked.finish()
    ensembles.finish()
    asked.wait()
    age, *found = shown_once(BROKERS_UP, registry, "zkafka_scrape_age_seconds@zookeeper", UP, OFFSET, LAG_NAME)
    assert found == [1, 3, 6]
    assert age is not None
    assert age > TIMEOUT_S
    assert values(registry, UP, TIMED_OUT, OFFSET) == [1, 1, 3]
    asked.finish()
    ensembles.finish()
    asked.wait()
    assert eventually(lambda: values(registry, UP, OFFSET, LAG_NAME) == [1, 5, 4])
    ensembles.finish()
    asked.finish()


def test_brokers_that_answer_late(scrape: Callable[..., CollectorRegistry]) -> None:
    """A lag is computed from offsets read before the ends of the logs, never from later ones."""
    offsets = chain([3], repeat(30))
    asked = Slow(answer)
    registry = scrape(lambda: committed(next(offsets)), asked, TIMEOUT_S)
    *found, offset, lag = shown_once(UP, registry, "zkafka_scrape_timed_out@brokers", BROKERS_UP, OFFSET, LAG_NAME)
    assert found == [1, 0]
    assert offset in (3, 30)
    assert lag is None
    asked.finish()
    asked.wait()
    assert shown_once(BROKERS_UP, registry, OFFSET, LAG_NAME) == [3, 6]
    asked.finish()


def test_an_unexpected_error(scrape: Callable[..., CollectorRegistry], caplog: pytest.LogCaptureFixture) -> None:
    """An error of any kind counts as a failure of the server that was read, is logged, and the next scrape can succeed."""
    reads, answers = iter((ENSEMBLE, KeyError("bug"), ENSEMBLE, ENSEMBLE)), iter((MemoryError("full"), None, None))

    def read() -> Ensemble:
        found = next(reads)
        if isinstance(found, Exception):
            raise found
        return found

    def ask(ensemble: Ensemble) -> GroupReports:
        if (error := next(answers)) is not None:
            raise error
        return answer(ensemble)

    registry = scrape(read, ask)
    assert not caplog.text
    assert values(registry, UP, BROKERS_UP, OFFSET, LAG_NAME) == [1, 0, 3, None]
    assert values(registry, UP, BROKERS_UP, OFFSET, LAG_NAME) == [0, 0, None, None]
    assert values(registry, UP, BROKERS_UP, OFFSET, LAG_NAME) == [1, 1, 3, 6]
    for name, error in (("Kafka", "MemoryError: full"), ("ZooKeeper", "KeyError: 'bug'")):
        assert f"{name} cannot be read, because of an unexpected error" in caplog.text
        assert caplog.text.count(error) == 1


def test_an_unexpected_error_after_the_time_limit(scrape: Callable[..., CollectorRegistry]) -> None:
    """Data read before an unexpected error that came late are not shown again."""
    ensembles = Slow(lambda: committed(3))
    registry = scrape(lambda: next(calls)(), answer, TIMEOUT_S)

    def late() -> Ensemble:
        ensembles()
        raise RuntimeError("bug")

    calls = iter((lambda: committed(3), late, ensembles, ensembles))
    assert values(registry, UP, OFFSET) == [1, 3]
    assert values(registry, UP, TIMED_OUT, OFFSET) == [1, 1, 3]
    ensembles.finish()
    assert eventually(lambda: values(registry, UP, OFFSET) == [0, None])
    ensembles.finish()


def test_a_call_is_shared_while_it_is_under_way() -> None:
    """A caller that arrives during a call gets that call's result."""
    release, calls = threading.Event(), iter(range(9))

    def call() -> int:
        release.wait(60)
        return next(calls)

    with closing(SharedCall[int]("test")) as shared:
        shared.start(call)
        assert shared.result(TIMEOUT_S).value is None
        shared.start(call)
        release.set()
        assert shared.result(30).value == 0
        shared.start(call)
        assert shared.result(30).value == 1


# --- reads -------------------------------------------------------------------------------------------------------------

UNREACHABLE = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1)


def test_timeout() -> None:
    """The time-out of a scrape shortens that of requests, and silent brokers are a problem of their partitions."""
    t0 = TopicPartition("t", 0)
    states = {t0: PartitionState(1, 0, (1,))}
    snapshot = ClusterSnapshot({1: Broker(1, (UNREACHABLE,))}, {"t": Topic("t", {0: (1,)})}, states)
    reader = BrokerReader(parse_connection({"zookeeper.connect": "zk1:2181"}), "zookeeper", timeout_s=0.2)
    begin = time.monotonic()
    try:
        logs = reader.read(Ensemble(ClusterReport(snapshot))).logs
    finally:
        reader.close()
    assert time.monotonic() - begin < 10
    assert logs.bounds[t0].end is None
    assert len(logs.problems) == 1


def reader(client: EnsembleClient, **options: Any) -> EnsembleReader:
    """Return the reader of a fake ensemble."""
    return EnsembleReader(client.config, connect=lambda config: nullcontext(client), **options)


def test_only_groups_that_are_shown_are_read() -> None:
    """Groups are selected by name before their znodes are read, and one deleted meanwhile is left out."""
    asked: list[str] = []

    class Asked(EnsembleClient):
        def ask(self, get: Iterable[str] = (), children: Iterable[str] = (), *more: Any, **named: Any) -> Results:
            gets, parents = list(get), list(children)
            asked.extend([*gets, *parents])
            if "/consumers" not in parents:
                self.ensemble.nodes.pop("/consumers/shown-2", None)
            return super().ask(gets, parents, *more, **named)

    client = Asked()
    client.put_topic("t")
    for group in ("shown", "shown-2", "other"):
        client.put(f"/consumers/{group}/offsets/t/0", b"1")
    found = reader(client, groups=re.compile("^shown")).read()
    assert list(found.groups) == ["shown"]
    assert [path for path in asked if path.startswith("/consumers/other")] == []


def test_malformed_znodes() -> None:
    """A malformed znode of a topic or broker is a problem of the scrape, and other topics and brokers are shown."""
    client = EnsembleClient()
    client.put_topic("t")
    client.put("/consumers/g/offsets/t/0", b"1")
    for path in ("/brokers/topics/bad", "/brokers/ids/2"):
        client.put(path, b"{")
    found = reader(client).read()
    assert list(found.cluster.snapshot.topics) == ["t"]
    assert list(found.cluster.snapshot.brokers) == [1]
    assert list(found.groups) == ["g"]
    assert sorted(found.cluster.unreadable) == ["/brokers/ids/2", "/brokers/topics/bad"]
