"""Calls, reads and writes while all brokers answer slowly, not at all, in pieces, or with lies."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from pyspark_zkafka.brokers.groups import GroupAdmin, GroupState
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import ClusterSnapshot
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.source import ZKafkaDataSource
from pyspark_zkafka.testing import LocalCluster
from tests.faults.harness.network import proxied_ports, wired_cluster
from tests.support.broker_calls import CALLS, COMMITTED, GROUPS, LOST, PARTITIONS, TOPIC
from tests.support.lying_wire import LIES, Lie, LyingWire, moves
from tests.support.topics import arrived

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 4.0
SLACK_S = 4.0
COUNT = 2000
"""Records in each partition."""
DETECTED = {name: lie for name, lie in LIES.items() if not re.search("flipped|noise", name)}
"""Lies that cannot be mistaken for the truth."""
READ_LIMIT_S = 60.0
WRITE_LIMIT_S = 32.0
"""The delivery's time-out, after as long for the topic's partitions and one request of 12 s without an answer."""
ROWS = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])
VALUES = StructType([StructField("value", BinaryType())])


@pytest.fixture(scope="module", params=["3.9.1", "4.3.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers that clients reach through wires, a topic with a partition on each, and offsets of six groups."""
    with wired_cluster(kafka_version=request.param) as cluster:
        cluster.create_topic(TOPIC, assignment={n: [n] for n in range(3)})
        cluster.create_topic("other", replication=3)
        cluster.produce(TOPIC, [{"value": b"%d" % n, "partition": p} for p in range(3) for n in range(COUNT)])
        with GroupAdmin(cluster.bootstrap_servers, {}) as admin:
            for group in GROUPS:
                assert admin.alter_offsets(group, COMMITTED) == {}
        yield cluster


class Wires:
    """Wires to all brokers of a cluster."""

    def __init__(self, wires: list[LyingWire]) -> None:
        self._wires = wires
        self.servers = ",".join(wire.address for wire in wires)

    def lie(self, lie: Lie) -> None:
        for wire in self._wires:
            wire.lie = lie

    def move(self, broker: int, to: LyingWire) -> None:
        """Lead a broker's new address to it, and end its old one."""
        old = self._wires[broker]
        for wire in (*self._wires, to):
            wire.lie = moves(old.port, to.port)
        old.cut()

    @property
    def lies(self) -> int:
        """How many responses were lies."""
        return sum(wire.lies for wire in self._wires)


@contextmanager
def open_wires(cluster: LocalCluster, away: int = 0) -> Iterator[Wires]:
    """Yield wires. With `away`, the address of a broker leads to the one with a number that is larger by this."""
    ports = proxied_ports(cluster)
    with ExitStack() as opened:
        wires = [LyingWire(ports[(n + away) % len(ports)][0], own) for n, (_, own) in ports.items()]
        yield Wires([opened.enter_context(wire) for wire in wires])


def agrees(found: Any, honest: Any) -> bool:
    """Whether an answer is the honest one, or has an error for each part that is missing."""
    if isinstance(found, GroupState) and found.problem is not None:
        return True
    if isinstance(found, ClusterSnapshot):  # without ZooKeeper, each answer names any broker as the controller
        return replace(found, controller=honest.controller) == honest
    if isinstance(found, dict):
        return found.keys() == honest.keys() and all(agrees(value, honest[key]) for key, value in found.items())
    if type(found) is not tuple:
        return bool(found == honest)
    answers, failed = found
    if not isinstance(answers, dict):
        return set(answers) <= set(honest[0]) and (bool(failed) or set(answers) == set(honest[0]))
    return all(value == honest[0].get(key) for key, value in answers.items()) and honest[0].keys() <= {*answers, *failed}


def outcome(act: Callable[[], Any], is_right: Callable[[Any], bool], limit_s: float) -> str:
    """Return a description of a call's fault, or an empty text."""
    began, error, result = time.monotonic(), None, None
    try:
        result = act()
    except Exception as raised:  # noqa: BLE001 - an error of another type is a fault
        error = raised
    took, fault = time.monotonic() - began, ""
    if error is None:
        fault = "" if is_right(result) else f"returned {str(result)[:300]}"
    elif not isinstance(error, ZKafkaError):
        fault = f"not an error of ours: {error!r}"
    elif not re.search(rf"{TOPIC}|written-|group-|missing|created|none|broker \d|127\.0\.0\.1", str(error)):
        fault = f"the error names nothing: {error}"
    return f"{fault} after {took:.1f} of {limit_s:.1f} s" if fault or took > limit_s else ""


def client(wires: Wires, name: str) -> GroupAdmin:
    """Return a new client for a call."""
    properties = {"socket.timeout.ms": int(TIMEOUT_S * 1000)}
    return GroupAdmin(wires.servers, properties, read_committed=name == "high_watermarks")


