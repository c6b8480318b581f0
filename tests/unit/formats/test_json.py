"""JSON documents and columns: Spark's values, malformed documents, rows that do not fit, and schemas of types."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.json import JsonEncoder, JsonSchema, parse, schema_of

UTC = dt.timezone.utc


def decode(schema: JsonSchema, *payloads: bytes | None) -> Decoded:
    decoded = schema.decoder(None, schema.type).decode(pa.array(payloads, pa.binary()))
    decoded.column.validate(full=True)
    assert decoded.column.type == schema.type
    return decoded


def value(kind: str, text: str) -> Any:
    """Return the value of a document with one field, or the reason why it is malformed."""
    decoded = decode(parse(f"f {kind}"), f'{{"f": {text}}}'.encode())
    return decoded.malformed[0] if decoded.malformed else decoded.column.to_pylist()[0]["f"]


def encode(text: str, *rows: Any, kind: pa.DataType | None = None) -> list[bytes | None]:
    schema = parse(text)
    kind = kind or schema.type
    encoded: list[bytes | None] = schema.encoder(kind).encode(pa.array(rows, kind)).to_pylist()
    return encoded


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("boolean", "true", True),
        ("tinyint", "-128", -128),
        ("smallint", "32767", 32767),
        ("int", "-2147483648", -2147483648),
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("float", "0.5", 0.5),
        ("double", "1e3", 1000.0),
        ("double", "5", 5.0),
        ("double", "9007199254740993", 9007199254740992.0),
        ("double", '"-Infinity"', float("-inf")),
        ("string", '"x"', "x"),
        ("string", "5", "5"),
        ("string", '{"a": [1, null]}', '{"a":[1,null]}'),
        ("string", "12345678901234567890123", "12345678901234567890123"),
        ("array<string>", '[1.10, {"a": [0.1000]}, 1e5]', ["1.10", '{"a":[0.1000]}', "1E+5"]),
        ("map<string,string>", '{"a": 1.0}', [("a", "1.0")]),
        ("binary", '"AQI="', b"\1\2"),
        ("date", '"2026-02-28"', dt.date(2026, 2, 28)),
        ("date", '"2026-02-28T10:00:00Z"', dt.date(2026, 2, 28)),
        ("date", '"2026-2-8"', dt.date(2026, 2, 8)),
        ("date", '"2026-2"', dt.date(2026, 2, 1)),
        ("date", '" 2026 "', dt.date(2026, 1, 1)),
        ("timestamp", '"2026-02-28T10:00:00Z"', dt.datetime(2026, 2, 28, 10, tzinfo=UTC)),
        ("timestamp", '"2026-02-28T10:00:00.123456789+02:00"', dt.datetime(2026, 2, 28, 8, 0, 0, 123456, tzinfo=UTC)),
        ("timestamp", '"2026-02-28 10:00"', dt.datetime(2026, 2, 28, 10, tzinfo=UTC)),
        ("timestamp", '"2026-02-28"', dt.datetime(2026, 2, 28, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-02-28T10:00:00.5"', dt.datetime(2026, 2, 28, 10, 0, 0, 500000)),
        ("decimal(10,2)", "12345678.905", Decimal("12345678.91")),
        ("decimal(38,3)", "12345678901234567890123456789.125", Decimal("12345678901234567890123456789.125")),
        ("decimal(10,2)", '"1.5"', Decimal("1.50")),
        ("array<int>", "[1, null]", [1, None]),
        ("map<string,int>", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("struct<a:int>", '{"b": 2}', {"a": None}),
        ("struct<a:int>", "null", None),
    ],
)
def test_values(kind: str, text: str, expected: Any) -> None:
    """Values are read as Spark's from_json reads them."""
    found = value(kind, text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("boolean", "1", "f is 1, which is no boolean"),
        ("int", "true", "f is true, which is no int"),
        ("int", "1.0", "f is 1.0, which is no int"),
        ("int", "2147483648", "f is 2147483648, which is no int"),
        ("bigint", "9223372036854775808", "f is 9223372036854775808, which is no bigint"),
        ("bigint", '"1"', 'f is "1", which is no bigint'),
        ("double", '"1"', 'f is "1", which is no double'),
        ("double", "false", "f is false, which is no double"),
        ("binary", '"*"', 'f is "*", which is no binary'),
        ("date", '"2026-02-30"', 'f is "2026-02-30", which is no date'),
        ("timestamp", '"noon"', 'f is "noon", which is no timestamp_ltz'),
        ("timestamp", "5", "f is 5, which is no timestamp_ltz"),
        ("decimal(4,2)", "100", "f is 100, which is no decimal(4,2)"),
        ("array<int>", "{}", "f is {}, which is no array"),
        ("array<struct<a:int>>", '[{"a": 1}, {"a": "x"}]', 'f.element.a is "x", which is no int'),
        ("map<string,int>", '{"k": 1, "l": 2147483648}', "f.value is 2147483648, which is no int"),
        ("struct<a:int>", "[]", "f is [], which is no object"),
        ("string", "NaN", "the bytes are no JSON: "),
        ("string", '"x', "the bytes are no JSON: "),
        ("string", "'x'", "the bytes are no JSON: "),
        ("double", "Infinity", "the bytes are no JSON: "),
        ("string", '"\\ud83d"', "'utf-8' codec"),
        ("decimal(4,2)", "NaN", "the bytes are no JSON: NaN is no number"),
    ],
)
def test_malformed_values(kind: str, text: str, says: str) -> None:
    """A value of another type or out of range makes the record malformed, and the reason has its path."""
    assert value(kind, text).startswith(says)


