"""Fetch jars with the Ivy that PySpark ships, once for each user.

Each set of coordinates has its own folder in the cache, which is filled under another name and renamed when complete, under
a lock that the Ivy process holds too: whatever is killed, a folder of the right name is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.java import find_java
from pyspark_zkafka.testing.spec import kafka_jars

__all__ = ["cache_folder", "fetch_jars", "file_lock", "kafka_classpath", "tools_classpath"]

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_TAIL_LINES = 20
# Ivy first finds all modules, then downloads one jar for each.
_FOUND = re.compile(r"\s*found \S+#\S+;")
_FETCHED = re.compile(r"\s*\[SUCCESSFUL \]")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of fetched jars: ``ZKAFKA_CACHE``, else ``zkafka`` in ``XDG_CACHE_HOME``, else in ``~/.cache``."""
    environ = os.environ if environ is None else environ
    own = environ.get("ZKAFKA_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zkafka"


def fetch_jars(*coordinates: str, transitive: bool = True) -> list[Path]:
    """The jars of one or more Maven coordinates, ``group:artifact:version``, sorted by name.

    They are resolved together, so that each artifact comes in one version; with the jars that they depend on, unless
    `transitive` is False.

    Raises
    ------
    LocalClusterError
        ``BAD_COORDINATES``; ``NO_JAVA``; ``JAVA_TOO_OLD``; ``NO_IVY``; ``JARS_NOT_FETCHED``, with Ivy's last lines.

    Notes
    -----
    The first call for a set needs the network and blocks for up to a minute; any later call, in any process of the user,
    only lists a folder. Concurrent calls wait for each other. Ivy's settings are those of the file that
    ``ZKAFKA_IVY_SETTINGS`` names, else of ``~/.ivy2/ivysettings.xml``, else its own (Maven Central).

    Examples
    --------
    >>> fetch_jars("org.slf4j:slf4j-api")
    Traceback (most recent call last):
    pyspark_zkafka.errors.LocalClusterError: [BAD_COORDINATES] ... found 'org.slf4j:slf4j-api'; ...
    """
    checked = sorted({_checked(c) for c in coordinates})
    if not checked:
        raise LocalClusterError("BAD_COORDINATES", "No jar was named; give at least one group:artifact:version")
    jars = cache_folder() / "jars"
    folder = jars / _folder_name(checked, transitive)
    if not folder.is_dir():
        jars.mkdir(parents=True, exist_ok=True)
        with file_lock(jars / ".lock") as lock:
            if not folder.is_dir():
                _fetch(checked, transitive, folder, lock)
    return sorted(folder.glob("*.jar"))


def kafka_classpath(kafka_version: str) -> str:
    """The classpath of a Kafka version; fetches its jars as `fetch_jars`."""
    return ":".join(str(jar) for jar in fetch_jars(*kafka_jars(kafka_version)))


def tools_classpath(kafka_version: str) -> str:
    """The classpath of the tools of Kafka 3.x that have left its core; fetches its jars as `fetch_jars`."""
    return ":".join(map(str, fetch_jars(*kafka_jars(kafka_version), f"org.apache.kafka:kafka-tools:{kafka_version}")))


def _checked(coordinate: str) -> str:
    parts = coordinate.split(":")
    if len(parts) != 3 or not all(parts) or "/" in coordinate:
        reason = f"Maven coordinates have three parts; found {coordinate!r}; write group:artifact:version"
        raise LocalClusterError("BAD_COORDINATES", reason)
    return coordinate


def _folder_name(coordinates: list[str], transitive: bool) -> str:
    digest = hashlib.sha256(repr((coordinates, transitive)).encode()).hexdigest()[:12]
    names = "+".join("-".join(c.split(":")[1:]) for c in coordinates)
    return f"{names[:80]}-{digest}"


@contextmanager
def file_lock(path: Path) -> Iterator[int]:
    """An exclusive lock on a file, which is created if necessary; yields the descriptor that holds it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _fetch(coordinates: list[str], transitive: bool, folder: Path, lock: int) -> None:
    for left in folder.parent.glob(".partial-*"):  # of a fetch that was killed: we hold the lock
        shutil.rmtree(left)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
    jars = partial / "jars"
    jars.mkdir()  # with the user's usual permissions: mkdtemp gives only the owner any
    try:
        _run_ivy(coordinates, transitive, jars, lock)
        jars.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_ivy(coordinates: list[str], transitive: bool, into: Path, lock: int) -> None:
    work = into.parent  # what is left there by a killed fetch, the next one removes
    asked = work / "ivy.xml"
    asked.write_text(ivy_file(coordinates, transitive), encoding="utf-8")
    command = [str(find_java()), "-jar", str(_ivy_jar()), *_settings(), "-cache", str(cache_folder() / "ivy")]
    command += ["-ivy", str(asked), "-confs", "default", "-retrieve", str(into / _PATTERN)]
    title = "Fetching " + ", ".join(c.partition(":")[2] for c in coordinates)
    # The lock is inherited: should this process be killed, nobody else fetches before Ivy has ended, too.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd=work, pass_fds=[lock],
    ) as ivy, progress_bar(Console(stderr=True)) as progress:  # fmt: skip
        tail = follow(ivy.stdout or (), progress, progress.add_task(title, total=None))
    if ivy.returncode != 0 or not any(into.glob("*.jar")):
        raise _not_fetched(coordinates, tail)


def progress_bar(console: Console) -> Progress:
    """A bar with the number of jars; hidden where the console is not a terminal."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jars"), TimeElapsedColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal)


