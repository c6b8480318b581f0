"""Protobuf next to vectors of Spark's from_protobuf and to_protobuf; docs/format-types-protobuf.md has the differences."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_zkafka.engines import arrow_schema
from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.protobuf import ProtobufSchema, parse
from tests.support.plain_values import array_of, plain_values

FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS = json.loads((FOLDER / "protobuf.json").read_text(encoding="utf-8"))


@cache
def files(name: str) -> bytes:
    return parse((FOLDER / "protobuf" / f"{name}.proto").read_text(encoding="utf-8")).files


def schema_of(table: dict[str, Any]) -> ProtobufSchema:
    return ProtobufSchema(files(table["file"]), f"v.{table['message']}")


def type_of(table: dict[str, Any]) -> pa.DataType:
    return pa.struct(arrow_schema(StructType.fromJson(table["type"])))


def unordered(value: Any, kind: pa.DataType) -> Any:
    """A value of which maps have no order, and the last of entries with the same key counts."""
    if pa.types.is_struct(kind) and value is not None:
        return {name: unordered(inner, kind.field(name).type) for name, inner in value.items()}
    if pa.types.is_list(kind) and value is not None:
        return [unordered(element, kind.value_type) for element in value]
    if pa.types.is_map(kind) and value is not None:
        return {key: unordered(item, kind.item_type) for key, item in value}
    return value


MALFORMED = {
    "was not a utf8 string": "text that is not UTF-8",
    "is outside 64 bits of microseconds": "a time outside 64 bits",
    "the bytes are no ": "a tag of more than 32 bits",
}
"""What makes a record malformed that Spark reads, by our reason."""
DIFFERENCES = {
    "text that is not UTF-8": 13,
    "a time outside 64 bits": 17,
    "an entry of a map with other fields": 15,
    "a tag of more than 32 bits": 4,
    "a number in ten bytes that needs fewer": 24,
    "fields that differ in case": 2,
    "a Timestamp or Duration with other fields": 4,
}


def difference(table: dict[str, Any], payload: bytes, theirs: Any, ours: Any, why: str) -> str:
    """Which known difference it is, else a text that shows it."""
    if table["message"] == "OddTimes" and theirs is None:
        return "a Timestamp or Duration with other fields"
    if table["message"] == "Cases" and theirs is None:
        return "fields that differ in case"
    if table["message"] == "Times" and theirs is None and str(-(2**63)) in str(ours):
        return "a time outside 64 bits"  # Spark refuses the lowest of 64 bits
    if table["message"] == "Outer" and ours == {"maps": {**theirs["maps"], "si": {}}}:
        return "an entry of a map with other fields"
    if b"\x80" * 9 in payload and ours is not None:
        return "a number in ten bytes that needs fewer"
    field = re.match("field (\\w+), number .* has a value that its type does not allow", why)
    if field and pa.types.is_map(schema_of(table).type.field(field[1]).type):
        return "an entry of a map with other fields"
    found = [name for reason, name in MALFORMED.items() if reason in why]
    return found[0] if found else f"{table['message']} {payload.hex()}: {theirs}, and here {ours} {why}"


def test_types() -> None:
    """A message has the type that from_protobuf gives it, with the same fields that are not null."""
    tables = [table for table in VECTORS["reads"] if table.get("type", {}).get("fields") and table["message"] != "OddTimes"]
    assert {table["message"]: str(schema_of(table).type) for table in tables} == {
        table["message"]: str(type_of(table)) for table in tables
    }


def test_refused_messages() -> None:
    """Recursive messages are refused as by Spark, and so are messages without fields, empty structs in Spark."""
    refused = [table for table in VECTORS["reads"] if not table.get("type", {}).get("fields")]
    for table in refused:
        with pytest.raises(OptionError, match=" is recursive " if table.get("refused") else " has no fields "):
            _ = schema_of(table).type
    theirs = {table["message"]: table.get("refused") for table in refused}
    assert theirs == {
        **dict.fromkeys(("Struct", "Value", "Tree", "Forest", "Ping"), "RECURSIVE_PROTOBUF_SCHEMA"),
        **dict.fromkeys(("NoFields", "OnlyEmpty")),
    }


def test_rows() -> None:
    """A payload is the row of from_protobuf, or malformed where Spark finds it so, apart from the known differences."""
    found = Counter[str]()
    for table in VECTORS["reads"]:
        if not table.get("type", {}).get("fields"):
            continue
        schema, payloads = schema_of(table), [bytes.fromhex(payload) for payload, _ in table["rows"]]
        decoded = schema.decoder(None, schema.type).decode(pa.array(payloads, pa.binary()))
        decoded.column.validate(full=True)
        rows = zip(payloads, table["rows"], plain_values(decoded.column), strict=True)
        for number, (payload, (_, row), plain) in enumerate(rows):
            theirs, ours = unordered(row, schema.type), unordered(plain, schema.type)
            if theirs != ours:
                found[difference(table, payload, theirs, ours, decoded.malformed.get(number, ""))] += 1
    assert found == DIFFERENCES


WRITTEN = {
    "accepted here": {
        "Scalars struct<i64:int>", "Scalars struct<u64:smallint>", "Scalars struct<d:float>",
        *(f"Scalars struct<{name}:bigint>" for name in ("i32", "s32", "f32")),
    },
    "INVALID_SCHEMA": {
        *(f"Scalars struct<{column}>" for column in ("e:int", "u32:date", "I32:int", "u64:decimal(20,0)")),
        *(f"Wrappers struct<{name}:int>" for name in ("i32", "u32")),
        *(f"Wrappers struct<{name}:bigint>" for name in ("i64", "u64")),
        *(f"Wrappers struct<{column}>" for column in ("f:float", "d:double", "b:boolean", "s:string", "y:binary")),
    },
    "INVALID_VALUE": {
        'Scalars {"u32": -1}', 'Scalars {"u32": 4294967296}',
        'Maps {"si": [["k", null]]}', 'Maps {"se": [["k", null]]}', 'Enums {"m": [["k", null]]}',
        'OneOf {"i": 1, "s": "x"}', 'OneOf {"i": 0, "m": {"i": 1}}',
        'Required {"i": 1}', 'Required {"e": "GREEN"}', "Required {}", 'Groups {"many": [{}]}', "Features {}",
    },
}  # fmt: skip
"""Columns and rows that only one of the two writes. Some columns have rows that both refuse."""


def test_bytes() -> None:
    """A row becomes the bytes of to_protobuf, or is refused where Spark fails, apart from the known differences.

    A row may have other bytes of the same meaning: maps are in the order of their keys, and defaults are not written. Times
    keep their microseconds, and Spark cuts them to milliseconds.
    """
    found: dict[str, set[str]] = {}
    others = Counter[str]()
    for table in VECTORS["writes"]:
        schema, kind = schema_of(table), type_of(table)
        simple = StructType.fromJson(table["type"]).simpleString()
        for row, theirs in table["rows"]:
            column, condition, ours = array_of([row], kind), "accepted here", None
            try:
                ours = schema.encoder(kind).encode(column).to_pylist()[0]
            except (OptionError, InvalidRow) as error:
                condition = error.condition
            if (ours is None) is not (theirs is None):
                label = json.dumps(row) if condition == "INVALID_VALUE" else simple
                found.setdefault(condition, set()).add(f"{table['message']} {label}")
            elif ours is not None and ours.hex() != theirs:
                decoder = schema.decoder(None, kind)
                mine, spark = (
                    plain_values(decoder.decode(pa.array([data])).column)[0] for data in (ours, bytes.fromhex(theirs))
                )
                if table["message"] == "Times":
                    assert mine == {"ts": [], "ds": [], **row}
                    assert spark == json.loads(json.dumps(mine), parse_int=lambda text: int(text) // 1000 * 1000)
                else:
                    assert mine == spark
                others[table["message"]] += 1
    assert found == WRITTEN
    assert others == {"Scalars": 2, "Maps": 2, "Times": 10}
