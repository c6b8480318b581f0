"""The format string, and the parsing of schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.codec import StringSchema, parse_schema
from pyspark_zkafka.formats.registry import StoredSchema
from tests.support import fake_format


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
        with pytest.raises(OptionError, match="needs a column of type string, and the column is int32; cast it"):
            StringSchema().encoder(pa.int32())


def test_a_schema_of_another_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema whose type is not that of the format is refused."""
    fake_format.use(monkeypatch)
    with pytest.raises(OptionError, match="of the type PROTOBUF, and the format is avro"):
        parse_schema("avro", StoredSchema("x", "PROTOBUF"))
