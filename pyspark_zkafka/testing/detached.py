"""A local cluster that stays up after the command that started it has ended.

A daemon holds the cluster, and a lock for as long as it lives. Its state, a JSON file beside the lock, is true only while
the lock is held.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import kafka_jars
from pyspark_zkafka.testing.jars import cache_folder, fetch_jars
from pyspark_zkafka.testing.java import find_java
from pyspark_zkafka.testing.waiting import Deadline

if TYPE_CHECKING:
    from pyspark_zkafka.testing.cluster import LocalCluster

__all__ = ["DetachedCluster", "bring_down", "bring_up", "hold", "running_clusters"]

_END_TIMEOUT_S = 60


@dataclass(frozen=True)
class DetachedCluster:
    """What is known of a cluster that is up; `servers` maps a server's name to its port."""

    name: str
    pid: int
    kafka_version: str
    zookeeper_connect: str
    bootstrap_servers: str
    folder: str
    servers: dict[str, int] = field(default_factory=dict)


def bring_up(name: str, options: dict[str, Any]) -> DetachedCluster:
    """A cluster that is ready, and stays until `bring_down`; blocks until it is, and for the fetching of its jars.

    `options` are the arguments of `LocalCluster` that JSON can hold.

    Raises
    ------
    LocalClusterError
        ``CLUSTER_ALREADY_UP``, or what `LocalCluster.start` raises, as ``CLUSTER_NOT_UP``.
    """
    if _state(name) is not None:
        raise LocalClusterError(
            "CLUSTER_ALREADY_UP", f"A local cluster named {name!r} is up; take it `down` first, or give another name"
        )
    find_java()
    fetch_jars(*kafka_jars(options.get("kafka_version", "3.9.1")))  # here, where a terminal can show how far it is
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_zkafka.testing._daemon", name, json.dumps(options)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = _state(name)
    if done.returncode != 0 or found is None:
        reason = (done.stdout + done.stderr).strip() or f"the daemon ended, see {_file(name, 'log')}"
        raise LocalClusterError("CLUSTER_NOT_UP", f"The local cluster {name!r} did not come up: {reason}")
    return found


def bring_down(name: str) -> None:
    """End a cluster; returns when its daemon, its servers and their data are gone.

    Raises
    ------
    LocalClusterError
        ``NO_CLUSTER_UP``; ``CLUSTER_NOT_DOWN`` when it is not gone after 60 s.
    """
    state = _state(name)
    if state is None:
        raise LocalClusterError("NO_CLUSTER_UP", f"No local cluster named {name!r} is up; `up` starts one")
    os.kill(state.pid, signal.SIGTERM)
    if Deadline(_END_TIMEOUT_S).until(lambda: True if _state(name) is None else None) is None:
        raise LocalClusterError(
            "CLUSTER_NOT_DOWN",
            f"The local cluster {name!r} still runs {_END_TIMEOUT_S} s after its daemon was asked to end; "
            f"kill process {state.pid}: the servers end with it",
        )


def running_clusters() -> list[DetachedCluster]:
    """The clusters of this user that are up, by name."""
    names = sorted(file.stem for file in _folder().glob("*.json"))
    return [state for name in names if (state := _state(name)) is not None]


def hold(name: str, options: dict[str, Any], wait: Callable[[], object], ready: Callable[[], object]) -> None:
    """Hold a cluster up while `wait` blocks; `ready` is called when it can be used. For the daemon."""
    from pyspark_zkafka.testing.cluster import LocalCluster

    with _exclusively(name):
        try:
            with LocalCluster(**options) as cluster:
                _publish(name, cluster)
                ready()
                while not wait():
                    cluster.pid("zookeeper")  # raises when the supervisor was killed
        finally:  # the state stays until the servers are gone: who waits for its end waits for theirs
            _file(name, "json").unlink(missing_ok=True)


def _publish(name: str, cluster: LocalCluster) -> None:
    state = DetachedCluster(
        name=name,
        pid=os.getpid(),
        kafka_version=cluster.kafka_version,
        zookeeper_connect=cluster.zookeeper_connect,
        bootstrap_servers=cluster.bootstrap_servers,
        folder=str(cluster.log("zookeeper").parent),
        servers={"zookeeper": cluster.port("zookeeper")} | {f"broker-{b}": cluster.port(b) for b in cluster.broker_ids},
    )
    partial = _file(name, "partial")
    partial.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    partial.replace(_file(name, "json"))


def log_file(name: str) -> Path:
    """Where the daemon of a cluster writes what it has to say."""
    return _file(name, "log")


def _folder() -> Path:
    return cache_folder() / "clusters"


def _file(name: str, kind: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise LocalClusterError("BAD_CLUSTER", f"A cluster's name has letters, digits, - and _; found {name!r}")
    return _folder() / f"{name}.{kind}"


def _state(name: str) -> DetachedCluster | None:
    """A cluster's state while its daemon lives, else None."""
    try:
        with _file(name, "lock").open("r") as lock:
            if _lock(lock, fcntl.LOCK_SH):
                return None
        return DetachedCluster(**json.loads(_file(name, "json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


@contextmanager
def _exclusively(name: str) -> Iterator[None]:
    _folder().mkdir(parents=True, exist_ok=True)
    with _file(name, "lock").open("a") as lock:
        # One who only looks shares the lock for a moment.
        if Deadline(2).until(lambda: _lock(lock, fcntl.LOCK_EX) or None) is None:
            raise LocalClusterError(
                "CLUSTER_ALREADY_UP", f"A local cluster named {name!r} is coming up, or is up; give another name"
            )
        yield


def _lock(file: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
