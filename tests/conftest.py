"""Fixtures of all tests, and hooks for pytest: selection, order, and failure of a CI run that skips a server test."""

from __future__ import annotations

import os
import secrets
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from pyspark_zkafka.worker import collector_paused
from tests.support import eventually as support
from tests.support.acls import CONFIG as GUARDED
from tests.support.chroot import Chroot
from tests.support.forced_transport import force_transport
from tests.support.memberships import PROMPT
from tests.support.options import ensemble_config, group_options
from tests.support.parity import SPARK_VERSION
from tests.support.quick_spark import start_fast
from tests.support.scheduling import SERVER_FOLDERS, Durations, in_order, in_shard, unit_of
from tests.support.stream import Stream

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.testing import LocalCluster

ROOT = Path(__file__).resolve().parent.parent
DURATIONS = ROOT / "tests" / "durations.json"

# Spark's workers run "python3" from the PATH unless they are told otherwise.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_CONF_DIR"] = str(ROOT / "spark-conf")
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
start_fast()

# Without bytecode, each process compiles the package again, and rewrites the asserts of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The speed of examples depends on the machine and on servers that run next to them, not on the code.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("everyday", settings.get_profile("whole"), max_examples=40)

_CONNECTOR = {(4, 0): "4.0.0", (4, 1): "4.1.1"}.get(SPARK_VERSION, "4.2.0")
KAFKA_CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_CONNECTOR}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Spark's own connector, the peer of the parity tests."""

SPARK_AVRO = f"org.apache.spark:spark-avro_2.13:{_CONNECTOR}"
"""Spark's from_avro and to_avro."""

