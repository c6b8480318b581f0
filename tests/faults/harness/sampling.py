"""Samples of a group's offsets and owners, of processes and of ZooKeeper, while a workload runs."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.errors import LocalClusterError, ZKafkaError
from pyspark_zkafka.model.ledger import LedgerGroup, QueryName, decode
from pyspark_zkafka.testing.processes import LOOPBACK
from tests.faults.harness.history import Committed, Event, Owners, Sample
from tests.faults.harness.journal import Journal

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from pyspark_zkafka.testing import LocalCluster

__all__ = [
    "UNREACHABLE",
    "Group",
    "KafkaGroup",
    "Sampler",
    "ZooKeeperGroup",
    "process_sample",
    "written_slots",
    "zookeeper_sample",
]

_ADMIN_S = 5
_REQUEST_S = 600
"""Longer than any caller waits: librdkafka aborts the process if it finds a coordinator after its own time-out."""

UNREACHABLE = (
    KazooException,
    KazooTimeoutError,
    KafkaException,
    LocalClusterError,
    ZKafkaError,
    OSError,
    FutureTimeoutError,
)
"""The errors of samples while servers are down."""


class ZooKeeperGroup:
    """The offsets and owners of a group in ZooKeeper."""

    def __init__(self, cluster: LocalCluster, group: str, topic: str) -> None:
        self._cluster, self._group, self._topic = cluster, group, topic

    def sample(self) -> list[Event]:
        """Return the current owners and offsets."""
        with self._cluster.zookeeper() as client:
            at, members = time.time(), self._children(client, "ids")
            owners = self._values(client, f"owners/{self._topic}")
            offsets = self._values(client, f"offsets/{self._topic}")
        owned = tuple((self._topic, int(n), self._member(data.rpartition("-")[0])) for n, (data, _) in owners.items())
        after = time.time()
        sampled = Owners(at, owned, tuple(map(self._member, members)), tuple(czxid for _, czxid in owners.values()))
        return [sampled, *(Committed(after, self._topic, int(n), int(data)) for n, (data, _) in offsets.items() if data)]

    def reset(self, partition: int, offset: int) -> None:
        """Set an offset directly in ZooKeeper."""
        with self._cluster.zookeeper() as client:
            client.set(f"/consumers/{self._group}/offsets/{self._topic}/{partition}", str(offset).encode())

    def sessions(self) -> list[int]:
        """Return the sessions of the registered members, in the order of their names."""
        with self._cluster.zookeeper() as client:
            found = (client.exists(f"/consumers/{self._group}/ids/{name}") for name in self._children(client, "ids"))
            return [stat.ephemeralOwner for stat in found if stat is not None]

    def _member(self, consumer: str) -> str:
        return consumer.removeprefix(f"{self._group}_")

    def _children(self, client: KazooClient, path: str) -> list[str]:
        try:
            return sorted(client.get_children(f"/consumers/{self._group}/{path}"))
        except NoNodeError:
            return []

    def _values(self, client: KazooClient, path: str) -> dict[str, tuple[str, int]]:
        """Return the data of each child, and the transaction that created it."""
        found = {}
        for name in self._children(client, path):
            with suppress(NoNodeError):  # released meanwhile
                data, stat = client.get(f"/consumers/{self._group}/{path}/{name}")
                found[name] = data.decode(), stat.czxid
        return found


class KafkaGroup:
    """The offsets and owners of a group in Kafka; its members use their names as client ids.

    Each sample uses a new client, because librdkafka's keeps asking a broker that is no longer the coordinator. A client
    with a request in flight is closed safely.
    """

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._servers, self._group, self._topic = servers, group, topic

    def sample(self) -> list[Event]:
        """Return the current offsets, and the owners if the group is stable."""
        with AdminClient({"bootstrap.servers": self._servers}) as admin:
            at = time.time()
            describing = admin.describe_consumer_groups([self._group], request_timeout=_REQUEST_S)
            described = describing[self._group].result(_ADMIN_S)
            stored = _offsets(admin, self._group)
            after = time.time()
        offsets = [Committed(after, tp.topic, tp.partition, tp.offset) for tp in stored]
        if described.state != ConsumerGroupState.STABLE:
            return list(offsets)
        owned = ((place, member.client_id) for member in described.members for place in member.assignment.topic_partitions)
        owners = tuple((place.topic, place.partition, member) for place, member in owned)
        return [Owners(at, owners, tuple(member.client_id for member in described.members)), *offsets]

    def reset(self, partition: int, offset: int) -> None:
        """Set an offset of the group, which has no members, as an operator."""
        wanted = ConsumerGroupTopicPartitions(self._group, [TopicPartition(self._topic, partition, offset)])
        with AdminClient({"bootstrap.servers": self._servers}) as admin:
            altering = admin.alter_consumer_group_offsets([wanted], request_timeout=_REQUEST_S)
            altering[self._group].result(2 * _ADMIN_S)


Group = ZooKeeperGroup | KafkaGroup


def written_slots(servers: str, query: QueryName, width: int, batch: int) -> int:
    """Return the number of slots whose rows of a micro-batch are committed, by the ledger of a query of `width` slots."""
    group = str(LedgerGroup(str(query), width, 0))
    with AdminClient({"bootstrap.servers": servers}) as admin:
        return sum(decode(stored.metadata).batch == batch for stored in _offsets(admin, group))


def _offsets(admin: AdminClient, group: str) -> list[TopicPartition]:
    """Return the offsets that a group has committed."""
    listing = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=_REQUEST_S)
    return [tp for tp in listing[group].result(_ADMIN_S).topic_partitions if tp.offset >= 0]


class Sampler(threading.Thread):
    """Journals samples at an interval, from `start` to `stop`; a sample that cannot be taken is left out."""

    def __init__(self, take: Callable[[], Iterable[Event]], journal: Journal, interval_s: float = 1.0) -> None:
        super().__init__(name="sampler", daemon=True)
        self._take, self._journal, self._interval_s = take, journal, interval_s
        self._stopped = threading.Event()
        self._failure: Exception | None = None

    def run(self) -> None:
        """Sample until the end."""
        try:
            while not self._stopped.wait(self._interval_s):
                with suppress(*UNREACHABLE):
                    self._journal.add(*self._take())
        except Exception as error:  # noqa: BLE001 - kept for `raise_failure`
            self._failure = error

    def stop(self) -> None:
        """Stop sampling; returns when the last sample is in the journal."""
        self._stopped.set()
        self.join()

    def raise_failure(self) -> None:
        """Raise the error that ended the thread early, if there was one."""
        if self._failure is not None:
            raise self._failure


def process_sample(subject: str, pid: int, *, runs_tasks: bool = False) -> Sample:
    """Return the resident memory, threads and open files of a process; raises OSError if it is gone.

    A process that `runs_tasks` has figures of its own, whose limits leave room for the clients of tasks.
    """
    status, kind = Path(f"/proc/{pid}/status").read_text(), "_with_tasks" if runs_tasks else ""
    memory, threads = _number(status, r"VmRSS:\s+(\d+)") / 1024, _number(status, r"Threads:\s+(\d+)")
    handles = float(len(list(Path(f"/proc/{pid}/fd").iterdir())))
    return Sample(time.time(), subject, (("rss_mb", memory), (f"threads{kind}", threads), (f"file_handles{kind}", handles)))


def zookeeper_sample(port: int) -> Sample:
    """Return the connections and watches of ZooKeeper; raises OSError if it does not answer."""
    with socket.create_connection((LOOPBACK, port), timeout=5) as console:
        console.settimeout(5)
        console.sendall(b"mntr")
        text = b"".join(iter(lambda: console.recv(65_536), b"")).decode()
    names = {"connections": "zk_num_alive_connections", "watches": "zk_watch_count"}
    return Sample(time.time(), "zookeeper", tuple((name, _number(text, rf"{key}\s+(\d+)")) for name, key in names.items()))


def _number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise OSError(f"no {pattern} in an answer of {len(text)} characters")
    return float(found[1])
