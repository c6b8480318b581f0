"""Encodes columns as JSON documents, as Spark's `to_json` does; orjson writes them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable
from decimal import localcontext
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.errors import excerpt
from pyspark_zkafka.formats.codec import dictionaries, encode_rows, grouped, masked
from pyspark_zkafka.formats.json_types import DECIMALS, RAW, check_forms, exact_number, of_form
from pyspark_zkafka.formats.types import BINARIES, TypeVisitor

ANY, NULLS, NOT_TYPED = map(re.compile, (b"", b"null", b'null|"NaN"|Infinity"'))
"""Bytes that mark a document for validation."""

_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
_VALIDATED = json.JSONDecoder(parse_float=exact_number)  # 19.99 is a multiple of 0.01, 5.0 an integer

_Write: TypeAlias = Callable[[pa.Array], list[Any]]


class JsonEncoder:
    """Encodes a column as documents; see `JsonSchema.encoder`."""

    def __init__(self, type: pa.DataType, schema: pa.DataType, validator: Any, doubtful: re.Pattern[bytes]) -> None:
        self._type = type
        self._schema = schema
        self._validator = validator
        self._doubtful = doubtful
        check_forms(type)
        self._write = _Writers().visit(type, schema)

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the documents, with null for a null row. Leaves null fields out, unless the schema requires them.

        Raises INVALID_VALUE if the schema does not allow a value, or if a text is not UTF-8, or not JSON where it must be.
        """
        return encode_rows(column, self._encode, "the JSON schema")

    def _encode(self, column: pa.Array) -> list[bytes | None]:
        import orjson

        write = self._write if column.type == self._type else _Writers().visit(column.type, self._schema)
        values, option = write(column), orjson.OPT_SERIALIZE_NUMPY
        documents = [None if value is None else orjson.dumps(value, option=option) for value in values]
        if self._validator is not None and column.type == self._type:
            for document in documents:
                # Null fields are left out, so that only arrays and maps have nulls.
                if document is not None and self._doubtful.search(document):
                    self._validate(document)
        return documents

    def _validate(self, document: bytes) -> None:
        from jsonschema.exceptions import UnknownType
        from referencing.exceptions import Unresolvable

        try:
            with localcontext(DECIMALS):
                for error in self._validator.iter_errors(_VALIDATED.decode(document.decode())):
                    if error.instance is None or self._doubtful is not NULLS:
                        raise ValueError(_DECIMAL.sub(r"\1", f"{error.json_path}: {error.message}"))
        except RecursionError as exc:
            raise ValueError(f"the schema cannot validate it: {exc}") from exc
        # A reference, a pattern that Python does not know, or the schema itself.
        except (Unresolvable, UnknownType, AttributeError, TypeError, re.error, OverflowError) as exc:
            raise INVALID_SCHEMA(f"The JSON schema cannot validate rows: {exc}. Correct the schema") from exc


class _Writers(TypeVisitor[pa.DataType, _Write]):
    """Makes the function that turns a column into values for orjson.

    The partner is the schema's type. It has RAW where the strings of the column are JSON text.
    """

    def visit(self, kind: pa.DataType, schema: pa.DataType, path: str = "") -> _Write:
        return super().visit(kind, of_form(schema, kind), path)

    def of_struct(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Write:
        names = [field.name for field in kind]
        writers = [self.visit(f.type, schema.field(f.name).type) for f in kind]
        required = {f.name for f in schema if b"required" in (f.metadata or {})}

        def write_structs(column: pa.Array) -> list[Any]:
            rows: list[dict[str, Any]] = [{} for _ in range(len(column))]
            for name, write, child in zip(names, writers, column.flatten(), strict=True):
                for row, value in zip(rows, write(child), strict=True):
                    if value is not None or name in required:
                        row[name] = value
            return masked(column, rows)

        return write_structs

    def of_list(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Write:
        elements = self.visit(kind.value_type, schema.value_type)
        return lambda column: grouped(column, elements)

    def of_map(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Write:
        items = self.visit(kind.item_type, schema.item_type)
        return lambda column: dictionaries(column, pa.Array.to_pylist, items)

    def of_scalar(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Write:
        import orjson

        if schema == RAW:
            return _json_texts
        if pa.types.is_floating(kind):
            return _floats
        if pa.types.is_decimal(kind):
            return lambda column: [None if v is None else orjson.Fragment(format(v, "f")) for v in column.to_pylist()]
        if kind in BINARIES:
            return lambda column: [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
        if pa.types.is_timestamp(kind):
            return lambda column: _timestamps(column).to_pylist()
        if kind == pa.date32():
            return lambda column: _in_years(column).cast(pa.string()).to_pylist()
        return lambda column: column.to_pylist()


def _json_texts(column: pa.Array) -> list[Any]:
    import orjson

    texts = column.to_pylist()
    for text in texts:
        try:
            orjson.loads(text if text is not None else "null")
        except ValueError as exc:
            raise ValueError(f"the schema allows several types here, and {excerpt(text)} is no JSON text: {exc}") from exc
    return [None if text is None else orjson.Fragment(text) for text in texts]


def _floats(column: pa.Array) -> list[Any]:
    # NumPy's numbers keep the shortest text of a float.
    values = masked(column, list(column.fill_null(0).to_numpy(zero_copy_only=False)))
    if pc.all(pc.fill_null(pc.is_finite(column), True)).as_py():
        return values
    return [
        v if v is None or math.isfinite(v) else "NaN" if math.isnan(v) else "-Infinity" if v < 0 else "Infinity"
        for v in values
    ]


def _timestamps(column: pa.Array) -> pa.Array:
    """Return ISO 8601 with milliseconds, as Spark writes it, or with microseconds if a time has them."""
    texts = _in_years(column.cast(pa.timestamp("us"))).cast(pa.string())
    texts = pc.replace_substring_regex(pc.replace_substring(texts, " ", "T"), r"000$", "")
    return texts if column.type.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _in_years(column: pa.Array) -> pa.Array:
    """Return the column. Raises ValueError for a time with a year that four digits cannot represent."""
    number, unit = (pa.int32(), "days") if column.type == pa.date32() else (pa.int64(), "µs")
    first, last = pa.array([dt.datetime.min, dt.datetime.max]).cast(column.type).cast(number).to_pylist()
    for value in pc.min_max(column.cast(number)).as_py().values():
        if value is not None and not first <= value <= last:
            raise ValueError(f"{value} {unit} after 1970 are outside the years 1 to 9999")
    return column
