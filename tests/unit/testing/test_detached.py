"""Names and files of detached clusters, none of which is running."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.detached import bring_down, bring_up, running_clusters


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the clusters' files in a new cache."""
    monkeypatch.setenv("ZKAFKA_CACHE", str(tmp_path))
    folder = tmp_path / "clusters"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-a", "a b"])
def test_names(name: str) -> None:
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
