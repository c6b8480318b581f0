"""JSON: schemas as JSON Schema or Spark's own, and columns from documents.

Values are read as Spark's `from_json` reads them and written as `to_json` writes them. `parse` and `JsonSchema` document
the exceptions. orjson parses and writes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import FORMAT_LIBRARY_MISSING
from pyspark_zkafka.errors import excerpt
from pyspark_zkafka.formats.codec import (
    REFUSALS,
    Decoded,
    decode_rows,
    first_refused,
    offsets_of,
    require_fit,
)
from pyspark_zkafka.formats.format import Format, Schema
from pyspark_zkafka.formats.json_encoder import ANY, NOT_TYPED, NULLS, JsonEncoder
from pyspark_zkafka.formats.json_types import (
    DECIMALS,
    RAW,
    References,
    check_forms,
    check_text,
    exact_number,
    has_constraints,
    json_schema_of,
    mismatches,
    of_form,
    public_type,
    schema_of,
    title_of,
    type_of,
    validator,
)
from pyspark_zkafka.formats.types import TypeVisitor, inner_path
from pyspark_zkafka.model.records import not_null_problems
from pyspark_zkafka.model.spark_types import spark_name

_NON_FINITE = {
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
    "NaN": math.nan,
}
_DATES = (
    (r"^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})[T ](?s:.*)$", r"\1"),
    (r"^[0-9]{4}$", r"\0-01"),
    (r"^[0-9]{4}-[0-9]{1,2}$", r"\0-01"),
    *[(r"-([0-9])(-|$)", r"-0\1\2")] * 2,
)
"""Replacements for dates with a time, without a day or month, or with a one-digit day or month. Spark takes these, too."""
_FRACTION = (r"(\.[0-9]{6})[0-9]+", r"\1")  # Spark, too, drops digits after microseconds
_ZONE = r"([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_SPACES = b" \t\r\n"
_AS_JAVA = {ord(","): None, ord("_"): "x", ord(" "): "x"}  # Spark removes commas, and Java refuses _ and blanks


@dataclass(frozen=True, slots=True)
class JsonSchema(Schema):
    """A JSON Schema, or a type of Spark, with the documents to which it refers.

    `own` is the column's type if the schema was made from it, or None.
    """

    text: str
    references: References = ()
    own: pa.DataType | None = None

    @property
    def type(self) -> pa.DataType:
        return public_type(type_of(self.text, self.references))

    @property
    def name(self) -> str | None:
        return title_of(self.text)

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        return public_type(type_of(self.text, self.references, wanted))

    def decoder(self, writer: JsonSchema | None, type: pa.DataType, *, confluent: bool = False) -> JsonDecoder:
        """Return a decoder. The writer's schema does not matter."""
        return JsonDecoder(type, type_of(self.text, self.references, type))

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> JsonEncoder:
        """Return an encoder.

        Each row is validated if the JSON Schema demands more than types, such as `required` or `enum`, or allows values
        of several types. Validation takes most of the time. With other schemas, only rows with a null in an array or a
        map, or with NaN or an infinity, are validated. A schema that was made from the type forbids only nulls, if the
        type does.
        """
        schema = type_of(self.text, self.references, type)
        require_fit(mismatches(type, schema, ""), "the JSON schema")
        own = type if self.own is None and self.text == schema_of(type) else self.own
        is_certain = own is not None and not any(not_null_problems("value", own))
        every_row = public_type(schema) != schema or has_constraints(self.text, self.references)
        doubtful = NULLS if own is not None else ANY if every_row else NOT_TYPED
        return JsonEncoder(type, schema, None if is_certain else validator(self.text, self.references), doubtful)

    def made_from(self, type: pa.DataType) -> JsonSchema:
        return replace(self, own=type)


def parse(text: str, references: Mapping[str, str] = {}, message: str | None = None) -> JsonSchema:
    """Parse a JSON Schema, or Spark's DDL: ``id bigint, name string``, or ``struct<id: bigint>``.

    `references` has the text of other documents by the name or id that `$ref` gives. Columns may always be null. Raises
    INVALID_SCHEMA if the text is neither.
    """
    try:
        import orjson  # noqa: F401
    except ImportError as exc:
        raise FORMAT_LIBRARY_MISSING(f"The format json needs {exc.name}; run pip install 'pyspark-zkafka[json]'") from exc
    check_text(text, references)
    return JsonSchema(text, tuple(sorted(references.items())))


JSON = Format("json", "JSON", parse, text_of=schema_of, registrable=json_schema_of, reads_writers_schema=False)


# Decoding

_Read: TypeAlias = Callable[[list[Any]], pa.Array]
_Text: TypeAlias = Callable[[Any], str]


