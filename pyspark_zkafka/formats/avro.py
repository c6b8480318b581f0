"""Avro: schemas, and the decoder of payloads to Arrow columns.

A decoder resolves the writer's schema against the reader's by the rules of Avro's specification, and compiles both to a
program for `records/native/avro.c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.errors import listing
from pyspark_zkafka.formats.avro_encoder import AvroEncoder, encode_default
from pyspark_zkafka.formats.avro_types import (
    PRIMITIVES,
    REST,
    UNITS_NS,
    AvroField,
    AvroType,
    arrow_type,
    evolving_schema_of,
    invalid,
    parse_type,
    schema_of,
    wider_kind,
)
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.format import Format, Schema
from pyspark_zkafka.formats.types import inner_path
from pyspark_zkafka.model.records import parts_of, projection_problems
from pyspark_zkafka.records.native.library import AvroProgram, CArray, require

_CACHED = 512
_MOST_NODES = 200_000


@dataclass(frozen=True, slots=True)
class AvroSchema(Schema):
    """An Avro schema: its text, and the texts of the schemas that it refers to, with their names."""

    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def root(self) -> AvroType:
        return parse_type(self.text, self.references)

    @property
    def type(self) -> pa.DataType:
        return arrow_type(self.root)

    @property
    def name(self) -> str | None:
        return self.root.name or None

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        return arrow_type(self.root, wanted)

    def decoder(self, writer: AvroSchema | None, type: pa.DataType, *, confluent: bool = False) -> AvroDecoder:
        return _decoder(self, writer or self, type, confluent)

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> AvroEncoder:
        return AvroEncoder(self.root, type, confluent=confluent)


def parse(text: str, references: Mapping[str, str] = {}, message: str | None = None) -> AvroSchema:
    """Return a schema. `message` has a meaning only for other formats."""
    schema = AvroSchema(text, tuple(sorted(references.items())))
    parse_type(schema.text, schema.references)
    return schema


AVRO = Format("avro", "AVRO", parse, text_of=schema_of, evolving_text_of=evolving_schema_of, needs_native=True)


@lru_cache(_CACHED)
def _decoder(reader: AvroSchema, writer: AvroSchema, type: pa.DataType, confluent: bool) -> AvroDecoder:
    if problems := list(projection_problems("value", type, reader.projection(type))):
        raise INVALID_SCHEMA(
            f"The Avro schema does not have the requested type: {listing(problems, separator='; ')}. Change the type"
        )
    root = writer.root
    if confluent and root.kind == "bytes":
        root = replace(root, size=REST)
    compiler = _Compiler()
    compiler.place(compiler.new_columns(1), type)
    try:
        compiler.read(root, reader.root, 0, type, "")
    except _UnresolvedError as error:
        raise invalid(f"the reader's schema does not accept the writer's: {error}") from None
    except RecursionError:
        raise invalid("the writer's schema is nested too deeply") from None
    return compiler.decoder(type)


# --- Compiling ---------------------------------------------------------------------------------------------------------

# From zkafka.h.
(_NULL, _FIXED, _ENUM, _ARRAY, _MAP, _RECORD, _UNION, _MEMBER, _CONSTANT, _REFUSED) = (0, *range(7, 16))
_OPS = {kind: number for number, kind in enumerate(PRIMITIVES)} | {"string": PRIMITIVES.index("bytes")}
_OPS |= {"fixed": _FIXED, "enum": _ENUM, "array": _ARRAY, "map": _MAP, "record": _RECORD, "union": _UNION}
_COLUMN_LONG, _COLUMN_DECIMAL, _COLUMN_LIST, _COLUMN_STRUCT = 3, 6, 9, 10
_COLUMNS = {pa.null(): 0, pa.bool_(): 1, pa.int32(): 2, pa.date32(): 2, pa.float32(): 4, pa.float64(): 5}
_COLUMNS |= {pa.string(): 7, pa.binary(): 8}
_PROMOTIONS = {"long": "int", "float": "int long", "double": "int long float", "string": "bytes", "bytes": "string"}
NODE = np.dtype([("op", "i4"), ("column", "i4"), ("first", "i4"), ("count", "i4"), ("number", "i8")])
FLAW = np.dtype([("row", "i8"), ("code", "i4"), ("node", "i4"), ("at", "i8"), ("found", "i8"), ("left", "i8")])
"""`zkafka_avro_node` and `zkafka_avro_flaw`."""


class _UnresolvedError(Exception):
    """The reader's schema cannot take a type of the writer."""


