"""Storage of KRaft's nodes, formatted by Kafka's own tool: so it has the features of a real cluster of its version."""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import format_command

__all__ = ["format_storage", "new_cluster_id"]

_TIMEOUT_S = 120


def new_cluster_id() -> str:
    """A new cluster id: 16 bytes in URL-safe base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def format_storage(java: Path, classpath: str, cluster_id: str, files: Iterable[Path]) -> None:
    """Format the storage of the nodes with these configuration files, all at the same time; takes 1 to 3 s.

    Raises `STORAGE_NOT_FORMATTED` with the output of the tool.
    """
    environ = {**os.environ, "CLASSPATH": classpath}
    tools = [
        subprocess.Popen(
            format_command(java, cluster_id, file), env=environ, cwd=file.parent, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for file in files
    ]  # fmt: skip
    try:
        for tool in tools:
            output, _ = tool.communicate(timeout=_TIMEOUT_S)
            if tool.returncode != 0:
                raise _not_formatted(f"ended with {tool.returncode}; its output is\n{output.strip()}")
    except subprocess.TimeoutExpired as exc:
        raise _not_formatted(f"did not end within {_TIMEOUT_S} s") from exc
    finally:
        for tool in tools:
            tool.kill()
            tool.communicate()


def _not_formatted(found: str) -> LocalClusterError:
    return LocalClusterError("STORAGE_NOT_FORMATTED", f"Kafka's tool that formats a node's storage {found}")
