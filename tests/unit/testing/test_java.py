"""The choice of a Java, and the errors without a usable one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.jars import archiving_classes, class_archive, find_java, java_major, sharing_classes


def java(folder: Path, says: str) -> Path:
    file = folder / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "11.0.2"', 11),
        ("not java", None),
    ],
)
def test_major(text: str, major: int | None) -> None:
    """The major version is read from old and new formats."""
    assert java_major(text) == major


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A setter of the variables that are searched: ``environ(PATH="...")`` unsets JAVA_HOME."""

    def replace(**variables: object) -> None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    return replace


def test_java_home_wins(tmp_path: Path, environ: Callable[..., None]) -> None:
    """JAVA_HOME takes precedence over PATH."""
    home, other = (java(tmp_path / name, 'openjdk version "17.0.1"') for name in ("home", "other"))
    environ(JAVA_HOME=tmp_path / "home", PATH=f"{other.parent}:/usr/bin:/bin")
    assert find_java() == home
    environ()
    assert find_java() == other


@pytest.mark.parametrize(
    ("says", "variable", "error"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "JAVA_HOME", r'JAVA_TOO_OLD.*17 or later.*"11\.0\.2".*install Java 17'),
        ("hello", "JAVA_HOME", "JAVA_TOO_OLD.*reports hello"),
        (None, "JAVA_HOME", "NO_JAVA.*JAVA_HOME is .* cannot be executed; correct or unset JAVA_HOME"),
        (None, "PATH", "NO_JAVA.*not set, and there is no java on PATH; install Java 17"),
    ],
    ids=["old", "no Java", "wrong JAVA_HOME", "missing"],
)
def test_unusable_java_is_refused(
    tmp_path: Path, environ: Callable[..., None], says: str | None, variable: str, error: str
) -> None:
    """The error names the version or the places searched. PATH does not replace a JAVA_HOME without Java."""
    if says is not None:
        java(tmp_path, says)
    environ(**{variable: tmp_path})
    with pytest.raises(LocalClusterError, match=error):
        find_java()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of an archive that does not exist, in an empty cache folder."""
    monkeypatch.setenv("ZKAFKA_CACHE", str(tmp_path / "cache"))
    jar = tmp_path / "one.jar"
    jar.touch()
    return class_archive(java(tmp_path / "java", ""), "Main", str(jar))


def written(options: list[str]) -> Path:
    """Return the file that a JVM with the options writes at its end."""
    return Path(options[-1].removeprefix("-XX:ArchiveClassesAtExit="))


def test_archive_of_classes(archive: Path) -> None:
    """The first JVM archives its classes, and the next ones share them."""
    assert sharing_classes(archive) == []
    with archiving_classes(archive) as options:
        written(options).write_text("classes")
        assert not archive.exists()
    assert archive.read_text() == "classes"
    assert list(archive.parent.iterdir()) == [archive]
    shared = ["-Xlog:disable", f"-XX:SharedArchiveFile={archive}"]
    assert sharing_classes(archive) == shared
    with archiving_classes(archive) as options:
        assert options == shared


def test_jvm_without_archives(archive: Path) -> None:
    """A JVM that makes no archive is not asked for one again."""
    with archiving_classes(archive):
        pass
    with archiving_classes(archive) as options:
        assert options == []


def test_no_archive_after_an_error(archive: Path) -> None:
    """The classes of a failed run are not archived."""

    def fail() -> None:
        with archiving_classes(archive) as options:
            written(options).write_text("few classes")
            raise OSError("ended")

    with pytest.raises(OSError, match="ended"):
        fail()
    assert list(archive.parent.iterdir()) == []


def test_archives_of_other_jars(archive: Path, tmp_path: Path) -> None:
    """Another main class, a changed jar and another Java each have an archive of their own."""
    jar, executable = tmp_path / "one.jar", tmp_path / "java" / "bin" / "java"
    places = {archive, class_archive(executable, "Other", str(jar))}
    os.utime(jar, (1, 1))
    places.add(class_archive(executable, "Main", str(jar)))
    os.utime(executable, (1, 1))
    places.add(class_archive(executable, "Main", str(jar)))
    assert len(places) == 4


def test_archives_in_a_read_only_cache(archive: Path) -> None:
    """Without a place for the archive, the JVM makes none."""
    archive.parent.parent.touch()
    with archiving_classes(archive) as options:
        assert options == []
