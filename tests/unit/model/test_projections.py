"""Schemas that users declare for decoded columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.records import require_projection

NESTED = pa.struct(
    [
        ("a", pa.int64()),
        pa.field("b", pa.string(), nullable=False),
        ("c", pa.list_(pa.struct([("d", pa.int32()), ("e", pa.int32())]))),
        ("f", pa.map_(pa.string(), pa.struct([("g", pa.int32())]))),
    ]
)


def problems(declared: Any) -> str:
    """Return the problems of a refused type of the column value."""
    with pytest.raises(OptionError) as caught:
        require_projection(pa.schema([pa.field("value", declared)]), {"value": NESTED})
    return str(caught.value).partition("cannot be read: ")[2]


def test_fewer_fields() -> None:
    """A declared struct may have fewer fields in another order, at every depth."""
    declared = pa.struct([("c", pa.list_(pa.struct([("e", pa.int32())]))), pa.field("b", pa.string(), nullable=False)])
    require_projection(pa.schema([("value", declared)]), {"value": NESTED})
    require_projection(pa.schema([("value", pa.struct([("f", NESTED.field("f").type)]))]), {"value": NESTED})


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (
            pa.string(),
            "value cannot be string; the schema has struct<a, b, c, f>; declare this type, with the fields that you need",
        ),
        (
            pa.struct([("c", pa.string()), ("f", pa.list_(pa.int32()))]),
            "value.c cannot be string; the schema has array<struct<d, e>>; declare this type, "
            "with the fields that you need; value.f cannot be array<int>; the schema has "
            "map<string,struct<g>>; declare this type, with the fields that you need",
        ),
        (pa.struct([("z", pa.int64())]), "there is no field value.z; there are a, b, c, f"),
        (pa.struct([("a", pa.int32())]), "value.a cannot be int; the schema has bigint"),
        (
            pa.struct([pa.field("a", pa.int64(), nullable=False)]),
            "value.a cannot be NOT NULL: the schema allows null",
        ),
        (
            pa.struct([("c", pa.list_(pa.struct([("x", pa.int32())])))]),
            "there is no field value.c.element.x; there are d, e",
        ),
        (
            pa.struct([("f", pa.map_(pa.string(), pa.struct([("g", pa.int64())])))]),
            "value.f.value.g cannot be bigint; the schema has int",
        ),
        (
            pa.struct([("f", pa.map_(pa.int32(), pa.struct([("h", pa.int32())])))]),
            "value.f.key cannot be int; the schema has string; there is no field value.f.value.h; there are g",
        ),
    ],
)
def test_problems(declared: Any, problem: str) -> None:
    """Each difference is reported with its path."""
    assert problems(declared) == problem


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), "value.a"),
        (pa.struct([("a", pa.struct([pa.field("b", pa.int64(), nullable=False)]))]), "value.a.b"),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), "value.element"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), "value.value"),
    ],
)
def test_not_null_without_a_schema(declared: Any, names: str) -> None:
    """A declared schema that gives the type itself must allow null everywhere, since records may lack any field."""
    with pytest.raises(OptionError) as caught:
        require_projection(pa.schema([("value", declared)]), {"value": None})
    assert str(caught.value).endswith(f"cannot be read: {names} cannot be NOT NULL: a record may lack it")
    require_projection(pa.schema([("value", NESTED.field("f").type)]), {"value": None})


def test_columns_after_a_decoded_column() -> None:
    """Columns after a decoded column are checked, too."""
    with pytest.raises(OptionError, match="offset cannot be int; declare it bigint"):
        require_projection(pa.schema([("value", NESTED), ("offset", pa.int32())]), {"value": NESTED})


def test_columns_of_bad_records() -> None:
    """The columns of malformed records need a decoded column and the mode PERMISSIVE."""
    corrupt = pa.schema([("_corrupt_record", pa.binary()), ("offset", pa.int64())])
    for decoded, advice in ({"value": pa.string()}, "add value"), ({"value": None, "key": None}, "add value or key"):
        with pytest.raises(OptionError) as caught:
            require_projection(corrupt, decoded, has_corrupt_columns=True)
        problem = f"_corrupt_record and _corrupt_reason need a decoded column; {advice}"
        assert caught.value.message == f"The schema cannot be read: {problem}"
    with pytest.raises(OptionError, match=r"need a decoded column; set value\.format or key\.format$"):
        require_projection(corrupt)
    with pytest.raises(OptionError, match="no column '_corrupt_record'; only mode=PERMISSIVE has it"):
        require_projection(corrupt, {"value": pa.string()})
