"""Arrow arrays passed to C and back, by the Arrow C data interface."""

from __future__ import annotations

from ctypes import addressof, create_string_buffer
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:  # readers do without the writers' modules
    from pyspark_zkafka.model.rows import OutgoingBatch

__all__ = ["CArray", "c_headers"]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ARRAY_BYTES = 80  # sizeof(struct ArrowArray)


class CArray:
    """Memory of a ``struct ArrowArray``: empty for C to fill, or with an array that C may take ownership of.

    An array that C has not taken is released with this object.
    """

    def __init__(self) -> None:
        self._buffer: Any = create_string_buffer(_ARRAY_BYTES)
        self._filled: pa.DataType | None = None

    @classmethod
    def of(cls, array: pa.Array | None) -> CArray:
        """An array to pass to C; the null pointer for None."""
        place = cls()
        if array is None:
            place._buffer = None
        else:
            array._export_to_c(addressof(place._buffer))
            place._filled = array.type
        return place

    @property
    def address(self) -> int | None:
        """The address of the struct; None is the null pointer."""
        return None if self._buffer is None else addressof(self._buffer)

    @property
    def is_large(self) -> bool:
        """True if its offsets have 64 bits."""
        return self._filled is not None and bool(
            pa.types.is_large_binary(self._filled) or pa.types.is_large_string(self._filled)
        )

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The batch that C has filled in."""
        return pa.RecordBatch._import_from_c(self.address, schema)

    def __del__(self) -> None:
        if self._filled is not None and any(self._buffer.raw[64:72]):  # its release callback: C has not taken ownership
            pa.Array._import_from_c(self.address, self._filled)


def c_headers(rows: OutgoingBatch) -> pa.Array | None:
    """The headers of rows in the type that C expects."""
    return rows.headers if rows.headers is None or rows.headers.type == _HEADERS else rows.headers.cast(_HEADERS)
