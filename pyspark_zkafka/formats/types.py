"""Types of columns: the visitor of walks over a type next to a schema, and limits on the types of foreign schemas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.errors import OptionError

_Partner = TypeVar("_Partner")
_Result = TypeVar("_Result")

RECORD = "topLevelRecord"
"""The name of the record in a schema that is made from a type, as in Spark's to_avro."""

STRINGS = (pa.string(), pa.large_string())
BINARIES = (pa.binary(), pa.large_binary())

NOT_WANTED = pa.string()
"""The type of fields that the frame does not ask for. Only the names of such fields matter, for errors."""

_NOTHING = pa.struct([])  # wants no part: the frame's type and the schema differ in form, which is an error later


# --- Walks -------------------------------------------------------------------------------------------------------------


class TypeVisitor(ABC, Generic[_Partner, _Result]):
    """A walk over the type of a column and in parallel over a partner, such as the schema for writing the column.

    `visit` chooses the method for the form of the type. This method visits the parts, with their partners, and combines
    their results. A visitor that treats null or unions alike for all forms extends `visit` itself. The path names a part in
    errors. It is empty for the column.
    """

    def visit(self, type: pa.DataType, partner: _Partner, path: str = "") -> _Result:
        if pa.types.is_struct(type):
            return self.of_struct(type, partner, path)
        if is_list(type):
            return self.of_list(type, partner, path)
        if pa.types.is_map(type):
            return self.of_map(type, partner, path)
        return self.of_scalar(type, partner, path)

    @abstractmethod
    def of_struct(self, type: pa.DataType, partner: _Partner, path: str) -> _Result: ...

    @abstractmethod
    def of_list(self, type: pa.DataType, partner: _Partner, path: str) -> _Result: ...

    @abstractmethod
    def of_map(self, type: pa.DataType, partner: _Partner, path: str) -> _Result: ...

    @abstractmethod
    def of_scalar(self, type: pa.DataType, partner: _Partner, path: str) -> _Result: ...


def is_list(kind: pa.DataType) -> bool:
    """True for a list with offsets of any size."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def array_of(element: pa.DataType) -> pa.DataType:
    """Return the type of an array with elements that may be null."""
    return pa.list_(pa.field("element", element))


def inner_path(path: str, name: str) -> str:
    """Return the path of a field, an element or a value inside an outer path, which may be empty."""
    return f"{path}.{name}" if path else name


def nullable_type(type: pa.DataType, scalar: Callable[[pa.DataType], pa.DataType] = lambda type: type) -> pa.DataType:
    """Return the type with all parts nullable, except keys of maps. `scalar` replaces the types without parts."""
    if pa.types.is_struct(type):
        return pa.struct([(field.name, nullable_type(field.type, scalar)) for field in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field(type.value_field.name, nullable_type(type.value_type, scalar)))
    if pa.types.is_map(type):
        return pa.map_(nullable_type(type.key_type, scalar), nullable_type(type.item_type, scalar))
    return scalar(type)


def depth(type: pa.DataType) -> int:
    """Return the number of a type's levels in Arrow. An array adds one level, and a map two.

    >>> depth(pa.int32()), depth(pa.list_(pa.int32())), depth(pa.map_(pa.string(), pa.int32()))
    (1, 2, 3)
    """
    return 1 + max((depth(type.field(number).type) for number in range(type.num_fields)), default=0)


# --- Limits ------------------------------------------------------------------------------------------------------------


class TypeLimits:
    """Limits on the type that is built from a schema: it can be exponentially larger than the schema's text.

    If a frame declares the wanted type, only the fields of that type are built and counted.
    """

    MOST_FIELDS: ClassVar = 20_000
    MOST_DEPTH: ClassVar = 63  # Arrow sends at most 64 levels, and the row is one of them

    def __init__(self, wanted: pa.DataType | None = None) -> None:
        self._wanted = wanted
        self._fields, self._depth = 0, 1  # the column is a level, too

    @property
    def is_whole(self) -> bool:
        """True if all parts of the type at this level are built."""
        return self._wanted is None

    def wants(self, name: str) -> bool:
        """True if the field of the struct at this level is built. Otherwise the field is `NOT_WANTED`."""
        return self._wanted is None or (pa.types.is_struct(self._wanted) and bool(self._wanted.get_all_field_indices(name)))

    @contextmanager
    def level(self, *path: str, is_whole: bool = False) -> Iterator[None]:
        """Count a part of the type, and build its type in the ``with`` block.

        The path leads to the part by names of fields, "element" and "value". Without a path, the part has the type of this
        level. With `is_whole`, everything in the part is built.

        Raises INVALID_SCHEMA if there are too many fields or levels.
        """
        outer = self._wanted
        self._wanted = None if is_whole else reduce(_part, path, outer)
        self._fields += 1
        self._depth += 1
        if self._fields > self.MOST_FIELDS or self._depth > self.MOST_DEPTH:
            raise _too_large()
        try:
            yield
        finally:
            self._depth -= 1
            self._wanted = outer


def require_depth(type: pa.DataType) -> pa.DataType:
    """Return the type of a column to read. Raises INVALID_SCHEMA if Arrow cannot send so many levels to Spark."""
    if depth(type) > TypeLimits.MOST_DEPTH:
        raise _too_large()
    return type


def _part(type: pa.DataType | None, name: str) -> pa.DataType | None:
    """Return the type of a field, an element or a value. `_NOTHING` if the type has no part of the name."""
    if type is None:
        return None
    if pa.types.is_struct(type):
        indices = type.get_all_field_indices(name)
        return type[indices[0]].type if indices else _NOTHING
    if pa.types.is_list(type):
        return type.value_type if name == "element" else _NOTHING
    return type.item_type if pa.types.is_map(type) and name == "value" else _NOTHING


def _too_large() -> OptionError:
    return INVALID_SCHEMA(
        f"The schema has more than {TypeLimits.MOST_FIELDS} fields, or is more than {TypeLimits.MOST_DEPTH} levels deep. "
        "Give the frame a schema with the fields that you need, by .schema(...)"
    )
