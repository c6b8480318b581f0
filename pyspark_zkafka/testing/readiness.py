"""Readiness of the servers of a local cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.ports import LOOPBACK
from pyspark_zkafka.testing.processes import ServerProcesses
from pyspark_zkafka.testing.spec import ZOOKEEPER
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["expired_at_start", "wait_for_brokers", "wait_for_zookeeper"]

_EXPIRED_AT_START = ("fatal exception during startup", "SessionExpiredException")
_ANSWER_TIMEOUT_S = 1.0


def wait_for_zookeeper(processes: ServerProcesses, deadline: Deadline) -> None:
    """Return when ZooKeeper serves; raises `SERVER_DIED` or `NOT_READY`."""

    def serving() -> bool | None:
        processes.raise_if_dead(ZOOKEEPER)
        return _serves(processes.port(ZOOKEEPER)) or None

    if deadline.until(serving) is None:
        lack = f"ZooKeeper does not serve after {deadline.timeout_s:.0f} s; its log ends with"
        raise LocalClusterError("NOT_READY", f"{lack}\n{processes.log_tail(ZOOKEEPER)}")


def wait_for_brokers(missing: Callable[[], set[int]], lack: str, tail: Callable[[int], str], deadline: Deadline) -> None:
    """Return when no broker is missing; raises `NOT_READY` with the end of the first one's log."""
    if deadline.until(lambda: None if missing() else True) is None and (late := sorted(missing())):
        raise LocalClusterError(
            "NOT_READY",
            f"After {deadline.timeout_s:.0f} s brokers {late} {lack}; the log of the first ends with\n{tail(late[0])}\n"
            "raise startup_timeout_s on a slow or busy machine",
            brokers=late,
        )


def expired_at_start(log: str) -> bool:
    """Whether a broker ended because its session expired while it started, as on a machine that stood still."""
    return all(text in log for text in _EXPIRED_AT_START)


def _serves(port: int) -> bool:
    """Whether a ZooKeeper serves, by its own word.

    It listens a moment before it serves: a session asked for in that moment is lost, and its client waits for 10 s.
    """
    try:
        with socket.create_connection((LOOPBACK, port), _ANSWER_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return False
    return bool(answer) and b"not currently serving" not in answer
