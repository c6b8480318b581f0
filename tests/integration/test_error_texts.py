"""Errors as users see them: the last lines that a program prints, and Spark's log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_zkafka.testing import MockCluster

pytestmark = pytest.mark.long

DRIVER = Path(__file__).parent / "drivers" / "failures.py"

CONDITIONS = {
    "option": "OptionError: [INVALID_OPTIONS] ",
    "topic": "UnknownTopic: [UNKNOWN_TOPIC] There is no topic or partition no-such-topic;",
    "read": "UnreadableRecord: [MALFORMED_RECORD] ",
    "column": "OptionError: [INVALID_SCHEMA] ",
    "write": "DeliveryFailed: [DELIVERY_FAILED] ",
    "stream option": "OptionError: [INVALID_OPTIONS] ",
    "stream": "UnknownTopic: [UNKNOWN_TOPIC] There is no topic or partition no-such-stream;",
    "stream task": "UnreadableRecord: [MALFORMED_RECORD] ",
}


@pytest.fixture
def shown(zkafka_mock_cluster: MockCluster, tmp_path: Path) -> tuple[dict[str, str], str]:
    """The text that the driver prints for each step, and its log."""
    zkafka_mock_cluster.create_topic("text")
    zkafka_mock_cluster.produce("text", [{"value": b"no JSON"}])
    command = [sys.executable, str(DRIVER), zkafka_mock_cluster.bootstrap_servers, "text", str(tmp_path)]
    environ = {name: value for name, value in os.environ.items() if name != "SPARK_HIDE_TRACEBACK"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environ)
    return json.loads(done.stdout), done.stderr


def test_errors_end_with_their_text(shown: tuple[dict[str, str], str]) -> None:
    """A program's output ends with one line of condition and remedy, without a Python traceback of the worker.

    Only Spark's SQLSTATE or the plan of a stream may follow.
    """
    printed, log = shown
    assert printed.keys() == CONDITIONS.keys()
    for step, condition in CONDITIONS.items():
        text = printed[step]
        assert text.count("Traceback (most recent call last)") == 1, text  # the driver's own traceback
        assert "pyspark_zkafka/" not in text, text
        lines = text.partition("=== Streaming Query ===")[0].splitlines()
        if lines[-1].startswith(" SQLSTATE: "):
            lines.pop()
        assert f"pyspark_zkafka.errors.{condition}" in lines[-1]
        assert text.count(condition) == 1
    assert "Traceback" not in log
    assert log.count(CONDITIONS["stream"]) == 1
    assert "UnknownTopic: [UNKNOWN_TOPIC] There is no topic or partition no-such-topic" not in log
