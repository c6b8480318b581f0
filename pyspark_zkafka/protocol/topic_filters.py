r"""Filters of topics: regular expressions that anybody may register in a group, and all of its members must judge.

Each member matches the filter of each other one against all topics. So a filter is matched in a time that is known before
(see `regex_nodes`), and one that would take too long, or is not understood, is refused as such, by all members alike.

Understood are: characters, ``.``, classes ``[a-z_.-]`` and ``[^...]``, ``\d \w \s`` and their opposites, escapes, ``|``,
groups (capturing, named or not), ``? * + {n} {n,} {n,m}``, each also with a lazy ``?``, ``^ $ \b \B \A \z \Z``,
lookarounds, and ``(?i)`` at the beginning. They mean the same to Java and to Python. Refused are references to groups,
atomic groups, possessive repetitions, flags within, and what Java and Python read differently, such as a class in a class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from pyspark_zkafka.protocol.regex_nodes import LONGEST, WORD, Chars, Choice, Edge, Look, Node, Repeat, Series, Text, choice

__all__ = ["FilterError", "TopicFilter", "matcher", "topic_filter"]

MAX_COST = 200_000
MAX_DEPTH = 20
_KEPT_FILTERS = 256
_KEPT_VERDICTS = 65_536
_NAME = re.compile(r"[^\\.\[\](){}|*+?^$]*")
_FLAGS = re.compile(r"\(\?([imsu]+)\)")
_GROUP = re.compile(r"\((?:\?(?P<kind>:|=|!|<=|<!|P?<[A-Za-z][A-Za-z0-9]*>))?")
_COUNT = re.compile(r"\{(?P<low>[0-9]{1,4})(?P<range>,(?P<high>[0-9]{1,4})?)?\}")
_SIMPLE_COUNTS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_DIGIT = Chars((("0", "9"),))
_SPACE = Chars(tuple((c, c) for c in " \t\n\r\f\v"))
_ANY = Chars((("\n", "\n"),), negated=True)
_CLASSES = {"d": _DIGIT, "w": WORD, "s": _SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_EDGES: dict[str, Literal["begin", "end", "word", "inside"]] = {
    "A": "begin",
    "Z": "end",
    "z": "end",
    "b": "word",
    "B": "inside",
}


_TOO_LARGE = "it would take too long to match: it nests repetitions too deeply, or is too large"


class FilterError(ValueError):
    """A regex that is none, is not understood, or would take too long."""


class TopicFilter:
    """A regex that the whole of a topic's name must match; made by `topic_filter`."""

    def __init__(self, names: frozenset[str], node: Node) -> None:
        self._names = names
        self.node = node

    def matches(self, name: str) -> bool:
        """Whether a topic's name matches; no text of more than 255 characters, which no topic has, does."""
        return name in self._names or (len(name) <= LONGEST and _verdict(self, name))


@lru_cache(_KEPT_FILTERS)
def topic_filter(regex: str) -> TopicFilter:
    r"""The filter of a regex.

    Raises
    ------
    FilterError
        It is none, is not understood, or may take more than 200,000 steps for a name.

    Examples
    --------
    >>> topic_filter("orders[.].+|audit").matches("orders.eu")
    True
    >>> topic_filter("(a+)+[.]").matches("a" * 60)
    False
    """
    names, rest = _plain_names(regex)
    if rest is not None and len(rest) > MAX_COST:
        raise FilterError(_TOO_LARGE)
    node = _Parser(rest).whole() if rest is not None else Choice({}, ())
    if node.cost > MAX_COST:
        raise FilterError(_TOO_LARGE)
    return TopicFilter(names, node)


def matcher(regex: str) -> Callable[[str], bool]:
    """What tells whether the whole of a name matches: a filter, or else, of what only Python understands, Python's own."""
    try:
        return topic_filter(regex).matches
    except FilterError:
        compiled = re.compile(regex)
        return lambda name: compiled.fullmatch(name) is not None


@lru_cache(_KEPT_VERDICTS)
def _verdict(topics: TopicFilter, name: str) -> bool:
    return bool(topics.node.ends(1, Text(name)) >> len(name) & 1)


def _plain_names(regex: str) -> tuple[frozenset[str], str | None]:
    """The alternatives that are plain names, as of a list of topics, and the regex of all others, None for none."""
    if "(" in regex or "[" in regex or "\\" in regex:
        return frozenset(), regex  # not every bar parts alternatives of the whole
    alternatives = regex.split("|")
    names = frozenset(a for a in alternatives if _NAME.fullmatch(a))
    rest = [a for a in alternatives if a not in names]
    return names, "|".join(rest) if rest else None


