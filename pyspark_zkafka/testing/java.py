"""Find a Java that can run the servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from pyspark_zkafka.errors import LocalClusterError

__all__ = ["MINIMUM_JAVA", "find_java", "java_major"]

MINIMUM_JAVA = 17
_VERSION_TIMEOUT_S = 30


def find_java() -> Path:
    """The `java` of JAVA_HOME, else the first one on PATH; runs ``java -version``, which takes some 50 ms.

    Raises
    ------
    LocalClusterError
        ``NO_JAVA``; ``JAVA_TOO_OLD`` when it is older than 17.
    """
    java = _locate()
    version = _version_text(java)
    major = java_major(version)
    if major is None or major < MINIMUM_JAVA:
        found = version.strip().splitlines()[0] if version.strip() else "no version"
        raise LocalClusterError(
            "JAVA_TOO_OLD",
            f"A local cluster needs Java {MINIMUM_JAVA} or newer; {java} reports {found}; "
            f"install Java {MINIMUM_JAVA} and let JAVA_HOME point to it",
            java=str(java),
            found=found,
        )
    return java


def java_major(version_text: str) -> int | None:
    """The major version in the output of ``java -version``, or None when there is none in it.

    >>> java_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major('java version "1.8.0_402"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return None if found is None else int(found.group(1))


def _locate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise _no_java(f"JAVA_HOME is {home}, and {java} cannot be executed", "correct or unset JAVA_HOME")
        return java
    found = shutil.which("java")
    if found is None:
        raise _no_java("JAVA_HOME is not set, and there is no java on PATH", f"install Java {MINIMUM_JAVA}")
    return Path(found)


def _version_text(java: Path) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _no_java(f"{java} -version failed: {exc}", "let JAVA_HOME point to a Java that works") from exc
    return done.stderr + done.stdout


def _no_java(found: str, advice: str) -> LocalClusterError:
    return LocalClusterError("NO_JAVA", f"A local cluster runs on Java, and none was found; {found}; {advice}")
