"""Parser of options: looks them up by name, reads them by their rows in the table, and collects the problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark_zkafka.errors import OptionError, nearest
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.secrets import resolve_references
from pyspark_zkafka.options.table import BY_NAME, STREAM, Scope

__all__ = ["OptionParser"]

_OF_THE_ROW = object()


class OptionParser:
    """Parser of the options of one read, stream or write; `finish` raises all problems at once.

    Names are case-insensitive. A name that the table does not have for the scope is a problem; a batch read ignores those
    of streams. Secret options may refer to environment variables and files, see `resolve_references`.
    """

    def __init__(self, raw: Mapping[str, str], scope: Scope) -> None:
        self.scope = scope
        self.problems: list[str] = []
        self.raw = {name.lower(): (name, self._resolve(name, str(value))) for name, value in raw.items()}
        self._check_names()

    def _resolve(self, name: str, value: str) -> str:
        option = BY_NAME.get(name.lower())
        if not (is_secret(name) if option is None else option.secret):
            return value
        try:
            return resolve_references(value)
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return value

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
        """True if the option was given."""
        return name.lower() in self.raw

    def text(self, name: str) -> str:
        """The value as it was given, without blanks around it; empty if it was not given."""
        return self.raw.get(name.lower(), (name, ""))[1].strip()

    def value(self, name: str, default: Any = _OF_THE_ROW, read: Callable[[str, str], Any] | None = None) -> Any:
        """The value as the option's kind reads it, or as `read` does; the default if it was not given, or is a problem.

        `default` is the value of a row's derived default.
        """
        option = BY_NAME[name.lower()]
        try:
            if self.has(name):
                return (read or option.kind.read)(name, self.text(name))
        except OptionError as error:
            self.problems.append(error.message)
        except ValueError as error:
            found = "malformed" if option.secret else repr(self.text(name))
            self.problems.append(f"{name} is {found}; expected {error}")
        return option.default_value() if default is _OF_THE_ROW else default

    def refuse_if(self, condition: bool, problem: str) -> None:
        """Add a problem if a condition holds."""
        if condition:
            self.problems.append(problem)

    def finish(self) -> None:
        """Raise INVALID_OPTIONS with every problem, if there is one."""
        if self.problems:
            listed = "; ".join(f"({i}) {p}" for i, p in enumerate(self.problems, 1))
            text = f"{len(self.problems)} problem(s) with the options: {listed}"
            raise OptionError("INVALID_OPTIONS", text, problems=tuple(self.problems))


def _nearest(name: str) -> str:
    near = nearest(name, BY_NAME) or f"kafka.{name}"
    return f"; did you mean {BY_NAME[near].name}?" if near in BY_NAME else "; docs/options.md lists all options"
