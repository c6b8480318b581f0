"""JSON: schemas as JSON Schema or Spark's own, columns from documents, and documents from columns.

Values are read as Spark's `from_json` reads them and written as `to_json` writes them; `parse` and `JsonSchema` say where
that is not possible. orjson parses and writes.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import partial, reduce
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import FORMAT_LIBRARY_MISSING, INVALID_SCHEMA
from pyspark_zkafka.errors import excerpt
from pyspark_zkafka.formats.codec import (
    REFUSALS,
    Decoded,
    decode_rows,
    dictionaries,
    encode_rows,
    first_refused,
    grouped,
    masked,
    offsets_of,
    require_fit,
)
from pyspark_zkafka.formats.format import Format, Schema
from pyspark_zkafka.formats.json_types import (
    RAW,
    References,
    check_forms,
    check_text,
    has_constraints,
    json_schema_of,
    mismatches,
    public_type,
    schema_of,
    title_of,
    type_of,
    validator,
)
from pyspark_zkafka.formats.types import BINARIES, STRINGS, TypeVisitor, inner_path
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
"""Replacements for dates with a time, without a day or month, or with one digit of them. Spark takes these, too."""
_FRACTION = (r"(\.[0-9]{6})[0-9]+", r"\1")  # Spark, too, cuts what is finer than microseconds
_ZONE = r"([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_SPACES = b" \t\r\n"
_AS_JAVA = {ord(","): None, ord("_"): "x", ord(" "): "x"}  # Spark removes commas, and Java refuses the others
_PLAIN = Context(prec=1000, rounding=ROUND_HALF_UP)
_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
_ANY, _NULLS, _NOT_TYPED = map(re.compile, (b"", b"null", b'null|"NaN"|Infinity"'))
"""Bytes that mark a document for validation."""


@dataclass(frozen=True, slots=True)
class JsonSchema(Schema):
    """A JSON Schema, or a type of Spark, with the documents that it refers to. `own` is the type that it was made from."""

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
        """Return a decoder; the writer's schema does not matter."""
        return JsonDecoder(type, type_of(self.text, self.references, type))

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> JsonEncoder:
        """Return an encoder.

        Each row is validated if the JSON Schema demands more than types, such as `required` or `enum`, or allows values
        of several types. Validation takes most of the time. Otherwise only rows with a null in an array or a map, or with
        NaN or an infinity, are validated. A schema that was made from the type forbids only nulls, if the type does.
        """
        schema = type_of(self.text, self.references, type)
        require_fit(mismatches(type, schema, ""), "the JSON schema")
        own = type if self.own is None and self.text == schema_of(type) else self.own
        is_certain = own is not None and not any(not_null_problems("value", own))
        every_row = public_type(schema) != schema or has_constraints(self.text, self.references)
        doubtful = _NULLS if own is not None else _ANY if every_row else _NOT_TYPED
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
        decoded = decode_rows(values, self._read, malformed)  # malformed rows are None now
        lost = [row for row, value in enumerate(values) if self._lost_digits and _loses_digits(value, documents[row])]
        for row in lost:
            values[row] = parse(row, _exact_loads)
        return decode_rows(values, self._read, malformed) if lost else decoded

    def _column_text(self, value: Any) -> str:
        """Return the JSON text of a value for a string column, and note if orjson has made a float of a number in it."""
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


def _exact(digits: str) -> int | Decimal:  # as orjson, which has no integers of more than 64 bits
    number = Decimal(digits)
    return int(number) if -(2**63) <= number < 2**64 and number == int(number) else number


_EXACT = json.JSONDecoder(parse_float=_decimal, parse_int=_exact, parse_constant=_decimal)
_VALIDATED = json.JSONDecoder(parse_float=_exact)  # 19.99 is a multiple of 0.01, 5.0 an integer


def _exact_loads(document: bytes) -> Any:
    return _EXACT.decode(document.decode())


def _loads(document: bytes) -> Any:
    """Parse a document. Numbers beyond a double and halves of surrogate pairs harm only the columns that they are in."""
    import orjson

    try:
        return orjson.loads(document)
    except ValueError:
        with suppress(ValueError, RecursionError):  # orjson's reason is clearer
            return _exact_loads(document)
        raise


