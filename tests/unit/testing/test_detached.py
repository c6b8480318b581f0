"""Names and files of detached clusters, none of which is running."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import detached
from pyspark_zkafka.testing.detached import bring_down, bring_up, running_clusters


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the clusters' files in a new cache."""
    monkeypatch.setenv("ZKAFKA_CACHE", str(tmp_path))
    folder = tmp_path / "clusters"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-a", "a b"])
def test_malformed_names_are_refused(name: str) -> None:
    """A name that cannot be a plain file name is refused."""
    with pytest.raises(LocalClusterError, match="BAD_CLUSTER"):
        bring_up(name, {})


def test_no_cluster() -> None:
    """A cluster that is not running cannot be brought down."""
    assert running_clusters() == []
    with pytest.raises(LocalClusterError, match=r"NO_CLUSTER_UP\] No local cluster named 'a' is running"):
        bring_down("a")


def test_state_of_a_daemon_that_is_gone(folder: Path) -> None:
    """A state file whose daemon no longer holds its lock does not count."""
    (folder / "a.json").write_text("{}")
    (folder / "a.lock").touch()
    assert running_clusters() == []


def test_state_of_a_killed_daemon_during_a_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a cluster starts, the state of a killed daemon does not count: its pid may be another process's."""
    left = detached.DetachedCluster("a", os.getpid(), "3.9.1", None, "127.0.0.1:9", "/tmp", {})
    (folder / "a.json").write_text(json.dumps(asdict(left)))
    seen: list[object] = []

    class Starting:
        def __enter__(self) -> None:
            seen.append(running_clusters())
            raise LocalClusterError("NOT_READY", "it does not start")

        def __exit__(self, *args: object) -> None: ...

    monkeypatch.setattr("pyspark_zkafka.testing.local_cluster.LocalCluster", Starting)
    with pytest.raises(LocalClusterError, match="NOT_READY"):
        detached._run("a", {}, lambda: True)
    assert seen == [[]]


@pytest.mark.parametrize(
    ("options", "fetched"),
    [({}, ["3.9.1", "3.9.1"]), ({"kafka_version": "1.1.1"}, ["1.1.1", "3.9.1"]), ({"kafka_version": "4.3.1"}, ["4.3.1"])],
)
def test_jars(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], fetched: list[str]) -> None:
    """The jars of brokers and of ZooKeeper are fetched in the caller's process, before the daemon starts."""
    found: list[str] = []
    monkeypatch.setattr(detached, "find_java", lambda: None)
    monkeypatch.setattr(detached, "kafka_classpath", found.append)
    monkeypatch.setattr(detached.subprocess, "run", lambda *given, **more: SimpleNamespace(stdout="", stderr="no"))
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_UP"):
        bring_up("a", options)
    assert found == fetched


def test_impossible_clusters_are_refused_at_once(folder: Path) -> None:
    """A cluster that cannot be started is refused before jars are fetched, and no daemon is started."""
    with pytest.raises(LocalClusterError, match=r"^\[BAD_CLUSTER\] Kafka 2\.6\.3 cannot be secure"):
        bring_up("a", {"kafka_version": "2.6.3", "secure": True})
    assert list(folder.iterdir()) == []
