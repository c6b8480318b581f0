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
    """A rule about other options: at least one of `names` must be given, or, if `excludes`, none of them.

    With `values`, an option of `names` counts only if one of them applies, given or by default. With `when`, the rule is
    only for these values of the option that has it. All values are in lower case.

    In an error, `problem` follows the name of the option that has the rule, and its value if there is `when`. ``{found}``
    stands for the first of `names` and its value.
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

    `doc` is Markdown. `default` is a text that a user could write. A default that depends on other options is `derived`, in
    words; the parsers compute it. The value of a `secret` option is never shown.

    A given option is checked by its `rules`, in order; only the first broken rule is a problem.
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
        """Return the default as the option's kind reads it; None if there is none, or if it is derived."""
        return None if self.default is None else self.kind.read(self.name, self.default)


# Makers of rows that not all of reads, streams and writes have.
of_reads = partial(Option, scopes=("read", "stream"))
of_batch_reads = partial(Option, scopes=("read",))
of_streams = partial(Option, scopes=STREAM)
of_writes = partial(Option, scopes=("write",))
