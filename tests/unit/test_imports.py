"""Imports of Spark's worker processes, each of which starts from scratch and delays its first task by its imports."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.readers import PushdownReader, SplitPartition, ZKafkaReader, ZKafkaStreamReader
from pyspark_zkafka.write.plan import WritePlan
from pyspark_zkafka.write.writers import ZKafkaStreamWriter, ZKafkaWriter

READ = {"zookeeper.connect": "localhost:2181", "subscribe": "t"}
WRITE = parse_write({"zookeeper.connect": "localhost:2181", "topic": "t"})
PLAN = WritePlan("localhost:9092", {"t": Router("t", 3, [0, 1, 2], WRITE.partitioner)})
SCHEMA = pa.schema([pa.field("value", pa.binary())])
PARTITION = SplitPartition((Split(TopicPartition("t", 0), 0, 1, 1, 0, (1,), ("localhost:9092",)),), "localhost:9092")
READERS = [
    ZKafkaReader(parse_read(READ), SCHEMA),
    PushdownReader(parse_read(READ), SCHEMA),
    ZKafkaStreamReader(parse_stream({**READ, "group.id": "g"}), SCHEMA),
]
WRITERS = [ZKafkaWriter(WRITE, PLAN), ZKafkaStreamWriter(WRITE, PLAN)]
NO_TASKS = {"kazoo", "mmh3", "rich", "typer", "puresasl"}
OF_DRIVERS = {
    f"pyspark_zkafka.{name}"
    for name in ("group", "inspect", "read.stream_driver", "read.view_planner", "testing", "tools", "zookeeper")
}
OF_READERS = {
    f"pyspark_zkafka.{name}"
    for name in ("read.split_reader", "records.consumer", "records.direct.consumer", "records.direct.joint_fetches")
}
CLIENTS = {"confluent_kafka", "pyspark_zkafka.brokers", "pyspark_zkafka.zookeeper"}
OF_WRITERS = {"pyspark_zkafka.records.producer", "pyspark_zkafka.records.librdkafka_sender", "pyspark_zkafka.model.rows"}
COMPUTE = {"pyarrow.compute"}
OF_EXTRAS = {
    *("aws_msk_iam_sasl_signer", "azure", "confluent_kafka.schema_registry", "fastavro", "google.auth", "google.protobuf"),
    *("grpc_tools", "jsonschema", "matplotlib", "orjson", "pandas", "prometheus_client", "puresasl", "scramp"),
    *("gssapi", "cryptography"),
}
PARSERS = {
    "pyspark_zkafka.options.batch",
    "pyspark_zkafka.options.table",
    "pyspark_zkafka.options.kinds",
    "pyspark_zkafka.options.parser",
    "difflib",
}


def imported(code: str, *pickles: object) -> set[str]:
    """Return the modules of a new process that unpickled some objects and ran some code."""
    script = f"import pickle, sys; values = pickle.load(sys.stdin.buffer); {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(pickles), capture_output=True, check=True)
    return set(done.stdout.decode().split())


def of(names: set[str], modules: set[str]) -> set[str]:
    """Return the modules that have one of the names, or are below it."""
    return {module for module in modules for name in names if f"{module}.".startswith(f"{name}.")}


def test_readers_and_writers_arrive() -> None:
    """Unpickling readers and writers in a task imports neither clients nor parsers of options."""
    modules = imported("pass", *READERS, PARTITION, *WRITERS)
    assert {type(one).__module__ for one in (*READERS, PARTITION, *WRITERS)} <= modules
    assert not of(NO_TASKS | CLIENTS | PARSERS | OF_DRIVERS, modules)


def test_a_read_task() -> None:
    """A read task imports neither librdkafka, nor parsers of options, nor modules of writes and groups."""
    options = parse_read({**READ, "kafkaConsumer.pollTimeoutMs": "1"})
    code = (
        "reader, partition = values\n"
        "from pyspark_zkafka.errors import BrokersUnavailable\n"
        "try: list(reader.read(partition))\n"
        "except BrokersUnavailable: pass\n"
        "from pyspark_zkafka.brokers.admin import lease_admin\n"
    )
    modules = imported(f"exec({code!r})", ZKafkaReader(options, SCHEMA), PARTITION)
    assert "pyspark_zkafka.records.direct.consumer" in modules
    assert not of(NO_TASKS | {"confluent_kafka"} | PARSERS | OF_WRITERS | COMPUTE | OF_DRIVERS, modules)


def test_a_write_task() -> None:
    """A write task imports neither librdkafka, nor parsers of options, nor modules of reads."""
    code = (
        "[writer] = values\n"
        "import pyspark_zkafka.records.producer, pyspark_zkafka.records.select\n"
        "import pyspark_zkafka.records.direct.sender\n"
        "assert not writer.write(iter([])).rows\n"
    )
    modules = imported(f"exec({code!r})", WRITERS[0])
    assert not of(NO_TASKS | {"confluent_kafka"} | PARSERS | OF_DRIVERS | OF_READERS, modules)


def test_a_stream_without_a_group() -> None:
    """Planning a stream without a group imports neither librdkafka nor modules of groups."""
    modules = imported("import pyspark_zkafka.read.stream_driver, pyspark_zkafka.zookeeper.snapshots")
    assert "kazoo" in modules
    assert not of({"pyspark_zkafka.group", "confluent_kafka", "mmh3", *OF_WRITERS, *COMPUTE}, modules)


def test_without_extras() -> None:
    """Without the libraries of the extras, every module can be imported, except the exporter's collector."""
    code = (
        f"sys.modules.update(dict.fromkeys({sorted(OF_EXTRAS)!r}))\n"
        "import pkgutil, pyspark_zkafka\n"
        "for found in pkgutil.walk_packages(pyspark_zkafka.__path__, 'pyspark_zkafka.'):\n"
        "    if '._' not in found.name and found.name != 'pyspark_zkafka.tools.collector':\n"
        "        __import__(found.name)\n"
    )
    modules = imported(f"exec({code!r})")
    assert {"pyspark_zkafka.tools.exporter", "pyspark_zkafka.formats.protobuf", "pyspark_zkafka.plot"} <= modules


def test_checking_options() -> None:
    """Only client properties that need a check load librdkafka, and its Python module is never imported."""
    brokers = {"kafka.bootstrap.servers": "k:1", "kafka.security.protocol": "SSL"}
    code = (
        "from pyspark_zkafka.options.batch import parse_read\n"
        f"parse_read({READ!r})\n"
        f"parse_read({ {**READ, **brokers}!r})\n"
        "assert 'librdkafka' not in open('/proc/self/maps').read()\n"
        f"parse_read({ {**READ, 'kafka.client.id': 'me'}!r})\n"
        "assert 'librdkafka' in open('/proc/self/maps').read()\n"
    )
    modules = imported(f"exec({code!r})")
    assert "pyspark_zkafka.options.batch" in modules
    assert not of(CLIENTS, modules)


def test_finding_the_source() -> None:
    """Importing the package imports no clients, since Spark does so in every application that has it installed."""
    modules = imported("import pyspark_zkafka")
    assert not of(NO_TASKS | CLIENTS | PARSERS | OF_DRIVERS, modules)
