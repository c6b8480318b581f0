"""Spark's names of Arrow's types, for errors."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.time64("ns"): "time",
    pa.duration("us"): "interval day to second",
}


def is_variant(kind: pa.DataType) -> bool:
    """Return True for the struct by which Spark sends a variant."""
    return pa.types.is_struct(kind) and any((field.metadata or {}).get(b"variant") for field in kind)


def spark_name(kind: pa.DataType) -> str:
    """Return the name of a type in Spark's DDL; Arrow's name for a type that Spark lacks.

    >>> spark_name(pa.list_(pa.struct([("id", pa.int64()), ("price", pa.decimal128(9, 2))])))
    'array<struct<id:bigint,price:decimal(9,2)>>'
    >>> spark_name(pa.map_(pa.string(), pa.timestamp("us"))), spark_name(pa.timestamp("us", tz="UTC"))
    ('map<string,timestamp_ntz>', 'timestamp_ltz')
    """
    if is_variant(kind):
        return "variant"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp_ltz"
    return _NAMES.get(kind, str(kind))