@pytest.mark.parametrize("more", ["", ", x decimal(5,2)"])
def test_repeated_names(more: str) -> None:
    """The last value of a repeated name counts, also in the JSON text of a string."""
    decoded = decode(parse(f"a int, s string{more}"), b'{"a": 1, "s": {"b": 1, "b": 2}, "a": 2}')
    assert decoded.column.to_pylist()[0].items() >= {"a": 2, "s": '{"b":2}'}.items()


@pytest.mark.parametrize("more", ["", ", x decimal(5,2)"])
def test_numbers_that_are_no_floats(more: str) -> None:
    """A number beyond the range of float or double makes its record malformed; strings of infinities do not."""
    schema = parse(f"f float, d double{more}")
    infinity, long = b'{"f": "Infinity", "d": "-Infinity"}', b'{"f": -1%s}' % (b"0" * 40)
    decoded = decode(schema, b'{"f": 1e39}', infinity, b'{"d": -1e400}', b'{"f": 1e38, "d": 1e39}', long, infinity)
    assert list(decoded.malformed) == [0, 2, 4]
    assert decoded.malformed[0].lower().replace("+", "") == "f is 1e39, which is no float"
    assert decoded.column.to_pylist()[5]["d"] == float("-inf")


def test_malformed_records() -> None:
    """Malformed documents become null with a reason without harm to others; a null document or payload is just null."""
    payloads = [b'{"a": 1}', b"", b"\xff", b"[1]", b"null", None, b'{"a": "x"}', b'{"A": 1}', b"[" * 100_000, b'{"a": 2} x']
    decoded = decode(parse("a int"), *payloads)
    assert decoded.column.to_pylist() == [{"a": 1}, *[None] * 6, {"a": None}, None, None]
    assert list(decoded.malformed) == [1, 2, 3, 6, 8, 9]
    assert decoded.malformed[3] == "the document is [1], which is no object"
    row = decode(parse("a bigint, d decimal(5,2)"), b'{"a": -9223372036854775808}').column.to_pylist()[0]
    assert row == {"a": -9223372036854775808, "d": None}
    decoded = decode(parse("a decimal(5,2)"), *payloads)
    assert list(decoded.malformed) == [1, 2, 3, 6, 8, 9]


def test_deep_documents() -> None:
    """A document too deep to be written as text is malformed if a field needs the text."""
    deep = b'{"s": ' + b"[" * 500 + b"]" * 500 + b', "a": 1}'
    for more in "", ", d decimal(5,2)":
        decoded = decode(parse(f"s string{more}"), deep, b'{"s": [[]]}')
        assert list(decoded.malformed) == [0]
        assert decoded.column.to_pylist()[1]["s"] == "[[]]"
        assert decode(parse(f"a int{more}"), deep).column.to_pylist()[0]["a"] == 1


