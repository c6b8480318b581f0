"""The command ``zkafka exporter`` as a process, scraped over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Exporter", "Samples", "running_exporter", "value"]

_MAIN = [sys.executable, "-c", "from pyspark_zkafka.tools import main; main()"]
_COMMAND = [*_MAIN, "exporter", "--listen-address", "127.0.0.1:0", "--timeout", "30"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Exporter:
    """A running exporter."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        line = process.stderr.readline()
        found = re.search(r"http://\S+/metrics", line)
        assert found, line + process.stderr.read()
        self.url = found.group()
        self.log = ""  # complete after its end

    def scrape(self) -> Samples:
        """Return the values of one scrape, by name and labels."""
        with urlopen(self.url, timeout=60) as response:
            text = response.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@contextmanager
def running_exporter(*options: str, **environment: str) -> Iterator[Exporter]:
    """Run an exporter with these options and additional environment variables, and end it with Ctrl-C."""
    variables = {**os.environ, **environment}
    with subprocess.Popen([*_COMMAND, *options], env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            exporter = Exporter(process)
            yield exporter
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stderr is not None
            exporter.log = process.stderr.read()
        finally:
            process.kill()


def value(samples: Samples, name: str, **labels: object) -> float | None:
    """Return a sample's value, or None without such a sample."""
    return samples.get((name, frozenset((label, str(text)) for label, text in labels.items())))
