"""A row of the table of options, and its rules about other options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pyspark_zkafka.options.kinds import Kind

Scope = Literal["read", "write", "stream"]
STREAM: tuple[Scope, ...] = ("stream",)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of an option about other options: at least one of `names` must be given, or with `excludes` none of them.

    With `values`, an option in `names` counts only if it has one of these values, given or by default. With `when`, the
    rule applies only if its own option has one of these values. All values are in lower case.

    In an error, `problem` follows the name of the rule's own option, and with `when` also its value. ``{found}`` stands for
    the first of `names` and its value.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    problem: str
    excludes: bool = False
    when: tuple[str, ...] = ()


def needs(name: str, *values: str, problem: str = "", when: tuple[str, ...] = ()) -> Rule:
    """Return the rule that an option needs the option `name`, with one of `values` if there are any."""
    return Rule((name,), values, problem or f"needs {'='.join((name, *values[:1]))}", when=when)


def excludes(name: str, *values: str, problem: str, when: tuple[str, ...] = ()) -> Rule:
    """Return the rule that an option cannot be combined with the option `name`, or with one of its `values`."""
    return Rule((name,), values, problem, excludes=True, when=when)


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table.

    `doc` is Markdown. `default` is a text that a user could write. `derived` describes, in words, a default that depends on
    other options and that the parsers compute. The value of a `secret` option is never shown.

    The `rules` of a given option are checked in order. Only the first broken rule is reported.
    """

    name: str
    kind: Kind
    doc: str
    default: str | None = None
    derived: str = ""
    secret: bool = False
    rules: tuple[Rule, ...] = ()
    scopes: tuple[Scope, ...] = ("read", "stream", "write")

    def default_value(self) -> Any:
        """Return the default as the option's kind reads it. None without a default, or if the default is derived."""
        return None if self.default is None else self.kind.read(self.name, self.default)


# Makers of rows that apply only to some of reads, streams and writes.
of_reads = partial(Option, scopes=("read", "stream"))
of_batch_reads = partial(Option, scopes=("read",))
of_streams = partial(Option, scopes=STREAM)
of_writes = partial(Option, scopes=("write",))
