"""Options that name offsets or partitions, parsed to the start and end of a read."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeGuard

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, AtTimestamp, Bound, OffsetSpec, Position
from pyspark_zkafka.protocol.topic_names import describe_bad_names

__all__ = ["parse_assignment", "parse_offsets", "parse_timestamps"]

_SHOWN_CHARACTERS = 200
_INT32, _INT64 = range(2**31), range(-(2**63), 2**63)
_PARTITION = re.compile("[0-9]{1,10}")
_OFFSETS_FORM = '{"topicA": {"0": 23, "1": -2}, "topicB": "earliest"}, with -2 for earliest and -1 for latest'
_COMMIT_FORM = 'offsets of 0 or more by partition: {"topicA": {"0": 23}}'
_TIMESTAMPS_FORM = '{"topicA": {"0": 1700000000000, "1": 1700000000000}}, in milliseconds since the epoch'
_ASSIGN_FORM = '{"topicA": [0, 1], "topicB": [2]}'
_BY_TOPIC: dict[str, Position] = {"earliest": EARLIEST, "latest": LATEST}
_WORDS: dict[str, Position | Literal["committed"]] = {**_BY_TOPIC, "committed": "committed"}
_REFUSED: dict[tuple[Bound | None, object], str] = {
    ("starting", LATEST): "a batch that starts at latest reads nothing; use earliest, committed or offsets",
    ("ending", EARLIEST): "a batch that ends at earliest reads nothing; use latest or offsets",
    ("ending", "committed"): "a batch cannot end at the committed offset; use latest or offsets",
    **{("commit", position): f"expected {_COMMIT_FORM}" for position in _WORDS.values()},
}


def parse_offsets(option: str, text: str, bound: Bound | None) -> OffsetSpec:
    """An `OffsetSpec` from `startingOffsets` or `endingOffsets` of a read, or `commitOffsets` of a write.

    Parameters
    ----------
    text : str
        ``earliest``, ``latest``, ``committed``, or JSON: ``{"topic": {"0": 23, "1": -2}, "other": "earliest"}`` with -2 for
        earliest and -1 for latest.
    bound : "starting", "ending", "commit" or None
        A batch cannot start at latest, nor end at earliest or at the committed offset, and only numbers are committed; None
        allows all.

    References
    ----------
    org.apache.spark.sql.kafka010.JsonUtils and KafkaSourceProvider, Spark 4.2; SPARK-58774 for the form by topic.
    """
    word = text.strip().lower()
    if word in _WORDS:
        _check_allowed(option, _WORDS[word], bound)
        return OffsetSpec(option, everywhere=_WORDS[word])
    by_topic: dict[str, Position] = {}
    by_partition: dict[TopicPartition, Position] = {}
    words = [word for word, position in _WORDS.items() if (bound, position) not in _REFUSED]
    form = f"{', '.join(words)}, or JSON: {_OFFSETS_FORM}" if words else _COMMIT_FORM
    for topic, given in _json_object(option, text, form).items():
        if isinstance(given, str) and given.lower() in _BY_TOPIC:
            by_topic[topic] = _BY_TOPIC[given.lower()]
        else:
            by_partition |= _partitions(option, topic, given, _OFFSETS_FORM)
    for position in (*by_topic.values(), *by_partition.values()):
        _check_allowed(option, position, bound)
    return OffsetSpec(option, by_topic=by_topic, by_partition=by_partition)


def parse_timestamps(option: str, text: str) -> OffsetSpec:
    """An `OffsetSpec` from JSON of milliseconds since the epoch: ``{"topic": {"0": 1000, "1": 1000}}``."""
    by_partition: dict[TopicPartition, Position] = {}
    for topic, given in _json_object(option, text, _TIMESTAMPS_FORM).items():
        for partition, timestamp_ms in _partitions(option, topic, given, _TIMESTAMPS_FORM).items():
            if not 0 <= timestamp_ms < 2**63:
                raise _malformed(option, text, _TIMESTAMPS_FORM)
            by_partition[partition] = AtTimestamp(timestamp_ms)
    return OffsetSpec(option, by_partition=by_partition)


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions of ``{"topic": [0, 1]}``, sorted, each once."""
    found: set[TopicPartition] = set()
    for topic, numbers in _json_object(option, text, _ASSIGN_FORM).items():
        if not isinstance(numbers, list) or not all(type(n) is int and n in _INT32 for n in numbers):
            raise _malformed(option, text, _ASSIGN_FORM)
        found.update(TopicPartition(topic, n) for n in numbers)
    if not found:
        raise _malformed(option, text, _ASSIGN_FORM)
    return tuple(sorted(found))


def _check_allowed(option: str, position: Position | Literal["committed"], bound: Bound | None) -> None:
    reason = _REFUSED.get((bound, position))
    if reason is not None:
        raise OptionError("INVALID_OPTION", f"{option} is {_word(position)}: {reason}")
    if isinstance(position, int) and position < EARLIEST:
        raise OptionError("INVALID_OPTION", f"{option} has the offset {position}; use 0 or more, -1 or -2")


def _word(position: object) -> str:
    words: dict[object, str] = {EARLIEST: "earliest (-2)", LATEST: "latest (-1)"}
    return words.get(position, str(position))


def _json_object(option: str, text: str, form: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed(option, text, form) from None
    if not isinstance(found, dict) or not found:
        raise _malformed(option, text, form)
    if (problem := describe_bad_names(option, found)) is not None:
        raise OptionError("INVALID_OPTION", problem)
    return found


def _partitions(option: str, topic: str, given: object, form: str) -> dict[TopicPartition, int]:
    entries = given.items() if isinstance(given, dict) else ()
    if not entries or not all(_is_partition(p) and _is_long(n) for p, n in entries):
        raise _malformed(option, _as_json(topic, given), form)
    return {TopicPartition(topic, int(p)): n for p, n in entries}


def _is_partition(text: str) -> bool:
    return _PARTITION.fullmatch(text) is not None and int(text) in _INT32


def _is_long(value: object) -> TypeGuard[int]:
    return type(value) is int and value in _INT64


def _as_json(topic: str, given: object) -> str:
    try:
        return json.dumps({topic: given})
    except RecursionError:
        return f"{topic}: JSON that is nested too deeply"


def _malformed(option: str, text: str, form: str) -> OptionError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return OptionError("INVALID_OPTION", f"{option} is {shown!r}; expected {form}")
