"""The format string, the parsing of schemas, and columns: malformed rows, elements of lists and maps, and refused rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.codec import decode_rows, encode_rows, grouped, offsets_of
from pyspark_zkafka.formats.format import StringSchema, format_of
from pyspark_zkafka.formats.registry import StoredSchema
from pyspark_zkafka.options.values import FORMATS


def payloads(*values: bytes | None) -> pa.Array:
    """Return a slice from the middle of an array."""
    return pa.array([b"before", *values, b"after"], pa.binary())[1:-1]


class TestText:
    """The format string."""

    def test_decoding(self) -> None:
        """Text is decoded as UTF-8; other bytes become null with the position of the first bad byte, and nulls stay."""
        decoded = StringSchema().decoder(None, pa.string()).decode(payloads(b"a", b"ab\xff", None, "é".encode()))
        assert decoded.column.to_pylist() == ["a", None, None, "é"]
        assert decoded.malformed == {1: "byte 2 is not UTF-8"}

    def test_encoding(self) -> None:
        """Text is encoded as UTF-8."""
        assert StringSchema().encoder(pa.string()).encode(pa.array(["é", None])).to_pylist() == ["é".encode(), None]

    def test_encoding_bytes_that_are_no_text(self) -> None:
        """A Spark string that is not UTF-8 is an error that names the row."""
        column = pa.array([b"before", b"a", None, b"a\xff"]).view(pa.string())[1:]
        with pytest.raises(InvalidRow, match=r"INVALID_VALUE\] Row 2 of a batch .*the column that is not UTF-8"):
            StringSchema().encoder(pa.string()).encode(column)

    def test_other_types(self) -> None:
        """A column of another type is refused."""
        with pytest.raises(OptionError, match="needs a column of type string, and the column is int; cast it"):
            StringSchema().encoder(pa.int32())


def test_a_schema_of_another_format() -> None:
    """A schema that the registry stores under another type is refused."""
    with pytest.raises(OptionError, match="of the type PROTOBUF, and the format is avro"):
        format_of("avro").schema(StoredSchema("x", "PROTOBUF"))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "binary"])
def test_formats(name: str) -> None:
    """Each format that the options accept has an implementation of the same name."""
    assert format_of(name).name == name


def build(rows: list[int | None]) -> pa.Array:
    """Return the rows as numbers, and refuse numbers above 9."""
    for row in rows:
        if row is not None and row >= 10:
            raise ValueError(f"{row} is too large")
    return pa.array(rows, pa.int64())


@pytest.mark.parametrize("bad", [[], [0], [6], [0, 6], [2, 3], [0, 1, 2, 3, 4, 5, 6]])
def test_malformed_rows(bad: list[int]) -> None:
    """Each malformed row is found and becomes null, and the other rows are unharmed."""
    rows = [10 + n if n in bad else n for n in range(7)]
    decoded = decode_rows(rows, build, {})
    assert decoded.column.to_pylist() == [None if n in bad else n for n in range(7)]
    assert decoded.malformed == {n: f"{10 + n} is too large" for n in bad}


def test_rows_that_were_malformed_before() -> None:
    """Rows that could not be parsed keep their reasons, and all reasons are in the order of the rows."""
    decoded = decode_rows([None, 12, None, 3], build, {2: "no number"})
    assert list(decoded.malformed.items()) == [(1, "12 is too large"), (2, "no number")]
    assert decode_rows([], build, {}).column == pa.array([], pa.int64())


def test_elements() -> None:
    """The elements of a slice are grouped by row, and null rows are None."""
    lists = pa.array([[1], [2, 3], None, [], [4]], pa.list_(pa.int32()))
    assert grouped(lists.slice(1), pa.Array.to_pylist) == [[2, 3], None, [], [4]]
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int32()))
    assert grouped(maps.slice(1), pa.Array.to_pylist) == [[{"key": "b", "value": 2}]]
    assert offsets_of([[1], [], [2, 3]]).to_pylist() == [0, 1, 1, 3]


def test_rows_that_do_not_fit() -> None:
    """The error names the first row that cannot be encoded, and its field if a single field is the cause."""
    column = pa.array([None, {"a": 1, "b": 1}, {"a": 1, "b": 20}, {"a": 6, "b": 6}])

    def each_below_ten(part: pa.Array) -> list[bytes | None]:
        rows = part.to_pylist()
        if any(row is not None and sum(row.values()) >= 10 for row in rows):
            raise ValueError("too large")
        return [None if row is None else b"x" for row in rows]

    schema = "the schema S"
    expected = r"Row 2 of a batch has a value in the field b that the schema S does not allow: too large; correct the row"
    with pytest.raises(InvalidRow, match=expected):
        encode_rows(column, each_below_ten, schema)
    with pytest.raises(InvalidRow, match="Row 0 of a batch has a value that the schema S"):
        encode_rows(column.slice(3), each_below_ten, schema)
    assert encode_rows(column.slice(0, 2), each_below_ten, schema).to_pylist() == [None, b"x"]


@pytest.mark.parametrize("bad", [{0}, {617}, {999}, {3, 4, 800}])
def test_rows_are_halved(bad: set[int]) -> None:
    """The first of many rows that do not fit is found without encoding each row by itself."""
    encoded = []

    def encode(part: pa.Array) -> list[bytes | None]:
        encoded.append(len(part))
        if not bad.isdisjoint(part.to_pylist()):
            raise ValueError("bad")
        return [b""] * len(part)

    with pytest.raises(InvalidRow, match=f"Row {min(bad)} of a batch"):
        encode_rows(pa.array(range(1000)), encode, "S")
    assert len(encoded) < 15
    assert sum(encoded) < 2100
