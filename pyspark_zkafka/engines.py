"""What differs between the engines that run the source, Spark's versions and Sail; no other module asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA, UNSUPPORTED_ENGINE
from pyspark_zkafka.worker import is_within_pyspark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def require_spark(frame: StructType | pa.Schema, what: str, remedy: str) -> None:
    """Raise UNSUPPORTED_ENGINE, which says that `what` need Spark, if another engine has passed the frame's schema."""
    if isinstance(frame, pa.Schema):
        raise UNSUPPORTED_ENGINE(f"{what} need Spark, and another engine runs this query; {remedy}")


def engine_schema(columns: pa.Schema) -> StructType | pa.Schema:
    """Return a frame's columns as the engine expects them from a source.

    Spark takes a StructType. Sail takes a pyarrow schema: pyspark converts a StructType's timestamps only with a time zone,
    which Sail does not pass, and Sail refuses nested types in DDL.
    """
    return struct_type(columns) if is_within_pyspark() else columns


def struct_type(columns: pa.Schema) -> StructType:
    """Return Spark's type of a frame's columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found: StructType = from_arrow_schema(columns)
    return found


def arrow_schema(frame: StructType | pa.Schema) -> pa.Schema:
    """Return a frame's schema in Arrow's types; Sail passes one.

    Timestamps have the time zone UTC; on Sail, those of a declared schema have the time zone of the session: see `in_utc`.

    Raises INVALID_SCHEMA for types that Spark cannot convert.
    """
    if isinstance(frame, pa.Schema):
        return frame
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(frame, timezone="UTC")
    except PySparkException as exc:
        raise INVALID_SCHEMA(
            f"The frame {frame.simpleString()} cannot be used: {str(exc).rstrip('.')}; cast or leave out this type"
        ) from exc


def in_utc(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the time zone UTC in all timestamps that have a time zone."""
    return pa.schema(map(_in_utc, schema))


def _in_utc(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct(map(_in_utc, kind)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_in_utc(kind.key_field), _in_utc(kind.item_field)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_utc(kind.value_field)))
    return field
