"""The Python and the commands of README and docs, run on one cluster and in one Spark session, in the order of each page.

A block sees the names that earlier blocks on its page defined, and those of the fixture `names`. Addresses, folders and
passwords are replaced by real ones. Queries run until they have read all records, and are then stopped. Commands find the
cluster's address in the environment. Commands of other programs are only checked, and outputs are not compared.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.commands import is_known, problem
from tests.support.documentation import ROOT, SHELL, Block, blocks, is_fragment, pages, program, statements, znode_examples
from tests.support.topics import create_afresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.timeout(900)

FIRST = "README.md"
"""The page whose blocks run in everyday tests."""

TOPICS = {"orders": 2, "invoices": 2, "totals": 1, "payments": 1, "events": 2, "customers": 2, "dead-letters": 1}
"""Topics that blocks use, and their numbers of partitions."""

COMMITTED = (("billing", "orders"), ("billing", "payments"), ("shipping", "orders"))
"""Groups and topics with offsets before a block runs."""

GROUPS = ("billing", "shipping", "settlement", "events-loader", "receipts")
"""The groups that blocks use. No other test uses them: several workers share the cluster."""

KEYS, RECORDS = 4, 40
_ZOOKEEPER = re.compile(r"zk1:218[12](?:,zk\d:218[12])*(?:/kafka)?")
_BROKERS = re.compile(r"(?:broker|kafka)1:9092(?:,(?:broker|kafka)\d:9092)*")
_SECRETS = re.compile(r"\$\{env:\w+_PASSWORD\}")  # real variables would have to be set before the tests' JVM starts
_FOLDERS = re.compile(r"(?<=\")/(?:checkpoints|data)(?=[/\"])")


@pytest.fixture(scope="module")
def cluster(zkafka_cluster: LocalCluster) -> LocalCluster:
    """The cluster with the topics, and with records in those that blocks read."""
    for topic, partitions in TOPICS.items():
        create_afresh(zkafka_cluster, topic, partitions=partitions, replication=2)
    for topic in ("orders", "payments", "events"):
        zkafka_cluster.produce(topic, [_record(n, n % TOPICS[topic]) for n in range(RECORDS)])
    return zkafka_cluster


def _record(number: int, partition: int) -> dict[str, Any]:
    value = json.dumps({"id": number, "amount": number % 10})
    return {"key": f"customer-{number % KEYS}", "value": value, "partition": partition}


@pytest.fixture
def prepared(cluster: LocalCluster) -> LocalCluster:
    """The cluster with fresh offsets of the blocks' groups, whatever the blocks of other pages did."""
    with cluster.zookeeper() as client:
        for group in GROUPS:
            if client.exists(f"/consumers/{group}"):
                client.delete(f"/consumers/{group}", recursive=True)
        for group, topic in COMMITTED:
            for partition in range(TOPICS[topic]):
                path = f"/consumers/{group}/offsets/{topic}/{partition}"
                client.ensure_path(path)
                client.set(path, b"1")
        in_kafka = client.exists("/brokers/topics/__consumer_offsets")
    if in_kafka:
        _forget_in_kafka(cluster, sorted({group for group, _ in COMMITTED}))
    return cluster


