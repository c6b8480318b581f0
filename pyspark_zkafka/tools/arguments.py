"""Parsing of arguments: files, NAME=VALUE, topics with partitions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import javaproperties
import typer

from pyspark_zkafka.conditions import INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.options.values import resolve_references

Parsed = TypeVar("Parsed")

PartitionSpec = tuple[str, int | None]
"""A topic and one of its partitions; None for all of its partitions."""

_OWN_PREFIXES = ("zookeeper.", "kafka.", "listener.")
_PROMPT = re.compile(r"\$\{prompt:([^}]*)\}")


def read_text(file: Path | str) -> str:
    """Return the text of a file in UTF-8; ``-`` stands for the standard input. Raises OptionError if it cannot be read."""
    is_input = str(file) == "-"
    place, remedy = (
        ("standard input", "Convert it to UTF-8") if is_input else (f"file {file}", "Correct its name or its text")
    )
    try:
        # The locale of the standard input may be another one.
        return (sys.stdin.buffer.read() if is_input else Path(file).read_bytes()).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise INVALID_OPTION(f"The {place} cannot be read: {reason}. {remedy}") from error


def read_config_file(
    path: Path, prompt: Callable[[str], str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the options in a file of Java properties, as Kafka's tools take it with ``--command-config``.

    Options of this package (``zookeeper.*``, ``kafka.*``, ``listener.name``) keep their names. Every other name is a
    property of Kafka's clients, and is prefixed with ``kafka.``.
    A value may refer to a secret: ``${env:NAME}``, ``${file:PATH}`` (the whole file, without its final line break) or
    ``${prompt:TEXT}`` (asked for on the terminal). Raises OptionError if a file or variable cannot be read.
    """
    try:
        properties = javaproperties.loads(read_text(path))
    except ValueError:
        # The text of the error quotes the value, which may be a secret.
        text = f"--command-config {path} has no Java properties: \\u is not followed by four hexadecimal digits"
        raise INVALID_OPTION(f"{text}. Correct the file") from None
    options = {}
    for name, value in properties.items():
        try:
            resolved = resolve_references(value, environment)
        except ValueError as error:
            raise INVALID_OPTION(f"{name} in {path} {error}") from error
        option = name if name.startswith(_OWN_PREFIXES) else f"kafka.{name}"
        options[option] = _PROMPT.sub(lambda reference: prompt(reference[1]), resolved)
    return options


def parse_pairs(texts: Iterable[str] | None, option: str, *, strict: bool = False) -> list[tuple[str, str]]:
    """Return the names and values of an option that is given as NAME=VALUE any number of times; raises BadParameter.

    With `strict`, a name has one value, which is not empty and does not contain ``=``.
    """
    found: list[tuple[str, str]] = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or not name.isprintable() or (strict and (not value.strip() or "=" in value)):
            raise typer.BadParameter(f"found {text!r}; write NAME=VALUE", param_hint=option)
        if strict and name in dict(found):
            raise typer.BadParameter(f"{name} is given twice; give one value for each name", param_hint=option)
        found.append((name, value))
    return found


def parse_partitions(texts: Iterable[str]) -> list[PartitionSpec]:
    """Return topics and partitions from ``T`` and ``T:P,P``; raises OptionError for another form.

    >>> parse_partitions(["orders", "clicks:0,2"])
    [('orders', None), ('clicks', 0), ('clicks', 2)]
    """
    found: list[PartitionSpec] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", numbers)):
            raise INVALID_OPTION(f"--topic {text!r} is not valid; write TOPIC, or TOPIC:0,1 for partitions")
        found += [(topic, int(number)) for number in numbers.split(",")] if colon else [(topic, None)]
    return found


def find_partitions(requested: Collection[PartitionSpec], snapshot: ClusterSnapshot) -> list[TopicPartition]:
    """Return the requested partitions, sorted. Raises UnknownTopic if a topic or partition does not exist."""
    existing = set(snapshot.all_partitions())
    topics = {topic for topic, number in requested if number is None}
    partitions = {TopicPartition(topic, number) for topic, number in requested if number is not None}
    unknown = [*sorted(topics - snapshot.topics.keys()), *sorted(partitions - existing)]
    if unknown:
        raise UNKNOWN_TOPIC(f"The cluster has no {listing(unknown)}; correct the names, or leave them out")
    return sorted(partitions | {tp for tp in existing if tp.topic in topics})


def require_topics(topics: Collection[str], existing: Collection[str]) -> None:
    """Raise UnknownTopic if one of the topics does not exist."""
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise UNKNOWN_TOPIC(f"Topics do not exist: {', '.join(missing)}; see zkafka topics list")


def parse_text(option: str, text: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Return the parsed text of an option; raises OptionError with the form that the parser's ValueError names."""
    try:
        return parse(text)
    except ValueError as error:
        raise INVALID_OPTION(f"{option} is {text!r}; expected {error}") from None
