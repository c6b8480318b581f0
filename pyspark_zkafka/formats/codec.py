"""What each format offers: schemas, decoders and encoders of a column of payloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded column.

    A cell is null if its payload is null or malformed. `malformed` has a short reason for each malformed row, in the order
    of the rows.
    """

    column: pa.Array
    malformed: Mapping[int, str] = field(default_factory=dict)


class Decoder(Protocol):
    """Decodes payloads of one writer's schema to a column of one type."""

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Decode a binary array, which may be sliced and have nulls, without the first `skip` bytes of each payload."""
        ...


class Encoder(Protocol):
    """Encodes a column of one type by one schema."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return a binary array, null where the row is null.

        Raises InvalidRow, with row and field, for a value that the schema does not allow.
        """
        ...


class Schema(Protocol):
    """A parsed schema of a format. Pickle-safe; compiled at first use, once in a process.

    `type` is the Arrow type of the column, in the form of Spark's `to_arrow_type`.
    """

    @property
    def type(self) -> pa.DataType: ...

    def decoder(self, writer: Schema | None, type: pa.DataType) -> Decoder:
        """Return a decoder to the type, which is the schema's own or a projection of it.

        The payloads have the writer's schema, or this one if there is no other.
        """
        ...

    def encoder(self, type: pa.DataType) -> Encoder:
        """Return an encoder of columns of the type. Raises OptionError if the schema does not accept the type."""
        ...
