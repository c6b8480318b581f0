"""Compilation of the small Java programs that tests run with Kafka's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.jars import compiled_program, find_java
from tests.support.tiers import seldom

HELLO = """
public class Hello {
    public static void main(String[] arguments) {
        System.out.println(kafka.api.OffsetRequest.LatestTime());
    }
}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in its own folder, compiled into its own cache, which shares the cached jars."""
    from pyspark_zkafka.testing import cache_folder

    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_folder() / "jars")
    (cache / "ivy").symlink_to(cache_folder() / "ivy")
    monkeypatch.setenv("ZKAFKA_CACHE", str(cache))
    file = tmp_path / "Hello.java"
    file.write_text(HELLO)
    return file


@pytest.fixture
def jre(tmp_path: Path) -> Path:
    """A Java without a compiler: a script that refuses the compiler module, and runs everything else."""
    script = tmp_path / "java"
    script.write_text(
        '#!/bin/sh\ncase "$2" in jdk.compiler/*)\n'
        'echo "java.lang.module.FindException: Module jdk.compiler not found"; exit 1;; esac\n'
        f'exec "{find_java()}" "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jdk", "jre"])
def test_compiled_once(source: Path, jre: Path, kind: str) -> None:
    """A program is compiled once, at its first use, even by a Java without a compiler, and runs with its Kafka's jars."""
    java = jre if kind == "jre" else find_java()
    classpath, main = compiled_program(java, "1.1.1", source)
    done = subprocess.run([java, "-cp", classpath, main], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "-1"
    made = Path(classpath.partition(":")[0]) / "Hello.class"
    before = made.stat().st_mtime_ns
    assert compiled_program(java, "1.1.1", source) == (classpath, main)
    assert made.stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", ["jdk", *seldom("jre")])
def test_what_cannot_be_compiled(source: Path, jre: Path, kind: str) -> None:
    """An error quotes the compiler's message, and nothing is left in the cache."""
    source.write_text(HELLO.replace("LatestTime", "NoSuchTime"))
    with pytest.raises(LocalClusterError, match=r"(?s)NOT_COMPILED.*NoSuchTime"):
        compiled_program(jre if kind == "jre" else find_java(), "1.1.1", source)
    assert not [path for path in source.parent.glob("cache/classes/*") if path.name != ".lock"]
