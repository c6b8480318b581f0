"""Environment for a fast start of Spark's processes: tests start many of them, all short-lived."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["JVM_OPTIONS", "start_fast"]

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Only the compiler C1, as for `LocalCluster`: in the first minute, C2 takes more time than it saves."""


def start_fast() -> None:
    """Set the environment of all Spark processes that this process and its children start."""
    os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_LAUNCHER_OPTS"] = JVM_OPTIONS
    if "SPARK_HOME" not in os.environ:
        home = Path(tempfile.mkdtemp(prefix="spark-home-"))
        atexit.register(_remove, home, os.getpid())
        _link(home)
        os.environ["SPARK_HOME"] = str(home)


def _link(home: Path) -> None:
    """Fill a SPARK_HOME with links to pyspark, and with a folder ``pyspark.zip`` in place of the file.

    Python workers import pyspark from there. From a zip file, each worker would compile its modules: half a second of CPU.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    pyspark, library = Path(spec.origin).parent, home / "python" / "lib"
    (library / "pyspark.zip").mkdir(parents=True)
    (library / "pyspark.zip" / "pyspark").symlink_to(pyspark)
    for other in pyspark.glob("python/lib/py4j-*.zip"):
        (library / other.name).symlink_to(other)
    for folder in ("bin", "jars", "python/pyspark", "sbin"):
        (home / folder).symlink_to(pyspark / folder)


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:  # not at the end of a fork
        shutil.rmtree(home)
