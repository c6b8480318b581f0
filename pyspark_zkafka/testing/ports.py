"""Free ports on the loopback interface, which stay reserved while a server is down."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import TextIO

from pyspark_zkafka.errors import LocalClusterError

__all__ = ["LOOPBACK", "PortReservations"]

LOOPBACK = "127.0.0.1"
# Below Linux's range of ephemeral ports: no outgoing connection takes the port of a stopped broker.
_FIRST, _LAST = 20000, 32000
_TRIES = 2000


class PortReservations:
    """Ports reserved among all local clusters of the user, by a lock on a file for each, which ends with the process."""

    def __init__(self, chooser: random.Random | None = None) -> None:
        self._held: list[TextIO] = []
        self._chooser = chooser or random.SystemRandom()

    def take(self) -> int:
        """One free port, reserved until `close`; raises `NO_FREE_PORT`."""
        for _ in range(_TRIES):
            port = self._chooser.randrange(_FIRST, _LAST)
            reserved = _reserve(port)
            if reserved is None:
                continue
            if _is_free(port):
                self._held.append(reserved)
                return port
            reserved.close()
        raise LocalClusterError(
            "NO_FREE_PORT", f"No free port was found among {_TRIES} between {_FIRST} and {_LAST}; end other servers"
        )

    def close(self) -> None:
        """Release all ports."""
        while self._held:
            self._held.pop().close()


def _reserve(port: int) -> TextIO | None:
    folder = Path(tempfile.gettempdir()) / f"zkafka-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / str(port)).open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java's server sockets
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
