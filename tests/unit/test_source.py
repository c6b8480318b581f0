"""The data source before it connects."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from pyspark_zkafka.engines import ReadAllAvailable
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.read.readers import PushdownReader, UnlimitedStreamReader, ZKafkaReader, ZKafkaStreamReader
from pyspark_zkafka.source import ZKafkaDataSource

NODE = """{"type": "record", "name": "R", "fields": [
    {"name": "n", "type": "int"},
    {"name": "list", "type": {"type": "array", "items": "R"}},
    {"name": "map", "type": {"type": "map", "values": ["null", "R"]}},
    {"name": "next", "type": ["null", "R"]}
]}"""
CONNECT = {"kafka.bootstrap.servers": "broker1:9092"}
VALUE = StructType([StructField("value", BinaryType())])


def source(**options: str) -> ZKafkaDataSource:
    """Return the source as Spark creates it from a query's options."""
    return ZKafkaDataSource({**CONNECT, **options})


def test_older_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pyspark without Python data sources is refused by its version."""
    monkeypatch.setattr("pyspark.__version__", "3.5.6")
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_PYSPARK.*pyspark is 3\.5\.6, and zkafka needs 4\.0"):
        source(subscribe="t")
    for version in ("4.0.5", "10.0.0.dev1"):
        monkeypatch.setattr("pyspark.__version__", version)
        assert source(subscribe="t").name() == "zkafka"


def test_a_stream_without_read_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark has no read limits, streams have another reader, and each option that limits micro-batches is refused."""
    monkeypatch.setattr("pyspark_zkafka.engines.HAS_READ_LIMITS", False)
    assert isinstance(source(subscribe="t").streamReader(VALUE), UnlimitedStreamReader)
    limits = {"maxOffsetsPerTrigger": "9", "maxBytesPerTrigger": "9", "minOffsetsPerTrigger": "9", "MaxTriggerDelay": "5m"}
    for name, value in limits.items():
        with pytest.raises(ZKafkaError, match=rf"UNSUPPORTED_PYSPARK.* need 4\.2 or later; leave out (?i:{name})"):
            source(subscribe="t", **{name: value}).streamReader(VALUE)
    monkeypatch.setattr("pyspark_zkafka.engines.HAS_READ_LIMITS", True)
    assert type(source(subscribe="t", **limits).streamReader(VALUE)) is ZKafkaStreamReader


def test_schema() -> None:
    """The column headers exists only on request, and a view has its own columns."""
    assert "headers" not in source(subscribe="t").schema().names
    assert "headers" in source(subscribe="t", includeHeaders="true").schema().names
    assert "rack" in source(view="brokers").schema().names


def test_other_engines() -> None:
    """Another engine than Spark passes pyarrow schemas. It reads and writes batches; other uses are refused by name."""
    value = pa.schema([("value", pa.binary())])
    assert isinstance(source(subscribe="t").reader(value), ZKafkaReader)
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_ENGINE\] Streams need Spark"):
        source(subscribe="t").streamReader(value)
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_ENGINE\] Streams need Spark"):
        source(topic="t").streamWriter(value, overwrite=False)
    once = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "p"}
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_ENGINE\] Exactly-once writes need Spark.*at-least-once"):
        source(topic="t", **once).writer(value, overwrite=False)


@pytest.mark.parametrize("column", [StructField("valu", BinaryType()), StructField("value", IntegerType())])
def test_schema_that_is_not_ours(column: StructField) -> None:
    """Unknown columns and columns of another type are refused by every reader."""
    schema = StructType([column])
    with pytest.raises(OptionError):
        source(subscribe="t").reader(schema)
    with pytest.raises(OptionError):
        source(subscribe="t").streamReader(schema)
    with pytest.raises(OptionError):
        source(view="brokers").reader(schema)


