"""Files of client properties, as Kafka's tools take them with ``--command-config``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import javaproperties

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.options.parser import resolve_references

__all__ = ["read_config_file"]

_OWN_PREFIXES = ("zookeeper.", "kafka.", "listener.")
_PROMPT = re.compile(r"\$\{prompt:([^}]*)\}")


def read_config_file(
    path: Path, prompt: Callable[[str], str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The options in a file of Java properties.

    Options of this package (``zookeeper.*``, ``kafka.*``, ``listener.name``) keep their names; every other name is a
    property of Kafka's clients, as in the files of Kafka's own tools, and is prefixed with ``kafka.``.
    A value may refer to a secret: ``${env:NAME}``, ``${file:PATH}`` (the whole file, without its final line break) or
    ``${prompt:TEXT}`` (asked for on the terminal).

    Raises
    ------
    OptionError
        The file, or what it refers to, cannot be read.
    """
    try:
        properties = javaproperties.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise INVALID_OPTION(f"--command-config {path} cannot be read: {error}") from error
    options = {}
    for name, value in properties.items():
        try:
            resolved = resolve_references(value, environment)
        except ValueError as error:
            raise INVALID_OPTION(f"{name} in {path} {error}") from error
        options[_option_name(name)] = _PROMPT.sub(lambda reference: prompt(reference[1]), resolved)
    return options


def _option_name(name: str) -> str:
    return name if name.startswith(_OWN_PREFIXES) else f"kafka.{name}"
