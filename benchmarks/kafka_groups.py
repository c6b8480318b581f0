"""Durations of rebalances of groups that Kafka coordinates, with members of zkafka and of Java.

A broker of Kafka 4 with one controller. Members are idle, as in `benchmarks.rebalance`. A time ends when the coordinator
describes the group as stable, with every partition assigned to a remaining member. One member moves; the others share a
process. Sessions last 6 s, and KIP-848 members send a heartbeat each second; brokers' defaults are 45 s and 5 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.rebalance import PARTITIONS, SESSION_MS, TOPIC, until
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jars import compiled_program, find_java
from pyspark_zkafka.testing.spec import jvm_command
from tests.support.java_consumer import GROUP_MEMBERS
from tests.support.memberships import KINDS

KAFKA = "4.3.1"
_BROKER = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
_JAVA: dict[str, dict[str, str]] = {
    "cooperative-sticky": {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": str(SESSION_MS // 3),
    },
    "consumer": {"group.protocol": "consumer"},
}
_HEAP_MB = 256

MEMBERS = """
import json, sys
from pyspark_zkafka.model.planning import Subscribe
from tests.support.memberships import kafka_member

servers, group, topic, options = sys.argv[1:]
members = {}
for line in sys.stdin:
    what, name = line.split()
    if what == "join":
        members[name] = kafka_member(servers, group, Subscribe((topic,)), **json.loads(options))
        members[name].join()
    else:
        members.pop(name).leave()
"""


class Host:
    """A process with members that join and leave on request."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        # Java's consumer logs each assigned partition, to either stream.
        quiet = subprocess.DEVNULL
        pipes = {"stdin": subprocess.PIPE, "stdout": quiet, "stderr": quiet}
        self._process = subprocess.Popen(command, **pipes, text=True, env=environment)

    def tell(self, what: str, name: str) -> None:
        """Send ``join`` or ``leave`` for a member."""
        self._process.stdin.write(f"{what} {name}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()


class KafkaGroup:
    """A group, and its state at the coordinator; `engine` is ``ours`` or ``java``, `kind` the kind of rebalance."""

    def __init__(self, servers: str, admin: GroupAdmin, engine: str, kind: str, size: int) -> None:
        self._servers, self._admin, self._engine, self._kind = servers, admin, engine, kind
        self._name = f"rebalance-{engine}-{kind}-{size}"

    def host(self) -> Host:
        """Start a process without members."""
        return Host(*(self._java() if self._engine == "java" else self._ours()))

    def is_shared_by(self, count: int) -> bool:
        """Return whether exactly this many members share all partitions."""
        state = self._admin.group_states([self._name])[self._name]
        shares = [len(places) for places in state.members.values()]
        return state.name == "STABLE" and len(shares) == count and sum(shares) == PARTITIONS and all(shares)

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self._admin.group_states([self._name])[self._name].members

    def _ours(self) -> tuple[list[str], dict[str, str]]:
        options = json.dumps(KINDS[self._kind])
        return [sys.executable, "-c", MEMBERS, self._servers, self._name, TOPIC, options], {**os.environ}

    def _java(self) -> tuple[list[str], dict[str, str]]:
        java = find_java()
        classpath, main = compiled_program(java, KAFKA, GROUP_MEMBERS)
        properties = {"bootstrap.servers": self._servers, "group.id": self._name, **_JAVA[self._kind]}
        arguments = [TOPIC, *(f"{name}={value}" for name, value in properties.items())]
        return jvm_command(java, _HEAP_MB, [], main, arguments), {**os.environ, "CLASSPATH": classpath}


def kafka_rounds(group: KafkaGroup, size: int, count: int) -> Iterator[dict[str, float]]:
    """Yield the times of each round, in which one member leaves, arrives and dies, in seconds."""
    with started(group, size) as restart:
        for _ in range(count):
            mover, times = restart(), {}
            times["leave"] = _seconds(group, lambda: mover.tell("leave", "mover"), size - 1)  # noqa: B023
            times["arrival"] = _seconds(group, lambda: mover.tell("join", "mover"), size)  # noqa: B023
            times["death"] = _seconds(group, mover.kill, size - 1)
            yield times


def _seconds(group: KafkaGroup, change: Callable[[], object], left: int) -> float:
    begin = time.monotonic()
    change()
    return until(lambda: group.is_shared_by(left)) - begin


@contextmanager
def started(group: KafkaGroup, size: int) -> Iterator[Callable[[], Host]]:
    """Start a group without its last member, and yield a function that adds it as a separate process."""
    with ExitStack() as opened:

        def added(*names: str) -> Host:
            host = group.host()
            opened.callback(host.kill)
            for name in names:
                host.tell("join", name)
            return host

        def add_mover() -> Host:
            mover = added("mover")
            until(lambda: group.is_shared_by(size))
            return mover

        added(*(f"m{number:02}" for number in range(size - 1)))
        until(lambda: group.is_shared_by(size - 1))
        yield add_mover
    until(group.is_empty)


def kafka_rebalances(sizes: Iterable[int], count: int) -> Iterator[tuple[str, int, list[dict[str, float]]]]:
    """Yield each kind and size of group with the times of its rounds."""
    config: dict[str, Any] = {"kafka_version": KAFKA, "brokers": 1, "controllers": 1, "broker_config": _BROKER}
    with LocalCluster(**config) as cluster, GroupAdmin(cluster.bootstrap_servers, {}) as admin:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        for size in sizes:
            for kind in _JAVA:
                for engine in ("ours", "java"):
                    group = KafkaGroup(cluster.bootstrap_servers, admin, engine, kind, size)
                    yield f"{kind}, {engine}", size, list(kafka_rounds(group, size, count))