@pytest.mark.parametrize("more", ["", ", d decimal(5,2)"])
def test_values_that_are_not_read(more: str) -> None:
    """A number beyond a double, or half of a surrogate pair, harms only a record with a column for it."""
    schema = parse(f"a int, s string, f double{more}")
    half, large = rb'"\ud83d"', b"-1e400"
    values = [b'{"a": 1, "x": [%s, {"y": 1.10}]}' % found for found in (half, large)]
    values += [b'{"s": %s}' % half, b'{"f": %s}' % large, b'{"a": 2, "f": 5, "s": [%s]}' % large, b'{"a": 3, "x": NaN}']
    decoded = decode(schema, *values)
    assert [row and (row["a"], row["s"], row["f"]) for row in decoded.column.to_pylist()] == [
        (1, None, None), (1, None, None), None, None, (2, "[-1E+400]", 5.0), None,
    ]  # fmt: skip
    assert list(decoded.malformed) == [2, 3, 5]


def test_digits_of_texts() -> None:
    """Numbers in a string column keep their digits, whatever else the batch contains; other columns are not affected."""
    schema = parse("s string, d double, i int")
    rows = (
        b'{"s": 1.10, "d": 1.1, "i": 5}',
        b'{"s": [1.10], "i": 1e39}',
        b'{"d": 0.1, "i": 1e39}',
        b"x",
        b'{"s": "y", "d": 2}',
    )
    decoded = decode(schema, *rows, None)
    assert decoded.column.to_pylist() == [
        {"s": "1.10", "d": 1.1, "i": 5}, None, None, None, {"s": "y", "d": 2.0, "i": None}, None,
    ]  # fmt: skip
    assert list(decoded.malformed) == [1, 2, 3]
    assert decoded.malformed[2] == decode(schema, rows[2]).malformed[0]
    lists = b"[" * 1010 + b"0.1" + b"]" * 1010
    decoded = decode(schema, b'{"s": %s}' % lists, rows[0], b'{"s": 0.10, "x": %s}' % lists)
    assert set(decoded.malformed) - {2} == {0}  # whether the last row is too deep depends on the version of Python
    assert decoded.column[2].as_py() == (None if 2 in decoded.malformed else {"s": "0.10", "d": None, "i": None})