def test_types_without_arrow_form() -> None:
    """A column whose type Spark cannot convert to Arrow is refused as any other wrong type, when read or written."""
    schema = StructType([StructField("value", StructType([StructField("months", YearMonthIntervalType())]))])
    as_json = source(subscribe="t", **{"value.format": "json"})
    for make in (
        lambda: as_json.reader(schema),
        lambda: as_json.streamReader(schema),
        lambda: source(topic="t", **{"value.format": "json"}).writer(schema, overwrite=False),
    ):
        with pytest.raises(OptionError, match=r"INVALID_SCHEMA.*YearMonthIntervalType"):
            make()


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("avro", NODE),
        (
            "protobuf",
            'syntax = "proto3"; message R { int32 n = 1; repeated R list = 2; map<string, R> map = 3; R next = 4; }',
        ),
    ],
)
def test_recursive_schemas(format: str, schema: str) -> None:
    """A schema that contains itself has no type, but can be read with a declared schema, as deep as that one."""
    found = source(subscribe="t", **{"value.format": format, "value.schema": schema})
    with pytest.raises(OptionError, match=r"R is .*; declare the frame's schema without this field"):
        found.schema()
    number = StructField("n", IntegerType(), nullable=format == "protobuf")
    value = StructType([StructField("value", StructType([number]))])
    assert isinstance(found.reader(value), ZKafkaReader)
    assert isinstance(found.streamReader(value), ZKafkaStreamReader)
    inner = StructType([number])
    parts = [
        StructField("next", inner),
        StructField("list", ArrayType(inner, False), nullable=format == "protobuf"),
        StructField("map", MapType(StringType(), inner, format == "avro"), nullable=format == "protobuf"),
    ]
    assert isinstance(found.reader(StructType([StructField("value", StructType([number, *parts]))])), ZKafkaReader)
    struct = "struct<n, list, map, next>"
    for name, own in {"list": f"array<{struct}>", "map": f"map<string,{struct}>", "next": struct}.items():
        for wrong in StringType(), ArrayType(StringType()) if name != "list" else inner:
            with pytest.raises(OptionError, match=rf"value\.{name} cannot be .*; the schema has {own}; declare"):
                found.reader(StructType([StructField("value", StructType([StructField(name, wrong)]))]))


def test_options_of_readers() -> None:
    """Wrong options are refused when a reader is created, by the rules of its kind."""
    with pytest.raises(OptionError, match="minPartitions"):
        source(subscribe="t", minPartition="2").reader(VALUE)
    with pytest.raises(OptionError, match="endingOffsets"):
        source(subscribe="t", endingOffsets="latest").streamReader(VALUE)


def test_refused_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark loses errors of the factory: its planner gets a reader that refuses each planning call with the problems."""
    monkeypatch.setattr("pyspark_zkafka.source.is_called_by", lambda module: module.endswith("streaming_source_runner"))
    found = source(subscribe="t", endingOffsets="latest").streamReader(VALUE)
    calls = found.getDefaultReadLimit, found.initialOffset, found.prepareForTriggerAvailableNow
    for call in (
        *(*calls, lambda: found.latestOffset({}, ReadAllAvailable())),
        *(lambda: found.latestOffset(), lambda: found.partitions({}, {"end": 1})),
    ):
        with pytest.raises(OptionError, match="endingOffsets is an option of a read, not of a stream"):
            call()
    found.stop()


def test_writers() -> None:
    """Overwriting and columns that a record lacks are refused without contacting the cluster."""
    with pytest.raises(OptionError, match="append"):
        source(topic="t").writer(VALUE, overwrite=True)
    with pytest.raises(OptionError, match="price"):
        source(topic="t").writer(StructType([StructField("price", StringType())]), overwrite=False)


@pytest.mark.parametrize("is_spark", [True, False], ids=["Spark", "Sail"])
def test_pushdown(monkeypatch: pytest.MonkeyPatch, is_spark: bool) -> None:
    """Filters narrow a plan on Sail alone: Spark shares a narrowed plan between the uses of a frame."""
    monkeypatch.setattr("pyspark_zkafka.source.is_within_pyspark", lambda: is_spark)
    assert isinstance(source(subscribe="t").reader(VALUE), PushdownReader) is not is_spark