def ask_all(wires: Wires, honest: Mapping[str, Any] | None) -> dict[str, str]:
    """Do all calls at the same time with new clients. Return their faults by name.

    Answers are compared with those in `honest`, if it is given; calls that it lacks must fail.
    """

    def run(name: str) -> str:
        with client(wires, name) as admin:
            return outcome(
                lambda: CALLS[name].do(admin),
                lambda found: honest is None or (name in honest and agrees(found, honest[name])),
                CALLS[name].waits * TIMEOUT_S + SLACK_S,
            )

    with ThreadPoolExecutor(len(CALLS)) as threads:
        faults = dict(zip(CALLS, threads.map(run, CALLS), strict=True))
    return {name: fault for name, fault in faults.items() if fault}


@pytest.fixture
def honest(cluster: LocalCluster) -> dict[str, Any]:
    """Answers of honest brokers to the calls that succeed."""
    answers = {}
    with open_wires(cluster) as wires:
        for name, call in CALLS.items():
            if name != "delete_topic":
                with client(wires, name) as admin:
                    answers[name] = call.do(admin)
    return answers


@pytest.mark.parametrize("name", LIES)
def test_calls(cluster: LocalCluster, honest: dict[str, Any], name: str) -> None:
    """Each call ends in time with the right answer, or with an error that names its subject."""
    with open_wires(cluster) as wires:
        wires.lie(LIES[name])
        assert ask_all(wires, honest if name in DETECTED else None) == {}
        assert wires.lies


def test_exchanged_addresses(cluster: LocalCluster, honest: dict[str, Any]) -> None:
    """Calls end in the same way if each broker's address leads to another broker."""
    with open_wires(cluster, away=1) as wires:
        assert ask_all(wires, honest) == {}


def test_a_moved_broker(cluster: LocalCluster, honest: dict[str, Any]) -> None:
    """Clients that were connected to a broker reach it at its new address, in all calls."""
    found, took = {}, {}
    with (
        open_wires(cluster) as wires,
        LyingWire(proxied_ports(cluster)[LOST][0]) as moved,
        ExitStack() as opened,
        ThreadPoolExecutor(len(honest)) as threads,
    ):
        clients = {name: opened.enter_context(client(wires, name)) for name in honest}
        for admin in clients.values():
            admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST))
        wires.move(LOST, moved)

        def run(name: str) -> None:
            began = time.monotonic()
            found[name] = CALLS[name].do(clients[name])
            took[name] = time.monotonic() - began

        list(threads.map(run, honest))
        assert moved.lies
    assert {name for name in honest if name != "snapshot" and found[name] != honest[name]} == set()
    assert found["snapshot"].topics == honest["snapshot"].topics
    assert {name for name in honest if took[name] > CALLS[name].waits * TIMEOUT_S + SLACK_S} == set()


@pytest.mark.parametrize("name", LIES)
def test_reads(cluster: LocalCluster, name: str) -> None:
    """Tasks whose brokers begin to lie read all records, or fail in time."""
    with open_wires(cluster) as wires, ThreadPoolExecutor(len(PARTITIONS)) as threads:
        options = {"kafka.bootstrap.servers": wires.servers, "subscribe": TOPIC}
        options |= {"kafkaConsumer.pollTimeoutMs": str(int(TIMEOUT_S * 1000))}
        source = ZKafkaDataSource({**options, "kafka.max.partition.fetch.bytes": "20000"})
        reader = source.reader(ROWS)
        splits = reader.partitions()
        assert len(splits) == len(PARTITIONS)

        def read(split: Any) -> str:
            def rows() -> list[int]:
                found = []
                for batch in reader.read(split):
                    assert isinstance(batch, pa.RecordBatch)
                    found += batch["offset"].to_pylist()
                return found

            return outcome(rows, lambda found: name not in DETECTED or found == list(range(COUNT)), READ_LIMIT_S)

        wires.lie(LIES[name])
        assert [fault for fault in threads.map(read, splits) if fault] == []
        assert wires.lies


@pytest.mark.parametrize("name", LIES)
def test_writes(cluster: LocalCluster, name: str) -> None:
    """A task whose brokers begin to lie writes each row once, or fails in time and writes no row twice."""
    topic = f"written-{list(LIES).index(name)}"
    cluster.create_topic(topic, assignment={n: [n] for n in range(3)})
    with open_wires(cluster) as wires:
        options = {"kafka.bootstrap.servers": wires.servers, "topic": topic, "kafka.delivery.timeout.ms": "8000"}
        source = ZKafkaDataSource({**options, "kafka.request.timeout.ms": "3000", "kafka.socket.timeout.ms": "3000"})
        writer = source.writer(VALUES, False)
        count, batches = 100, 20

        def rows() -> Iterator[pa.RecordBatch]:
            for first in range(0, count * batches, count):
                if first == 5 * count:
                    time.sleep(0.5)
                    wires.lie(LIES[name])
                values = [b"%d" % n for n in range(first, first + count)]
                yield pa.record_batch({"value": pa.array(values, pa.binary())})

        def written() -> Counter[bytes]:
            records = arrived(cluster.bootstrap_servers, topic, 3).values()
            return Counter(record[2] for found in records for record in found)

        fault = outcome(lambda: writer.write(rows()), lambda _: len(written()) == count * batches, WRITE_LIMIT_S)
        assert wires.lies
    assert {value: times for value, times in written().items() if times > 1} == {}
    assert fault == ""