def test_short_floats_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document whose floats have their shortest text is not parsed again for a string column, whatever its spacing."""

    def exact(payload: bytes) -> Any:
        raise AssertionError(payload)

    monkeypatch.setattr("pyspark_zkafka.formats.json._exact_loads", exact)
    compact, spaced = b'{"s":{"x":0.1,"y":"a b"}}', b'{ "s" :\t[2.5, 1e+30],\r\n "x y": "1.10"}'
    decoded = decode(parse("s string"), compact, spaced, b'{"t": 1}')
    assert [row["s"] for row in decoded.column.to_pylist()] == ['{"x":0.1,"y":"a b"}', "[2.5,1e+30]", None]


def test_exponents_of_texts() -> None:
    """An exponent beyond the range of decimals makes only its own record malformed."""
    tiny = b'{"s": [1e-99999999999999999999]}'
    for fields in "s string", "s string, d decimal(5,2)":
        decoded = decode(parse(fields), tiny, b'{"s": 1.10}')
        assert list(decoded.malformed) == [0]
        assert decoded.column.to_pylist()[1]["s"] == "1.10"


@pytest.mark.parametrize(
    ("fields", "text", "says"),
    [
        ("f string", "[" * 300 + "]" * 300, "Recursion limit reached"),
        ("f bigint", "[" * 300 + "]" * 300, "Recursion limit reached"),
        ("f decimal(5, 2)", r'"\ud800"', "surrogates not allowed"),
        ("f string, d decimal(5, 2)", r'["\ud800"]', "surrogates not allowed"),
    ],
)
def test_values_without_a_text(fields: str, text: str, says: str) -> None:
    """A value that orjson cannot write as text makes only its own record malformed."""
    decoded = decode(parse(fields), b"{}", f'{{"f": {text}}}'.encode())
    assert list(decoded.malformed) == [1]
    assert says in decoded.malformed[1]


def test_nothing_to_decode() -> None:
    """Batches without rows, or with tombstones only, become columns."""
    assert decode(parse("a int")).column.to_pylist() == []
    assert decode(parse("a array<map<string,int>>"), None, None).column.to_pylist() == [None, None]


def test_projection() -> None:
    """A projection decodes only its fields, so other fields may have any type."""
    schema = parse("a int, b struct<c: string, d: int>")
    kind = pa.struct([("b", pa.struct([("c", pa.string())]))])
    payloads = pa.array([b"....", b'....{"a": "x", "b": {"c": "y", "d": "z"}}']).slice(1)
    decoded = schema.decoder(None, kind).decode(payloads, skip=4)
    assert decoded.column.to_pylist() == [{"b": {"c": "y"}}]


def test_pickles() -> None:
    """A schema can be pickled."""
    schema = parse('{"type": "object", "properties": {"a": {"type": "integer"}}}', {"x": "{}"})
    assert pickle.loads(pickle.dumps(schema)) == schema


ALL = (
    "bo boolean, i bigint, f float, d double, s string, b binary, da date, t timestamp, n timestamp_ntz, de decimal(10,2), "
    "l array<int>, m map<string,double>, st struct<a:int,b:string>"
)


def test_encoding() -> None:
    """Documents are as to_json writes them: without null fields, with ISO times, base64 and decimals as numbers."""
    row = {
        "bo": True, "i": 1, "f": 0.1, "d": 1.5, "s": "ä", "b": b"\1\2", "da": dt.date(2026, 2, 28),
        "t": dt.datetime(2026, 2, 28, 10, tzinfo=UTC), "n": dt.datetime(2026, 2, 28, 10, 0, 0, 123456),
        "de": Decimal("1.50"), "l": [1, None], "m": [("k", float("nan")), ("l", None)], "st": {"a": None, "b": "x"},
    }  # fmt: skip
    (document, *others) = encode(ALL, row, None, {}, row)
    assert (
        document
        == (
            '{"bo":true,"i":1,"f":0.1,"d":1.5,"s":"ä","b":"AQI=","da":"2026-02-28","t":"2026-02-28T10:00:00.000Z",'
            '"n":"2026-02-28T10:00:00.123456","de":1.50,"l":[1,null],"m":{"k":"NaN","l":null},"st":{"b":"x"}}'
        ).encode()
    )
    assert others == [None, b"{}", document]
    assert decode(parse(ALL), document).column.to_pylist()[0]["t"] == row["t"]


def test_encoding_of_slices() -> None:
    """Slices and columns that are no struct are encoded."""
    kind = pa.map_(pa.string(), pa.list_(pa.int32()))
    column = pa.array([[("a", [1])], None, [("b", [2, 3]), ("c", None)]], kind)
    encoded = parse("map<string,array<int>>").encoder(kind).encode(column.slice(1)).to_pylist()
    assert encoded == [None, b'{"b":[2,3],"c":null}']


def test_values_that_the_schema_forbids() -> None:
    """A row that the JSON Schema forbids is an error with row, path and reason."""
    text = '{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "e": {"enum": ["a", "b"]}}}'
    kind = pa.struct([("id", pa.int64()), ("e", pa.string())])
    assert encode(text, {"id": 1, "e": "a"}, None, {"id": 1, "e": None}, kind=kind) == [
        b'{"id":1,"e":"a"}',
        None,
        b'{"id":1}',
    ]
    with pytest.raises(InvalidRow, match=r"Row 1 .*\$.e: 'c' is not one of \['a', 'b'\]"):
        encode(text, {"id": 1, "e": "a"}, {"id": 1, "e": "c"}, kind=kind)
    with pytest.raises(InvalidRow, match=r"Row 0 .*\$.id: None is not of type 'integer'"):
        encode(text, {"id": None, "e": "a"}, kind=kind)
    with pytest.raises(InvalidRow, match=r"Row 0 .*'id' is a required property"):
        encode(text, {"e": "a"}, kind=pa.struct([kind[1]]))


def test_required_nulls() -> None:
    """A null field that the schema requires, and allows to be null, is written as null, at any depth."""
    nullable: dict[str, Any] = {
        "required": ["a", "b"],
        "properties": {"a": {"type": ["string", "null"]}, "b": {"oneOf": [{"type": "null"}, {"type": "integer"}]}, "c": {}},
    }
    text = json.dumps(
        {"required": ["n"], "properties": {"n": {"anyOf": [nullable, {"type": "null"}]}, "l": {"items": nullable}}}
    )
    rows = [{"n": {"a": None, "b": None, "c": None}, "l": [{"a": None, "b": 1, "c": "5"}]}, {"n": None, "l": None}]
    documents = encode(text, *rows)
    assert documents == [b'{"n":{"a":null,"b":null},"l":[{"a":null,"b":1,"c":5}]}', b'{"n":null}']
    assert decode(parse(text), *documents).column.to_pylist() == rows


def test_multiples() -> None:
    """Validation is exact: of decimals, of doubles by their text, and of whole numbers with a point."""
    text = '{"properties": {"p": {"type": "number", "multipleOf": 0.01, "maximum": 1e30}}}'
    for kind, cents in (pa.decimal128(38, 3), Decimal("19.99")), (pa.float64(), 0.07):
        column = pa.struct([("p", kind)])
        assert encode(text, {"p": cents}, kind=column)
        with pytest.raises(InvalidRow, match=r"Row 1 .*\$.p: 19.995 is not a multiple of 0.01"):
            encode(text, {"p": cents}, {"p": type(cents)("19.995")}, kind=column)
    digits = pa.struct([("p", pa.decimal128(38, 7))])
    with pytest.raises(InvalidRow, match=r"\$.p: 1000000000000000000000000000000.01.* is greater than the maximum"):
        encode(text, {"p": Decimal("1000000000000000000000000000000.01")}, kind=digits)
    for several, found in (
        ('["integer", "string"]', "5.0"),
        ('["integer", "string"]', "9" * 30),
        ('["number", "string"], "enum": [1.10]', "1.1"),
    ):
        assert encode(f'{{"properties": {{"a": {{"type": {several}}}}}}}', {"a": found}) == [f'{{"a":{found}}}'.encode()]
    with pytest.raises(InvalidRow, match=r"\$.p: 1E\+300 is greater"):
        encode(text, {"p": 1e300}, kind=pa.struct([("p", pa.float64())]))
    with pytest.raises(InvalidRow, match="InvalidOperation"):
        encode('{"properties": {"p": {"type": "number", "multipleOf": 0}}}', {"p": 1.5})


@pytest.mark.parametrize(
    ("pattern", "reason"), [(r"^\\p{L}", "bad escape .p"), ("x{99999999999}", "the repetition number is too large")]
)
def test_patterns_of_other_languages(pattern: str, reason: str) -> None:
    """A pattern that Python does not know is an error of the schema."""
    with pytest.raises(OptionError, match=rf"INVALID_SCHEMA\] The JSON schema cannot validate rows: {reason}"):
        encode(f'{{"properties": {{"p": {{"type": "string", "pattern": "{pattern}"}}}}}}', {"p": "x"})


@pytest.mark.parametrize("part", ['{"$ref": "http://x/y"}', '{"$ref": 5}', '{"type": "strng"}', '{"pattern": 5}', "5"])
def test_parts_that_validate_nothing(part: str) -> None:
    """A wrong reference or type, in a part of the schema that gives no type, is an error of the schema."""
    with pytest.raises(
        OptionError, match=r"(?s)INVALID_SCHEMA\] The JSON schema cannot validate rows: .*Correct the schema"
    ):
        encode(f'{{"properties": {{"p": {{"type": "string", "not": {part}}}}}}}', {"p": "x"})


SEVERAL = """{"properties": {
  "free": {"type": "object"}, "any": {"type": ["integer", "string"]}, "all": {"type": "array"},
  "arr": {"type": "array", "items": {"type": "integer"}},
  "map": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}
}}"""


def test_values_of_several_types() -> None:
    """A value of several types is a string column of JSON text, and is written as this JSON."""
    row = {"free": '{"x": 1.10}', "any": "5", "all": ["[null]", '"a"'], "arr": [1], "map": [("k", None)]}
    document = b'{"free":{"x": 1.10},"any":5,"all":[[null],"a"],"arr":[1],"map":{"k":null}}'
    assert encode(SEVERAL, row, {"any": None}, None) == [document, b"{}", None]
    assert encode('{"type": "object"}', '{"a": 1}', None) == [b'{"a": 1}', None]
    assert encode("{}", {"s": "x"}, kind=pa.struct([("s", pa.string())])) == [b'{"s":"x"}']


@pytest.mark.parametrize(
    ("kind", "value", "document"),
    [(pa.int64(), 5, b'{"any":5}'), (pa.large_string(), '"x"', b'{"any":"x"}'), (pa.float64(), 5.0, b'{"any":5.0}')],
)
def test_one_of_several_types(kind: pa.DataType, value: Any, document: bytes) -> None:
    """A column of one type is written where the schema allows values of several, and each row is validated."""
    column = pa.struct([("any", kind)])
    assert encode(SEVERAL, {"any": value}, {"any": None}, kind=column) == [document, b"{}"]
    with pytest.raises(InvalidRow, match=r"Row 0 .*\$.any: \[5\] is not of type 'integer', 'string'"):
        encode(SEVERAL, {"any": [5]}, kind=pa.struct([("any", pa.list_(pa.int64()))]))


def test_copies_of_values_of_several_types() -> None:
    """A document of any shape stays the same through decoding and encoding, as strings keep their quotes."""
    schema = parse(SEVERAL)
    for document in b'{"free":{"x":1.10},"any":"5","all":["a",1,{}]}', b'{"any":5,"all":[]}':
        assert encode(SEVERAL, *decode(schema, document).column.to_pylist()) == [document]
    kind = pa.struct([("any", pa.string())])
    decoded = schema.decoder(None, kind).decode(pa.array([b'{"any": "x"}', b'{"any": null}'])).column
    assert decoded.to_pylist() == [{"any": '"x"'}, {"any": None}]
    assert decode(parse("{}"), b'"x"').column.to_pylist() == ['"x"']
    empty = pa.struct([("e", pa.struct([]))])  # the schema made from this type has an object with any fields
    assert parse(schema_of(empty)).decoder(None, empty).decode(pa.array([b'{"e": {"a": 1}}'])).column.type == empty


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"free": "notjson"}, "in the field free .* notjson is no JSON text"),
        ({"free": "5"}, r"\$.free: 5 is not of type 'object'"),
        ({"any": "true"}, r"\$.any: True is not of type 'integer', 'string'"),
        ({"arr": [1, None]}, r"\$.arr\[1\]: None is not of type 'integer'"),
        ({"all": ["NaN"]}, "in the field all .* NaN is no JSON text"),
    ],
)
def test_values_of_other_types(row: Any, says: str) -> None:
    """Text that is no JSON, JSON of another type and null are errors where the schema does not allow them."""
    with pytest.raises(InvalidRow, match=rf"Row 1 .*{says}"):
        encode(SEVERAL, {}, row)


def test_own_schemas_are_not_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema made from the column's type allows every row, so no row is validated, whatever the fields are called."""

    def validate(encoder: JsonEncoder, document: Any) -> None:
        raise AssertionError(document)

    monkeypatch.setattr(JsonEncoder, "_validate", validate)
    kind = parse("not array<int>, e map<string,double>").type
    text = schema_of(kind)
    assert encode(text, {"not": [None], "e": [("k", None)]}, kind=kind) == [b'{"not":[null],"e":{"k":null}}']
    with pytest.raises(AssertionError):  # another type's schema
        encode(text, {"e": [("k", None)]}, kind=parse("e map<string,double>").type)


