"""The pytest plugin: its options, and its cost for runs that do not use it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

CLIENTS = ("kazoo", "confluent_kafka", "pyarrow", "rich", "pyspark_zkafka.testing.local_cluster")


@pytest.mark.parametrize(
    ("arguments", "version", "brokers"),
    [((), "3.9.1", 3), (("--zkafka-kafka-version=0.8.2.2", "--zkafka-brokers=1"), "0.8.2.2", 1)],
)
def test_options(pytester: pytest.Pytester, arguments: tuple[str, ...], version: str, brokers: int) -> None:
    """Kafka's version and the number of brokers can be set for a run of pytest."""
    config = pytester.parseconfig(*arguments)
    assert config.getoption("--zkafka-kafka-version") == version
    assert config.getoption("--zkafka-brokers") == brokers


def test_number_of_brokers(pytester: pytest.Pytester) -> None:
    """A number of brokers that is no number is refused."""
    with pytest.raises(pytest.UsageError, match="--zkafka-brokers: invalid int value: 'many'"):
        pytester.parseconfig("--zkafka-brokers=many")


def test_import() -> None:
    """The plugin imports no client, since each run of pytest imports it where the package is installed."""
    code = "import sys, pyspark_zkafka.testing.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(CLIENTS) & set(done.stdout.split())
