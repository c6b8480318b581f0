"""Storage of KRaft's nodes, formatted by a fake Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.servers import format_storage


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """The configuration files of two nodes, each in its own folder."""
    found = [tmp_path / name / "server.properties" for name in ("broker-1", "broker-2")]
    for file in found:
        file.parent.mkdir()
        file.write_text("")
    return found


@pytest.fixture
def jars(tmp_path: Path) -> str:
    """A class path of one jar."""
    jar = tmp_path / "kafka.jar"
    jar.touch()
    return str(jar)


def test_each_node_is_formatted(fake_java: Any, files: list[Path], jars: str) -> None:
    """Each node is formatted with the same id in its own folder, with Kafka's jars."""
    fake_java.runs_as('echo "$CLASSPATH $@" > formatted')
    format_storage(fake_java.java, jars, "-an-id", files)
    for file in files:
        text = (file.parent / "formatted").read_text()
        assert text.startswith(f"{jars} ")
        assert text.endswith(f" format --cluster-id=-an-id --config {file}\n")


def test_node_that_cannot_be_formatted(fake_java: Any, files: list[Path], jars: str) -> None:
    """If a node cannot be formatted, the error has the status and the output of the tool."""
    fake_java.runs_as('case "$*" in *broker-2*) echo "Log directory is not empty" >&2; exit 1;; esac')
    with pytest.raises(LocalClusterError, match="STORAGE_NOT_FORMATTED") as caught:
        format_storage(fake_java.java, jars, "id", files)
    expected = "Kafka's tool that formats a node's storage ended with 1; its output is\nLog directory is not empty"
    assert caught.value.message == expected


def test_no_node_is_left_behind(fake_java: Any, files: list[Path], jars: str) -> None:
    """The first failure ends the tools of other nodes."""
    fake_java.runs_as('case "$*" in *broker-1*) exit 1;; esac; exec sleep 600')
    with pytest.raises(LocalClusterError, match="ended with 1"):
        format_storage(fake_java.java, jars, "id", files)