def test_null_against_the_columns_type() -> None:
    """A null in an array of non-null elements is an error, even with the schema made from the type."""
    kind = pa.struct([("f", pa.list_(pa.field("element", pa.int32(), nullable=False)))])
    with pytest.raises(InvalidRow, match=r"None is not of type 'integer'"):
        encode(schema_of(kind), {"f": [1, None]}, kind=kind)


@pytest.mark.parametrize(
    "other",
    [
        '{"type": ["integer", "string"]}', '{"oneOf": [{"type": "integer"}, {"type": "string"}]}', '{"enum": ["a"]}',
        '{"type": "integer"}', '{"type": "array", "items": {"type": ["integer", "null"]}}',
    ],
)  # fmt: skip
def test_numbers_that_are_not_finite(other: str) -> None:
    """A given schema's number cannot be NaN or an infinity, whatever the schema's other properties and fields are."""
    text = f'{{"properties": {{"d": {{"type": "number"}}, "other": {other}}}}}'
    kinds = [pa.struct([("d", pa.float64())])]
    kinds += [pa.struct([*kinds[0], ("other", pa.list_(pa.int64()))])] if "array" in other else []
    for kind in kinds:
        for found in math.nan, math.inf, -math.inf:
            with pytest.raises(InvalidRow, match=r"Row 1 .*\$.d: '(NaN|-?Infinity)' is not of type 'number'"):
                encode(text, {"d": 1.0}, {"d": found, "other": [None]}, kind=kind)


