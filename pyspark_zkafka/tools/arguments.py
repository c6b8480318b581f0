"""Parsing of arguments: files, NAME=VALUE, topics with partitions, times."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import javaproperties
import typer

from pyspark_zkafka.conditions import INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.options.parser import resolve_references

PartitionSpec = tuple[str, int | None]
"""A topic and one of its partitions; None for all of its partitions."""

_OWN_PREFIXES = ("zookeeper.", "kafka.", "listener.")
_PROMPT = re.compile(r"\$\{prompt:([^}]*)\}")
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]{1,12})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]{1,12})H)?(?:(?P<minutes>[-+]?[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,12}(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_DATETIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})T(?P<time>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[-+]\d{2}(?::?\d{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def read_text(file: Path | str) -> str:
    """Return the text of a file in UTF-8; ``-`` stands for the standard input.

    Raises
    ------
    OptionError
        There is no such file, or it is not text in UTF-8.
    """
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
    ``${prompt:TEXT}`` (asked for on the terminal).

    Raises
    ------
    OptionError
        The file, or a file or variable that it refers to, cannot be read.
    """
    try:
        properties = javaproperties.loads(read_text(path))
    except ValueError as error:
        raise INVALID_OPTION(f"--command-config {path} has no Java properties: {error}. Correct the file") from error
    options = {}
    for name, value in properties.items():
        try:
            resolved = resolve_references(value, environment)
        except ValueError as error:
            raise INVALID_OPTION(f"{name} in {path} {error}") from error
        option = name if name.startswith(_OWN_PREFIXES) else f"kafka.{name}"
        options[option] = _PROMPT.sub(lambda reference: prompt(reference[1]), resolved)
    return options


def parse_pairs(texts: Iterable[str] | None, option: str, *, strict: bool = False) -> dict[str, str]:
    """Return the values by name of an option that is given as NAME=VALUE any number of times.

    The last value of a name counts. With `strict`, a name has one value, which is not empty and does not contain ``=``.

    Raises
    ------
    BadParameter
        A text has another form, or a name is given twice.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or (strict and (not value.strip() or "=" in value)):
            raise typer.BadParameter(f"found {text!r}; write NAME=VALUE", param_hint=option)
        if strict and name in found:
            raise typer.BadParameter(f"{name} is given twice; give one value for each name", param_hint=option)
        found[name] = value
    return found


def parse_partitions(texts: Iterable[str]) -> list[PartitionSpec]:
    """Return topics and partitions from ``T`` and ``T:P,P``.

    >>> parse_partitions(["orders", "clicks:0,2"])
    [('orders', None), ('clicks', 0), ('clicks', 2)]

    Raises
    ------
    OptionError
        A topic has no name, or a partition is not a number.
    """
    found: list[PartitionSpec] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", numbers)):
            raise INVALID_OPTION(f"--topic {text!r} is not valid; write TOPIC, or TOPIC:0,1 for partitions")
        found += [(topic, int(number)) for number in numbers.split(",")] if colon else [(topic, None)]
    return found


def find_partitions(requested: Iterable[PartitionSpec], snapshot: ClusterSnapshot) -> list[TopicPartition]:
    """Return the requested partitions, sorted.

    Raises
    ------
    UnknownTopic
        A topic or partition does not exist.
    """
    found: set[TopicPartition] = set()
    unknown_topics, unknown_partitions = set(), set()
    for topic, number in requested:
        there = snapshot.topics.get(topic)
        if number is None and there is None:
            unknown_topics.add(topic)
        elif number is None:
            found.update(snapshot.partitions(topic))
        elif there is None or number not in there.partitions:
            unknown_partitions.add(TopicPartition(topic, number))
        else:
            found.add(TopicPartition(topic, number))
    unknown = [*sorted(unknown_topics), *sorted(unknown_partitions)]
    if unknown:
        raise UNKNOWN_TOPIC(
            f"The cluster has no {listing(unknown)}; nothing was changed; correct the names, or leave them out",
        )
    return sorted(found)


def require_topics(topics: Collection[str], existing: Collection[str]) -> None:
    """Raise UnknownTopic if one of the topics does not exist."""
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise UNKNOWN_TOPIC(f"Topics do not exist: {', '.join(missing)}; see zkafka topics list")


def parse_iso_duration_ms(text: str) -> int:
    """Return a duration of ISO 8601, ``PnDTnHnMn.nS`` as Java's Duration reads it, in milliseconds.

    >>> parse_iso_duration_ms("P1DT2H"), parse_iso_duration_ms("PT0.5S"), parse_iso_duration_ms("-PT1M")
    (93600000, 500, -60000)
    """
    match = _DURATION.fullmatch(text.strip())
    parts = {} if match is None else {name: match[name] for name in ("days", "hours", "minutes", "seconds") if match[name]}
    if match is None or not parts or (match["time"] or "").upper() == "T":
        raise INVALID_OPTION(f"--by-duration {text!r} is not a duration; write PnDTnHnMnS, such as P7D or PT1H30M")
    try:
        length = timedelta(**{name: float(number.replace(",", ".")) for name, number in parts.items()})
    except OverflowError as error:
        raise INVALID_OPTION(f"--by-duration {text!r} is too long") from error
    return (length // timedelta(milliseconds=1)) * (-1 if match["sign"] == "-" else 1)


def parse_datetime_ms(text: str) -> int:
    """Return a time of ISO 8601 in milliseconds since the epoch; without a zone, it is in UTC, as for Kafka's tools.

    >>> parse_datetime_ms("2026-11-22T14:00:00.000"), parse_datetime_ms("2026-11-22T15:00:00+01:00")
    (1795356000000, 1795356000000)
    """
    match = _DATETIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        time = match["time"] if len(match["time"]) > 5 else f"{match['time']}:00"
        digits = (match["zone"] or "Z").replace("Z", "+").replace(":", "").ljust(5, "0")
        found = datetime.fromisoformat(f"{match['day']}T{time}{digits[:3]}:{digits[3:]}")
        ms = (found - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise INVALID_OPTION(
            f"--to-datetime {text!r} is not a time; write YYYY-MM-DDTHH:mm:SS.sss, in UTC, or with a zone such as +01:00",
        ) from error
    return ms + int((match["fraction"] or "0").ljust(3, "0")[:3])
