r"""Topic filters: the regular expressions that options name, and those that any client may register in a group.

They are Java's, as Spark's own source and Kafka's consumers take them, and must match the whole of a topic's name. Each
member of a group matches the filters of all others against all topics. A matcher that backtracks, as Java's and Python's,
may never end for one such as ``(a+)+[.]``, and Python's blocks the interpreter's lock meanwhile. So filters are translated,
and matched by RE2, through pyarrow: in a time that grows with pattern and name alone, and without that lock.

References
----------
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from pyspark_zkafka.model.java_patterns import Alternative, FilterError, translate

__all__ = ["FilterError", "TopicFilter", "topic_filter"]

MAX_PATTERN_CHARS = 10_000
_SHOWN_CHARS = 120
_KEPT_FILTERS = 256
_KEPT_CHARS = 20_000  # of a filter that is kept: any client may register others, each a megabyte long
_NAME = re.compile(r"[^\\.\[\](){}|*+?^$]*")


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A regex that the whole of a topic's name must match; made by `topic_filter`.

    `names` are its alternatives that are plain names, `alternatives` the others.
    """

    names: frozenset[str]
    alternatives: tuple[Alternative, ...]

    def select(self, names: Collection[str]) -> set[str]:
        """Those of the names that match."""
        found = set(self.names.intersection(names))
        for patterns in self.alternatives:
            rest = [name for name in names if name not in found]
            for pattern, must_match in patterns:
                rest = [name for name, matches in zip(rest, _matches(pattern, rest), strict=True) if matches is must_match]
            found.update(rest)
        return found


def topic_filter(regex: str) -> TopicFilter:
    r"""The filter of a regex.

    Raises
    ------
    FilterError
        It is malformed or not supported, or it has more than 10,000 characters other than plain names.

    Examples
    --------
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
        found = [_matches(pattern, [""]) for pattern, _ in patterns]  # raises FilterError for one that is too large
        if len(patterns) == 1 and not patterns[0][1] and found == [[True]]:
            raise FilterError("a part to leave out that matches nothing at all")
    return TopicFilter(names, alternatives)


_kept = lru_cache(_KEPT_FILTERS)(_made)


def _matches(pattern: str, names: Collection[str]) -> list[bool]:
    import pyarrow.compute as pc  # for patterns alone: workers and planners without them do not load it

    try:
        found: list[bool] = pc.match_substring_regex(pa.array(names, pa.string()), pattern).to_pylist()
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")  # which may quote all of the pattern
        raise FilterError(reason if len(reason) <= _SHOWN_CHARS else f"{reason[:_SHOWN_CHARS]}...") from error
    return found


def _plain_names(regex: str) -> tuple[frozenset[str], str | None]:
    """The alternatives that are plain names, as in a list of topics, and the regex of the others, None for none."""
    if "(" in regex or "[" in regex or "\\" in regex:
        return frozenset(), regex  # not every bar separates alternatives of the whole
    alternatives = regex.split("|")
    names = frozenset(a for a in alternatives if _NAME.fullmatch(a))
    rest = [a for a in alternatives if a not in names]
    return names, "|".join(rest) if rest else None