def test_own_numbers_that_are_not_finite() -> None:
    """NaN and infinities are strings by a schema made from the column, also if a row is validated for its nulls."""
    kind = pa.struct([("d", pa.float64()), ("enum", pa.list_(pa.field("element", pa.string(), nullable=False)))])
    rows = [{"d": found, "enum": ["null"]} for found in (math.nan, math.inf, -math.inf)]
    documents = [f'{{"d":"{name}","enum":["null"]}}'.encode() for name in ("NaN", "Infinity", "-Infinity")]
    assert encode(schema_of(kind), *rows, kind=kind) == documents
    assert encode("d double, enum array<string>", *rows) == documents


def test_structs_without_fields() -> None:
    """An empty struct is an empty object, in arrays, maps and structs too; an object is read as an empty struct."""
    empty = pa.struct([])
    kind = pa.struct(
        [("e", empty), ("l", pa.list_(empty)), ("m", pa.map_(pa.string(), empty)), ("s", pa.struct([("e", empty)]))]
    )
    rows = [
        {"e": {}, "l": [{}, None, {}], "m": [("k", {}), ("n", None)], "s": {"e": {}}},
        None,
        {"e": None, "l": [], "m": [], "s": {"e": None}},
    ]
    column = pa.array([None, *rows], kind)
    schema = parse(schema_of(kind))
    documents = schema.encoder(kind).encode(column.slice(1))
    first = b'{"e":{},"l":[{},null,{}],"m":{"k":{},"n":null},"s":{"e":{}}}'
    assert documents.to_pylist() == [first, None, b'{"l":[],"m":{},"s":{}}']
    decoded = schema.decoder(None, kind).decode(documents)
    decoded.column.validate(full=True)
    assert decoded.column.to_pylist() == rows
    whole = parse('{"type": "object"}')
    assert whole.encoder(empty).encode(pa.array([{}, None], empty)).to_pylist() == [b"{}", None]
    decoded = whole.decoder(None, empty).decode(pa.array([b'{"a": 1}', b"{}", b"null", None, b"[]"]))
    assert decoded.column.to_pylist() == [{}, {}, None, None, None]
    assert list(decoded.malformed) == [4]


