"""A Spark standalone cluster on this machine, with executors in separate processes."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.processes import LOOPBACK, ServerProcesses, Wait
from tests.support.quick_spark import JVM_OPTIONS

__all__ = ["SparkStandalone", "spark_standalone"]

_PACKAGE = "org.apache.spark.deploy"


@dataclass(frozen=True)
class SparkStandalone:
    """The master's URL, ``spark://host:port``, and the folder of each worker."""

    master: str
    workers: list[Path]


@contextmanager
def spark_standalone(
    workers: int = 2,
    worker_memory: str = "512m",
    startup_timeout_s: float = 180,
    environ: Mapping[str, str] | None = None,
    *,
    apart: bool = False,
    jvm_options: str = JVM_OPTIONS,
) -> Iterator[SparkStandalone]:
    """Run a master and workers with one core each. They end with the ``with`` block, and always with this process.

    Parameters
    ----------
    workers : int
    worker_memory : str
        The memory of a worker for executors, as Spark writes sizes.
    startup_timeout_s : float
        Time limit of the workers' registration.
    environ : Mapping of str to str, optional
        Additional environment variables of master and workers.
    apart : bool
        True to give each worker its own address, as Spark runs no two attempts of a task on one host.
    jvm_options : str
        The options of all JVMs, also of executors. By default, JVMs start fast, and compile less well.

    Raises
    ------
    LocalClusterError
        ``NOT_READY``.
    """
    import pyspark

    servers = ServerProcesses()
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    spark = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "192m", **(environ or {})}
    spark |= {"JDK_JAVA_OPTIONS": jvm_options}

    def start(name: str, main: str, *arguments: str, host: str = LOOPBACK) -> None:
        address = ["--host", host, "--port", str(servers.port(name)), "--webui-port", str(servers.port(name, "page"))]
        servers.start(name, [str(home / "bin" / "spark-class"), f"{_PACKAGE}.{main}", *address, *arguments], spark)

    with closing(servers):
        servers.open()
        port, page = servers.port("master"), servers.port("master", "page")
        found = SparkStandalone(f"spark://{LOOPBACK}:{port}", [servers.folder / f"worker-{n}" for n in range(workers)])
        start("master", "master.Master")
        for number, folder in enumerate(found.workers, 2):
            size = ["--cores", "1", "--memory", worker_memory, "--work-dir", str(folder)]
            start(folder.name, "worker.Worker", *size, found.master, host=f"127.0.0.{number}" if apart else LOOPBACK)
        status_page = f"http://{LOOPBACK}:{page}/json/"
        if not Wait(startup_timeout_s).until(lambda: _alive(status_page) == workers):
            logs = "\n".join(servers.log_tail(name) for name in ("master", *(folder.name for folder in found.workers)))
            raise LocalClusterError(
                "NOT_READY",
                f"Spark's master has not {workers} workers after {startup_timeout_s:g} s; the logs end with\n{logs}",
            )
        yield found


def _alive(status_page: str) -> int:
    """Return the number of live workers; 0 while the master does not answer, or shows another page during its start."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(status_page, timeout=5) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
    except (URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
        return 0