class _Compiler:
    """Builds a decoder's program. A node with the column -1 skips its value."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, ...]] = []
        self._paths: list[str] = []
        self._links: list[int] = []
        self._columns: list[int] = []
        self._constants = bytearray()
        self._skips: dict[int, int] = {}
        self._empties: dict[int, bool] = {}

    def decoder(self, type: pa.DataType) -> AvroDecoder:
        constants = np.frombuffer(bytes(self._constants) + b"\0", "u1")
        arrays = np.array(self._nodes, NODE), np.array([*self._links, 0], "i4"), np.array(self._columns, "i4"), constants
        return AvroDecoder(arrays, self._paths, type)

    # Columns

    def new_columns(self, count: int) -> int:
        """Add columns that are next to each other. Returns the first column."""
        self._columns += [0] * (3 * count)
        return len(self._columns) // 3 - count

    def place(self, column: int, type: pa.DataType) -> None:
        """Describe a column, and add the columns of its children."""
        first = count = 0
        if pa.types.is_decimal128(type):
            kind, count = _COLUMN_DECIMAL, type.precision
        elif pa.types.is_struct(type) or pa.types.is_list(type) or pa.types.is_map(type):
            kind = _COLUMN_STRUCT if pa.types.is_struct(type) else _COLUMN_LIST
            pair = [pa.struct([type.key_field, type.item_field])] if pa.types.is_map(type) else None
            children = pair or [part.type for part in parts_of(type)]
            count = len(children)
            first = self.new_columns(count)
            for i, child in enumerate(children):
                self.place(first + i, child)
        else:
            kind, count = _COLUMNS.get(type, _COLUMN_LONG), int(pa.types.is_time64(type))
        self._columns[3 * column : 3 * column + 3] = (kind, first, count)

    def _child(self, column: int, number: int = 0) -> int:
        return self._columns[3 * column + 1] + number

    # Nodes

    def _new(self, path: str) -> int:
        if len(self._nodes) == _MOST_NODES:
            raise invalid(f"its unions and the writer's have more than {_MOST_NODES} combinations")
        self._nodes.append((_REFUSED, -1, 0, 0, 0))
        self._paths.append(path)
        return len(self._nodes) - 1

    def _set(self, node: int, op: int, column: int, first: int = 0, count: int = 0, number: int = 1) -> int:
        self._nodes[node] = (op, column, first, count, number)
        return node

    def _link(self, node: int, op: int, column: int, nodes: Sequence[int], number: int = 1) -> int:
        self._links += nodes
        return self._set(node, op, column, len(self._links) - len(nodes), len(nodes), number)

    def read(self, writer: AvroType, reader: AvroType, column: int, type: pa.DataType, path: str) -> int:
        """Add the node that reads a value of the writer's type into a column. The first node is the root."""
        node = self._new(path)
        if writer.kind == "union":
            return self._link(node, _UNION, column, self._branches(writer, reader, column, type, path))
        if reader.kind != "union":
            return self._value(node, writer, reader, column, type, path)
        chosen = _branch_for(writer, reader)
        if chosen is None:
            raise _UnresolvedError(f"{path or 'the value'} is {writer}, for which the union has no branch")
        if chosen.kind == "null":
            return self._set(node, _NULL, column)
        values = reader.values
        if len(values) == 1 or wider_kind(values) is not None:
            return self._value(node, writer, chosen, column, type, path)
        name = f"member{values.index(chosen)}"
        if (index := type.get_field_index(name)) >= 0:
            member = self.read(writer, chosen, self._child(column, index), type[index].type, inner_path(path, name))
            return self._set(node, _MEMBER, column, member, index)
        skipped, empty = self.skip(writer), self._new(path)
        return self._link(node, _RECORD, -1, [skipped, self._set(empty, _MEMBER, column, 0, -1)])

    def _branches(self, writer: AvroType, reader: AvroType, column: int, type: pa.DataType, path: str) -> list[int]:
        """Compile each branch of the writer's union. A branch that the reader lacks makes only its own values malformed."""
        nodes, errors = [], []
        for number, branch in enumerate(writer.branches):
            try:
                nodes.append(self.read(branch, reader, column, type, path))
            except _UnresolvedError as error:
                errors.append(error)
                nodes.append(self._set(self._new(path), _REFUSED, -1, number=number))
        if errors and len(errors) == len(nodes):
            raise errors[0]
        return nodes

    def _value(self, node: int, writer: AvroType, reader: AvroType, column: int, type: pa.DataType, path: str) -> int:
        """Compile a read where neither the writer's nor the reader's type is a union."""
        if not _matches(writer, reader):
            raise _UnresolvedError(f"{path or 'the value'} is {writer} for the writer and {reader} for the reader")
        if reader.is_decimal and writer.is_decimal and reader.scale != writer.scale:
            raise _UnresolvedError(
                f"the decimal {path or 'value'} has scale {writer.scale} for the writer and {reader.scale} for the reader"
            )
        if writer.kind == "record":
            return self._link(node, _RECORD, column, self._fields(writer, reader, column, type, path))
        if writer.kind == "array":
            inner = inner_path(path, "element")
            item = self.read(writer.item, reader.item, self._child(column), type.value_type, inner)
            return self._items(node, writer, column, item)
        if writer.kind == "map":
            entry, inner = self._child(column), inner_path(path, "value")
            item = self.read(writer.item, reader.item, self._child(entry, 1), type.item_type, inner)
            return self._items(node, writer, column, item)
        if writer.kind == "enum":
            return self._enum(node, writer, reader, column)
        number = _unit(writer, reader, type) if writer.kind in ("int", "long") else writer.size
        return self._set(node, _OPS[writer.kind], column, number=number)

    def _items(self, node: int, writer: AvroType, column: int, item: int) -> int:
        is_empty = writer.kind == "array" and self._is_empty(writer.item)
        return self._set(node, _OPS[writer.kind], column, item, number=int(is_empty))

    def _fields(self, writer: AvroType, reader: AvroType, column: int, type: pa.DataType, path: str) -> list[int]:
        """Read or skip each of the writer's fields, then add the defaults of requested fields that the writer lacks."""
        taken = _matched_fields(writer, reader)
        indices = {f.name: i for i, f in enumerate(type)}
        nodes, missing = [], {f.name: f for f in reader.fields if f.name in indices}
        for theirs in writer.fields:
            ours = taken.get(theirs.name)
            if ours is None or ours.name not in indices:
                nodes.append(self.skip(theirs.type))
                continue
            del missing[ours.name]
            index, inner = indices[ours.name], inner_path(path, ours.name)
            nodes.append(self.read(theirs.type, ours.type, self._child(column, index), type[index].type, inner))
        for ours in missing.values():
            index, inner = indices[ours.name], inner_path(path, ours.name)
            nodes.append(self._constant(ours, self._child(column, index), type[index].type, inner))
        return nodes

    def _constant(self, ours: AvroField, column: int, type: pa.DataType, path: str) -> int:
        if not ours.has_default:
            raise _UnresolvedError(f"the writer has no field {path}, and the reader gives it no default")
        node, start = self._new(path), len(self._constants)
        self._constants += encode_default(ours.type, ours.default, path)
        size = len(self._constants) - start
        return self._set(node, _CONSTANT, column, self.read(ours.type, ours.type, column, type, path), size, start)

    def _enum(self, node: int, writer: AvroType, reader: AvroType, column: int) -> int:
        ranges: list[int] = []
        for symbol in writer.symbols:
            found = symbol if symbol in reader.symbols else reader.default
            text = (found or "").encode()
            ranges += (-1, 0) if found is None else (len(self._constants), len(text))
            self._constants += text
        self._links += ranges
        return self._set(node, _ENUM, column, len(self._links) - len(ranges), len(writer.symbols))

    def skip(self, writer: AvroType) -> int:
        """Return the node that skips a value. All occurrences of a type share one node, even inside the type itself."""
        if (known := self._skips.get(id(writer))) is not None:
            return known
        node = self._skips[id(writer)] = self._new("a skipped field")
        if writer.kind == "record" and self._is_empty(writer):
            # There are no bytes to skip. Otherwise, in a chain of records that contain the next record twice, 40 records
            # would mean 2^40 steps.
            return self._link(node, _OPS["record"], -1, [])
        if writer.kind in ("record", "union"):
            parts = writer.branches if writer.kind == "union" else [f.type for f in writer.fields]
            return self._link(node, _OPS[writer.kind], -1, [self.skip(part) for part in parts])
        if writer.kind in ("array", "map"):
            return self._items(node, writer, -1, self.skip(writer.item))
        return self._set(node, _OPS[writer.kind], -1, 0, len(writer.symbols), writer.size)

    def _is_empty(self, avro: AvroType) -> bool:
        """True for a type whose values may have no bytes."""
        if avro.kind != "record":
            return avro.kind == "null" or (avro.kind == "fixed" and avro.size == 0)
        if id(avro) not in self._empties:
            self._empties[id(avro)] = True  # in case the record contains itself
            self._empties[id(avro)] = all(self._is_empty(f.type) for f in avro.fields)
        return self._empties[id(avro)]


