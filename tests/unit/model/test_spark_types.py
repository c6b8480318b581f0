"""Spark's names of Arrow's types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from pyspark_zkafka.engines import arrow_schema
from pyspark_zkafka.model.spark_types import spark_name

LTZ = "timestamp_ltz"  # unlike "timestamp", it does not depend on a setting


@pytest.mark.parametrize(
    "kind",
    [
        *(BinaryType(), BooleanType(), ByteType(), DateType(), DoubleType(), FloatType(), IntegerType(), LongType()),
        *(ShortType(), StringType(), TimestampNTZType(), TimestampType(), NullType(), VariantType(), DecimalType(38, 18)),
        DayTimeIntervalType(),
        ArrayType(MapType(StringType(), DecimalType(9, 2))),
        StructType([StructField("a", ArrayType(VariantType())), StructField("b c", StructType())]),
    ],
    ids=str,
)
def test_names(kind: DataType) -> None:
    """A type has the name that Spark shows in a frame's schema."""
    arrow = arrow_schema(StructType([StructField("c", kind)])).field("c").type
    expected = LTZ if kind == TimestampType() else kind.simpleString()
    assert spark_name(arrow) == expected


def test_type_that_spark_lacks() -> None:
    """A type that Spark does not have keeps Arrow's name, also within another."""
    assert spark_name(pa.list_(pa.uint8())) == "array<uint8>"
