"""Files of client properties, as Kafka's tools take them with ``--command-config``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import javaproperties

from pyspark_zkafka.errors import OptionError

__all__ = ["read_config_file"]

_OWN_PREFIXES = ("zookeeper.", "kafka.", "listener.")
_REFERENCE = re.compile(r"\$\{(env|file|prompt):([^}]*)\}")


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
        raise OptionError("INVALID_OPTION", f"--command-config {path} cannot be read: {error}") from error
    resolve = _Resolver(path, prompt, environment)
    return {_option_name(name): _REFERENCE.sub(resolve, value) for name, value in properties.items()}


def _option_name(name: str) -> str:
    return name if name.startswith(_OWN_PREFIXES) else f"kafka.{name}"


class _Resolver:
    """Replacement of one reference to a secret."""

    def __init__(self, path: Path, prompt: Callable[[str], str], environment: Mapping[str, str]) -> None:
        self._path = path
        self._prompt = prompt
        self._environment = environment

    def __call__(self, reference: re.Match[str]) -> str:
        kind, argument = reference.groups()
        if kind == "prompt":
            return self._prompt(argument)
        try:
            return (
                self._environment[argument] if kind == "env" else Path(argument).read_text(encoding="utf-8").rstrip("\r\n")
            )
        except KeyError:
            raise self._error(reference, f"the environment variable {argument} is not set") from None
        except (OSError, ValueError) as error:
            raise self._error(reference, str(error)) from error

    def _error(self, reference: re.Match[str], why: str) -> OptionError:
        return OptionError("INVALID_OPTION", f"{self._path} refers to {reference.group()}, which cannot be read: {why}")
