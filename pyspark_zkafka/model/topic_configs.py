"""Names and values of topics' settings, for a check without brokers.

References
----------
org.apache.kafka.storage.internals.log.LogConfig, Kafka 3.9.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_LONG, _INT = 2**63 - 1, 2**31 - 1

_LEAST_LONG = """
    delete.retention.ms=0 file.delete.delay.ms=0 flush.messages=1 flush.ms=0 local.retention.bytes=-2 local.retention.ms=-2
    max.compaction.lag.ms=1 message.timestamp.after.max.ms=0 message.timestamp.before.max.ms=0
    message.timestamp.difference.max.ms=0 min.compaction.lag.ms=0 retention.ms=-1 segment.jitter.ms=0 segment.ms=1
"""
_LEAST_INT = """
    compression.gzip.level=-1 compression.lz4.level=1 compression.zstd.level=-131072 index.interval.bytes=0
    max.message.bytes=0 min.insync.replicas=1 segment.bytes=14 segment.index.bytes=4
"""
_POLICY, _RATIO = "cleanup.policy", "min.cleanable.dirty.ratio"
_BOOLEANS = """
    message.downconversion.enable preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
    unclean.leader.election.enable
"""
_FORMS = {
    _POLICY: "compact or delete",
    _RATIO: "a number from 0 to 1",
    "compression.type": "uncompressed or zstd or lz4 or snappy or gzip or producer",
    "message.timestamp.type": "CreateTime or LogAppendTime",
    **dict.fromkeys(_BOOLEANS.split(), "true or false"),
}
_TEXTS = {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "message.format.version"}


def _least(text: str, most: int) -> dict[str, tuple[int, int]]:
    return {name: (int(least), most) for name, least in (pair.split("=") for pair in text.split())}


_RANGES = {**_least(_LEAST_LONG, _LONG), **_least(_LEAST_INT, _INT), "retention.bytes": (-_LONG - 1, _LONG)}


def config_problems(settings: Mapping[str, str]) -> list[str]:
    """All problems of some settings of a topic, as far as they do not depend on a broker's version.

    >>> config_problems({"min.insync.replicas": "two", "cleanup.policy": "compact,delete"})
    ["min.insync.replicas is 'two'; expected a whole number from 1 to 2147483647"]
    """
    return [problem for name, value in settings.items() if (problem := _problem(name, value)) is not None]


def _problem(name: str, value: str) -> str | None:
    if name in _TEXTS:
        return None
    if name not in _RANGES and name not in _FORMS:
        return f"Unknown topic config name: {name}"
    expected = _expected(name, value)
    return None if expected is None else f"{name} is {value!r}; expected {expected}"


def _expected(name: str, value: str) -> str | None:
    """The form of a value that does not have it, else None."""
    if name in _RANGES:
        least, most = _RANGES[name]
        return None if _is_integer(value, least, most) else f"a whole number from {least} to {most}"
    if name == _RATIO:
        return None if _is_ratio(value) else _FORMS[name]
    words = {word.strip() for word in value.split(",")} if name == _POLICY else {value}
    return None if words <= set(_FORMS[name].split(" or ")) else _FORMS[name]


def _is_integer(text: str, least: int, most: int) -> bool:
    digits = text.removeprefix("-").removeprefix("+")
    return digits.isdecimal() and digits.isascii() and len(digits) < 20 and least <= int(text) <= most


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1 and not math.isnan(float(text))
    except ValueError:
        return False
