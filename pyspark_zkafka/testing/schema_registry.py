"""A real schema registry on this machine for a `with` block."""

from __future__ import annotations

import urllib.request

from pyspark_zkafka.testing.conditions import NOT_READY
from pyspark_zkafka.testing.jars import fetch_archive, find_java
from pyspark_zkafka.testing.processes import LOOPBACK, ServerProcesses, Wait

_ARCHIVE = "io.apicurio:apicurio-registry-app:2.6.13.Final:zip:all"
_NAME = "schema-registry"
_PROBE_TIMEOUT_S = 5


class LocalSchemaRegistry:
    """Apicurio Registry 2.6, which has Confluent's API, on 127.0.0.1, with its schemas in memory.

    It answers when `start` returns, and is gone when `close` returns or this process dies. Needs Java 17 and, the first
    time, the network.

    Parameters
    ----------
    heap_mb : int
        The largest heap, in MiB.
    startup_timeout_s : float
        Time limit of `start`, in seconds, after the archive is fetched.

    Examples
    --------
        with LocalSchemaRegistry() as registry:
            frame = spark.read.format("zkafka").option("schema.registry.url", registry.url)
    """

    def __init__(self, *, heap_mb: int = 400, startup_timeout_s: float = 120.0) -> None:
        self._heap_mb = heap_mb
        self._timeout_s = startup_timeout_s
        self._processes = ServerProcesses()

    @property
    def url(self) -> str:
        """The address of Confluent's API, for ``schema.registry.url``. The same until `close`."""
        return f"http://{LOOPBACK}:{self._processes.port(_NAME)}/apis/ccompat/v7"

    def start(self) -> LocalSchemaRegistry:
        """Start the registry, and return it when it answers; takes about 5 s. If the start fails, nothing remains."""
        java = find_java()
        (jar,) = fetch_archive(_ARCHIVE).glob("*-runner.jar")
        command = [str(java), f"-Xmx{self._heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
        try:
            self._processes.open()
            address = {"QUARKUS_HTTP_HOST": LOOPBACK, "QUARKUS_HTTP_PORT": str(self._processes.port(_NAME))}
            self._processes.start(_NAME, command, address)
            if not Wait(self._timeout_s).until(self._answers):
                raise NOT_READY(
                    f"The schema registry did not answer within {self._timeout_s:.0f} s; its log ends with\n"
                    f"{self._processes.log_tail(_NAME)}",
                )
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the registry and forget its schemas; does nothing if it does not run."""
        self._processes.close()

    def _answers(self) -> bool:
        self._processes.raise_if_dead(_NAME)
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=_PROBE_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:  # also URLError
            return False

    def __enter__(self) -> LocalSchemaRegistry:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()
