"""Compile a small Java program against a Kafka's jars, once for each user."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.jars import cache_folder, fetch_jars, file_lock, kafka_classpath
from pyspark_zkafka.testing.java import MINIMUM_JAVA

__all__ = ["compiled_program"]

_RELEASE = str(MINIMUM_JAVA)
_NO_COMPILER = "jdk.compiler not found"
_ECJ = "org.eclipse.jdt:ecj:3.33.0"  # runs on a JRE


def compiled_program(java: Path, kafka_version: str, source: Path) -> tuple[str, str]:
    """The classpath, and the class or source file to run, for a program of one file that uses a Kafka's jars.

    Compiled once for each version of Kafka and of the source, into the cache folder; by Eclipse's compiler where the Java
    has none (a JRE). Raises `NOT_COMPILED`, with the compiler's output, and what `fetch_jars` raises.
    """
    jars = kafka_classpath(kafka_version)
    try:
        return f"{_classes(java, kafka_version, jars, source)}:{jars}", source.stem
    except OSError:  # the cache is read-only: let Java compile the source at each start
        return jars, str(source)


def _classes(java: Path, kafka_version: str, jars: str, source: Path) -> Path:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / "classes" / f"{source.stem}-{kafka_version}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.parent / ".lock"):
            if not folder.is_dir():
                _compile(java, jars, source, folder)
    return folder


def _compile(java: Path, jars: str, source: Path, folder: Path) -> None:
    for left in folder.parent.glob(".partial-*"):  # of a compilation that was killed: we hold the lock
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
        made = Path(partial) / "classes"
        arguments = ["-nowarn", "-d", str(made), "-classpath", jars, str(source)]
        done = _run([str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", _RELEASE, *arguments])
        if done.returncode != 0 and _NO_COMPILER in done.stderr + done.stdout:
            (ecj,) = fetch_jars(_ECJ, transitive=False)
            done = _run([str(java), "-jar", str(ecj), f"-{_RELEASE}", *arguments])
        if done.returncode != 0:
            output = (done.stderr + done.stdout).strip()
            raise LocalClusterError(
                "NOT_COMPILED",
                f"{source.name} could not be compiled by {java}:\n{output}\nlet JAVA_HOME point to another Java",
            )
        made.rename(folder)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