class _Parser:
    """A regex from left to right; each method reads a part of it."""

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0
        self._depth = 0
        flags = _FLAGS.match(regex)
        self._ignores_case = flags is not None and "i" in flags[1]
        if flags is not None:
            self._at = flags.end()

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._regex):
            raise self._error("a ) without its (")
        return node

    def _choice(self) -> Node:
        parts = [self._series()]
        while self._take("|"):
            parts.append(self._series())
        return choice(parts)

    def _series(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _repeated(self, node: Node) -> Node:
        count = self._count()
        if count is None:
            return node
        if self._take("+"):
            raise self._error("a possessive repetition")
        self._take("?")
        if self._count() is not None:
            raise self._error("a repetition of a repetition")
        return Repeat(node, *count)

    def _count(self) -> tuple[int, int | None] | None:
        match = _COUNT.match(self._regex, self._at)
        if match is None:
            found = _SIMPLE_COUNTS.get(self._peek())
            self._at += found is not None
            return found
        self._at = match.end()
        low = int(match["low"])
        high = low if match["range"] is None else None if match["high"] is None else int(match["high"])
        if high is not None and high < low:
            raise self._error("a repetition whose most is less than its least")
        return low, high

    def _atom(self) -> Node:
        char = self._peek()
        if char == "(":
            return self._group()
        self._at += 1
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        if char == ".":
            return _ANY
        if char in "^$":
            return Edge("begin" if char == "^" else "end")
        if char in "*+?{":
            raise self._error("nothing to repeat")
        return self._literal(char)

    def _group(self) -> Node:
        match = _GROUP.match(self._regex, self._at)
        kind = "" if match is None else match["kind"] or ""
        self._at += 1 if match is None else match.end() - match.start()
        if self._peek() == "?":
            raise self._error("a group of an unknown kind")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} groups in each other")
        node = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a ( without its )")
        return Look(node, "<" in kind, "!" in kind) if kind in ("=", "!", "<=", "<!") else node

    def _escape(self) -> Node:
        char = self._next()
        if char in _EDGES:
            return Edge(_EDGES[char])
        if char.lower() in _CLASSES:
            found = _CLASSES[char.lower()]
            return Chars(found.ranges, negated=char.isupper())
        return self._literal(self._escaped(char))

    def _escaped(self, char: str) -> str:
        """The character that an escape stands for, after its backslash and first character."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in ("x", "u"):
            end = self._at + (2 if char == "x" else 4)
            digits, self._at = self._regex[self._at : end], end
            if re.fullmatch("[0-9a-fA-F]{2}|[0-9a-fA-F]{4}", digits) is None:
                raise self._error("an incomplete number of a character")
            return chr(int(digits, 16))
        if char.isalnum():
            raise self._error(f"\\{char}, which has no meaning here")
        return char

    def _class(self) -> Node:
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        first = True
        while first or self._peek() != "]":
            ranges += self._member()
            first = False
        self._at += 1
        return Chars(tuple(ranges), negated, self._ignores_case)

    def _member(self) -> list[tuple[str, str]]:
        """A character, a range, or a class such as \\d, of a class in brackets."""
        if self._peek() == "\\" and self._regex[self._at + 1 : self._at + 2] in _CLASSES:
            self._at += 2
            if self._peek() == "-" and self._regex[self._at + 1 : self._at + 2] != "]":
                raise self._error("a range from a class")
            return list(_CLASSES[self._regex[self._at - 1]].ranges)
        low = self._member_char()
        if self._peek() != "-" or self._regex[self._at + 1 : self._at + 2] in ("]", ""):
            return [(low, low)]
        self._at += 1
        high = self._member_char()
        if high < low:
            raise self._error("a range that ends before it begins")
        return [(low, high)]

    def _member_char(self) -> str:
        char = self._next()
        if char == "[" or (char == "&" and self._peek() == "&"):
            raise self._error("a class within a class")
        return self._escaped(self._next()) if char == "\\" else char

    def _literal(self, char: str) -> Chars:
        return Chars(((char, char),), ignores_case=self._ignores_case)

    def _peek(self) -> str:
        return self._regex[self._at : self._at + 1]

    def _take(self, char: str) -> bool:
        found = self._peek() == char
        self._at += found
        return found

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("an end")
        self._at += 1
        return char

    def _error(self, found: str) -> FilterError:
        return FilterError(f"{found} before character {self._at} is not understood")
