"""The parent process of a cluster's servers, which kills them when its own parent ends.

Runs as an isolated script with only the standard library, to start in about 30 ms. Its arguments are the parent's process
id and the data folder. It reads JSON requests from standard input, one per line, and answers each with one JSON line. When
standard input ends or the parent changes, it kills every server (SIGKILL also ends a paused process), removes the data
folder and exits. If the supervisor is killed, Linux kills the servers with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_S = 0.5
_DROP_TRIES = 20


class Supervisor:
    """Starts and signals the servers, by name."""

    def __init__(self) -> None:
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request: ``start``, ``signal`` or ``status``."""
        try:
            if request["do"] == "start":
                return {"pid": self._start(**request["server"])}
            if request["do"] == "signal":
                return {"sent": self._signal(request["name"], request["signal"])}
            return {"servers": {name: [s.pid, s.poll()] for name, s in self._servers.items()}}
        except OSError as exc:
            return {"error": str(exc)}

    def _start(self, name: str, command: list[str], environ: dict[str, str], log: str, folder: str) -> int:
        with open(log, "ab") as output:
            self._servers[name] = subprocess.Popen(
                command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                preexec_fn=self._die_with_me,
            )  # fmt: skip
        return self._servers[name].pid

    def _die_with_me(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def _signal(self, name: str, number: int) -> bool:
        server = self._servers.get(name)
        if server is None or server.poll() is not None:
            return False
        server.send_signal(number)
        if number == signal.SIGSTOP and hasattr(os, "waitid"):  # on macOS since Python 3.13
            # The threads of a process stop one after the other; wait for the last one.
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return True

    def end(self) -> None:
        """Kill every server and wait until all are gone."""
        for server in self._servers.values():
            server.kill()
        for server in self._servers.values():
            server.wait()


def serve(supervisor: Supervisor, parent: int) -> None:
    """Answer requests until standard input ends or the parent is gone."""
    pending = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], _PARENT_CHECK_S)[0]:
            continue
        received = os.read(0, 65536)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            os.write(1, json.dumps(supervisor.answer(json.loads(line))).encode() + b"\n")


def main() -> None:
    """Serve, and finally kill the servers and remove the folder."""
    parent, folder = int(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    supervisor = Supervisor()
    try:
        serve(supervisor, parent)
    except BrokenPipeError:
        pass  # the parent is gone
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.end()
        for _ in range(_DROP_TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break


if __name__ == "__main__":
    main()
