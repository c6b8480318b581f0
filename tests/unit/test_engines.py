"""Stand-ins for what older versions of Spark lack."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from pyspark_zkafka import engines

LOCAL = StructType([StructField("local", TimestampNTZType(), False)])
TYPES = StructType(
    [
        StructField("at", TimestampType()),
        StructField("list", ArrayType(LOCAL, False), False),
        StructField("map", MapType(StringType(), ArrayType(LongType(), False), False)),
        StructField("any", VariantType()),
    ]
)


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is imported next to pyspark 4.0."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delattr("pyspark.sql.datasource.DataSourceStreamArrowWriter", raising=False)
    spec = spec_from_file_location("old_engines", engines.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_streams_without_read_limits(old: ModuleType) -> None:
    """The stand-ins of limits compare and print as Spark's own, and the version is known to lack limits."""
    assert not old.HAS_READ_LIMITS
    for module in (old, engines):
        assert module.ReadMaxRows(5) == module.ReadMaxRows(5) != module.ReadMaxRows(6)
        assert module.ReadAllAvailable() == module.ReadAllAvailable()
        assert isinstance(module.ReadMaxRows(5), module.ReadLimit)


def test_arrow_batches_of_streams(old: ModuleType) -> None:
    """Spark 4.0 passes Arrow batches to every writer of this class, and calls it as a writer of streams."""
    assert issubclass(old.DataSourceStreamArrowWriter, DataSourceArrowWriter)
    assert issubclass(old.DataSourceStreamArrowWriter, DataSourceStreamWriter)


def test_offsets_in_a_progress() -> None:
    """Offsets are JSON, also where Spark shows a dict of Python; other texts stay as they are."""
    for text in ('{"t": {"0": 5}}', "{'t': {'0': 5}}"):
        assert engines.progress_json(text) == '{"t": {"0": 5}}'
    assert engines.progress_json("None") == "None"


def test_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time zones, nullability and variants survive the conversion to Arrow's types and back, in every version of Spark."""
    arrow = engines.arrow_schema(TYPES)
    assert [arrow.field("at").type, arrow.field("list").type.value_type.field(0).type] == [
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
    ]
    assert engines.struct_type(arrow) == TYPES
    monkeypatch.setattr("pyspark.sql.pandas.types.to_arrow_schema", lambda schema: arrow)  # without a time zone
    assert engines.arrow_schema(TYPES).equals(arrow)