def follow(lines: Iterable[str], progress: Progress, task: TaskID) -> list[str]:
    """The last lines of Ivy's output; the bar follows all of them."""
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    found = fetched = 0
    for line in lines:
        found += _FOUND.match(line) is not None
        fetched += _FETCHED.match(line) is not None
        progress.update(task, completed=fetched, total=found if fetched else None)
        if line.strip():
            tail.append(line.rstrip())
    return list(tail)


def ivy_file(coordinates: Iterable[str], transitive: bool) -> str:
    """The text of an Ivy file that asks for the coordinates."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(revision)}"
        f' transitive="{str(transitive).lower()}" conf="default-&gt;default"/>'
        for org, name, revision in (c.split(":") for c in coordinates)
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="zkafka" module="local-cluster"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


def _settings() -> list[str]:
    named = os.environ.get("ZKAFKA_IVY_SETTINGS")
    if named:
        if not Path(named).is_file():
            absent = f"Ivy has no settings; ZKAFKA_IVY_SETTINGS names {named}, which is no file; correct or unset it"
            raise LocalClusterError("NO_IVY", absent)
        return ["-settings", str(Path(named).absolute())]
    site = Path.home() / ".ivy2" / "ivysettings.xml"
    return ["-settings", str(site)] if site.is_file() else []


def _ivy_jar() -> Path:
    import pyspark  # here, since it is slow to import and needed once in a machine's life

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    found = sorted((home / "jars").glob("ivy-*.jar")) or sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not found:
        absent = f"Jars are fetched with the Ivy that Spark ships; found no ivy-*.jar in {home / 'jars'}"
        raise LocalClusterError("NO_IVY", f"{absent}; install the full pyspark")
    return found[-1]


def _not_fetched(coordinates: list[str], tail: list[str]) -> LocalClusterError:
    shown = "\n  ".join(tail) or "(nothing)"
    return LocalClusterError(
        "JARS_NOT_FETCHED",
        f"Ivy could not fetch {', '.join(coordinates)}; its last lines are\n  {shown}\n"
        "see that the repository can be reached; name a mirror in an Ivy settings file with ZKAFKA_IVY_SETTINGS, "
        "or copy a filled cache folder and name it with ZKAFKA_CACHE",
        coordinates=coordinates,
    )
