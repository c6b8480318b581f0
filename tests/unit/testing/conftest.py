"""Fake znodes, and a fake Java: it responds to -version, retrieves a jar like Ivy, and runs a script as other programs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError, NoNodeError

SCRIPT = """\
#!/bin/sh
if [ "$1" = "-version" ]; then echo 'openjdk version "17.0.1" 2021-10-19' >&2; exit 0; fi
case "$*" in *-retrieve*) ;; *) exec sh "{folder}/program" "$@";; esac
echo run >> "{runs}"
while [ $# -gt 0 ]; do
  case "$1" in
    -retrieve) into=$(dirname "$2");;
    -ivy) cp "$2" "{folder}/asked.xml";;
    -settings) echo "$2" > "{folder}/settings";;
  esac
  shift
done
echo '  found org.fake#one;1.0 in public'
echo half > "$into/one-1.0.jar"
{then}
echo whole > "$into/one-1.0.jar"
echo '  [SUCCESSFUL ] org.fake#one;1.0!one.jar (1ms)'
"""


class FakeJava:
    """A fake Java that counts its runs of Ivy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def does(self, then: str = "") -> None:
        """Let Ivy run shell commands between the two halves of the jar."""
        java = self.folder / "bin" / "java"
        java.parent.mkdir(parents=True, exist_ok=True)
        java.write_text(textwrap.dedent(SCRIPT).format(runs=self.runs, folder=self.folder, then=then))
        java.chmod(0o755)

    def runs_as(self, program: str) -> None:
        """Run a script instead of any other Java program, with Java's arguments."""
        (self.folder / "program").write_text(program)

    @property
    def java(self) -> Path:
        """The path of the executable."""
        return self.folder / "bin" / "java"

    @property
    def count(self) -> int:
        """Return the number of runs of Ivy."""
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    """The fake Java as JAVA_HOME, with an empty cache and home folder."""
    fake = FakeJava(tmp_path / "java")
    fake.does()
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(fake.folder))
    monkeypatch.setenv("ZKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("ZKAFKA_IVY_SETTINGS", raising=False)
    return fake


class Znodes:
    """The methods of KazooClient that local clusters use, on a dict of znodes."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def exists(self, path: str) -> object | None:
        return path if any(other == path or other.startswith(f"{path}/") for other in self.data) else None

    def get_children(self, path: str) -> list[str]:
        return sorted({other[len(path) + 1 :].split("/")[0] for other in self.data if other.startswith(f"{path}/")})

    def get(self, path: str) -> tuple[bytes, None]:
        if path not in self.data:
            raise NoNodeError
        return self.data[path], None

    def create(self, path: str, data: bytes, makepath: bool) -> None:
        if path in self.data:
            raise NodeExistsError
        self.data[path] = data


@pytest.fixture
def znodes() -> Any:
    """An ensemble without a cluster."""
    return Znodes()