def _matches(writer: AvroType, reader: AvroType) -> bool:
    """True if the kinds fit, and for enums and fixed types also the names. Records may have any name."""
    if writer.kind != reader.kind:
        return writer.kind in _PROMOTIONS.get(reader.kind, "").split()
    if writer.kind == "fixed" and writer.size != reader.size:
        return False
    return writer.kind not in ("enum", "fixed") or _has_name(writer, reader)


def _has_name(writer: AvroType, reader: AvroType) -> bool:
    return writer.short_name == reader.short_name or writer.name in reader.aliases


def _branch_for(writer: AvroType, reader: AvroType) -> AvroType | None:
    """Return the branch of the reader's union with the same name or kind, or else the first that takes a promoted value.

    If no record has the same full name, records with fitting fields come first, as in ``firstMatchingBranch`` of Java's
    ``Resolver``.
    """
    same = [branch for branch in reader.branches if branch.kind == writer.kind and _matches(writer, branch)]
    fitting = [b for b in same if b.name == writer.name] or [b for b in same if _has_fields(writer, b)] or same
    named = [branch for branch in fitting if _has_name(writer, branch)] or fitting
    return next(iter(named or [branch for branch in reader.branches if _matches(writer, branch)]), None)


def _has_fields(writer: AvroType, reader: AvroType) -> bool:
    """True if the common fields fit, and the reader's other fields have defaults. Also True for types without fields."""
    ours = _matched_fields(writer, reader)
    pairs = [(theirs.type, ours[theirs.name]) for theirs in writer.fields if theirs.name in ours]
    found = {field.name for _, field in pairs}
    return all(_may_fit(theirs, field.type) for theirs, field in pairs) and all(
        field.has_default or field.name in found for field in reader.fields
    )


