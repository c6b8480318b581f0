"""A format for tests: a payload is a decimal number, and a schema is the name of a struct's only field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.formats import decoding, encoding
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.format import Format, Schema, format_of


@dataclass(frozen=True)
class NumberSchema(Schema):
    """The schema: ``name`` or ``name of reference``."""

    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The text, in a namespace."""
        return f"shop.{self.text}"

    @property
    def type(self) -> pa.DataType:
        """A struct of one number."""
        return pa.struct([(self.text, pa.int64())])

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        """Return the same struct."""
        return self.type

    def decoder(self, writer: NumberSchema | None, type: pa.DataType, *, confluent: bool = False) -> NumberDecoder:
        """Return a decoder, which multiplies numbers by the length of the writer's name."""
        if writer is not None and writer.text == "foreign":
            raise INVALID_SCHEMA("foreign does not resolve")
        return NumberDecoder(len((writer or self).text) if writer else 1, type)

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> NumberEncoder:
        """Return an encoder, which accepts only structs of this type."""
        if type != self.type:
            raise INVALID_SCHEMA(f"it is {type}")
        return NumberEncoder()


class NumberDecoder:
    """Decodes decimal numbers."""

    def __init__(self, factor: int, type: pa.DataType) -> None:
        self.factor, self.type = factor, type
        self.calls: list[int] = []

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Return numbers; other texts are malformed."""
        self.calls.append(len(payloads))
        rows: list[Any] = []
        malformed: dict[int, str] = {}
        for row, payload in enumerate(payloads.to_pylist()):
            text = b"" if payload is None else payload[skip:]
            if payload is not None and not text.isdigit():
                malformed[row] = f"{text!r} is no number"
            rows.append({self.type[0].name: int(text) * self.factor} if text.isdigit() else None)
        return Decoded(pa.array(rows, self.type), malformed)


class NumberEncoder:
    """Encodes non-negative numbers."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return decimal numbers, with null for null."""
        rows = [None if row is None else next(iter(row.values())) for row in column.to_pylist()]
        for row, number in enumerate(rows):
            if number is not None and number < 0:
                raise INVALID_VALUE(f"Row {row} of a batch has a negative number")
        return pa.array([None if number is None else str(number).encode() for number in rows], pa.binary())


def parse(text: str, references: Mapping[str, str] = {}, message: str | None = None) -> NumberSchema:
    """Return the schema of a text."""
    if not text.isidentifier():
        raise INVALID_SCHEMA(f"{text!r} is no name")
    return NumberSchema(text, tuple(references.items()))


NUMBERS = {
    name: Format(name, name.upper(), parse, text_of=lambda type: str(type[0].name)) for name in ("avro", "protobuf", "json")
}
"""This format under the names of the formats with schemas."""


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install this format under the names avro, protobuf and json."""
    for module in (decoding, encoding):
        monkeypatch.setattr(module, "format_of", lambda name: NUMBERS.get(name) or format_of(name))
