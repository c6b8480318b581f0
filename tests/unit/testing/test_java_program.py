"""Small Java programs, compiled by a fake Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import cache_folder
from pyspark_zkafka.testing.jars import compiled_program

COMPILER = """
echo "$@" >> "{folder}/calls"
{first}
while [ $# -gt 0 ]; do [ "$1" = -d ] && into=$2; shift; done
mkdir -p "$into"; echo class > "$into/Hello.class"
"""
WITHOUT_COMPILER = 'case "$*" in *jdk.compiler*) echo "Module jdk.compiler not found" >&2; exit 1;; esac'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program in a single file."""
    file = tmp_path / "Hello.java"
    file.write_text("public class Hello {}")
    return file


def compiles(fake_java: Any, first: str = "") -> None:
    """Let the fake compile programs after it has run shell commands."""
    fake_java.runs_as(COMPILER.format(folder=fake_java.folder, first=first))


def calls(fake_java: Any) -> list[str]:
    """Return the arguments of each run of the compiler."""
    file = fake_java.folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_compiled_once(fake_java: Any, source: Path) -> None:
    """A program is compiled at its first use, against the jars that follow it on the classpath."""
    compiles(fake_java)
    classpath, main = compiled_program(fake_java.java, "1.1.1", source)
    classes, _, jars = classpath.partition(":")
    assert main == "Hello"
    assert (Path(classes) / "Hello.class").read_text() == "class\n"
    assert Path(jars).name == "one-1.0.jar"
    assert compiled_program(fake_java.java, "1.1.1", source) == (classpath, main)
    (call,) = calls(fake_java)
    assert f"-classpath {jars} {source}" in call


def test_each_source_and_each_kafka(fake_java: Any, source: Path) -> None:
    """A changed source and another Kafka version have their own classes."""
    compiles(fake_java)
    found = {compiled_program(fake_java.java, version, source)[0] for version in ("1.1.1", "3.9.1")}
    source.write_text("public class Hello { }")
    found.add(compiled_program(fake_java.java, "1.1.1", source)[0])
    assert len(found) == len(calls(fake_java)) == 3


def test_java_without_a_compiler(fake_java: Any, source: Path) -> None:
    """If Java has no compiler, Eclipse's is fetched and compiles for the same release."""
    compiles(fake_java, WITHOUT_COMPILER)
    classpath, _ = compiled_program(fake_java.java, "1.1.1", source)
    assert (Path(classpath.partition(":")[0]) / "Hello.class").exists()
    first, second = calls(fake_java)
    assert "--release 17" in first
    assert "/ecj-3.33.0-" in second
    assert " -17 -nowarn" in second


def test_malformed_program(fake_java: Any, source: Path) -> None:
    """A program that does not compile is an error with the compiler's output, and leaves nothing behind."""
    compiles(fake_java, 'echo "Hello.java:1: error: class expected" >&2; exit 1')
    with pytest.raises(LocalClusterError, match=r"NOT_COMPILED\] Hello\.java could not be compiled") as caught:
        compiled_program(fake_java.java, "1.1.1", source)
    assert "Hello.java:1: error: class expected" in caught.value.message
    assert [file.name for file in (cache_folder() / "classes").iterdir()] == [".lock"]
    compiles(fake_java)
    compiled_program(fake_java.java, "1.1.1", source)


def test_what_a_killed_compilation_left(fake_java: Any, source: Path) -> None:
    """The remains of a killed compilation are removed by the next one."""
    left = cache_folder() / "classes" / ".partial-1" / "classes"
    left.mkdir(parents=True)
    compiles(fake_java)
    compiled_program(fake_java.java, "1.1.1", source)
    assert not left.exists()


def test_cache_that_cannot_be_written(fake_java: Any, source: Path) -> None:
    """If the cache is not writable, Java compiles the source at each start."""
    cache_folder().mkdir()
    (cache_folder() / "classes").write_text("no folder")
    jars, main = compiled_program(fake_java.java, "1.1.1", source)
    assert main == str(source)
    assert Path(jars).name == "one-1.0.jar"
    assert calls(fake_java) == []