FAST = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "auto.create.topics.enable": "true",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
"""Configuration of brokers that tests stop and kill."""


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of each property in runs without long tests."""
    settings.load_profile("everyday" if config.option.markexpr == "not long" else "whole")
    if SPARK_VERSION < (4, 2):  # its `collect` does not close its socket
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Pause the cycle collector: it would repeatedly search the syntax trees of all tests."""
    with collector_paused():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[list[pytest.Collector]]:
    """Look for doctests only in files that contain any: pytest would import and search all others."""
    found = yield
    if ">>>" in file_path.read_text(encoding="utf-8"):
        return found
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(wrapper=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark server tests, select by engine, Spark's version and shard, and sort: workers start with the longest units."""
    engine = config.getoption("--zkafka-engine")
    unfit = {item for item in items for mark in item.iter_markers("only_on") if mark.args != (engine,)}
    unfit |= {item for item in items for mark in item.iter_markers("spark") if mark.args > SPARK_VERSION}
    config.hook.pytest_deselected(items=list(unfit))
    items[:] = [item for item in items if item not in unfit]
    servers = {ROOT / folder for folder in SERVER_FOLDERS}
    for item in items:
        if not servers.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.server)
    durations = Durations(DURATIONS)
    if shard := config.getoption("--zkafka-shard"):
        kept = in_shard(items, durations, shard)
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept
    grouped = getattr(config.option, "loadgroup", False)
    if grouped:
        for item in items:
            item.add_marker(pytest.mark.xdist_group(unit_of(item)))
        is_whole = config.option.markexpr != "not long"
        items[:] = in_order(items, durations, lambda item: is_whole or item.get_closest_marker("long") is None)
    yield
    if grouped and not all(item.nodeid.rpartition("@")[2] == unit_of(item) for item in items):
        raise pytest.UsageError("This pytest ignores the groups of pytest-xdist: install the versions in setup.cfg.")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--zkafka-require-servers", action="store_true", help="a skipped test is a failure (for CI)")
    parser.addoption("--zkafka-transport", default="auto", help="reads that name no transport take this one")
    parser.addoption("--zkafka-engine", choices=["spark", "sail"], default="spark", help="run the tests that Sail can run")
    parser.addoption("--zkafka-seed", default=11, type=int, help="of the faults that tests inject at random [11]")
    parser.addoption("--zkafka-shard", metavar="K/N", help="run the K-th of N parts, balanced by recorded durations")
    parser.addoption("--zkafka-record", action="store_true", help=f"record the durations of tests in {DURATIONS.name}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped tests if none may be skipped, and record durations if requested."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter is not None else {}
    if stats.get("skipped") and session.config.getoption("--zkafka-require-servers"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.config.getoption("--zkafka-record") and not hasattr(session.config, "workerinput"):
        seconds: dict[str, float] = defaultdict(float)
        for report in (report for kind in ("passed", "failed", "") for report in stats.get(kind, [])):
            seconds[report.nodeid] += report.duration
        Durations(DURATIONS).record(seconds, ROOT)


@pytest.fixture(scope="session", autouse=True)
def _transport(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make reads use the transport of the command line, unless a test sets ``transport`` itself."""
    transport = request.config.getoption("--zkafka-transport")
    with pytest.MonkeyPatch.context() as patch:
        if transport != "auto":
            from pyspark.sql import DataFrameReader
            from pyspark.sql.streaming import DataStreamReader

            for reader in (DataFrameReader, DataStreamReader):
                force_transport(patch, reader, transport)
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores, the settings of spark-conf/, and also Spark's own connector; or a session of Sail."""
    if request.config.getoption("--zkafka-engine") == "sail":
        from tests.support.sail import sail_session

        with sail_session() as session:
            yield session
        return
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import fetch_jars

    jars = ",".join(map(str, fetch_jars(*KAFKA_CONNECTOR, SPARK_AVRO, transitive=False)))
    tables = str(tmp_path_factory.mktemp("tables"))
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", jars)
    session = builder.config("spark.sql.warehouse.dir", tables).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def breakable_cluster() -> Iterator[LocalCluster]:
    """Three brokers in three racks, which compact, delete and give up fast. A test that stops one restarts it."""
    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(brokers=3, racks=["a", "b", "c"], broker_config=FAST) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def old_cluster() -> Iterator[LocalCluster]:
    """One broker of Kafka 1.1.1."""
    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(brokers=1, kafka_version="1.1.1") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka4() -> Iterator[LocalCluster]:
    """Three brokers of Kafka 4, which are also controllers, and also coordinate groups by KIP-848."""
    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(kafka_version="4.3.1", brokers=3, broker_config=PROMPT) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def guarded_cluster() -> Iterator[LocalCluster]:
    """One broker whose listener LOGIN allows a user only what tests grant."""
    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(brokers=1, listeners={"LOGIN": "SASL_PLAINTEXT"}, broker_config=GUARDED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _topic_names(worker_id: str) -> Iterator[str]:
    """Topic names that no other worker and no earlier run has used, as they may share the cluster."""
    run = secrets.token_hex(2)
    return (f"topic-{run}{worker_id.removeprefix('master')}-{number}" for number in count())


@pytest.fixture
def new_topic(zkafka_cluster: LocalCluster, _topic_names: Iterator[str]) -> Callable[..., str]:
    """Creates a topic with a new name: ``new_topic(partitions=4, replication=2, config={...})``."""

    def make(**arguments: object) -> str:
        name = next(_topic_names)
        zkafka_cluster.create_topic(name, **arguments)
        return name

    return make


@pytest.fixture
def header_of_any_name(zkafka_cluster: LocalCluster) -> Callable[[str, bytes], None]:
    """Writes a record with one header whose name may not be UTF-8: ``header_of_any_name(topic, b"\\xff")``."""
    from tests.support.foreign_headers import write_header

    return partial(write_header, zkafka_cluster.bootstrap_servers)


@pytest.fixture(params=["zookeeper", "bootstrap"])
def connection(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the cluster, through ZooKeeper or through brokers only."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
    return {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}


@pytest.fixture
def zookeeper(zkafka_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the cluster through ZooKeeper."""
    return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}


@pytest.fixture
def read(spark: SparkSession, zookeeper: dict[str, str]) -> Callable[..., DataFrame]:
    """Reads through ZooKeeper: ``read({"subscribe": topic}, schema="value string")``."""

    def load(options: dict[str, str], schema: str | None = None) -> DataFrame:
        reader = spark.read.format("zkafka").options(**{**zookeeper, **options})
        return (reader if schema is None else reader.schema(schema)).load()

    return load


@pytest.fixture
def stream(spark: SparkSession, zookeeper: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """A factory of streams: ``stream({"subscribe": topic})``, optionally with another connection and checkpoint folder."""
    made: list[Stream] = []

    def make(options: dict[str, str], connection: dict[str, str] | None = None, name: str = "checkpoint") -> Stream:
        made.append(Stream(spark, {**(zookeeper if connection is None else connection), **options}, tmp_path / name))
        return made[-1]

    yield make
    for stream in made:
        stream.stop()


@pytest.fixture
def chroot(zkafka_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Chroot]:
    """A new chroot with ``/brokers/ids``, ``/brokers/topics`` and ``/consumers``.

    Only a developer's cluster is tidied up, as deleting thousands of znodes takes seconds; others end anyway.
    """
    from kazoo.client import KazooClient

    hosts, path = zkafka_cluster.zookeeper_connect.partition("/")[0], f"/znodes-{secrets.token_hex(4)}"
    other = KazooClient(hosts=hosts, timeout=30)  # outlives a ZooKeeper paused for some seconds
    other.start()
    try:
        for child in ("brokers/ids", "brokers/topics", "consumers"):
            other.ensure_path(f"{path}/{child}")
        other.chroot = path
        yield Chroot(ensemble_config(hosts, path), other)
    finally:
        if request.config.getoption("--zkafka-cluster"):
            other.chroot = ""
            other.delete(path, recursive=True)
        other.stop()
        other.close()


@pytest.fixture
def third(chroot: Chroot) -> Iterator[KazooClient]:
    """A third session, which a test may end."""
    from kazoo.client import KazooClient

    client = KazooClient(chroot.config.connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def new_member(chroot: Chroot) -> Iterator[Callable[..., GroupMember]]:
    """Makes members of the group ``g`` in the chroot, not joined yet: ``new_member("c1", "t", threads=2)``.

    Keyword arguments are fields of GroupOptions, or `session_ms`, `hosts` and `timing`. One subscription can replace the
    topics. The members leave when the test ends.
    """
    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.model.planning import Subscribe

    with ExitStack() as leaving:

        def make(
            consumer_id: str | None,
            *topics: Any,
            session_ms: int = 6000,
            hosts: str | None = None,
            timing: Any = None,
            **options: Any,
        ) -> GroupMember:
            by_name = all(isinstance(topic, str) for topic in topics)
            config = replace(chroot.config, session_timeout_ms=session_ms, hosts=hosts or chroot.config.hosts)
            group = group_options(**{"name": "g", "backoff_ms": 200, "hold_ms": 0, "consumer_id": consumer_id, **options})
            member = GroupMember(config, group, Subscribe(topics) if by_name else topics[0], timing)
            leaving.callback(member.leave)
            return member

        yield make


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for the test, with the user's cached jars but none of the running clusters."""
    from pyspark_zkafka.testing import cache_folder

    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("ZKAFKA_CACHE", str(cache))
    return cache


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Polls: ``assert eventually(lambda: ..., timeout_s=5)``."""
    return support.eventually
