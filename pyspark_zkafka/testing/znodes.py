"""ZooKeeper of a local cluster: its readiness, sessions, and the znodes in the cluster's chroot."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.conditions import NO_SUCH_TOPIC, NOT_READY, ZOOKEEPER_SILENT
from pyspark_zkafka.testing.processes import LOOPBACK, Deadline, ServerProcesses
from pyspark_zkafka.testing.spec import ZOOKEEPER

__all__ = [
    "all_in_sync",
    "expire_session",
    "has_topics",
    "no_such_topic",
    "read_assignment",
    "registered_brokers",
    "request_election",
    "wait_for_zookeeper",
    "zookeeper_session",
]

_QUIET = logging.Logger("zkafka-local-cluster", logging.CRITICAL + 1)
_ANSWER_TIMEOUT_S = 1.0
_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_delay": 0.2}


def wait_for_zookeeper(processes: ServerProcesses, deadline: Deadline) -> None:
    """Return when ZooKeeper serves; raises `SERVER_DIED` or `NOT_READY`."""

    def serving() -> bool | None:
        processes.raise_if_dead(ZOOKEEPER)
        return _serves(processes.port(ZOOKEEPER)) or None

    if deadline.until(serving) is None:
        lack = f"ZooKeeper does not serve after {deadline.timeout_s:.0f} s; its log ends with"
        raise NOT_READY(f"{lack}\n{processes.log_tail(ZOOKEEPER)}")


def _serves(port: int) -> bool:
    """True if a ZooKeeper serves, by its answer to ``srvr``.

    It listens a moment before it serves: a session asked for in that moment is lost, and its client waits for 10 s.
    """
    try:
        with socket.create_connection((LOOPBACK, port), _ANSWER_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return False
    return bool(answer) and b"not currently serving" not in answer


@contextmanager
def zookeeper_session(hosts: str, timeout_s: float) -> Iterator[KazooClient]:
    """A connected client; raises `ZOOKEEPER_SILENT` when it is not connected in time."""
    client = KazooClient(hosts, timeout=10.0, connection_retry=_RETRY, logger=_QUIET)
    try:
        client.start(max(timeout_s, 0.1))
        yield client
    except KazooTimeoutError as exc:
        reason = f"ZooKeeper at {hosts} did not answer within {timeout_s:.0f} s; is it stopped or paused?"
        raise ZOOKEEPER_SILENT(reason) from exc
    finally:
        client.stop()
        client.close()


def expire_session(hosts: str, session_id: int, password: bytes) -> None:
    """Expire a session of another client: the end of one that was resumed ends it for both."""
    other = KazooClient(hosts, client_id=(session_id, password))
    try:
        other.start()
    finally:
        other.stop()
        other.close()


def registered_brokers(client: KazooClient) -> set[int]:
    """The ids of the brokers that have a znode."""
    if client.exists("/brokers/ids") is None:
        return set()
    return {int(name) for name in client.get_children("/brokers/ids")}


def has_topics(client: KazooClient) -> bool:
    """True if there is any topic."""
    return client.exists("/brokers/topics") is not None and bool(client.get_children("/brokers/topics"))


def read_assignment(client: KazooClient, topic: str) -> dict[int, list[int]]:
    """Each partition's replicas, the preferred leader first; raises `NO_SUCH_TOPIC`."""
    if client.exists(f"/brokers/topics/{topic}") is None:
        raise no_such_topic(topic)
    found = json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"]
    return {int(p): found[p] for p in sorted(found, key=int)}


def no_such_topic(topic: str) -> LocalClusterError:
    """The error for a topic that does not exist."""
    return NO_SUCH_TOPIC(f"There is no topic {topic}; create_topic makes it")


def all_in_sync(client: KazooClient, topic: str, assignment: Mapping[int, Iterable[int]]) -> bool:
    """True if each partition's isr is its whole assignment."""
    return all(_isr(client, topic, partition) == set(replicas) for partition, replicas in assignment.items())


def _isr(client: KazooClient, topic: str, partition: int) -> set[int]:
    try:
        data, _ = client.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
    except NoNodeError:
        return set()
    return set(json.loads(data)["isr"])


def request_election(client: KazooClient, topic: str, partitions: Iterable[int]) -> bool:
    """Request a preferred replica election; False while another one is in progress."""
    request = {"version": 1, "partitions": [{"topic": topic, "partition": p} for p in partitions]}
    try:
        client.create("/admin/preferred_replica_election", json.dumps(request).encode(), makepath=True)
    except NodeExistsError:
        return False
    return True