def test_null_elements() -> None:
    """A null in an array or map is an error, even with a schema that does not need validation of each row."""
    for inner in '"type": "array", "items"', '"type": "object", "additionalProperties"':
        text = f'{{"properties": {{"f": {{{inner}: {{"type": "integer"}}}}}}}}'
        kind = parse(text).type.field("f").type
        value = [None] if pa.types.is_list(kind) else [("k", None)]
        with pytest.raises(InvalidRow, match=r"Row 1 .* None is not of type 'integer'"):
            encode(text, {"f": []}, {"f": value})


FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        (pa.date32(), FIRST.date(), LAST.date()),
        (pa.timestamp("us"), FIRST, LAST),
        (pa.timestamp("us", "UTC"), FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC)),
    ],
)
def test_years(kind: pa.DataType, first: Any, last: Any) -> None:
    """Years 1 to 9999 can be written and read back. Other years are an error, since ISO 8601 cannot express them."""
    number = pa.int32() if kind == pa.date32() else pa.int64()
    column = pa.array([first, last, None], kind)
    schema = parse("t date" if kind == pa.date32() else "t timestamp" if kind.tz else "t timestamp_ntz")
    rows = pa.StructArray.from_arrays([column], names=["t"])
    encoded = schema.encoder(rows.type).encode(rows)
    assert [str(value)[:4] for value in pc.struct_field(decode(schema, *encoded.to_pylist()).column, "t")[:2]] == [
        "0001",
        "9999",
    ]
    low, high = column.cast(number).to_pylist()[:2]
    for beyond in low - 1, high + 1, 2 ** (number.bit_width - 1) - 1, -(2 ** (number.bit_width - 1)):
        rows = pa.StructArray.from_arrays([pa.array([low, beyond], number).cast(kind)], names=["t"])
        with pytest.raises(InvalidRow, match=r"Row 1 .* in the field t .* outside the years 1 to 9999"):
            schema.encoder(rows.type).encode(rows)


