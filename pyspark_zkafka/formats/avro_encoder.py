"""Compiles the type of an Arrow column and an Avro schema to a program for `records/native/avro_encoder.c`."""

from __future__ import annotations

import struct
from contextlib import suppress
from ctypes import byref
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import OptionError, excerpt, listing
from pyspark_zkafka.formats.avro_types import AvroType, invalid, wider_kind
from pyspark_zkafka.formats.codec import require_fit, varint
from pyspark_zkafka.formats.types import BINARIES, STRINGS, TypeLimits, TypeVisitor, inner_path
from pyspark_zkafka.model.spark_types import spark_name
from pyspark_zkafka.records.native.library import AvroProgram, CArray, require

_MOST = {"int": 1 << 31, "long": 1 << 63}

# From zkafka.h.
(_CONSTANT, _BOOLEAN, _INTEGER, _REAL, _DOUBLE, _BYTES, _REST, _TEXT, _FIXED, _ENUM) = range(10)
(_DECIMAL, _ITEMS, _RECORD, _MEMBER) = range(10, 14)
(_IS_NULL, _NOT_UTF8, _NO_SYMBOL, _OTHER_SIZE, _MANY_MEMBERS, _NO_MEMBER) = range(1, 7)
(_ENCODED, _REFUSED) = range(2)
REFUSAL = np.dtype([("row", "i8"), ("step", "i4"), ("code", "i4")])
"""`zkafka_avro_refusal`."""


class Step(NamedTuple):
    """`zkafka_avro_step`: what to write for a value, and before it, or instead of null, the number of a union's branch."""

    op: int
    column: int = -1
    first: int = 0
    size: int = 0
    width: int = 0
    mark: int = -1
    null_mark: int = -1
    number: int = 0


STEP = np.dtype({
    "names": Step._fields,
    "formats": ["i4"] * 7 + ["i8"],
    "offsets": [*range(0, 28, 4), 32],
    "itemsize": 40,
})  # fmt: skip
"""The layout of a step in memory."""


