r"""Topic filters: regular expressions that any member may register in a group, and that all of its members must evaluate.

Each member matches the filters of all others against all topics. Python's matcher backtracks: a pattern such as
``(a+)+[.]`` may never end, and blocks the interpreter's lock meanwhile. So filters are matched by RE2, through pyarrow:
in a time that grows with pattern and name alone, and without that lock.

RE2 has no lookarounds, but a filter that begins with a lookahead or ends with a lookbehind, as ``(?!__).*`` does, is split
into two filters, which are both matched. ``((?!test).)*`` is the filter of names that do not contain a part. Refused are
other lookarounds, references to groups, possessive and atomic parts, and syntax that Java and RE2 read differently, such as
a class within a class.

References
----------
https://github.com/google/re2/wiki/Syntax; java.util.regex.Pattern (Java 8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

__all__ = ["FilterError", "TopicFilter", "topic_filter"]

MAX_PATTERN_CHARS = 10_000
_SHOWN_CHARS = 120
_KEPT_FILTERS = 256
_KEPT_CHARS = 20_000  # of a filter that is kept: any client may register others, each a megabyte long
_NAME = re.compile(r"[^\\.\[\](){}|*+?^$]*")
_FLAGS = re.compile(r"\(\?([imsu]+)\)")
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?|.", re.DOTALL)
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_BEFORE_BRACE = re.compile(r"\\[pPx]$")
_WITHOUT = re.compile(r"\^?\((?:\?:)?\(\?!(.+)\)\.\)[*+]\$?")
_AHEAD, _BEHIND = {"(?=": True, "(?!": False}, {"(?<=": True, "(?<!": False}


class FilterError(ValueError):
    """A regex is malformed, or is not one that all members can evaluate."""


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A regex that the whole of a topic's name must match; made by `topic_filter`.

    `names` are its alternatives that are plain names; else a name must match all of `patterns` that go with True, and none
    of the others.
    """

    names: frozenset[str]
    patterns: tuple[tuple[str, bool], ...]

    def select(self, names: Collection[str]) -> set[str]:
        """Those of the names that match."""
        found = self.names.intersection(names)
        rest = [name for name in names if name not in found]
        for pattern, must_match in self.patterns:
            rest = [name for name, matches in zip(rest, _matches(pattern, rest), strict=True) if matches is must_match]
        return {*found, *(rest if self.patterns else ())}


def topic_filter(regex: str) -> TopicFilter:
    r"""The filter of a regex.

    Raises
    ------
    FilterError
        It is malformed or not supported, or it has more than 10,000 characters beside plain names.

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
        raise FilterError(f"it has {len(rest)} characters, of which no more than {MAX_PATTERN_CHARS} are allowed")
    patterns = tuple(_patterns(rest))
    for pattern, _ in patterns:  # with its flags and ends, it may be too large though its parts are not
        _matches(pattern, [""])
    return TopicFilter(names, patterns)


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


def _patterns(regex: str) -> Iterator[tuple[str, bool]]:
    """The patterns for RE2 to search for, each with True if it must match, False if it must not."""
    flags = _FLAGS.match(regex)
    mode = "" if flags is None else "".join(sorted(set(flags[1]) - {"u"}))
    begin = f"(?{mode})" if mode else ""
    rest = regex if flags is None else regex[flags.end() :]
    if (without := _WITHOUT.fullmatch(rest)) is not None and _is_balanced(without[1]):
        if _matches(f"{begin}(?:{_checked(without[1])})", [""]) == [True]:
            raise FilterError("a part to leave out that matches nothing at all")
        yield begin + without[1], False
        return
    groups = _outer_groups(rest)
    if groups is not None and (ahead := _AHEAD.get(rest[:3])) is not None:
        end = groups[0][1]
        yield rf"{begin}\A(?:{_checked(rest[3 : end - 1])})", ahead
        rest = rest[end:]
        groups = _outer_groups(rest)
    if groups and groups[-1][1] == len(rest) and (behind := _BEHIND.get(rest[groups[-1][0] :][:4])) is not None:
        start = groups[-1][0]
        yield rf"{begin}(?:{_checked(rest[start + 4 : -1])})\z", behind
        rest = rest[:start]
    yield rf"{begin}\A(?:{_checked(rest)})\z", True


def _checked(regex: str) -> str:
    """The regex; FilterError if RE2 does not accept it as it is."""
    _matches(regex, [""])
    return regex


def _is_balanced(regex: str) -> bool:
    try:
        _outer_groups(regex)
    except FilterError:
        return False
    return True


def _outer_groups(regex: str) -> list[tuple[int, int]] | None:
    """Start and end of each outermost group; None if the regex as a whole has alternatives."""
    groups: list[tuple[int, int]] = []
    opened: list[int] = []
    in_class = has_alternatives = False
    for match in _TOKEN.finditer(regex):
        token = match[0]
        if in_class:
            if token[0] == "[" or regex.startswith("&&", match.start()):
                raise FilterError(f"a class within a class, at character {match.start()}")
            in_class = token != "]"
        elif token[0] == "[":
            in_class = True
        elif token == "{" and not _COUNT.match(regex, match.start()) and not _BEFORE_BRACE.search(regex[: match.start()]):
            raise FilterError(f"a {{ that begins no repetition, at character {match.start()}")
        elif token == "(":
            opened.append(match.start())
        elif token == ")":
            start = opened.pop() if opened else -1
            if start < 0:
                raise FilterError(f"a ) without its (, at character {match.start()}")
            if not opened:
                groups.append((start, match.end()))
        has_alternatives = has_alternatives or (token == "|" and not opened and not in_class)
    if opened or in_class:
        raise FilterError("a ( or [ without its end")
    return None if has_alternatives else groups
