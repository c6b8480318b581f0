"""ZooKeeper of a local cluster: its readiness, its sessions, and the znodes that show when brokers are ready."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.testing.conditions import NOT_READY, ZOOKEEPER_SILENT
from pyspark_zkafka.testing.processes import LOOPBACK, Deadline, ServerProcesses
from pyspark_zkafka.testing.spec import ZOOKEEPER

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

    ZooKeeper listens shortly before it serves. A session requested in between is lost, and its client waits for 10 s.
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
    """Connect a client; raises `ZOOKEEPER_SILENT` if it is not connected in time."""
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
    """Expire the session of another client, by resuming and closing it."""
    other = KazooClient(hosts, client_id=(session_id, password))
    try:
        other.start()
    finally:
        other.stop()
        other.close()


def registered_brokers(client: KazooClient) -> set[int]:
    """Return the ids of the brokers that have a znode."""
    if client.exists("/brokers/ids") is None:
        return set()
    return {int(name) for name in client.get_children("/brokers/ids")}


def has_topics(client: KazooClient) -> bool:
    """True if there is any topic."""
    return client.exists("/brokers/topics") is not None and bool(client.get_children("/brokers/topics"))
