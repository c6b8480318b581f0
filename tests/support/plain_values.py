"""Values of Arrow arrays as JSON holds them, for vectors: exact, and compared by ``==``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa


def plain_values(column: pa.Array) -> list[Any]:
    """Return the values of an array, for JSON.

    Times are microseconds, floats are Python's text of them, bytes are hexadecimal, and maps are lists of pairs. A struct
    has only its fields that are not null.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        children = [plain_values(child) for child in column.flatten()]
        names = [field.name for field in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)]
        found: list[Any] = [{name: value for name, value in row.items() if value is not None} for row in rows]
        return [value if valid else None for value, valid in zip(found, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        return [
            None
            if not row.is_valid
            else [list(pair) for pair in zip(*map(plain_values, row.values.flatten()), strict=True)]
            for row in column
        ]
    if pa.types.is_list(kind):
        return [plain_values(row.values) if row.is_valid else None for row in column]
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind == pa.date32() else pa.int64())
    return [None if value is None else _plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    return value.hex() if isinstance(value, bytes) else value


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return the array of a type whose `plain_values` these are."""
    return pa.array([_value(value, kind) for value in values], kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [_value(element, kind.value_type) for element in value]
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    return bytes.fromhex(value) if pa.types.is_binary(kind) else value
