"""Kafka's Java consumer in a group that brokers coordinate, as a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from pyspark_zkafka.testing.jars import compiled_program, find_java
from pyspark_zkafka.testing.spec import jvm_command

__all__ = ["GROUP_MEMBERS", "VERSIONS", "JavaConsumer"]

VERSIONS = ("3.9.1", "4.3.1")
"""Versions of kafka-clients to test with."""

GROUP_MEMBERS = Path(__file__).with_name("GroupMembers.java")
"""A program with several members, for `compiled_program`."""

_HEAP_MB = 64
_PATIENCE_S = 60


class JavaConsumer:
    """A running consumer of one version of kafka-clients, which commits after each poll.

    Parameters
    ----------
    properties : mapping
        The consumer's properties.
    log : Path
        A file for its log.
    """

    def __init__(self, topic: str, properties: Mapping[str, str], log: Path, version: str = "3.9.1") -> None:
        java = find_java()
        classpath, main = compiled_program(java, version, Path(__file__).with_name("JavaConsumer.java"))
        arguments = [topic, *(f"{name}={value}" for name, value in properties.items())]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                jvm_command(java, _HEAP_MB, [], main, arguments),
                env={**os.environ, "CLASSPATH": classpath},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.records: list[tuple[int, int]] = []
        self._log = log
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        """True until the process ends; its log has the error if it failed."""
        return self._process.poll() is None

    def close(self) -> None:
        """Close the consumer. Returns once it has committed and left the group; raises if it failed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(_PATIENCE_S)
        self._reader.join(_PATIENCE_S)
        assert status == 0, self._log.read_text()

    def kill(self) -> None:
        """Kill the process if it runs."""
        self._process.kill()
        self._process.wait(_PATIENCE_S)
        self._reader.join(_PATIENCE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                partition, offset = line.split()
                self.records.append((int(partition), int(offset)))
