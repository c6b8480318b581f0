"""Spark's types from DDL, since Spark's own parser needs a session."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_zkafka.engines import arrow_schema

__all__ = ["spark_schema"]

_KEY_VALUE = StructType().add("key", StringType()).add("value", BinaryType())
_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "map<string,binary>": MapType(StringType(), BinaryType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "array<int>": ArrayType(IntegerType()),
    "array<string>": ArrayType(StringType()),
    "array<struct<key:string,value:binary>>": ArrayType(_KEY_VALUE),
    "array<struct<value:binary,key:string>>": ArrayType(StructType(_KEY_VALUE.fields[::-1])),
    "struct<a:int>": StructType().add("a", IntegerType()),
    "array<struct<key:string,value:string>>": ArrayType(StructType().add("key", "string").add("value", "string")),
}


def spark_schema(ddl: str) -> pa.Schema:
    """Return the Arrow schema that Spark makes from columns, such as ``id int, name string``."""
    found = StructType()
    for column in ddl.split(", "):
        name, kind = column.split(" ")
        found.add(name, _TYPES[kind])
    return arrow_schema(found)