def _loses_digits(value: Any, document: bytes) -> bool:
    """Return whether orjson may have changed the digits of a float.

    False if orjson's own text of the value equals the document, apart from spaces. The texts seldom differ for another
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
    """Return the types among the values, without None. Raises ValueError if another one is not allowed."""
    found = set(map(type, values)) - {type(None)}
    if not found <= allowed:
        raise _problem(next(v for v in values if v is not None and type(v) not in allowed), path, kind)
    return found


class _Readers(TypeVisitor[pa.DataType, _Read]):
    """Makes the function that builds a column from parsed values. It raises ValueError for a value of another type.

    The partner is the schema's type, which has RAW where the column has JSON text, also of strings. `text` makes the text.
    """

    def __init__(self, text: _Text) -> None:
        self._text = text

    def visit(self, kind: pa.DataType, schema: pa.DataType, path: str = "") -> _Read:
        return super().visit(kind, _of_form(schema, kind), path)

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
    """Return a function that refuses other values than arrays or objects, and masks null."""

    def read(values: list[Any]) -> pa.Array:
        _check(values, {form}, path, named)
        empty = form()
        return build([value or empty for value in values], pa.array([value is None for value in values], pa.bool_()))

    return read


def _of_form(schema: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return the schema's type, or the column's where the schema says nothing of its fields or elements."""
    return schema if (kind in STRINGS if schema == RAW else type(schema) is type(kind)) else kind


def _scalars(values: list[Any], kind: pa.DataType, path: str, text: _Text) -> pa.Array:
    if pa.types.is_string(kind):
        if set(map(type, values)) <= {str, type(None)}:
            return pa.array(values, kind)
        # As Spark: the JSON text of anything else.
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
        rounded = partial(Decimal.quantize, exp=Decimal(1).scaleb(-kind.scale), context=_PLAIN)
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
    # A time without a zone is UTC. Arrow takes a date alone only without one.
    zone = pc.if_else(pc.equal(pc.utf8_length(texts), 10), " 00:00Z", "Z")
    return pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, zone, "")).cast(kind)


# Encoding

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
        """Return the documents, null where the row is null. Null fields are left out, unless the schema requires them.

        Raises INVALID_VALUE if the schema does not allow a value, a text is no JSON where it must be, or is not UTF-8.
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
            with localcontext(_PLAIN):
                for error in self._validator.iter_errors(_VALIDATED.decode(document.decode())):
                    if error.instance is None or self._doubtful is not _NULLS:
                        raise ValueError(_DECIMAL.sub(r"\1", f"{error.json_path}: {error.message}"))
        except RecursionError as exc:
            raise ValueError(f"the schema cannot validate it: {exc}") from exc
        # A reference, a pattern that Python does not know, or the schema itself.
        except (Unresolvable, UnknownType, AttributeError, TypeError, re.error, OverflowError) as exc:
            raise INVALID_SCHEMA(f"The JSON schema cannot validate rows: {exc}. Correct the schema") from exc


class _Writers(TypeVisitor[pa.DataType, _Write]):
    """Makes the function that turns a column into values for orjson.

    The partner is the schema's type, which has RAW where the strings of the column are JSON text.
    """

    def visit(self, kind: pa.DataType, schema: pa.DataType, path: str = "") -> _Write:
        return super().visit(kind, _of_form(schema, kind), path)

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
    """Return ISO 8601 with milliseconds, as Spark writes them, or with microseconds if there are any."""
    texts = _in_years(column.cast(pa.timestamp("us"))).cast(pa.string())
    texts = pc.replace_substring_regex(pc.replace_substring(texts, " ", "T"), r"000$", "")
    return texts if column.type.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _in_years(column: pa.Array) -> pa.Array:
    """Return the column. Raises ValueError for a time whose year has no form of four digits."""
    number, unit = (pa.int32(), "days") if column.type == pa.date32() else (pa.int64(), "µs")
    first, last = pa.array([dt.datetime.min, dt.datetime.max]).cast(column.type).cast(number).to_pylist()
    for value in pc.min_max(column.cast(number)).as_py().values():
        if value is not None and not first <= value <= last:
            raise ValueError(f"{value} {unit} after 1970 are outside the years 1 to 9999")
    return column
