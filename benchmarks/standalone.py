"""A Spark standalone cluster of two workers with one core each: executors that are other processes than the driver."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import URLError

from pyspark_zkafka.testing.ports import LOOPBACK, PortReservations
from pyspark_zkafka.testing.processes import ServerProcesses
from pyspark_zkafka.testing.waiting import Deadline

WORKERS = ("worker-a", "worker-b")
_PACKAGE = "org.apache.spark.deploy"
_MEMORY = "2g"


@contextmanager
def standalone() -> Iterator[str]:
    """The master's URL; master and workers end with the ``with`` block, or with this process."""
    ports, servers = PortReservations(), ServerProcesses()
    with closing(ports), closing(servers):
        servers.open()
        port, page = ports.take(), ports.take()
        url = f"spark://{LOOPBACK}:{port}"
        _start(servers, "master", "master.Master", port, page)
        for name in WORKERS:
            size = ["--cores", "1", "--memory", _MEMORY, "--work-dir", str(servers.folder / name), url]
            _start(servers, name, "worker.Worker", ports.take(), ports.take(), *size)
        status = f"http://{LOOPBACK}:{page}/json/"
        if Deadline(60).until(lambda: _alive(status) == len(WORKERS) or None) is None:
            raise TimeoutError("\n".join(servers.log_tail(name) for name in ("master", *WORKERS)))
        yield url


def _start(servers: ServerProcesses, name: str, main: str, port: int, page: int, *arguments: str) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    environ = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "192m"}
    command = [str(home / "bin" / "spark-class"), f"{_PACKAGE}.{main}", "--host", LOOPBACK, "--port", str(port)]
    servers.start(name, [*command, "--webui-port", str(page), *arguments], environ)


def _alive(status_page: str) -> int:
    """How many workers the master tells of; 0 while it does not answer."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(status_page, timeout=5) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
    except (URLError, ConnectionError, TimeoutError):
        return 0
