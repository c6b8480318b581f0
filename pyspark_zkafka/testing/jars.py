"""Java on this machine: find it, fetch jars with PySpark's Ivy, compile small programs, and archive their classes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.conditions import BAD_COORDINATES, JARS_NOT_FETCHED, JAVA_TOO_OLD, NO_IVY, NO_JAVA, NOT_COMPILED
from pyspark_zkafka.testing.spec import kafka_jars

MINIMUM_JAVA = 17
_VERSION_TIMEOUT_S = 30
_NO_COMPILER = "jdk.compiler not found"
_ECJ = "org.eclipse.jdt:ecj:3.33.0"  # Eclipse's compiler, which runs on a JRE
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_TAIL_LINES = 20
_QUIET = "-Xlog:disable"  # no warnings in the output about classes that are not archived
# Ivy first finds all modules, then downloads one jar for each.
_FOUND = re.compile(r"\s*found \S+#\S+;")
_FETCHED = re.compile(r"\s*\[SUCCESSFUL \]")


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else the first on PATH. Runs ``java -version``, which takes about 50 ms.

    Raises
    ------
    LocalClusterError
        ``NO_JAVA``; ``JAVA_TOO_OLD`` if Java is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise _no_java(f"JAVA_HOME is {home}, and {java} cannot be executed", "correct or unset JAVA_HOME")
    elif found := shutil.which("java"):
        java = Path(found)
    else:
        raise _no_java("JAVA_HOME is not set, and there is no java on PATH", f"install Java {MINIMUM_JAVA}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _no_java(f"{java} -version failed: {exc}", "set JAVA_HOME to a Java that works") from exc
    version = done.stderr + done.stdout
    major = java_major(version)
    if major is None or major < MINIMUM_JAVA:
        reported = version.strip().splitlines()[0] if version.strip() else "no version"
        raise JAVA_TOO_OLD(
            f"A local cluster needs Java {MINIMUM_JAVA} or later, and {java} reports {reported}; "
            f"install Java {MINIMUM_JAVA}, and set JAVA_HOME to it",
            java=str(java),
            found=reported,
        )
    return java


def java_major(version_text: str) -> int | None:
    """Find the major version in the output of ``java -version``. None without a version.

    >>> java_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major('java version "1.8.0_402"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return None if found is None else int(found.group(1))


def _no_java(found: str, advice: str) -> LocalClusterError:
    return NO_JAVA(f"A local cluster needs Java, and none was found; {found}; {advice}")


def compiled_program(java: Path, kafka_version: str, source: Path) -> tuple[str, str]:
    """Prepare a single-file program that uses Kafka's jars. Returns its classpath, and the class or source file to run.

    Compiles a source once per version of Kafka, into the cache folder, with Eclipse's compiler if Java is a JRE. Raises
    `NOT_COMPILED`, with the compiler's output, and the errors of `fetch_jars`.
    """
    jars = kafka_classpath(kafka_version)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / "classes" / f"{source.stem}-{kafka_version}-{digest}"
    try:
        classes = made_once(folder, lambda into, lock: _compile(java, jars, source, into))
    except OSError:  # the cache is read-only; Java compiles the source at each start
        return jars, str(source)
    return f"{classes}:{jars}", source.stem


def _compile(java: Path, jars: str, source: Path, into: Path) -> None:
    arguments = ["-nowarn", "-d", str(into), "-classpath", jars, str(source)]
    done = _run([str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", str(MINIMUM_JAVA), *arguments])
    if done.returncode != 0 and _NO_COMPILER in done.stderr + done.stdout:
        (ecj,) = fetch_jars(_ECJ, transitive=False)
        done = _run([str(java), "-jar", str(ecj), f"-{MINIMUM_JAVA}", *arguments])
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip()
        raise NOT_COMPILED(f"{source.name} could not be compiled by {java}:\n{output}\nset JAVA_HOME to another Java")


def class_archive(java: Path, main: str, classpath: str) -> Path:
    """Return the path of the archive of a program's classes, for one Java and these jars. The file may not exist."""
    jars = [(jar, Path(jar).stat().st_mtime_ns) for jar in classpath.split(":")]
    digest = hashlib.sha256(repr((java.resolve(), java.stat().st_mtime_ns, jars)).encode()).hexdigest()[:12]
    return cache_folder() / "archives" / f"{main}-{digest}.jsa"


def sharing_classes(archive: Path) -> list[str]:
    """Return the options of a JVM to share the archive: this halves the CPU time of its start. Empty without an archive."""
    is_usable = archive.is_file() and archive.stat().st_size > 0
    return [_QUIET, f"-XX:SharedArchiveFile={archive}"] if is_usable else []


@contextmanager
def archiving_classes(archive: Path) -> Iterator[list[str]]:
    """Yield the options of a JVM to share the archive. If the archive is missing, the JVM makes it at its end, in a second.

    The ``with`` block must contain the whole run. If the JVM makes no archive, stores an empty archive. After an error,
    stores nothing. If the cache is read-only, yields no options.
    """
    if archive.is_file():
        yield sharing_classes(archive)
        return
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".partial-", dir=archive.parent, ignore_cleanup_errors=True)
    except OSError:
        yield []
        return
    with folder as partial:
        made = Path(partial) / archive.name
        yield [_QUIET, f"-XX:ArchiveClassesAtExit={made}"]
        if not made.is_file():
            made.touch()
        made.replace(archive)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of fetched jars: ``ZKAFKA_CACHE``, else ``zkafka`` in ``XDG_CACHE_HOME``, else in ``~/.cache``."""
    environ = os.environ if environ is None else environ
    own = environ.get("ZKAFKA_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zkafka"


def fetch_jars(*coordinates: str, transitive: bool = True) -> list[Path]:
    """Fetch the jars of one or more Maven coordinates, ``group:artifact:version``. Returns them sorted by name.

    The coordinates are resolved together, with one version of each artifact. Their dependencies are included unless
    `transitive` is false.

    Raises
    ------
    LocalClusterError
        ``BAD_COORDINATES``; ``NO_JAVA``; ``JAVA_TOO_OLD``; ``NO_IVY``; ``JARS_NOT_FETCHED``, with Ivy's last lines.

    Notes
    -----
    The first call for a set needs the network, and blocks until Ivy has the jars. Later calls only list a folder.
    Concurrent calls wait for each other. Ivy's settings come from the file named by ``ZKAFKA_IVY_SETTINGS``, else from
    ``~/.ivy2/ivysettings.xml``, else from Ivy itself (Maven Central).

    Examples
    --------
    >>> fetch_jars("org.slf4j:slf4j-api")
    Traceback (most recent call last):
    pyspark_zkafka.errors.LocalClusterError: [BAD_COORDINATES] ... found 'org.slf4j:slf4j-api'. ...
    """
    for coordinate in coordinates:
        parts = coordinate.split(":")
        if len(parts) != 3 or not all(parts) or "/" in coordinate:
            reason = f"Maven coordinates have three parts; found {coordinate!r}. Write group:artifact:version"
            raise BAD_COORDINATES(reason)
    if not coordinates:
        raise BAD_COORDINATES("No jar was named; give at least one group:artifact:version")
    return sorted(_fetched(sorted(set(coordinates)), transitive).glob("*.jar"))


def fetch_archive(coordinates: str) -> Path:
    """Fetch a zip file, ``group:artifact:version:zip:classifier``, like `fetch_jars`. Returns the unpacked folder."""
    return _fetched([coordinates], transitive=False)


def _fetched(requested: list[str], transitive: bool) -> Path:
    digest = hashlib.sha256(repr((requested, transitive)).encode()).hexdigest()[:12]
    names = "+".join("-".join(c.split(":")[1:]) for c in requested)
    folder = cache_folder() / "jars" / f"{names[:80]}-{digest}"
    return made_once(folder, lambda into, lock: _run_ivy(requested, transitive, into, lock))


def made_once(folder: Path, fill: Callable[[Path, int], None]) -> Path:
    """Return a folder of the cache. `fill` fills it once. Its second argument is the descriptor that holds the lock."""
    if folder.is_dir():
        return folder
    cache = folder.parent
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for left in cache.glob(".partial-*"):  # from a killed process, because we hold the lock
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=cache, ignore_cleanup_errors=True) as partial:
                made = Path(partial) / "made"
                made.mkdir()  # with the user's usual permissions, unlike the temporary folder
                fill(made, lock.fileno())
                made.rename(folder)
    return folder


def kafka_classpath(kafka_version: str, *more: str) -> str:
    """Return the classpath of a Kafka version, and of further coordinates, after fetching their jars."""
    return ":".join(map(str, fetch_jars(*kafka_jars(kafka_version), *more)))


def _run_ivy(coordinates: list[str], transitive: bool, into: Path, lock: int) -> None:
    work = into.parent
    asked = work / "ivy.xml"
    asked.write_text(ivy_file(coordinates, transitive), encoding="utf-8")
    command = [str(find_java()), "-jar", str(_ivy_jar()), *_settings(), "-cache", str(cache_folder() / "ivy")]
    command += ["-ivy", str(asked), "-confs", "default", "-retrieve", str(into / _PATTERN)]
    title = "Fetching " + ", ".join(c.partition(":")[2] for c in coordinates)
    # Ivy inherits the lock: if this process is killed, no other process fetches before Ivy has ended.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd=work, pass_fds=[lock],
    ) as ivy, progress_bar(Console(stderr=True)) as progress:  # fmt: skip
        tail = follow(ivy.stdout or (), progress, progress.add_task(title, total=None))
    if ivy.returncode != 0 or not any(into.iterdir()):
        shown = "\n  ".join(tail) or "(nothing)"
        raise JARS_NOT_FETCHED(
            f"Ivy could not fetch {', '.join(coordinates)}; its last lines are\n  {shown}\n"
            "check that the repository can be reached, name a mirror in an Ivy settings file with ZKAFKA_IVY_SETTINGS, or "
            "name a copy of a filled cache folder with ZKAFKA_CACHE",
            coordinates=coordinates,
        )
    for archive in into.glob("*.zip"):
        shutil.unpack_archive(archive, into)
        archive.unlink()


def progress_bar(console: Console) -> Progress:
    """Make a bar that counts jars. It is hidden if the console is not a terminal."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jars"), TimeElapsedColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal)


