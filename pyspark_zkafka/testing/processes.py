"""Server processes that end with the process that started them, their ports, and limited waits."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.conditions import (
    ATTACHED_CLUSTER,
    CLUSTER_NOT_RUNNING,
    NO_FREE_PORT,
    NOT_SETTLED,
    SERVER_DIED,
    SERVER_NOT_STARTED,
    SUPERVISOR_GONE,
)

DATA_VARIABLE = "ZKAFKA_CLUSTER_DATA"
"""The environment variable with the folder for the clusters' data; by default, the folder of temporary files."""

LOOPBACK = "127.0.0.1"
SETTLE_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30
_SUPERVISOR = Path(__file__).with_name("_supervisor.py")
# Below Linux's range of ephemeral ports, so that no outgoing connection takes the port of a stopped broker.
_FIRST_PORT, _LAST_PORT = 20000, 32000
_TRIES = 2000

_Found = TypeVar("_Found")


class Wait:
    """A wait of limited length, on the monotonic clock. It starts when it is constructed."""

    def __init__(
        self,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        poll_s: float = 0.05,
    ) -> None:
        self._clock, self._sleep, self._poll_s = clock, sleep, poll_s
        self._end = clock() + timeout_s
        self.timeout_s = timeout_s

    @property
    def left_s(self) -> float:
        """Seconds until the end of the wait. 0 after the end."""
        return max(0.0, self._end - self._clock())

    def until(self, probe: Callable[[], _Found]) -> _Found | None:
        """Return the first result of `probe` that is true, or None after the timeout. Calls `probe` at least once."""
        while True:
            if found := probe():
                return found
            if self.left_s == 0:
                return None
            self._sleep(min(self._poll_s, self.left_s))


