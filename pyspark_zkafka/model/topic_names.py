"""Names of topics, and topic filters: the regular expressions in options and in the registrations of group members.

Filters have Java's syntax, as in Spark's own source and Kafka's consumers, and must match the whole name of a topic. Each
member of a group matches the filters of all other members against all topics. The matchers of Java and Python backtrack,
and may never end for a filter such as ``(a+)+[.]``. Python's matcher also holds the interpreter's lock. Filters are
therefore translated and matched by RE2, through pyarrow: in time proportional to pattern and name, and without that lock.

References
----------
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_TOPIC
from pyspark_zkafka.errors import excerpt
from pyspark_zkafka.model.java_patterns import Alternative, FilterError, translate

RULE = "Kafka allows 1 to 255 of the characters a-z, A-Z, 0-9, '.', '_' and '-', but neither '.' nor '..'"

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_SHOWN_CHARACTERS = 60
_SHOWN_NAMES = 5
MAX_PATTERN_CHARS = 10_000
_KEPT_FILTERS = 256
_KEPT_CHARS = 20_000  # a longer filter is not kept, as any client may register filters of a megabyte
_LITERAL = re.compile(r"[^\\.\[\](){}|*+?^$]*")


def is_topic_name(text: str) -> bool:
    """Return True if Kafka allows the name for a topic.

    Other names cannot be passed on: some are not valid in the path of a znode, librdkafka accepts at most 512 bytes, and C
    ends a name at a zero byte. Names of 250 to 255 characters, which Kafka allowed before 0.10 (KAFKA-3219), are valid, as
    such topics may still exist.

    As org.apache.kafka.common.internals.Topic (Kafka 3.9.1) and kafka.common.Topic (Kafka 0.9.0.1).

    >>> is_topic_name("orders.eu-1"), is_topic_name("a/b"), is_topic_name("..")
    (True, False, False)
    """
    return text not in (".", "..") and _NAME.fullmatch(text) is not None


def shown_name(name: str) -> str:
    r"""Format a name for an error: quoted, escaped, and shortened if it is long.

    >>> print(shown_name("a\0b"))
    'a\x00b'
    """
    if len(name) <= _SHOWN_CHARACTERS:
        return repr(name)
    return f"{name[:_SHOWN_CHARACTERS]!r}... ({len(name)} characters)"


def describe_bad_names(option: str, names: Iterable[str]) -> str | None:
    """Describe the topics of an option whose names Kafka does not allow. Return None if Kafka allows all names."""
    bad = [name for name in names if not is_topic_name(name)]
    if not bad:
        return None
    shown = [shown_name(name) for name in bad[:_SHOWN_NAMES]]
    last = f"{len(bad) - _SHOWN_NAMES} more" if len(bad) > _SHOWN_NAMES else shown.pop()
    listed = f"{', '.join(shown)} and {last}" if shown else last
    return f"{option} names the topic{'s' if shown else ''} {listed}; {RULE}. Correct it"


def require_topic_name(name: str) -> None:
    """Raise InvalidRow (INVALID_TOPIC) for a name that Kafka does not allow."""
    if not is_topic_name(name):
        raise INVALID_TOPIC(f"The name {shown_name(name)} is not valid for a topic; {RULE}. Correct the name")


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A regex that must match the whole name of a topic; see `topic_filter`.

    `names` are the alternatives that are plain names. `alternatives` are the other alternatives, translated for RE2.
    """

    names: frozenset[str]
    alternatives: tuple[Alternative, ...]

    def select(self, names: Collection[str]) -> set[str]:
        """Return the names that match."""
        found = set(self.names.intersection(names))
        for patterns in self.alternatives:
            rest = [name for name in names if name not in found]
            for pattern, must_match in patterns:
                rest = [name for name, matches in zip(rest, _matches(pattern, rest), strict=True) if matches is must_match]
            found.update(rest)
        return found


def topic_filter(regex: str) -> TopicFilter:
    r"""Translate a regex to a filter.

    Raises FilterError for a regex that is malformed, not supported, or has over 10,000 characters other than plain names.

    >>> sorted(topic_filter("orders[.].+|audit").select(["orders.eu", "audit", "orders"]))
    ['audit', 'orders.eu']
    >>> topic_filter("(?!__).*").select(["__internal", "orders"])
    {'orders'}
    >>> topic_filter("(a+)+[.]").select(["a" * 60])
    set()
    """
    return _kept(regex) if len(regex) <= _KEPT_CHARS else _made(regex)


def _made(regex: str) -> TopicFilter:
    names, rest = _plain_names(regex)
    if rest is None:
        return TopicFilter(names, ())
    if len(rest) > MAX_PATTERN_CHARS:
        raise FilterError(f"{len(rest)} characters, of which no more than {MAX_PATTERN_CHARS} are allowed")
    alternatives = tuple(translate(rest))
    for patterns in alternatives:
        for pattern, _ in patterns:
            _matches(pattern, [""])  # raises FilterError if the pattern is too large
        # A search finds an empty match at the end of a name, too, where Java does not look for the part.
        if len(patterns) == 1 and not patterns[0][1] and any(_matches(rf"[a.](?:{pattern})\z", ["a", "."])):
            raise FilterError("a part to leave out that can match no characters")
    return TopicFilter(names, alternatives)


_kept = lru_cache(_KEPT_FILTERS)(_made)


def _matches(pattern: str, names: Collection[str]) -> list[bool]:
    import pyarrow.compute as pc  # only patterns need it, and workers and planners should start fast

    try:
        found: list[bool] = pc.match_substring_regex(pa.array(names, pa.string()), pattern).to_pylist()
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")  # the reason may quote the whole pattern
        raise FilterError(excerpt(reason, 120)) from error
    return found


def _plain_names(regex: str) -> tuple[frozenset[str], str | None]:
    """Return the alternatives that are plain names, and the regex of all other alternatives, or None."""
    if "(" in regex or "[" in regex or "\\" in regex:
        return frozenset(), regex  # a bar may be inside a group or a class
    alternatives = regex.split("|")
    names = frozenset(a for a in alternatives if _LITERAL.fullmatch(a))
    rest = [a for a in alternatives if a not in names]
    return names, "|".join(rest) if rest else None