def _may_fit(writer: AvroType, reader: AvroType) -> bool:
    return any(_matches(theirs, ours) for theirs in writer.branches or [writer] for ours in reader.branches or [reader])


def _matched_fields(writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
    """Map names of the writer's fields to the reader's fields with that alias, or else with that name.

    Follows ``Schema.applyAliases`` of Java, with two exceptions. A reader's field without a default keeps the writer's
    field of the same name. Aliases of a reader's field are ignored if the writer has a field of its name. Java refuses both
    cases, unless two fields swap their names.
    """
    names = {f.name for f in writer.fields}
    found = {f.name: f for f in reader.fields if f.name in names}
    free = names - {f.name for f in reader.fields if not f.has_default}
    for ours in reader.fields:
        alias = next((alias for alias in ours.aliases if alias in free), None)
        if ours.name not in names and alias is not None:
            found[alias] = ours
            free.remove(alias)
    return found


def _unit(writer: AvroType, reader: AvroType, type: pa.DataType) -> int:
    """Return the factor of a time's unit, negative for a divisor. 1 for other values.

    Uses the writer's unit, or the reader's unit if the writer has plain numbers.
    """
    units = [UNITS_NS[unit] for avro in (writer, reader) if (unit := avro.logical.rpartition("-")[2]) in UNITS_NS]
    if pa.types.is_timestamp(type) or pa.types.is_time64(type):
        ns, wanted = units[0], 1 if pa.types.is_time64(type) else 1000
    elif len(units) == 2:  # Spark has no type for this time: return a number in the reader's unit
        ns, wanted = units
    else:
        return 1
    return ns // wanted if ns >= wanted else -(wanted // ns)


# --- Decoding ----------------------------------------------------------------------------------------------------------

_REASONS = {
    1: "the value at byte {at} needs {found} bytes, {left} are left",
    2: "the number at byte {at} has more than 64 bits",
    3: "the int at byte {at} is {found}, which has more than 32 bits",
    4: "the length at byte {at} is {found}",
    5: "the string at byte {at} is not UTF-8",
    6: "the boolean at byte {at} is {found}",
    7: "the enum at byte {at} has no symbol {found}",
    8: "the reader's enum lacks symbol {found} of the writer's, at byte {at}",
    9: "the union at byte {at} has no branch {found}",
    10: "the reader's schema lacks branch {found} of the writer's union, before byte {at}",
    11: "the array or map at byte {at} has {found} items, too many for {left} bytes",
    12: "the size of the block at byte {at} is not the size of its items",
    13: "the decimal at byte {at} has too many digits",
    14: "the time at byte {at} is out of range",
    15: "the value at byte {at} is more than {found} levels deep",
    16: "{left} bytes follow the value, at byte {at}",
    17: "the decimal at byte {at} has no bytes",
}


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Decodes payloads by the program compiled from a pair of schemas. Thread-safe.

    The program has nodes, links, columns and constants. `paths` has the path of each node's field.
    """

    program: tuple[npt.NDArray[Any], ...]
    paths: Sequence[str]
    type: pa.DataType

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Decode payloads without their first `skip` bytes. Raises MemoryError."""
        out, source, flaws = CArray(), CArray.of(payloads), np.empty(len(payloads), FLAW)
        program = AvroProgram(*(part.ctypes.data for part in self.program), len(self.program[2]) // 3)
        found = require().avro_decode(byref(program), *source.column, skip, out.address, flaws.ctypes.data)
        if found < 0:
            raise MemoryError(f"no memory for {len(payloads)} Avro payloads, or more than 2 GiB of text in a column")
        return Decoded(out.array(self.type), {int(flaw["row"]): self._reason(flaw) for flaw in flaws[:found]})

    def _reason(self, flaw: Any) -> str:
        path = self.paths[flaw["node"]] if flaw["node"] >= 0 else ""
        reason = _REASONS[int(flaw["code"])].format(at=flaw["at"], found=flaw["found"], left=flaw["left"])
        return f"{path}: {reason}" if path else reason
