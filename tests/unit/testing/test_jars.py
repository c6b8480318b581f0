"""fetch_jars with a fake Ivy."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import cache_folder, fetch_jars
from pyspark_zkafka.testing.jars import follow, ivy_file, progress_bar
from tests.support.eventually import eventually

FETCH = (
    "from pyspark_zkafka.testing import fetch_jars; print(*(p.read_text().strip() for p in fetch_jars('org.fake:one:1.0')))"
)


def start_fetch() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True)


def complete_folders() -> list[Path]:
    return [p for p in (cache_folder() / "jars").iterdir() if p.is_dir() and not p.name.startswith(".partial-")]


def test_fetched_once(fake_java: Any) -> None:
    """A second call lists the folder without running Ivy."""
    first = fetch_jars("org.fake:one:1.0")
    assert [p.name for p in first] == ["one-1.0.jar"]
    assert fetch_jars("org.fake:one:1.0") == first
    assert fake_java.count == 1


def test_sets_are_apart(fake_java: Any) -> None:
    """Other coordinates, and the same ones without their dependencies, have their own folders."""
    folders = {
        fetch_jars("org.fake:one:1.0")[0].parent,
        fetch_jars("org.fake:one:1.0", "org.fake:two:1.0")[0].parent,
        fetch_jars("org.fake:one:1.0", transitive=False)[0].parent,
    }
    assert len(folders) == 3
    assert 'transitive="false"' in (fake_java.folder / "asked.xml").read_text()


def test_processes_wait_for_each_other(fake_java: Any) -> None:
    """Processes that fetch the same jar at the same time get the whole jar from a single run of Ivy."""
    fake_java.does("sleep 1")
    fetches = [start_fetch() for _ in range(3)]
    assert [p.communicate()[0].strip() for p in fetches] == ["whole"] * 3
    assert fake_java.count == 1


def test_failure_leaves_nothing(fake_java: Any) -> None:
    """A failed fetch quotes Ivy's last lines and leaves no folder, and the next call tries again."""
    fake_java.does("echo 'UNRESOLVED DEPENDENCY: one'; exit 1")
    with pytest.raises(LocalClusterError, match=r"JARS_NOT_FETCHED.*org\.fake:one:1\.0(?s:.*)UNRESOLVED DEPENDENCY: one"):
        fetch_jars("org.fake:one:1.0")
    assert list((cache_folder() / "jars").glob("*one*")) == []
    fake_java.does()
    assert fetch_jars("org.fake:one:1.0")[0].read_text() == "whole\n"


def test_killed_fetch_leaves_nothing_complete(fake_java: Any, tmp_path: Path) -> None:
    """After SIGKILL during a fetch, nothing looks complete, and the next call fetches everything."""
    started = tmp_path / "started"
    fake_java.does(f"touch {started}; sleep 1")
    fetch = start_fetch()
    eventually(started.exists)
    fetch.send_signal(signal.SIGKILL)
    fetch.communicate()
    assert complete_folders() == []
    fake_java.does()
    assert fetch_jars("org.fake:one:1.0")[0].read_text() == "whole\n"
    assert list((cache_folder() / "jars").glob(".partial-*")) == []


def test_no_jar_at_all_is_a_failure(fake_java: Any) -> None:
    """If Ivy reports success without any jar, the fetch fails."""
    fake_java.does('rm "$into/one-1.0.jar"; exit 0')
    with pytest.raises(LocalClusterError, match="JARS_NOT_FETCHED"):
        fetch_jars("org.fake:one:1.0")


def test_site_settings(fake_java: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ivy gets the site's settings from the home folder, or from the file named by the environment."""
    seen = fake_java.folder / "settings"
    fetch_jars("org.fake:one:1.0")
    assert not seen.exists()
    own = tmp_path / "home" / ".ivy2" / "ivysettings.xml"
    own.parent.mkdir()
    own.write_text("<ivysettings/>")
    fetch_jars("org.fake:one:2.0")
    assert seen.read_text().strip() == str(own)
    named = tmp_path / "named.xml"
    named.write_text("<ivysettings/>")
    monkeypatch.setenv("ZKAFKA_IVY_SETTINGS", str(named))
    fetch_jars("org.fake:one:3.0")
    assert seen.read_text().strip() == str(named)


def test_missing_settings_are_refused(fake_java: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settings file that is named but missing is an error, not ignored."""
    monkeypatch.setenv("ZKAFKA_IVY_SETTINGS", "/nowhere/settings.xml")
    with pytest.raises(LocalClusterError, match=r"/nowhere/settings\.xml, which is no file"):
        fetch_jars("org.fake:one:1.0")


@pytest.mark.parametrize("bad", ["one", "org:one", "org:one:", "a:b:c:d", "../a:b:c"])
def test_bad_coordinates(bad: str) -> None:
    """Malformed coordinates are refused with the right form."""
    with pytest.raises(LocalClusterError, match="group:artifact:version"):
        fetch_jars(bad)


def test_no_coordinates() -> None:
    """A fetch without coordinates is an error."""
    with pytest.raises(LocalClusterError, match="No jar was named"):
        fetch_jars()


def test_ivy_file_escapes() -> None:
    """Coordinates are escaped in the XML."""
    assert 'name="a&amp;b"' in ivy_file(["org:a&b:1"], True)


def test_cache_folder_order() -> None:
    """ZKAFKA_CACHE takes precedence over XDG_CACHE_HOME, which takes precedence over ~/.cache."""
    assert cache_folder({"ZKAFKA_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}) == Path("/own")
    assert cache_folder({"XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/zkafka")
    assert cache_folder({}) == Path.home() / ".cache" / "zkafka"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress(terminal: bool) -> None:
    """The bar counts Ivy's lines only on a terminal, and the last lines are returned."""
    screen = io.StringIO()
    lines = ["found org#a;1 in public", "  found org#b;1 in public", "", "[SUCCESSFUL ] org#a;1!a.jar (1ms)", "else"]
    with progress_bar(Console(file=screen, force_terminal=terminal, width=100)) as progress:
        task = progress.add_task("Fetching kafka:1", total=None)
        assert follow(lines, progress, task) == [line for line in lines if line]
        assert progress.tasks[0].completed == 1
        assert progress.tasks[0].total == 2
    assert ("kafka:1" in screen.getvalue()) is terminal
    assert ("1/2" in screen.getvalue()) is terminal
