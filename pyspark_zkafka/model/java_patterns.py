r"""Java's regular expressions, translated for RE2, as far as they concern the names of topics.

The translation is exact for names of the 65 characters that Kafka allows. A class becomes its set of these characters, and
``(?i)`` becomes sets of letters. An error names the first part that RE2 cannot match in bounded time.

References
----------
java.util.regex.Pattern, Java 17; tests/vectors/JavaPatterns.java compares.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

Alternative = tuple[tuple[str, bool], ...]
"""RE2 patterns to search for. A name matches if all patterns with True are found, and none with False."""

_ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_GROUP = re.compile(
    r"\(\?(?:P?<(?P<name>[a-zA-Z][a-zA-Z0-9_]*)>|(?P<look><?[=!])|(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)]))"
)
_COUNT = re.compile(r"\{(?P<least>[0-9]{1,10})(?:,(?P<most>[0-9]{0,10}))?\}")
_CODE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|x\{(?P<braced>[0-9a-fA-F]{1,6})\}|u(?P<u>[0-9a-fA-F]{4})|0(?P<octal>[0-3]?[0-7]{1,2})|c(?P<c>.))"
)
_PROPERTY = re.compile(r"\\[pP](?:\{(?P<name>[^{}]*)\}|(?P<letter>[^{]))")
_WITHOUT = re.compile(r"(?P<flags>\(\?[a-zA-Z]*\))?\^?\((?:\?:)?\(\?!(?P<part>.+)\)\.\)[*+]\$?", re.DOTALL)
_MOST_NESTED = 100
_MOST_REPEATED = 1000
_MOST_COPIES = 2_000  # RE2 takes minutes for 300,000
_NOTHING = r"[^\x00-\x{10FFFF}]"
_ANCHORS = {"^": r"\A", "$": r"\z", r"\A": r"\A", r"\G": r"\A", r"\z": r"\z", r"\Z": r"\z", r"\b": r"\b", r"\B": r"\B"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_FLAGS_WITHOUT_EFFECT = frozenset("dmsuU")  # they concern lines, and letters that names of topics cannot have
_LOOKS = {"=": "lookahead", "!": "lookahead", "<=": "lookbehind", "<!": "lookbehind"}
_CASED = frozenset(
    {"lower", "upper", "ll", "lu", "lt", "lowercase", "uppercase", "titlecase", "javalowercase", "javauppercase"}
)


class FilterError(ValueError):
    """A regular expression is malformed, or has an unsupported part, which the text names."""


def _of(test: Callable[[str], bool]) -> frozenset[str]:
    return frozenset(filter(test, _ALPHABET))


_DIGITS, _LETTERS = _of(str.isdigit), _of(str.isalpha)
_CLASSES = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    **dict.fromkeys("shv", frozenset[str]()),
}
_PROPERTIES = {
    **dict.fromkeys(("ASCII", "Graph", "Print", "L1", "all"), _ALPHABET),
    **dict.fromkeys(("Alpha", "IsAlphabetic", "IsLetter", "IsLatin"), _LETTERS),
    **dict.fromkeys(("Digit", "IsDigit"), _DIGITS),
    **dict.fromkeys(("Lower", "IsLowercase"), _of(str.islower)),
    **dict.fromkeys(("Upper", "IsUppercase"), _of(str.isupper)),
    **dict.fromkeys(("Punct", "IsPunctuation"), frozenset("._-")),
    **dict.fromkeys(("Blank", "Cntrl", "Space"), frozenset[str]()),
    "Alnum": _LETTERS | _DIGITS,
    "XDigit": _of(lambda c: c in string.hexdigits),
}


def translate(regex: str) -> list[Alternative]:
    r"""Translate a regular expression that must match a whole name. A name matches if it matches any of the alternatives.

    Raises FilterError if the expression is malformed, or not supported.

    >>> translate("orders[.][a-z&&[^b-d]]+")
    [(('\\A(?:orders[.](?:[ae-z])+)\\z', True),)]
    >>> translate("(?!__).*")
    [(('\\A(?:__)', False), ('\\A(?:(?:.)*)\\z', True))]
    >>> translate("((?!test).)*")
    [(('test', False),)]
    """
    text = _QUOTED.sub(_unquoted, regex)
    without = _WITHOUT.fullmatch(text)
    if without is not None:
        parser = _Parser((without["flags"] or "") + without["part"])
        with suppress(FilterError):
            part = parser.alternatives()
            if parser.at == len(parser.text):
                return [((part, False),)]
    return _Parser(text).alternatives_of_all()


def _unquoted(match: re.Match[str]) -> str:
    r"""Escape each character between \Q and \E. Leave other escapes unchanged."""
    if match[1] is None:
        return match[0]
    return "".join(c if c.isalnum() and not c.isdigit() else f"\\x{{{ord(c):x}}}" for c in match[1])


@dataclass
class _Item:
    """A part of a sequence: its RE2 pattern, and whether it consumes characters."""

    pattern: str
    consumes: bool = True


class _Parser:
    """A recursive-descent parser for the grammar of Java's Pattern.

    `at` is the next character, and `folds` is true below ``(?i)``. `parts` counts atoms, and `copies` the atoms that RE2
    adds for counted repetitions.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.folds = False
        self.is_behind = False
        self.parts = self.copies = 0
        self.names: set[str] = set()

    def error(self, what: str, at: int | None = None) -> FilterError:
        return FilterError(f"{what}, at character {self.at if at is None else at}")

    def next_is(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def match(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        """Match at the present position, and skip the match."""
        found = expected.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def alternatives_of_all(self) -> list[Alternative]:
        """Parse the whole text. Alternatives without a lookaround become one alternative."""
        plain: list[str] = []
        found: list[Alternative] = []
        while True:
            looks: list[tuple[str, bool]] = []
            body = self.sequence(looks)
            if looks:
                found.append((*looks, (rf"\A(?:{body})\z", True)))
            else:
                plain.append(body)
            if not self.next_is("|"):
                break
            self.at += 1
        if self.at < len(self.text):
            raise self.error("a ) without its (")
        return [*found, ((rf"\A(?:{'|'.join(plain)})\z", True),)] if plain else found

    def alternatives(self) -> str:
        """Parse the alternatives up to the end of a group, or of the text."""
        found = [self.sequence()]
        while self.next_is("|"):
            self.at += 1
            found.append(self.sequence())
        return "|".join(found)

    def sequence(self, looks: list[tuple[str, bool]] | None = None) -> str:
        """Parse the items up to a bar or the end. Add lookarounds at both ends to `looks`, and refuse other lookarounds."""
        found: list[str] = []
        consumes = False
        behind: int | None = None
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start = self.at
            look = self.look()
            if look is not None:
                kind, pattern, is_positive = look
                if looks is None or (kind == "lookahead" and consumes):
                    raise self.error(f"a {kind} that is not at the {'start' if kind == 'lookahead' else 'end'}", start)
                looks.append((pattern, is_positive))
                behind = start if kind == "lookbehind" and behind is None else behind
                continue
            item = self.item()
            if item is None:
                continue
            if item.consumes and behind is not None:
                raise self.error("a lookbehind that is not at the end", behind)
            consumes = consumes or item.consumes
            found.append(item.pattern)
        return "".join(found)

    def look(self) -> tuple[str, str, bool] | None:
        """Parse a lookaround. Return its kind, its pattern, and whether it must match; None if there is no lookaround."""
        group = _GROUP.match(self.text, self.at)
        if group is None or group["look"] is None:
            return None
        start, folds = self.at, self.folds
        kind = _LOOKS[group["look"]]
        self.at = group.end()
        self.is_behind = kind == "lookbehind"
        inner = self.inside(start)
        self.folds, self.is_behind = folds, False
        if self.text[self.at : self.at + 1] in ("*", "+", "?", "{"):
            raise self.error("a repeated lookaround", start)
        pattern = rf"\A(?:{inner})" if kind == "lookahead" else rf"(?:{inner})\z"
        return kind, pattern, group["look"].endswith("=")

    def item(self) -> _Item | None:
        """Parse an atom with its repetition. Return None for flags."""
        start, char, before = self.at, self.text[self.at], self.parts
        if char in "*+?":
            raise self.error(f"a {char} that repeats nothing")
        if char == "{":
            raise self.error("a { that begins no repetition")
        atom = self.group() if char == "(" else self.simple(char)
        if atom is None:
            return None
        self.parts += 1
        count = self.count()
        if count is None:
            return atom
        copies = (self.parts - before) * max([0, *(int(n) - 1 for n in re.findall("[0-9]+", count))])
        self.parts, self.copies = self.parts + copies, self.copies + copies
        if self.copies > _MOST_COPIES:
            raise self.error(f"repetitions of more than {_MOST_COPIES} parts in all", start)
        if self.is_behind and (count in "*+" or count.endswith(",}")):
            raise self.error("a lookbehind of any length", start)
        if self.next_is("+"):
            raise self.error("a possessive repetition", start)
        self.at += self.next_is("?")  # irrelevant, as the whole name must match
        if self.at < len(self.text) and self.text[self.at] in "*+?{":
            raise self.error("a repetition of a repetition", start)
        return _Item(f"(?:{atom.pattern}){count}", atom.consumes)

    def count(self) -> str | None:
        """Parse the repetition after an atom, if there is one."""
        char = self.text[self.at : self.at + 1]
        if char and char in "*+?":
            self.at += 1
            return char
        if char != "{":
            return None
        start, found = self.at, self.match(_COUNT)
        if found is None:
            raise self.error("a { that begins no repetition")
        least, most = int(found["least"]), int(found["most"] or 0)
        if found["most"] and most < least:
            raise self.error("a repetition with a minimum above its maximum", start)
        if max(least, most) > _MOST_REPEATED:
            raise self.error(f"a repetition of more than {_MOST_REPEATED} times", start)
        # RE2 takes a count with leading zeros for literal text.
        return re.sub(r"\b0+(?=\d)", "", found[0])

    def group(self) -> _Item | None:
        """Parse a group. Return None for flags that apply to the rest of the enclosing group."""
        start, folds = self.at, self.folds
        found = self.match(_GROUP)
        if found is None:
            if self.next_is("(?>"):
                raise self.error("an atomic group")
            if self.next_is("(?"):
                raise self.error("an unknown kind of group")
            self.at += 1
        elif found["end"]:
            self.set_flags(found["on"], found["off"] or "", start)
            if found["end"] == ")":
                return None
        elif found["name"] in self.names:
            raise self.error(f"a second group {found['name']}", start)
        else:
            self.names.add(found["name"])
        inner = self.inside(start)
        self.folds = folds
        return _Item(f"(?:{inner})")

    def inside(self, start: int) -> str:
        """Parse the inside of a group that started at `start`, and skip its end."""
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise self.error(f"more than {_MOST_NESTED} groups or classes within each other", start)
        inner = self.alternatives()
        if not self.next_is(")"):
            raise self.error("a ( without its )", start)
        self.at += 1
        self.depth -= 1
        return inner

    def set_flags(self, on: str, off: str, start: int) -> None:
        for flag in on + off:
            if flag == "x":
                raise self.error("the flag x", start)
            if flag != "i" and flag not in _FLAGS_WITHOUT_EFFECT:
                raise self.error(f"an unknown flag {flag}", start)
        self.folds = (self.folds or "i" in on) and "i" not in off

    def simple(self, char: str) -> _Item:
        """Parse an atom that is a character, a class or an anchor."""
        if char == "[":
            return _Item(_emit(self.char_class()))
        pair = self.text[self.at : self.at + 2] if char == "\\" else char
        if pair in _ANCHORS:
            if self.next_is(r"\b{g}"):
                raise self.error(r"\b{g}")
            self.at += len(pair)
            return _Item(_ANCHORS[pair], consumes=False)
        if pair in (".", r"\X"):
            self.at += len(pair)
            return _Item(".")
        if pair == r"\R":
            self.at += len(pair)
            return _Item(_NOTHING)
        if char != "\\":
            self.at += 1
            return _Item(_emit(self.folded({char})))
        if pair[1:] and pair[1:] in "123456789k":
            raise self.error("a reference to a group")
        found = self.escape()
        return _Item(_emit(self.folded({found}) if isinstance(found, str) else found))

    def escape(self) -> str | frozenset[str]:
        start, letter = self.at, self.text[self.at + 1 : self.at + 2]
        if (code := self.match(_CODE)) is not None:
            if code["c"]:
                return chr(ord(code["c"]) ^ 64)
            number = int(code["octal"], 8) if code["octal"] else int(code["x"] or code["braced"] or code["u"], 16)
            if number > 0x10FFFF:
                raise self.error("a character beyond U+10FFFF", start)
            return chr(number)
        if letter in ("p", "P"):
            return self.property_class()
        if not letter:
            raise self.error(r"a \ at the end")
        self.at += 2
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.lower() in _CLASSES:
            found = _CLASSES[letter.lower()]
            return found if letter.islower() else _ALPHABET - found
        if letter.isascii() and letter.isalnum():
            raise self.error(f"an unknown escape \\{letter}", start)
        return letter

    def property_class(self) -> frozenset[str]:
        start, is_negated = self.at, self.text[self.at + 1] == "P"
        match = self.match(_PROPERTY)
        name = "" if match is None else match["name"] or match["letter"] or ""
        found = _property(name)
        if match is None or found is None:
            raise self.error(f"an unknown class \\p{{{name}}}", start)
        if self.folds and name.rpartition("=")[2].removeprefix("Is").lower() in _CASED:
            found = _LETTERS
        return _ALPHABET - found if is_negated else found

    def folded(self, characters: set[str]) -> set[str]:
        if not self.folds:
            return characters
        return {other for c in characters for other in ((c.lower(), c.upper()) if c.isascii() else (c,))}

    def char_class(self, *, consumes: bool = True) -> frozenset[str]:
        """Parse a class with its unions and intersections, as Java's Pattern.clazz does."""
        start = self.at
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise self.error(f"more than {_MOST_NESTED} groups or classes within each other", start)
        self.at += 1
        is_negated = consumes and self.next_is("^")
        self.at += is_negated
        found: frozenset[str] | None = None
        while True:
            if self.at >= len(self.text):
                raise self.error("a [ without its ]", start)
            if self.next_is("["):
                found = (found or frozenset()) | self.char_class()
            elif self.next_is("&&"):
                found = self.intersection(found, start)
            elif self.next_is("]") and found is not None:
                break
            else:
                found = (found or frozenset()) | self.members()
        self.at += consumes
        self.depth -= 1
        return _ALPHABET - found if is_negated else found

    def intersection(self, left: frozenset[str] | None, start: int) -> frozenset[str]:
        self.at += 2
        right: frozenset[str] | None = None
        while not (self.next_is("]") or self.next_is("&")):
            if self.at >= len(self.text):
                raise self.error("a [ without its ]", start)
            is_nested = self.next_is("[")
            self.at -= not is_nested
            right = (right or frozenset()) | self.char_class(consumes=is_nested)
        if right is None or left is None:
            raise self.error("an intersection of classes without one of its sides")
        return left & right

    def members(self) -> frozenset[str]:
        """Parse a character, an escape or a range inside a class."""
        start = self.at
        first = self.member()
        if not isinstance(first, str):
            return first
        if not self.next_is("-") or self.text[self.at + 1 : self.at + 2] in ("[", "]", ""):
            return frozenset(self.folded({first})) & _ALPHABET
        self.at += 1
        last = self.member()
        if not isinstance(last, str) or last < first:
            raise self.error("a range of characters without an end", start)
        return _of(lambda c: any(first <= case <= last for case in self.folded({c})))

    def member(self) -> str | frozenset[str]:
        if self.next_is("\\"):
            return self.escape()
        self.at += 1
        return self.text[self.at - 1]


def _property(name: str) -> frozenset[str] | None:
    r"""Return the characters of ``\p{name}``; None for an unsupported name."""
    if name in _PROPERTIES:
        return _PROPERTIES[name]
    category = re.sub("^(?:Is|gc=|general_category=)", "", name)
    if re.fullmatch("[LMNPSZC][a-z]?|LC|LD", category) is None:
        return None
    kinds = {"LC": ("Lu", "Ll", "Lt"), "LD": ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")}.get(category, (category,))
    return _of(lambda c: unicodedata.category(c).startswith(kinds))


def _emit(characters: frozenset[str] | set[str]) -> str:
    """Return the RE2 pattern that matches any one of the characters."""
    if len(characters) == 1:
        (char,) = characters
        is_plain = char == "_" or (char.isascii() and char.isalnum())
        return char if is_plain else "[.]" if char == "." else f"\\x{{{ord(char):x}}}"
    found, rest = "", sorted(map(ord, characters))
    while rest:
        length = next(n for n in range(1, len(rest) + 1) if n == len(rest) or rest[n] != rest[0] + n)
        first, last = (f"\\x{{{code:x}}}" if not chr(code).isalnum() else chr(code) for code in (rest[0], rest[length - 1]))
        found += first if length == 1 else first + last if length == 2 else f"{first}-{last}"
        rest = rest[length:]
    return f"[{found}]" if found else _NOTHING