def test_deep_values() -> None:
    """A value too deep for orjson, or for validation by a schema that contains itself, is an error of its row."""
    kind: pa.DataType = pa.int32()
    rows: list[Any] = [[], []]
    for _ in range(300):
        kind = pa.list_(kind)
        rows[1] = [rows[1]]
    rows[1] = rows[1][0]
    column = pa.StructArray.from_arrays([pa.array(rows, kind)], names=["a"])
    with pytest.raises(InvalidRow, match=r"Row 1 .* Recursion limit reached"):
        parse('{"properties": {"a": {}}}').encoder(column.type).encode(column)
    tree = (
        '{"properties": {"a": {"$ref": "#/definitions/T"}}, "definitions": {"T": {"items": {"$ref": "#/definitions/T"}}}}'
    )
    with pytest.raises(InvalidRow, match=r"Row 1 .* the schema cannot validate it: maximum recursion"):
        encode(tree, {}, {"a": ["[" * 900 + "]" * 900]})


def test_text_that_is_not_utf8() -> None:
    """A Spark string that is not UTF-8 is an error that names row and field."""
    column = pa.StructArray.from_arrays([pa.array([b"a", b"\xff"]).view(pa.string())], names=["s"])
    with pytest.raises(InvalidRow, match="Row 1 of a batch has a value in the field s"):
        parse("s string").encoder(column.type).encode(column)


def test_column_that_does_not_fit() -> None:
    """One error lists every field that the schema lacks or types differently, and every type that JSON cannot represent."""
    schema = parse("a int, b struct<c: string>, d array<double>, m map<string, date>")
    kind = pa.struct(
        [
            ("a", pa.string()), ("b", pa.struct([("c", pa.binary()), ("x", pa.int32())])), ("d", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.bool_())),
        ]
    )  # fmt: skip
    with pytest.raises(OptionError, match=r"a is string, .* int; b.x is no property .*; m.value is boolean, .* date;"):
        schema.encoder(kind)


VARIANT = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])


@pytest.mark.parametrize(
    "kind",
    [pa.duration("us"), pa.time64("ns"), pa.list_(pa.duration("us")), VARIANT, pa.map_(pa.int32(), pa.string()), pa.null()],
)
def test_types_without_a_form(kind: pa.DataType) -> None:
    """A declared type that JSON lacks is an error with its path in decoders, encoders and schemas made from it."""
    kind = pa.struct([("a", kind)])
    for make in (
        lambda: parse('{"properties": {"a": {}}}').decoder(None, kind),
        lambda: parse('{"properties": {"a": {}}}').encoder(kind),
        lambda: schema_of(kind),
    ):
        with pytest.raises(OptionError, match=r"JSON has no form of these columns: a(\.element|\.key)? is ") as caught:
            make()
        assert caught.value.condition == "INVALID_SCHEMA"


def test_local_times_return() -> None:
    """A time without a zone is the same after it was written and read with the schema made from its type."""
    kind, time = parse("n timestamp_ntz").type, dt.datetime(2026, 2, 28, 10, 0, 0, 123456)
    schema = parse(schema_of(kind))
    (document,) = schema.encoder(kind).encode(pa.array([{"n": time}], kind)).to_pylist()
    assert decode(schema, document).column.to_pylist() == [{"n": time}]


def test_schema_of() -> None:
    """The schema made from a type accepts the type, and gives integers and decimals JSON's wider types."""
    text = schema_of(parse(ALL).type)
    assert json.loads(text)["title"] == "topLevelRecord"
    schema = parse(text)
    expected = ALL.replace("f float", "f double").replace("decimal(10,2)", "double").replace("int>", "bigint>")
    expected = expected.replace("a:int,", "a:bigint,")
    assert schema.type == parse(expected).type
    column = pa.array([{"l": [None], "m": [("k", None)]}], parse(ALL).type)
    assert schema.encoder(column.type).encode(column).to_pylist() == [b'{"l":[null],"m":{"k":null}}']