class AvroEncoder:
    """Encodes a column of one type by a schema. With `confluent`, a payload of the type bytes has no length prefix.

    `program` has steps, links, columns and constants.

    Raises OptionError (INVALID_SCHEMA) if the schema does not accept the type.
    """

    def __init__(self, schema: AvroType, type: pa.DataType, *, confluent: bool = False) -> None:
        compiler = _Compiler()
        compiler.visit(type, _Part(schema, 0, is_rest=confluent and schema.kind == "bytes"))
        require_fit(compiler.problems, "the Avro schema")
        self._parts, constants = compiler.parts, np.frombuffer(bytes(compiler.constants) + b"\0", "u1")
        links, columns = np.array([*compiler.links, 0], "i4"), np.array(compiler.columns, "i4")
        self.program = np.array(compiler.steps, STEP), links, columns, constants

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the payloads, with null for a null row. Raises InvalidRow (INVALID_VALUE) and MemoryError."""
        out, source, refusal = CArray(), CArray.of(column), np.zeros(1, REFUSAL)
        program = AvroProgram(*(part.ctypes.data for part in self.program), len(self.program[2]))
        done = require().avro_encode(byref(program), source.address, out.address, refusal.ctypes.data)
        if done == _ENCODED:
            return out.array(pa.binary())
        if done == _REFUSED:
            raise INVALID_VALUE(self._reason(refusal[0]))
        raise MemoryError(
            f"no memory for {len(column)} rows in Avro, or they have more than 2 GiB. Let Spark hand over fewer rows at "
            "once: lower spark.sql.execution.arrow.maxRecordsPerBatch"
        )

    def _reason(self, refusal: Any) -> str:
        avro, path, whole = self._parts[refusal["step"]]
        problem = {
            _IS_NULL: f"is null, which the schema's {whole} does not allow",
            _NOT_UTF8: "is not UTF-8",
            _NO_SYMBOL: f"is not a symbol of the enum {avro.name}: {listing(avro.symbols)}",
            _OTHER_SIZE: f"does not have the {avro.size} bytes of {avro}",
            _MANY_MEMBERS: "has more than one member that is set",
            _NO_MEMBER: "has no member that is set",
        }[int(refusal["code"])]
        return f"Row {refusal['row']} of a batch has a value in {path or 'the column'} that {problem}; correct the row"


# --- Compiling ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """The schema of a part of the column, and the number of the part. `is_rest` is True for bytes without their length."""

    avro: AvroType
    column: int
    is_rest: bool = False


class _Compiler(TypeVisitor[_Part, int]):
    """Builds a program. The methods return the number of the step that writes a value; the first step is the root.

    Attributes
    ----------
    problems : list of str
        Parts that do not fit the schema.
    parts : list of (AvroType, str, AvroType)
        For each step, for errors: the schema and path of what it writes, and the schema with its union.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.steps: list[Step] = []
        self.parts: list[tuple[AvroType, str, AvroType]] = []
        self.links: list[int] = []
        self.columns: list[tuple[int, int, bool]] = [(-1, 0, False)]
        self.constants = bytearray()
        self._enums: dict[int, int] = {}

    def visit(self, type: pa.DataType, part: _Part, path: str = "") -> int:
        """Add the step for a value that may be null, and the steps for its parts."""
        avro, marks = part.avro, {branch: number for number, branch in enumerate(part.avro.branches)}
        null = next((mark for branch, mark in marks.items() if branch.kind == "null"), -1)
        if null >= 0 and pa.types.is_null(type):
            return self._constant(varint(null), avro, path)
        values = avro.values
        if wider_kind(values) is not None:
            values = [value for value in values if _scalar(value, type) is not None][:1] or values[-1:]
        if len(values) == 1:
            number = super().visit(type, replace(part, avro=values[0]), path)
            mark = marks.get(values[0], -1)
        else:
            number, mark = self._members(type, part, path, marks), -1
        self.steps[number] = self.steps[number]._replace(mark=mark, null_mark=null)
        self.parts[number] = (*self.parts[number][:2], avro)
        return number

    def _members(self, type: pa.DataType, part: _Part, path: str, marks: dict[AvroType, int]) -> int:
        """Add the step for a union of several types. Its struct has a field per type, and sets at most one field."""
        values = part.avro.values
        names = [f"member{number}" for number in range(len(values))]
        if not pa.types.is_struct(type) or [f.name for f in type] != names:
            expected = f"a struct of {listing(names)}" if names else "null"
            return self._unfit(f"{path or 'the column'} is {spark_name(type)}, and the union needs {expected}", part, path)
        number, members = self._new(part.avro, path), []
        for index, (value, field) in enumerate(zip(values, type, strict=True)):
            inner = _Part(value, self._column(part.column, index, is_field=True))
            member = super().visit(field.type, inner, inner_path(path, field.name))
            self.steps[member] = self.steps[member]._replace(mark=marks[value])
            members.append(member)
        return self._link(number, _MEMBER, part, members)

    def of_struct(self, type: pa.DataType, part: _Part, path: str) -> int:
        if part.avro.kind != "record":
            return self._unlike(type, part, path)
        names = {f.name for f in part.avro.fields}
        self.problems += [f"{inner_path(path, f.name)} is not in the schema" for f in type if f.name not in names]
        number, steps = self._new(part.avro, path), []
        for field in part.avro.fields:
            inner, index = inner_path(path, field.name), type.get_field_index(field.name)
            if index >= 0:
                column = self._column(part.column, index, is_field=True)
                steps.append(self.visit(type[index].type, _Part(field.type, column), inner))
            elif field.type.is_nullable:
                steps.append(self._constant(encode_default(field.type, field.default, inner), field.type, inner))
            else:
                self.problems.append(f"{inner} is missing, and {field.type} in the schema is not nullable")
        return self._link(number, _RECORD, part, steps)

    def of_list(self, type: pa.DataType, part: _Part, path: str) -> int:
        if part.avro.kind != "array":
            return self._unlike(type, part, path)
        number, column = self._new(part.avro, path), self._column(part.column, 0)
        item = self.visit(type.value_type, _Part(part.avro.item, column), inner_path(path, "element"))
        return self._link(number, _ITEMS, part, [item], width=8 if pa.types.is_large_list(type) else 4)

    def of_map(self, type: pa.DataType, part: _Part, path: str) -> int:
        if part.avro.kind != "map" or type.key_type not in STRINGS:
            return self._unlike(type, part, path)
        number, entry = self._new(part.avro, path), self._column(part.column, 0)
        key_path, key_column = inner_path(path, "key"), self._column(entry, 0, is_field=True)
        key = self._new(part.avro, key_path)
        self.steps[key] = Step(_TEXT, key_column, width=_offset_bytes(type.key_type))
        item = _Part(part.avro.item, self._column(entry, 1, is_field=True))
        value = self.visit(type.item_type, item, inner_path(path, "value"))
        return self._link(number, _ITEMS, part, [key, value], width=4)

    def of_scalar(self, type: pa.DataType, part: _Part, path: str) -> int:
        avro, found = part.avro, _scalar(part.avro, type)
        if found is None:
            return self._unlike(type, part, path)
        if avro.kind == "null":
            return self._constant(b"", avro, path)
        number = self._new(avro, path)
        if found.op == _ENUM:
            found = found._replace(first=self._symbols(avro), size=len(avro.symbols))
        elif part.is_rest:
            found = found._replace(number=-1) if found.op == _DECIMAL else found._replace(op=_REST)
        self.steps[number] = found._replace(column=part.column)
        return number

    def _symbols(self, avro: AvroType) -> int:
        """Return the first link of an enum's symbols, which all occurrences of the type share."""
        if id(avro) not in self._enums:
            self._enums[id(avro)] = len(self.links)
            for text, number in sorted((symbol.encode(), number) for number, symbol in enumerate(avro.symbols)):
                self.links += (len(self.constants), len(text), number)
                self.constants += text
        return self._enums[id(avro)]

    def _column(self, outer: int, child: int, *, is_field: bool = False) -> int:
        self.columns.append((outer, child, is_field))
        return len(self.columns) - 1

    def _new(self, avro: AvroType, path: str) -> int:
        self.steps.append(Step(_CONSTANT))
        self.parts.append((avro, path, avro))
        return len(self.steps) - 1

    def _link(self, number: int, op: int, part: _Part, steps: list[int], *, width: int = 0) -> int:
        self.steps[number] = Step(op, part.column, len(self.links), len(steps), width)
        self.links += steps
        return number

    def _constant(self, data: bytes, avro: AvroType, path: str) -> int:
        number = self._new(avro, path)
        self.steps[number] = Step(_CONSTANT, first=len(self.constants), size=len(data))
        self.constants += data
        return number

    def _unlike(self, type: pa.DataType, part: _Part, path: str) -> int:
        problem = f"{path or 'the column'} is {spark_name(type)}, and the schema has {_described(part.avro)}"
        return self._unfit(problem, part, path)

    def _unfit(self, problem: str, part: _Part, path: str) -> int:
        self.problems.append(problem)
        return self._new(part.avro, path)


