"""Differences between the engines that run the source: the versions of Spark, and Sail."""

from __future__ import annotations

import json
from ast import literal_eval  # noqa: TID251 - of a text that Spark has made, and that is not JSON
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from pyspark_zkafka.conditions import INVALID_SCHEMA, UNSUPPORTED_ENGINE, UNSUPPORTED_PYSPARK
from pyspark_zkafka.errors import listing
from pyspark_zkafka.worker import is_within_pyspark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql.types import StructType

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
except ImportError:  # Spark 4.0

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef, misc]
        """A writer of streams that takes Arrow batches. Spark 4.0 checks only for the base class of the batch writers."""


try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """Stand-in for Spark's limit of a micro-batch."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """A micro-batch without limits."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """A limit of records."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stand-in for Spark's interface of streams with fixed ends."""
else:
    HAS_READ_LIMITS = True


def _spark_version() -> tuple[int, ...]:
    return tuple(map(int, pyspark.__version__.split(".")[:2]))


HAS_TIMES = _spark_version() >= (4, 2)
"""True if frames can have columns of the type time. Spark 4.0 does not have this type, and 4.1 disables it."""
LIMITS = "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"
"""Options of streams that need read limits."""


def progress_json(offset: str) -> str:
    """Return an offset in a query's progress as JSON. With Spark Connect, 4.0 and 4.1 report the `repr` of a dict."""
    return json.dumps(literal_eval(offset)) if offset.startswith("{'") else offset


def require_pyspark() -> None:
    """Raise UNSUPPORTED_PYSPARK if Spark lacks Python data sources: a cluster's Spark is not chosen by pip."""
    if _spark_version() < (4, 0):
        raise UNSUPPORTED_PYSPARK(f"pyspark is {pyspark.__version__}, and zkafka needs 4.0 or later")


def require_read_limits(options: Collection[str]) -> None:
    """Raise UNSUPPORTED_PYSPARK if options limit the micro-batches of a stream, and Spark has no read limits.

    Spark would run a query with availableNow as one micro-batch, and a limit would end the query too early.
    """
    given = {name.lower() for name in options}
    limits = [name for name in LIMITS if name.lower() in given]
    if limits and not HAS_READ_LIMITS:
        raise UNSUPPORTED_PYSPARK(
            f"pyspark is {pyspark.__version__}, and limits of micro-batches need 4.2 or later; leave out {listing(limits)}"
        )


def require_spark(frame: StructType | pa.Schema, what: str, remedy: str) -> None:
    """Raise UNSUPPORTED_ENGINE if another engine has passed the frame's schema. The error says that `what` need Spark."""
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
    from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

    def with_fields(kind: StructType, fields: Iterable[pa.Field]) -> StructType:
        both = zip(kind, fields, strict=True)
        return StructType([StructField(f.name, with_nullability(f.dataType, a.type), f.nullable) for f, a in both])

    def with_nullability(kind: DataType, arrow: pa.DataType) -> DataType:
        if isinstance(kind, ArrayType):
            return ArrayType(with_nullability(kind.elementType, arrow.value_type), arrow.value_field.nullable)
        if isinstance(kind, MapType):
            value = with_nullability(kind.valueType, arrow.item_type)
            return MapType(kind.keyType, value, arrow.item_field.nullable)
        if isinstance(kind, StructType):
            return with_fields(kind, arrow)
        return kind

    # Spark 4.0 has another default, and takes all elements for nullable.
    return with_fields(from_arrow_schema(columns, prefer_timestamp_ntz=True), columns)


def arrow_schema(frame: StructType | pa.Schema) -> pa.Schema:
    """Return a frame's schema in Arrow's types. Sail already passes an Arrow schema.

    Timestamps have the time zone UTC. Only a schema that is declared on Sail has the session's time zone: see `in_utc`.

    Raises INVALID_SCHEMA for types that Spark cannot convert.
    """
    if isinstance(frame, pa.Schema):
        return frame
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2, timestamps always have the time zone UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(frame, **zone)
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
