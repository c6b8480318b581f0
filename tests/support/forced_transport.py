"""A transport for all reads of a test run that name none."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["force_transport"]

_SET = "_options_set"


def force_transport(patch: pytest.MonkeyPatch, reader: type, transport: str) -> None:
    """Make a class of Spark's readers set ``transport`` in ``load``, unless a test did; views read no records."""
    choose, set_one, set_many, load = reader.format, reader.option, reader.options, reader.load  # type: ignore[attr-defined]

    def note(self: Any, *names: str) -> None:
        self.__dict__.setdefault(_SET, set()).update(name.lower() for name in names)

    def format_(self: Any, source: str) -> Any:
        self.is_zkafka = source == "zkafka"
        return choose(self, source)

    def option(self: Any, key: str, value: Any) -> Any:
        note(self, key)
        return set_one(self, key, value)

    def options(self: Any, **given: Any) -> Any:
        note(self, *given)
        return set_many(self, **given)

    def load_(self: Any, *args: Any, **given: Any) -> Any:
        note(self, *given)
        if getattr(self, "is_zkafka", False) and not {"view", "transport"} & self.__dict__[_SET]:
            set_one(self, "transport", transport)
        return load(self, *args, **given)

    for name, function in (("format", format_), ("option", option), ("options", options), ("load", load_)):
        patch.setattr(reader, name, function)
