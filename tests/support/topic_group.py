"""A topic with its consumer group, read by streaming queries, and faults of their planning process."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.planning import Subscribe
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.members import SESSION_S
from tests.support.options import ensemble_config, group_options

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from pyspark_zkafka.testing import LocalCluster

__all__ = ["Gate", "TopicGroup", "halted", "planning_process"]


class TopicGroup:
    """A topic of the shared cluster, and the group ``group-of-<topic>`` of queries and members that read it."""

    def __init__(self, cluster: LocalCluster, topic: str, znodes: KazooClient) -> None:
        self.cluster, self.topic, self.name, self.znodes = cluster, topic, f"group-of-{topic}", znodes
        hosts, _, chroot = cluster.zookeeper_connect.partition("/")
        self.config = ensemble_config(hosts, f"/{chroot}", int(SESSION_S * 1000))
        self.opened = ExitStack()

    def options(self, consumer: str, **more: str) -> dict[str, str]:
        """Return options of a query that joins the group."""
        return {
            "subscribe": self.topic,
            "group.id": self.name,
            "consumer.id": consumer,
            "auto.offset.reset": "earliest",
            "rebalance.backoff.ms": "200",
            "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
            "zookeeper.connection.timeout.ms": "6000",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def member(self, consumer: str) -> GroupMember:
        """Join a member in this process with a long session; it owns partitions, and reads nothing."""
        options = group_options(self.name, consumer_id=consumer, backoff_ms=200, hold_ms=0)
        config = replace(self.config, session_timeout_ms=20_000)
        return self.opened.enter_context(GroupMember(config, options, Subscribe((self.topic,))))

    def produce(self, records: int, *partitions: int) -> None:
        """Produce records to each of the partitions."""
        fill(self.cluster, self.topic, records, partitions)

    def owners(self, topic: str | None = None) -> dict[int, str]:
        """Return the consumers that own partitions."""
        path = f"/consumers/{self.name}/owners/{topic or self.topic}"
        found = self._values(path)
        return {int(p): data.decode().rpartition("-")[0].removeprefix(f"{self.name}_") for p, data in found.items()}

    def offsets(self) -> dict[int, int]:
        """Return the committed offsets."""
        return {int(p): int(data) for p, data in self._values(f"/consumers/{self.name}/offsets/{self.topic}").items()}

    def registered(self, consumer: str) -> str | None:
        """Return the timestamp of a consumer's registration; None without one."""
        data = self._values(f"/consumers/{self.name}/ids").get(f"{self.name}_{consumer}")
        return None if data is None else str(json.loads(data)["timestamp"])

    def _values(self, path: str) -> dict[str, bytes]:
        return {name: data for name in self._read(self.znodes.get_children, path, []) if (data := self._data(path, name))}

    def _data(self, path: str, name: str) -> bytes | None:
        return self._read(lambda at: self.znodes.get(at)[0], f"{path}/{name}", None)

    def _read(self, read: Callable[[str], Any], path: str, missing: Any) -> Any:
        try:
            return self.znodes.retry(read, path)
        except NoNodeError:
            return missing


def planning_process(jvm: int) -> int:
    """Return the process that plans the only query of a Spark JVM, once those of earlier queries have ended."""

    def found() -> list[int]:
        return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _plans_for(p, jvm)]

    eventually(lambda: len(found()) == 1, message=lambda: f"the processes that plan are {found()}")
    return found()[0]


def _plans_for(process: Path, jvm: int) -> bool:
    try:
        command, stat = (process / "cmdline").read_bytes(), (process / "stat").read_text()
    except OSError:
        return False
    return b"python_streaming_source_runner" in command and int(stat.rpartition(")")[2].split()[1]) == jvm


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """Stop a process inside the ``with`` block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Gate:
    """Blocks micro-batches after their rows were collected, until it is opened."""

    def __init__(self) -> None:
        self.waiting, self._open = threading.Event(), threading.Event()

    def open(self) -> None:
        """Let this micro-batch and all later ones continue."""
        self._open.set()

    def hold(self, frame: object, number: int) -> None:
        """Block a micro-batch; used as a stream's `in_batch`."""
        self.waiting.set()
        assert self._open.wait(60)
