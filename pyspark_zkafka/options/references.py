"""References of options to environment variables and files: ``${env:NAME}``, ``${env:NAME:-default}``, ``${file:PATH}``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pyspark_zkafka.conditions import INVALID_OPTION

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


def refers(value: str, only: Literal["env", "file"] | None = None) -> bool:
    """True if a value has a reference; with `only`, if it has references and all are of this kind.

    >>> refers("${env:ZONE}"), refers("a"), refers("${env:A}${file:/b}", only="env")
    (True, False, False)
    """
    kinds = {reference[1] for reference in _REFERENCE.finditer(value)}
    return bool(kinds) if only is None else kinds == {only}


def resolve_references(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace each reference in a value, as Kafka's config providers do.

    A reference keeps a secret out of Spark's web interface and event log, which show options. A file's content is used
    without the line breaks at its end. As in a shell, the default stands for a variable that is not set or is empty.

    Raises ValueError, whose text does not contain the value, if the environment variable is not set, or the file cannot be
    read.

    >>> resolve_references("digest:alice:${env:ZK}", {"ZK": "s3cret"})
    'digest:alice:s3cret'
    >>> resolve_references("${env:ZONE:-a}", {})
    'a'
    """

    def resolved(reference: re.Match[str]) -> str:
        kind, name = reference.groups()
        try:
            if kind == "file":
                return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
            name, has_default, default = name.partition(":-")
            return (environment.get(name) or default) if has_default else environment[name]
        except KeyError:
            raise ValueError(f"refers to the environment variable {name}, which is not set") from None
        except OSError as error:
            raise ValueError(f"refers to the file {name}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:  # its text contains the secret
            raise ValueError(f"refers to the file {name}, which is not UTF-8") from None

    return _REFERENCE.sub(resolved, value)


def task_rack(rack: str, environment: Mapping[str, str]) -> str:
    """Return the rack of a task, from the environment of the executor that runs it.

    Raises OptionError if a variable is not set and has no default, or if the rack is empty.
    """
    remedy = "set the variable on each executor, or spark.executorEnv.NAME, or a default: ${env:NAME:-default}"
    try:
        found = resolve_references(rack, environment)
    except ValueError as error:
        raise INVALID_OPTION(f"kafka.client.rack is {rack!r} and {error} on the executor; {remedy}") from None
    if not found.strip():
        raise INVALID_OPTION(f"kafka.client.rack is {rack!r}, which is empty on the executor; {remedy}")
    return found