def _forget_in_kafka(cluster: LocalCluster, groups: list[str]) -> None:
    """Delete the groups' offsets in Kafka."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for deleted in admin.delete_consumer_groups(groups).values():
        try:
            deleted.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise


@pytest.fixture
def real(prepared: LocalCluster, tmp_path: Path) -> Callable[[str], str]:
    """Replaces addresses, folders and passwords in a block by those of the test."""

    def replace(text: str) -> str:
        text = _SECRETS.sub("secret", _ZOOKEEPER.sub(prepared.zookeeper_connect, text))
        return _FOLDERS.sub(lambda found: f"{tmp_path}{found[0]}", _BROKERS.sub(prepared.bootstrap_servers, text))

    return replace


@pytest.fixture
def names(spark: SparkSession, prepared: LocalCluster) -> Iterator[dict[str, Any]]:
    """The names that blocks may use without defining them: the session, and the cluster for tests on a page."""
    yield {"spark": spark, "cluster": prepared}
    _finish(spark)


def _finish(spark: SparkSession) -> None:
    for query in spark.streams.active:
        try:
            query.processAllAvailable()
        finally:
            query.stop()


def _run_python(block: Block, text: str, names: dict[str, Any]) -> None:
    known, cluster = set(names), names["cluster"]
    connection = f"{{'zookeeper.connect': {cluster.zookeeper_connect!r}}}"
    code = f"(spark.read.format('zkafka').options(**{connection}, subscribe='orders')\n{text}\n).load()"
    exec(compile(code if is_fragment(block) else text, str(block), "exec"), names)
    for name in sorted(name for name in set(names) - known if name.startswith("test_")):
        names[name](cluster)
    names["cluster"] = cluster
    _finish(names["spark"])


def _check_commands(block: Block) -> None:
    for words in map(program, statements(block)):
        if is_known(words[0]) or block.reason is None:
            assert problem(words) is None, (str(block), problem(words))


def _run_commands(block: Block, replace: Callable[[str], str], folder: Path) -> None:
    run = [replace(statement) for statement in statements(block) if program(statement)[0] in ("zkafka", "export")]
    script = "\n".join(["set -euo pipefail", *run])
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ZKAFKA_ZOOKEEPER": replace("zk1:2181/kafka"),
    }
    terminal, stdin = os.openpty()  # commands prompt for confirmation only at a terminal
    try:
        os.write(terminal, b"y\n" * len(run))
        ended = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, stdin=stdin, capture_output=True, text=True, timeout=300
        )
    finally:
        os.close(stdin)
        os.close(terminal)
    assert ended.returncode == 0, f"{block}\n{script}\n{ended.stdout}{ended.stderr}"


def test_commands() -> None:
    """Commands in the blocks of all pages exist and have the options used."""
    for page in pages():
        for block in blocks(page):
            if block.language in SHELL:
                _check_commands(block)


def _pages_with_blocks() -> list[Any]:
    """Return all pages with blocks; those that a newcomer does not read first are long tests."""
    with_blocks = [page for page in pages() if blocks(page)]
    return [page if page.name == FIRST else pytest.param(page, marks=pytest.mark.long) for page in with_blocks]


@pytest.mark.usefixtures("own_cache")  # a block starts the default cluster
@pytest.mark.parametrize("page", _pages_with_blocks(), ids=lambda page: page.name)
def test_blocks(page: Path, names: dict[str, Any], real: Callable[[str], str], tmp_path: Path) -> None:
    """Python and the commands `zkafka` and `export` of a page run without an error, unless their block gives a reason."""
    (tmp_path / "orders.csv").write_text("orders,0,5\norders,1,6\n")
    (tmp_path / "data").mkdir()
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.language == "python":
            _run_python(block, real(block.text), names)
        elif block.language in SHELL:
            _run_commands(block, real, tmp_path)


def test_znodes(prepared: LocalCluster) -> None:
    """The znodes of a real cluster have the same keys as the examples in docs/zookeeper.md."""
    from pyspark_zkafka import ConsumerGroup

    lasting = {path: text for path, text in znode_examples().items() if text[0] == "{" and not path.startswith("/admin/")}
    assert len(lasting) == 8
    member = ConsumerGroup(prepared.zookeeper_connect, "billing", subscribe=["orders"], options={"consumer.id": "c1"})
    with member, prepared.zookeeper() as client:
        for path, example in lasting.items():
            real_path = re.sub(r"<id>|<partition>", "0", path.replace("<topic>", "orders"))
            data, _ = client.get(real_path.replace("<group>", "billing").replace("<consumer>", "billing_c1"))
            assert json.loads(data).keys() == json.loads(example).keys(), path
