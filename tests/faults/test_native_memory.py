"""Memory of the compiled code: no invalid access while brokers come and go, and no leak."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Listener, Split
from pyspark_zkafka.model.records import COLUMNS
from pyspark_zkafka.model.rows import OutgoingBatch, outgoing
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records.native import library
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.records.select import open_consumer, open_producer
from tests.support.compiler import compiler
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
DRIVER = Path(__file__).parent / "drivers" / "native_memory.py"
SOURCES = Path(library.__file__).parent
ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])
NOISE_BYTES = 50_000
"""Noise of the memory that librdkafka, Arrow and Python retain between two measurements."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of this package whose compiled code runs under AddressSanitizer."""
    folder = tmp_path_factory.mktemp("watched")
    package = folder / "pyspark_zkafka"
    shutil.copytree(SOURCES.parents[1], package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    out = package / "records" / "native" / "_arrow_path.so"
    flags = ["-shared", "-fPIC", "-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-fsanitize=address", "-fvisibility=hidden"]
    subprocess.run([compiler(), *flags, "-o", out, *sorted(SOURCES.glob("*.c"))], check=True)
    return folder


@pytest.fixture
def records(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with 20,000 records of all kinds on two brokers."""
    topic = new_topic(replication=2)
    made = [
        {"key": b"%d" % n if n % 3 else None, "value": b"v" * (n % 300), "headers": [("h", b"%d" % n)] * (n % 3)}
        for n in range(20_000)
    ]
    zkafka_cluster.produce(topic, made)
    return topic


@pytest.fixture
def driver(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, watched: Path, records: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process under AddressSanitizer that reads and writes, and the topic to delete while the process reads it."""
    written = new_topic(partitions=2, replication=2, config={"max.message.bytes": "10000"})
    doomed = new_topic()
    zkafka_cluster.produce(doomed, [{"value": b"v" * 100}] * 5000)
    libasan = subprocess.run([compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    environment = {
        **os.environ,
        "LD_PRELOAD": libasan.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(watched),
        "PYTHONMALLOC": "malloc",  # to watch Python's own memory, too
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    command = [sys.executable, str(DRIVER), zkafka_cluster.bootstrap_servers, records, written, doomed]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        yield process, doomed
        process.kill()


def work_on(process: subprocess.Popen[str]) -> None:
    """Wait until each thread of the driver has finished one more round."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("on\n")
    process.stdin.flush()
    assert process.stdout.readline() == "on\n", process.stderr and process.stderr.read()


@pytest.mark.long
def test_no_fault_of_memory(zkafka_cluster: LocalCluster, driver: tuple[subprocess.Popen[str], str]) -> None:
    """Killing a broker, deleting a topic and refusing records during reads and writes causes no invalid memory access."""
    process, doomed = driver
    work_on(process)
    zkafka_cluster.kill(1)
    zkafka_cluster.restart(1)
    zkafka_cluster.delete_topic(doomed)
    work_on(process)
    output, errors = process.communicate("", timeout=90)
    assert "AddressSanitizer" not in errors, errors
    assert "Traceback" not in errors, errors  # an invalid batch, or any other error that ends a thread
    assert process.returncode == 0, errors
    counts = json.loads(output)
    assert counts.pop("described").startswith("the compiled code is used")
    assert counts["DELIVERY_FAILED"] > 0
    assert counts[f"read {doomed}"] > 0
    assert counts["written 100"] > 0
    assert max(count for name, count in counts.items() if name.startswith("read ")) >= 20_000


# --- Nothing is kept


class _Mallinfo2(ctypes.Structure):
    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names)


def bytes_in_use() -> int:
    """Return the bytes that malloc has allocated and not freed."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd)


def growth_bytes(act: Callable[[], object], rounds: int) -> int:
    """Return the growth of the bytes in use over `rounds` rounds, after two warm-up rounds."""
    for _ in range(2):
        act()
    before = bytes_in_use()
    for _ in range(rounds):
        act()
    return bytes_in_use() - before


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc before 2.33 cannot tell")
class TestNothingIsKept:
    """Memory growth over thousands of batches."""

    @pytest.fixture
    def connection(self, zkafka_cluster: LocalCluster) -> ConnectionOptions:
        return ConnectionOptions(None, zkafka_cluster.bootstrap_servers, Listener(), {}, "direct")

    def test_reading(self, connection: ConnectionOptions, records: str) -> None:
        """Reading thousands of batches leaks no memory."""
        servers = str(connection.bootstrap_servers)
        split = Split(TopicPartition(records, 0), 0, 20_000, 0, 0, (0,), (servers,))
        properties = consumer_properties(connection, servers, "g")

        def read() -> None:
            with open_consumer(connection, properties, split, ALL) as consumer:
                batches = SplitReader(split, consumer, ReadPolicy(max_records=15), lambda: "same").batches()
                assert sum(batch.num_rows for batch in batches) == 20_000

        assert growth_bytes(read, rounds=3) < NOISE_BYTES

    @pytest.mark.parametrize("columns", [["key", "value", "headers"], *seldom(["key", "value"])], ids=["headers", "plain"])
    def test_writing(self, connection: ConnectionOptions, new_topic: NewTopic, columns: list[str]) -> None:
        """Writing thousands of batches leaks no memory."""
        topic, partitions = new_topic(partitions=2), np.array([0, 1] * 10, dtype=np.int32)
        rows = next(outgoing(rows_of_all_kinds().select(columns), topic))
        assert growth_bytes(lambda: self.write(connection, rows, partitions), rounds=3) < NOISE_BYTES

    def write(self, connection: ConnectionOptions, rows: OutgoingBatch, partitions: np.ndarray) -> None:
        properties = producer_properties(connection, str(connection.bootstrap_servers))
        with open_producer(connection, properties) as producer:
            for _ in range(1000):
                producer.send(rows, partitions)
            producer.flush()
            assert producer.acknowledged == 20_000


def rows_of_all_kinds() -> pa.RecordBatch:
    headers = pa.array([[("h", b"%d" % n)] * (n % 3) or None for n in range(20)], ALL.field("headers").type)
    data = pa.array([b"%d" % n if n % 3 else None for n in range(20)], pa.binary())
    return pa.record_batch([data, data, headers], ["key", "value", "headers"])