def settle(done: Callable[[], bool], lack: str, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
    """Wait until `done` is true. Raises `NOT_SETTLED` after the timeout."""
    if not Wait(timeout_s).until(done):
        raise unsettled(lack)


def unsettled(lack: str) -> LocalClusterError:
    """Return the error of a cluster that did not reach a state in time."""
    return NOT_SETTLED(f"The local cluster has not settled: {lack}")


class PortReservations:
    """Ports that are reserved among all local clusters of the user, each by a locked file, until the process ends."""

    def __init__(self, chooser: random.Random | None = None) -> None:
        self._held: list[TextIO] = []
        self._chooser = chooser or random.SystemRandom()

    def take(self) -> int:
        """Reserve a free port until `close`. Raises `NO_FREE_PORT`."""
        for _ in range(_TRIES):
            port = self._chooser.randrange(_FIRST_PORT, _LAST_PORT)
            reserved = _reserve(port)
            if reserved is None:
                continue
            if _is_free(port):
                self._held.append(reserved)
                return port
            reserved.close()
        found = f"No free port was found in {_TRIES} attempts between {_FIRST_PORT} and {_LAST_PORT}"
        raise NO_FREE_PORT(f"{found}; end other servers")

    def close(self) -> None:
        while self._held:
            self._held.pop().close()


def _reserve(port: int) -> TextIO | None:
    folder = Path(tempfile.gettempdir()) / f"zkafka-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / str(port)).open("a")
    if try_lock(file, fcntl.LOCK_EX):
        return file
    file.close()
    return None


def try_lock(file: TextIO, kind: int) -> bool:
    """Lock a file, by `fcntl.LOCK_EX` or `LOCK_SH`. Returns False if another process has locked it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like Java's server sockets
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class ServerProcesses:
    """Named server processes under one supervisor, with their ports, and a folder for their data.

    The servers and the folder are gone after `close`, or if this process dies. Thread-safe, except for the first request
    of a port. In a forked child, `close` does nothing, and calls that concern a process raise CLUSTER_NOT_RUNNING.
    """

    def __init__(self) -> None:
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._owner = -1
        self._folder: Path | None = None
        self._reserved = PortReservations()
        self._ports: dict[tuple[str, str], int] = {}

    @property
    def folder(self) -> Path:
        """The folder of the servers' data, configuration and logs."""
        if self._folder is None:
            raise _ended()
        return self._folder

    def open(self) -> None:
        """Start the supervisor. Raises `SERVER_NOT_STARTED` if the folder for the data cannot be made."""
        self._owner = os.getpid()
        base = os.environ.get(DATA_VARIABLE) or tempfile.gettempdir()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="zkafka-", dir=Path(base).absolute()))
        except OSError as error:
            raise SERVER_NOT_STARTED(
                f"The servers' data cannot be stored in {base}: {error.strerror}; create this folder, or name another one "
                f"in {DATA_VARIABLE}",
            ) from error
        self._supervisor = subprocess.Popen(
            # -I and -S keep a test's PYTHONPATH and a site's start-up files away from the supervisor.
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(self._owner), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at a terminal interrupts only the parent
            cwd="/",
        )

    def close(self) -> None:
        """Kill all servers, remove the folder, and wait for both."""
        supervisor = self._supervisor
        if supervisor is None or self._owner != os.getpid():
            return
        with self._lock, supervisor:
            self._supervisor = None
            with contextlib.suppress(BrokenPipeError):
                supervisor.stdin.close()  # type: ignore[union-attr]
            try:
                supervisor.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                supervisor.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._folder = None
        self._reserved.close()
        self._ports.clear()

    def port(self, name: str, purpose: str = "") -> int:
        """Return a free port for a server. All calls until `close` return the same port."""
        if self._supervisor is None:
            raise _ended()
        key = (name, purpose)
        if key not in self._ports:
            self._ports[key] = self._reserved.take()
        return self._ports[key]

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> int:
        """Start a server that appends its output to its log, and return its process id."""
        server = {"name": name, "command": list(command), "environ": {**os.environ, **environ}}
        places = {"log": str(self.log(name)), "folder": str(self.folder)}
        return int(self._ask({"do": "start", "server": {**server, **places}})["pid"])

    def send(self, name: str, number: signal.Signals) -> bool:
        """Send a signal. Returns False if the server does not run."""
        return bool(self._ask({"do": "signal", "name": name, "signal": int(number)})["sent"])

    def end(self, name: str, number: signal.Signals, timeout_s: float) -> bool:
        """Send a signal to a server, which may be paused, and wait for its end. Returns False after the timeout."""
        self.send(name, number)
        self.send(name, signal.SIGCONT)
        return bool(Wait(timeout_s).until(lambda: self.exit_status(name) is not None))

    def exit_status(self, name: str) -> int | None:
        """Return a server's exit status, negative for a signal. None while the server runs."""
        _, status = self._pid_and_status(name)
        return status

    def pid(self, name: str) -> int | None:
        """Return the process id of a server. None if the server does not run."""
        pid, status = self._pid_and_status(name)
        return pid if status is None else None

    def log(self, name: str) -> Path:
        """Return the path of a server's log."""
        return self.folder / f"{name}.log"

    def log_tail(self, name: str, lines: int = 20) -> str:
        """Return the last lines of a server's log, or a note that it is empty."""
        try:
            with self.log(name).open(encoding="utf-8", errors="replace") as log:
                tail = "".join(deque(log, maxlen=lines)).rstrip()
        except FileNotFoundError:
            tail = ""
        return tail or "(the log is empty)"

    def raise_if_dead(self, name: str) -> None:
        """Raise `SERVER_DIED`, with the end of the log, if a server has ended."""
        status = self.exit_status(name)
        if status is None:
            return
        log = self.log_tail(name)
        ended = f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
        taken = "another program took its port, start the cluster again; " if "Address already in use" in log else ""
        message = f"{name} ended with {ended}; {taken}its log ends with\n{log}"
        raise SERVER_DIED(message, server=name, status=status)

    def _pid_and_status(self, name: str) -> tuple[int, int | None]:
        pid, status = self._ask({"do": "status"})["servers"].get(name, (-1, -1))
        return pid, status

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            supervisor = self._supervisor
            if supervisor is None or self._owner != os.getpid():
                raise _ended()
            try:
                supervisor.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
                supervisor.stdin.flush()  # type: ignore[union-attr]
                line = supervisor.stdout.readline()  # type: ignore[union-attr]
            except BrokenPipeError:
                line = b""
        if not line:
            raise SUPERVISOR_GONE(
                "The servers' parent process was killed, perhaps for lack of memory, and the servers with it; "
                "start the cluster again",
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            reason = f"The operating system did not start the server: {answer['error']}"
            raise SERVER_NOT_STARTED(reason)
        return answer


class ForeignProcesses(ServerProcesses):
    """Server processes of another process, with known ports and logs. They cannot be started or ended."""

    def __init__(self, cluster: str, folder: Path, ports: Mapping[str, int]) -> None:
        super().__init__()
        self._cluster, self._folder = cluster, folder
        self._ports = {(server, ""): port for server, port in ports.items()}

    def port(self, name: str, purpose: str = "") -> int:
        if (name, purpose) not in self._ports:
            self._refuse()
        return self._ports[name, purpose]

    def exit_status(self, name: str) -> int | None:
        """Return None: this process does not know whether the server still runs. Waits then end with a time-out."""
        return None

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ATTACHED_CLUSTER(
            f"The local cluster {self._cluster!r} belongs to another process, and its servers cannot be started or stopped "
            "from here; start a LocalCluster for that",
        )


def _ended() -> LocalClusterError:
    return CLUSTER_NOT_RUNNING(
        "The local cluster does not run in this process: it was not started, was closed, or belongs to the parent process; "
        "use it inside `with LocalCluster() as cluster:`",
    )
