"""The options that a user gave, taken one by one and checked against the table; problems gather until the end."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.table import BY_NAME, STREAM, Scope

__all__ = ["Given", "choose", "whole_number"]

T = TypeVar("T")
D = TypeVar("D")


class Given:
    """Options by name, in any case of letters; `finish` raises all problems at once.

    Parameters
    ----------
    raw : mapping
        As the user spelled them.
    scope : "read", "stream" or "write"
        What they are for. A name that the table does not know there is a problem; those of streams alone are let through
        for a batch read, which ignores them.
    """

    def __init__(self, raw: Mapping[str, str], scope: Scope) -> None:
        self.raw = {name.lower(): (name, str(value)) for name, value in raw.items()}
        self.scope = scope
        self.problems: list[str] = []
        self._check_names()

    def _check_names(self) -> None:
        for lower, (name, _) in self.raw.items():
            option = BY_NAME.get(lower)
            if lower.startswith("kafka.") or (option is not None and self.scope in option.scopes):
                continue
            if option is None:
                self.problems.append(f"unknown option {name}{_nearest(lower)}")
            elif option.scopes != STREAM or self.scope != "read":
                self.problems.append(f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {self.scope}")

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name.lower() in self.raw

    def text(self, name: str, default: str = "") -> str:
        """The value without blanks around it."""
        return self.raw.get(name.lower(), (name, default))[1].strip()

    def optional(self, name: str) -> str | None:
        """The same, None if it was not given; to be empty is a problem."""
        if self.has(name) and not self.text(name):
            self.problems.append(f"{name} is empty; give a value or leave it out")
        return self.text(name) or None

    def parsed(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """The value as `parse` reads it; a ValueError or OptionError of it is a problem."""
        if not self.has(name):
            return default
        try:
            return parse(self.text(name))
        except OptionError as error:
            self.problems.append(error.message)
        except ValueError as error:
            self.problems.append(f"{name} is {self.text(name)!r}; expected {error}")
        return default

    def choice(self, name: str, choices: Mapping[str, T], default: D) -> T | D:
        """What the value stands for, in any case of letters."""
        return self.parsed(name, lambda text: choose(text, choices), default)

    def boolean(self, name: str, default: bool) -> bool:
        """``true`` or ``false``."""
        return self.choice(name, {"true": True, "false": False}, default)

    def integer(self, name: str, at_least: int, default: D) -> int | D:
        """A whole number of at most 18 digits."""
        return self.parsed(name, lambda text: whole_number(text, at_least), default)

    def finish(self) -> None:
        """Raise INVALID_OPTIONS with every problem, if there is one."""
        if self.problems:
            listed = "; ".join(f"({i}) {p}" for i, p in enumerate(self.problems, 1))
            raise OptionError(
                "INVALID_OPTIONS",
                f"{len(self.problems)} problem(s) with the options: {listed}",
                problems=tuple(self.problems),
            )


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.6)
    if not near and f"kafka.{name}" in BY_NAME:
        near = [f"kafka.{name}"]
    return f"; did you mean {BY_NAME[near[0]].name}?" if near else "; docs/options.md lists all options"


def choose(text: str, choices: Mapping[str, T]) -> T:
    if text.lower() not in choices:
        raise ValueError(" or ".join(choices))
    return choices[text.lower()]


def whole_number(text: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or int(text) < at_least:
        raise ValueError(f"a whole number, {at_least} or more")
    return int(text)
