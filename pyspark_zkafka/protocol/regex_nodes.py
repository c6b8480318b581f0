"""Parts of a regular expression that are matched by sets of positions, in a time that their form bounds.

A matcher that backtracks, as Python's and Java's do, follows one way through the expression at a time. Where repetitions
are nested, there are exponentially many, and Python's keeps the interpreter's lock all the while. Here a part is asked for
all positions at which it may end, given all at which it may begin. That takes as many steps as the part has, each some
operations on integers whose bits are positions; a repetition takes one round for each position at the most. What needs the
way and not the set, such as a reference to a group, cannot be expressed.

References
----------
R. Cameron et al., Bitwise data parallelism in regular expression matching (2014): the carry of an addition as a repetition
of characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = ["LONGEST", "Chars", "Choice", "Edge", "Look", "Node", "Repeat", "Series", "Text", "choice"]

LONGEST = 255
"""The characters of the longest text for which `cost` holds: the longest name of a topic."""
_ROUNDS = LONGEST + 1
_MAX_BRANCHES = 10  # each takes two frames of the stack


class Text:
    """A text to match, by the positions of each of its characters: bit n of a mask is the position before character n."""

    def __init__(self, text: str) -> None:
        self.length = len(text)
        self.everywhere = (2 << self.length) - 1
        self.positions: dict[str, int] = {}
        for n, char in enumerate(text):
            self.positions[char] = self.positions.get(char, 0) | 1 << n


class Node(Protocol):
    """A part of an expression; `cost` is how many steps one question takes at the most, for a text of `LONGEST`."""

    @property
    def cost(self) -> int: ...

    def ends(self, starts: int, text: Text) -> int:
        """The positions at which the part may end if it begins at any of `starts`."""
        ...


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of some ranges, ends included; or, negated, of none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False
    ignores_case: bool = False
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cost(self) -> int:
        return 1

    def ends(self, starts: int, text: Text) -> int:
        return (starts & self.where(text)) << 1

    def where(self, text: Text) -> int:
        """The positions before such a character."""
        if self.is_literal:
            return text.positions.get(self.ranges[0][0], 0)
        return sum(mask for char, mask in text.positions.items() if self._has(char))

    @property
    def is_literal(self) -> bool:
        """Whether it is one certain character."""
        return not (self.negated or self.ignores_case) and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]

    def _has(self, char: str) -> bool:
        known = self._known.get(char)
        if known is None:
            cases = (char, char.swapcase()) if self.ignores_case and char.isascii() else (char,)
            known = any(low <= case <= high for case in cases for low, high in self.ranges) is not self.negated
            self._known[char] = known
        return known


@dataclass(frozen=True, slots=True)
class Series:
    """One part after the other."""

    parts: tuple[Node, ...]
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", 1 + sum(part.cost for part in self.parts))

    def ends(self, starts: int, text: Text) -> int:
        for part in self.parts:
            if not starts:
                break
            starts = part.ends(starts, text)
        return starts


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of several parts; `after` holds those that begin with a certain character, without it."""

    after: Mapping[str, Node]
    others: tuple[Node, ...]
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        cost = sum(1 + part.cost for part in (*self.after.values(), *self.others))
        object.__setattr__(self, "cost", 1 + cost)

    def ends(self, starts: int, text: Text) -> int:
        found = 0
        for char, places in text.positions.items() if self.after else ():
            part = self.after.get(char) if places & starts else None
            if part is not None:
                found |= part.ends((places & starts) << 1, text)
        for part in self.others:
            found |= part.ends(starts, text)
        return found


def choice(parts: Sequence[Node], depth: int = 0) -> Node:
    """Any of several parts; those that begin with the same characters are matched as one, so that a long list is cheap."""
    if len(parts) == 1:
        return parts[0]
    all_series = [_parts(part) for part in parts]
    shared = _shared(all_series)
    if shared:
        rest = choice([Series(series[shared:]) for series in all_series], depth)
        return Series((*all_series[0][:shared], *_parts(rest)))
    after: dict[str, list[Node]] = {}
    others: list[Node] = []
    for part, series in zip(parts, all_series, strict=True):
        char = _literal(series, 0) if depth < _MAX_BRANCHES else None
        if char is None:
            others.append(part)
        else:
            after.setdefault(char, []).append(Series(series[1:]))
    return Choice({char: choice(rests, depth + 1) for char, rests in after.items()}, tuple(others))


def _parts(node: Node) -> tuple[Node, ...]:
    return node.parts if isinstance(node, Series) else (node,)


def _literal(series: Sequence[Node], n: int) -> str | None:
    part = series[n] if n < len(series) else None
    return part.ranges[0][0] if isinstance(part, Chars) and part.is_literal else None


def _shared(all_series: Sequence[Sequence[Node]]) -> int:
    """With how many certain characters all of them begin."""
    count = 0
    while (char := _literal(all_series[0], count)) and all(_literal(series, count) == char for series in all_series):
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part `low` times or more, `high` times at the most, None for any number."""

    part: Node
    low: int
    high: int | None

    @property
    def cost(self) -> int:
        if self._is_run:
            return 1 + min(self.low, _ROUNDS)
        more = _ROUNDS if self.high is None else self.high - self.low
        return 1 + self.part.cost * (min(self.low, _ROUNDS) + min(more, _ROUNDS))

    def ends(self, starts: int, text: Text) -> int:
        found = starts
        for _ in range(min(self.low, text.length + 1)):  # after as many times as there are positions it stays the same
            if not found:
                return 0
            found = self.part.ends(found, text)
        if self._is_run:
            return self._run(found, text)
        left = text.length + 1 if self.high is None else min(self.high - self.low, text.length + 1)
        fresh = found
        while fresh and left:
            fresh = self.part.ends(fresh, text) & ~found
            found |= fresh
            left -= 1
        return found

    @property
    def _is_run(self) -> bool:
        return self.high is None and isinstance(self.part, Chars)

    def _run(self, starts: int, text: Text) -> int:
        """Any number of characters: an addition carries each start through all that follow it without a break."""
        if not isinstance(self.part, Chars):
            return starts
        where = self.part.where(text)
        return (((starts & where) + where) ^ where) | starts


@dataclass(frozen=True, slots=True)
class Look:
    """Whether a part follows (or, behind, precedes) a position, or does not; it takes no character itself."""

    part: Node
    behind: bool
    negated: bool

    @property
    def cost(self) -> int:
        return 1 + self.part.cost * (1 if self.behind else _ROUNDS)

    def ends(self, starts: int, text: Text) -> int:
        found = starts & self.part.ends(text.everywhere, text) if self.behind else self._followed(starts, text)
        return starts & ~found if self.negated else found

    def _followed(self, starts: int, text: Text) -> int:
        places = (1 << n for n in range(starts.bit_length()) if starts >> n & 1)
        return sum(place for place in places if self.part.ends(place, text))


@dataclass(frozen=True, slots=True)
class Edge:
    """The beginning or the end of the text, or (not) the edge of a word; it takes no character."""

    kind: Literal["begin", "end", "word", "inside"]

    @property
    def cost(self) -> int:
        return 1

    def ends(self, starts: int, text: Text) -> int:
        if self.kind == "begin":
            return starts & 1
        if self.kind == "end":
            return starts & 1 << text.length
        within = WORD.where(text)
        edges = (within ^ within << 1) & text.everywhere
        return starts & (edges if self.kind == "word" else ~edges)


WORD = Chars((("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_")))
