"""A local cluster that outlives the command that started it, and to which other processes attach.

A daemon owns the cluster, and holds a lock while it lives. A JSON file next to the lock has the cluster's state. The state
is valid only while the lock is held. This module, run as a program, starts the daemon. Its arguments are a name, the
options of `LocalCluster` as JSON, and optionally the process id of an owner. The daemon closes standard output when the
cluster is ready or has failed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import javaproperties

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.testing.conditions import (
    BAD_CLUSTER,
    CLUSTER_ALREADY_UP,
    CLUSTER_NOT_DOWN,
    CLUSTER_NOT_UP,
    NO_CLUSTER_UP,
)
from pyspark_zkafka.testing.jars import cache_folder, find_java, kafka_classpath
from pyspark_zkafka.testing.processes import ForeignProcesses, Wait, try_lock
from pyspark_zkafka.testing.spec import CONTROLLER_LISTENER, ZOOKEEPER, ClusterSpec

if TYPE_CHECKING:
    from pyspark_zkafka.testing.local_cluster import LocalCluster

_END_TIMEOUT_S = 60
_CHECK_S = 2
_READY = "ready"


@dataclass(frozen=True)
class DetachedCluster:
    """The state of a running cluster.

    `servers` maps a server's name to its port. `zookeeper_connect` is None in KRaft mode. `command_config` is the file of
    properties with which clients log in, None if no login is needed.
    """

    name: str
    pid: int
    kafka_version: str
    zookeeper_connect: str | None
    bootstrap_servers: str
    folder: str
    servers: dict[str, int]
    command_config: str | None = None

    def client_properties(self) -> dict[str, str]:
        """Return what a client needs to log in; empty if no login is needed."""
        if self.command_config is None:
            return {}
        properties: dict[str, str] = javaproperties.loads(Path(self.command_config).read_text(encoding="latin-1"))
        return {name: value for name, value in properties.items() if not name.startswith("zookeeper.")}


def bring_up(name: str, options: dict[str, Any], owner: int | None = None) -> DetachedCluster:
    """Start a cluster that runs until `bring_down`. Blocks until its jars are fetched and it is ready.

    `options` are arguments of `LocalCluster`, as JSON values. If `owner` is a process id, the cluster and all its files are
    removed within seconds after the end of that process. Raises `CLUSTER_ALREADY_UP`, or `CLUSTER_NOT_UP` with the error
    of the start.
    """
    if _state(name) is not None:
        reason = f"A local cluster named {name!r} is running; run `zkafka cluster down` first, or choose another name"
        raise CLUSTER_ALREADY_UP(reason)
    spec = ClusterSpec(**options)
    spec.check()
    find_java()
    for version in spec.jar_versions:
        kafka_classpath(version)  # in this process, to show the progress at the terminal
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_zkafka.testing.detached", name, json.dumps(options), str(owner or "")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = _state(name)
    if done.stdout != _READY or found is None:
        reason = (done.stdout + done.stderr).strip() or f"the daemon ended, see {_file(name, 'log')}"
        raise CLUSTER_NOT_UP(f"The local cluster {name!r} did not start: {reason}")
    return found


def share(name: str, options: dict[str, Any], owner: int) -> LocalCluster:
    """Attach to the owner's cluster of this name. If no process has started it, start it."""
    _folder().mkdir(parents=True, exist_ok=True)
    with _file(name, "start").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if _state(name) is None:
            bring_up(name, options, owner)
    return attach(name)


def attach(name: str = "default") -> LocalCluster:
    """Return a handle for a cluster of another process, e.g. ``zkafka cluster up``.

    Topics, records and addresses work as in the owner's process. The handle cannot stop or kill servers
    (`ATTACHED_CLUSTER`), and closing it leaves them running. Raises `NO_CLUSTER_UP`.
    """
    from pyspark_zkafka.testing.local_cluster import LocalCluster

    state = _running(name)
    kinds = [server.partition("-")[0] for server in state.servers]
    cluster = LocalCluster(
        brokers=kinds.count("broker"),
        kafka_version=state.kafka_version,
        kraft=ZOOKEEPER not in kinds,
        controllers=kinds.count("controller") or None,
        secure=state.command_config is not None,
    )
    processes = ForeignProcesses(state.name, Path(state.folder), state.servers)
    cluster.adopt(processes, state.zookeeper_connect, state.client_properties())
    return cluster


def bring_down(name: str) -> None:
    """End a cluster. Returns when its daemon, servers and data are gone.

    Raises `NO_CLUSTER_UP`, and `CLUSTER_NOT_DOWN` after 60 s.
    """
    state = _running(name)
    os.kill(state.pid, signal.SIGTERM)
    if not Wait(_END_TIMEOUT_S).until(lambda: _state(name) is None):
        raise CLUSTER_NOT_DOWN(
            f"The local cluster {name!r} still runs {_END_TIMEOUT_S} s after SIGTERM to its daemon; "
            f"kill process {state.pid}, which ends the servers as well",
        )