def _described(avro: AvroType) -> str:
    logical = f"decimal({avro.precision},{avro.scale})" if avro.logical.endswith("decimal") else avro.logical
    return f"{avro} ({logical})" if logical else str(avro)


def _scalar(avro: AvroType, type: pa.DataType) -> Step | None:
    """Return the step for a type without parts, without its column. None if the column's type does not fit.

    Follows the rules of to_avro, but also widens smaller integers and floats, and decimals of smaller precision.
    """
    kind, logical = avro.kind, avro.logical
    if pa.types.is_decimal128(type):
        fits = logical == "decimal" and avro.scale == type.scale and avro.precision >= type.precision
        return Step(_DECIMAL, number=avro.size if kind == "fixed" else 0) if fits else None
    if pa.types.is_timestamp(type):
        name = "timestamp" if type.tz else "local-timestamp"
        divisor = {"": 1000, f"{name}-millis": 1000, f"{name}-micros": 1}.get(logical)
        return _integer(8, divisor) if divisor and kind == "long" and type.unit == "us" else None
    if pa.types.is_time64(type):
        return _integer(8, 1000) if logical == "time-micros" and type.unit == "ns" else None
    if pa.types.is_signed_integer(type):
        return _integer(type.bit_width // 8) if kind == "long" or (kind == "int" and type.bit_width <= 32) else None
    if pa.types.is_date32(type) or pa.types.is_duration(type):
        return _integer(type.bit_width // 8) if kind == ("int" if pa.types.is_date32(type) else "long") else None
    if type in (pa.float32(), pa.float64()):
        if kind == "double" and type == pa.float32():
            return Step(_DOUBLE)
        return Step(_REAL, width=type.bit_width // 8) if kind == ("float" if type == pa.float32() else "double") else None
    if type in STRINGS:
        op = {"string": _TEXT, "enum": _ENUM}.get(kind)
        return None if op is None else Step(op, width=_offset_bytes(type))
    if type in BINARIES:
        op = {"bytes": _BYTES, "fixed": _FIXED}.get(kind) if logical != "decimal" else None
        return None if op is None else Step(op, width=_offset_bytes(type), number=avro.size)
    if pa.types.is_boolean(type):
        return Step(_BOOLEAN) if kind == "boolean" else None
    return Step(_CONSTANT) if kind == "null" and pa.types.is_null(type) else None


def _integer(width: int, divisor: int = 1) -> Step:
    return Step(_INTEGER, width=width, number=divisor)


def _offset_bytes(type: pa.DataType) -> int:
    return 8 if type in (pa.large_string(), pa.large_binary()) else 4


# --- Defaults ----------------------------------------------------------------------------------------------------------


def encode_default(avro: AvroType, value: Any, path: str) -> bytes:
    """Return the bytes of a field's default in JSON.

    Raises OptionError (INVALID_SCHEMA) if the default has another type, or is too large: nested records multiply its size.
    """
    try:
        return _default(avro, value, TypeLimits())
    except ValueError as error:
        raise invalid(f"the default of {path} is not of its type ({error})") from None
    except OptionError:
        raise INVALID_SCHEMA(
            f"The default of the Avro field {path} has more than {TypeLimits.MOST_FIELDS} values, or is more than "
            f"{TypeLimits.MOST_DEPTH} levels deep. Leave the field out of a frame to read, or add it to a frame to write"
        ) from None


def _default(avro: AvroType, value: Any, limits: TypeLimits) -> bytes:
    kind = avro.kind
    with limits.level():
        if kind == "union":
            for number, branch in enumerate(avro.branches):
                with suppress(ValueError):
                    return varint(number) + _default(branch, value, limits)
        elif kind == "null" and value is None:
            return b""
        elif kind == "boolean" and isinstance(value, bool):
            return bytes([value])
        elif kind in _MOST and type(value) is int and -_MOST[kind] <= value < _MOST[kind]:
            return varint(value)
        elif kind in ("float", "double") and type(value) in (int, float):
            with suppress(OverflowError):
                return struct.pack("<f" if kind == "float" else "<d", value)
        elif kind == "string" and isinstance(value, str):
            return varint(len(value.encode())) + value.encode()
        elif kind in ("bytes", "fixed") and isinstance(value, str):
            data = value.encode("iso-8859-1")
            if kind == "bytes":
                return varint(len(data)) + data
            if len(data) == avro.size:
                return data
        elif kind == "enum" and value in avro.symbols:
            return varint(avro.symbols.index(value))
        elif kind == "array" and isinstance(value, list):
            return _block([_default(avro.item, item, limits) for item in value])
        elif kind == "map" and isinstance(value, dict):
            items = [(varint(len(key.encode())) + key.encode(), item) for key, item in value.items()]
            return _block([key + _default(avro.item, item, limits) for key, item in items])
        elif kind == "record" and isinstance(value, dict):
            missing = [f.name for f in avro.fields if f.name not in value and not f.has_default]
            if not missing:
                return b"".join(_default(f.type, value.get(f.name, f.default), limits) for f in avro.fields)
        raise ValueError(f"{excerpt(repr(value))} is not {_described(avro)}")


def _block(items: list[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items) + b"\0" if items else b"\0"
