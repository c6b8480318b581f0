"""The daemon that holds a detached cluster; started by `detached.bring_up` alone.

Arguments: the cluster's name, the options of `LocalCluster` as JSON. The process that was started waits until the cluster
is ready (exit status 0) or has failed (1, with the error on standard output); a child of it lives on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.testing.detached import hold, log_file

_LOOK_S = 5
_READY = b"ready"


def main() -> None:
    """Fork the daemon, and tell how its start went."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    log_file(name).parent.mkdir(parents=True, exist_ok=True)
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        _live(name, options, writer)
    else:
        os.close(writer)
        _report(reader)


def _live(name: str, options: dict[str, object], writer: int) -> None:
    os.setsid()
    log = os.open(log_file(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: told_to_end.set())

    def ready() -> None:
        os.write(writer, _READY)
        os.close(writer)

    try:
        hold(name, options, lambda: told_to_end.wait(_LOOK_S), ready)
    except ZKafkaError as error:
        os.write(2, f"{error}\n".encode())
        if not told_to_end.is_set():
            os.write(writer, str(error).encode())
        sys.exit(1)


def _report(reader: int) -> None:
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    if said != _READY:
        sys.stdout.write(said.decode(errors="replace"))
        sys.exit(1)


if __name__ == "__main__":
    main()