def running_clusters() -> list[DetachedCluster]:
    """List the user's running clusters, by name."""
    names = sorted(file.stem for file in _folder().glob("*.json"))
    return [state for name in names if (state := _state(name)) is not None]


def main() -> None:
    """Fork the daemon, which keeps standard output open until it has written the result of its start there."""
    name, options, owner = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3] or 0)
    _folder().mkdir(parents=True, exist_ok=True)
    if os.fork() == 0:
        os.setsid()
        os.dup2(os.open(_file(name, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        _live(name, options, owner)


def _live(name: str, options: dict[str, Any], owner: int) -> None:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    try:
        _run(name, options, lambda: ended.wait(_CHECK_S) or bool(owner and not _is_alive(owner)))
    except ZKafkaError as error:
        os.write(1, str(error).encode())  # to the caller, or to the log if the cluster was ready
        sys.exit(1)
    if owner:  # no other process uses the name
        for kind in ("log", "lock", "start"):
            _file(name, kind).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _run(name: str, options: dict[str, Any], ended: Callable[[], bool]) -> None:
    from pyspark_zkafka.testing.local_cluster import LocalCluster  # lazy, because `status` and `down` need no Kafka client

    with _exclusively(name):
        _file(name, "json").unlink(missing_ok=True)  # left by a daemon that was killed
        try:
            with LocalCluster(**options) as cluster:
                partial = _file(name, "partial")
                partial.write_text(json.dumps(asdict(_describe(name, cluster)), indent=1), encoding="utf-8")
                partial.replace(_file(name, "json"))
                os.write(1, _READY.encode())
                os.dup2(2, 1)  # the caller waits for the end of standard output
                while not ended():
                    cluster.pid(0)  # raises if the supervisor was killed
        finally:  # only now that the servers are gone, because `bring_down` waits for the removal
            _file(name, "json").unlink(missing_ok=True)


def _describe(name: str, cluster: LocalCluster) -> DetachedCluster:
    if cluster.is_kraft:
        separate = [node for node in cluster.controller_ids if node not in cluster.broker_ids]
        ports = {f"controller-{node}": cluster.port(node, CONTROLLER_LISTENER) for node in separate}
    else:
        ports = {ZOOKEEPER: cluster.port(ZOOKEEPER)}
    ports |= {f"broker-{broker}": cluster.port(broker) for broker in cluster.broker_ids}
    return DetachedCluster(
        name=name,
        pid=os.getpid(),
        kafka_version=cluster.kafka_version,
        zookeeper_connect=None if cluster.is_kraft else cluster.zookeeper_connect,
        bootstrap_servers=cluster.bootstrap_servers,
        folder=str(cluster.log(0).parent),
        servers=ports,
        command_config=str(_write_client_properties(cluster)) if cluster.secure else None,
    )


def _write_client_properties(cluster: LocalCluster) -> Path:
    """Write what clients need to log in to a file of the cluster's private folder, which goes with the cluster."""
    file = cluster.log(0).with_name("client.properties")
    zookeeper = {} if cluster.is_kraft else {"zookeeper.connect": cluster.zookeeper_connect}
    properties = {**cluster.client_properties, **zookeeper}
    file.write_text(javaproperties.dumps(properties, timestamp=None), encoding="latin-1")
    return file


def _folder() -> Path:
    return cache_folder() / "clusters"


def _file(name: str, kind: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise BAD_CLUSTER(f"A cluster's name has letters, digits, - and _; found {name!r}")
    return _folder() / f"{name}.{kind}"


def _running(name: str) -> DetachedCluster:
    state = _state(name)
    if state is None:
        raise NO_CLUSTER_UP(f"No local cluster named {name!r} is running; start it with `zkafka cluster up`")
    return state


def _state(name: str) -> DetachedCluster | None:
    """Read a cluster's state. None if its daemon does not run."""
    try:
        with _file(name, "lock").open("r") as lock:
            if try_lock(lock, fcntl.LOCK_SH):
                return None
        return DetachedCluster(**json.loads(_file(name, "json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


@contextmanager
def _exclusively(name: str) -> Iterator[None]:
    with _file(name, "lock").open("a") as lock:
        # Readers of the state share the lock briefly.
        if not Wait(2).until(lambda: try_lock(lock, fcntl.LOCK_EX)):
            raise CLUSTER_ALREADY_UP(f"A local cluster named {name!r} is starting or running")
        yield


if __name__ == "__main__":
    main()