class JsonDecoder:
    """Decodes documents to a column of one type; see `parse`."""

    def __init__(self, type: pa.DataType, schema: pa.DataType) -> None:
        check_forms(type)
        self._type = type
        self._read = _Readers(self._column_text).visit(type, schema)
        self._has_decimals = "decimal" in str(type)

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Decode a binary array. The document `null` becomes null, too."""
        documents: list[Any] = [None if payload is None else payload[skip:] for payload in payloads.to_pylist()]
        malformed: dict[int, str] = {}

        def parse(row: int, loads: Callable[[bytes], Any]) -> Any:
            try:
                return None if documents[row] is None else loads(documents[row])
            except (ValueError, RecursionError) as exc:
                malformed[row] = f"the bytes are no JSON: {exc}"
                return None

        values = [parse(row, _exact_loads if self._has_decimals else _loads) for row in range(len(documents))]
        self._lost_digits = False
        decoded = decode_rows(values, self._read, malformed)  # sets malformed rows to None
        lost = [row for row, value in enumerate(values) if self._lost_digits and _loses_digits(value, documents[row])]
        for row in lost:
            values[row] = parse(row, _exact_loads)
        return decode_rows(values, self._read, malformed) if lost else decoded

    def _column_text(self, value: Any) -> str:
        """Return the JSON text of a value for a string column. Notes if orjson has turned a number in it into a float."""
        self._lost_digits = self._lost_digits or _has_floats(value)
        return _text(value)


def _decimal(digits: str) -> Decimal:
    try:
        number = Decimal(digits)
    except ArithmeticError:
        raise ValueError(f"the exponent of {excerpt(digits)} is too large") from None
    if not number.is_finite():
        raise ValueError(f"{digits} is no number")
    return number


_EXACT = json.JSONDecoder(parse_float=_decimal, parse_int=exact_number, parse_constant=_decimal)


def _exact_loads(document: bytes) -> Any:
    return _EXACT.decode(document.decode())


def _loads(document: bytes) -> Any:
    """Parse a document. Numbers beyond a double and halves of surrogate pairs only affect their own columns."""
    import orjson

    try:
        return orjson.loads(document)
    except ValueError:
        with suppress(ValueError, RecursionError):  # orjson's reason is clearer
            return _exact_loads(document)
        raise


def _loses_digits(value: Any, document: bytes) -> bool:
    """Return whether orjson may have changed the digits of a float.

    Compares orjson's own text of the value with the document, apart from spaces. The texts seldom differ for another
    reason.
    """
    import orjson

    if not _has_floats(value):
        return False
    try:
        return orjson.dumps(value).translate(None, _SPACES) != document.translate(None, _SPACES)
    except TypeError:  # nested too deeply
        return True


def _has_floats(value: Any) -> bool:
    values = [value]
    for found in values:  # nested values are appended meanwhile
        if type(found) is float:
            return True
        values += found.values() if type(found) is dict else found if type(found) is list else ()
    return False


def _text(value: Any) -> str:
    import orjson

    try:
        return orjson.dumps(value, default=lambda number: orjson.Fragment(str(number))).decode()
    except TypeError as exc:  # too deep, or a surrogate, which only Python's parser lets through
        raise ValueError(f"a value has no JSON text: {exc}") from None


def _problem(value: Any, path: str, kind: pa.DataType | str) -> ValueError:
    name = kind if isinstance(kind, str) else spark_name(kind)
    return ValueError(f"{path or 'the document'} is {excerpt(_text(value))}, which is no {name}")


def _check(values: list[Any], allowed: set[type], path: str, kind: pa.DataType | str) -> set[type]:
    """Return the types of the values, without None. Raises ValueError for a type that is not allowed."""
    found = set(map(type, values)) - {type(None)}
    if not found <= allowed:
        raise _problem(next(v for v in values if v is not None and type(v) not in allowed), path, kind)
    return found


class _Readers(TypeVisitor[pa.DataType, _Read]):
    """Makes the function that builds a column from parsed values, and raises ValueError for a value of another type.

    The partner is the schema's type. It has RAW where the column has JSON text, including the text of strings. `text` makes
    the JSON text of a value.
    """

    def __init__(self, text: _Text) -> None:
        self._text = text

    def visit(self, kind: pa.DataType, schema: pa.DataType, path: str = "") -> _Read:
        return super().visit(kind, of_form(schema, kind), path)

    def of_struct(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Read:
        columns = [(f.name, self.visit(f.type, schema.field(f.name).type, inner_path(path, f.name))) for f in kind]

        def build(rows: list[Any], mask: pa.Array) -> pa.Array:
            arrays = [read([row.get(name) for row in rows]) for name, read in columns]
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)

        return _checked(build, dict, "object", path)

    def of_list(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Read:
        elements = self.visit(kind.value_type, schema.value_type, inner_path(path, "element"))

        def build(rows: list[Any], mask: pa.Array) -> pa.Array:
            found = elements(list(chain.from_iterable(rows)))
            return pa.ListArray.from_arrays(offsets_of(rows), found, type=kind, mask=mask)

        return _checked(build, list, "array", path)

    def of_map(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Read:
        items = self.visit(kind.item_type, schema.item_type, inner_path(path, "value"))

        def build(rows: list[Any], mask: pa.Array) -> pa.Array:
            keys = pa.array(list(chain.from_iterable(rows)), kind.key_type)
            found = items(list(chain.from_iterable(row.values() for row in rows)))
            return pa.MapArray.from_arrays(offsets_of(rows), keys, found, type=kind, mask=mask)

        return _checked(build, dict, "object", path)

    def of_scalar(self, kind: pa.DataType, schema: pa.DataType, path: str) -> _Read:
        if schema == RAW:
            return lambda values: pa.array([None if v is None else self._text(v) for v in values], kind)
        return lambda values: _scalars(values, kind, path, self._text)


def _checked(build: Callable[[list[Any], pa.Array], pa.Array], form: type, named: str, path: str) -> _Read:
    """Return a function that refuses values other than arrays or objects, and masks null."""

    def read(values: list[Any]) -> pa.Array:
        _check(values, {form}, path, named)
        empty = form()
        return build([value or empty for value in values], pa.array([value is None for value in values], pa.bool_()))

    return read


def _scalars(values: list[Any], kind: pa.DataType, path: str, text: _Text) -> pa.Array:
    if pa.types.is_string(kind):
        if set(map(type, values)) <= {str, type(None)}:
            return pa.array(values, kind)
        # Any other value becomes its JSON text, as in Spark.
        return pa.array([v if v is None or type(v) is str else text(v) for v in values], kind)
    if pa.types.is_boolean(kind):
        _check(values, {bool}, path, kind)
    elif pa.types.is_integer(kind):
        _check(values, {int}, path, kind)
    elif pa.types.is_floating(kind):
        if _check(values, {int, float, Decimal, str}, path, kind) <= {float}:
            numbers = pa.array(values, kind)
        else:
            numbers = _converted(values, lambda v: float(_NON_FINITE.get(v, "") if type(v) is str else v), path, kind)
        if pc.any(pc.is_inf(numbers)).as_py():
            for value, number in zip(values, numbers.to_pylist(), strict=True):
                if number is not None and math.isinf(number) and type(value) is not str:
                    raise _problem(value, path, kind)
        return numbers
    elif pa.types.is_decimal(kind):
        _check(values, {int, float, Decimal, str}, path, kind)
        rounded = partial(Decimal.quantize, exp=Decimal(1).scaleb(-kind.scale), context=DECIMALS)
        return _converted(values, lambda v: rounded(Decimal(v.translate(_AS_JAVA) if type(v) is str else v)), path, kind)
    elif pa.types.is_binary(kind):
        _check(values, {str}, path, "base64")
        return _converted(values, lambda v: base64.b64decode(v, validate=True), path, kind)
    else:
        _check(values, {str}, path, kind)
        return _built(values, lambda given: _times(pa.array(given, pa.string()), kind), path, kind)
    return _built(values, lambda given: pa.array(given, kind), path, kind)


def _converted(values: list[Any], convert: Callable[[Any], Any], path: str, kind: pa.DataType) -> pa.Array:
    return _built(values, lambda given: pa.array([v if v is None else convert(v) for v in given], kind), path, kind)


def _built(values: list[Any], build: _Read, path: str, kind: pa.DataType) -> pa.Array:
    """Build a column. Raises ValueError with the first value that does not fit."""
    try:
        return build(values)
    except REFUSALS:
        first = first_refused(len(values), lambda start, stop: build(values[start:stop]))
        raise _problem(values[first], path, kind) from None


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.date32():
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            texts = pc.utf8_trim_whitespace(texts)
            return reduce(lambda found, form: pc.replace_substring_regex(found, *form), _DATES, texts).cast(kind)
    texts = pc.replace_substring_regex(texts, *_FRACTION)
    if kind.tz is None:
        return pc.replace_substring_regex(texts, r"(..........[^Z+-]*)" + _ZONE, r"\1").cast(kind)
    zoned = pc.match_substring_regex(pc.utf8_slice_codeunits(texts, 10), _ZONE)
    # A time without a zone is UTC. Arrow takes a date alone only without a zone.
    zone = pc.if_else(pc.equal(pc.utf8_length(texts), 10), " 00:00Z", "Z")
    return pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, zone, "")).cast(kind)