def follow(lines: Iterable[str], progress: Progress, task: TaskID) -> list[str]:
    """Show the progress of Ivy's output in the bar, and return the last lines."""
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
    """Return the text of an Ivy file that requests the coordinates."""
    module = Element("ivy-module", {"version": "2.0", "xmlns:m": "http://ant.apache.org/ivy/maven"})
    SubElement(module, "info", organisation="zkafka", module="local-cluster")
    SubElement(SubElement(module, "configurations"), "conf", name="default")
    dependencies = SubElement(module, "dependencies")
    options = {"transitive": str(transitive).lower(), "conf": "default->default"}
    for coordinate in coordinates:
        org, name, revision, *archive = coordinate.split(":")
        dependency = SubElement(dependencies, "dependency", options, org=org, name=name, rev=revision)
        if archive:
            ext, classifier = archive
            SubElement(dependency, "artifact", {"name": name, "type": ext, "ext": ext, "m:classifier": classifier})
    return tostring(module, encoding="unicode")


def _settings() -> list[str]:
    named = os.environ.get("ZKAFKA_IVY_SETTINGS")
    if named:
        if not Path(named).is_file():
            raise NO_IVY(f"ZKAFKA_IVY_SETTINGS names {named}, which is no file; correct or unset it")
        return ["-settings", str(Path(named).absolute())]
    site = Path.home() / ".ivy2" / "ivysettings.xml"
    return ["-settings", str(site)] if site.is_file() else []


def _ivy_jar() -> Path:
    import pyspark  # slow to import, and needed only for the first fetch

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    found = sorted((home / "jars").glob("ivy-*.jar")) or sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise NO_IVY(f"Spark's Ivy fetches the jars, and {home / 'jars'} has no ivy-*.jar; install the full pyspark")
    return found[-1]
