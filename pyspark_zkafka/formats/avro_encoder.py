"""Encodes Arrow columns as Avro, a whole column at a time.

For each part of a type, a function turns a column of values into columns of byte strings. Finally, the byte strings of each
row are joined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import OptionError, excerpt, listing
from pyspark_zkafka.formats.avro_types import AvroType, invalid, wider_kind
from pyspark_zkafka.formats.codec import require_fit, varint
from pyspark_zkafka.formats.types import BINARIES, STRINGS, TypeLimits, TypeVisitor, inner_path
from pyspark_zkafka.model.rows import first_not_utf8
from pyspark_zkafka.model.spark_types import spark_name

_MOST = {"int": 1 << 31, "long": 1 << 63}
_Rows = npt.NDArray[np.int64]
_Encode = Callable[[pa.Array, _Rows], list[pa.Array]]
"""Encodes values without nulls, given the row of each. Returns the columns of byte strings to join row by row."""


class AvroEncoder:
    """Encodes a column of one type by a schema. With `confluent`, a payload of the type bytes has no length prefix."""

    def __init__(self, schema: AvroType, type: pa.DataType, *, confluent: bool = False) -> None:
        encoders = _Encoders()
        self._encode = encoders.visit(type, schema)
        self._has_length = schema.kind != "bytes" or not confluent
        require_fit(encoders.problems, "the Avro schema")

    def encode(self, column: pa.Array) -> pa.Array:
        is_valid = np.asarray(column.is_valid())
        parts = self._encode(column.drop_null(), np.flatnonzero(is_valid))
        encoded = _joined(parts if self._has_length else parts[1:])
        return encoded if is_valid.all() else encoded.take(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid))


def _refused(rows: _Rows, wrong: Any, path: str, problem: str) -> None:
    found = np.flatnonzero(np.asarray(wrong))
    if len(found):
        raise INVALID_VALUE(
            f"Row {rows[found[0]]} of a batch has a value in {path or 'the column'} that {problem}; correct the row"
        )


# --- Bytes of columns --------------------------------------------------------------------------------------------------


def _binary(data: npt.NDArray[np.uint8], sizes: npt.NDArray[Any] | int, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.broadcast_to(sizes, count), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _varints(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Encode numbers as zigzag varints."""
    bits = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    if (most := int(bits.max(initial=0))) < 0x80:
        return _binary(bits.astype(np.uint8), 1, len(numbers))
    places = np.arange(-(-most.bit_length() // 7))[:, None]
    groups = bits >> (places.astype(np.uint64) * np.uint64(7))
    sizes = np.maximum((groups != 0).sum(axis=0), 1)
    data = (groups & np.uint64(0x7F)).astype(np.uint8) | (places < sizes - 1).astype(np.uint8) << 7
    return _binary(data.T[(places < sizes).T], sizes, len(numbers))


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _constant(data: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(data, pa.binary()), count)


def _lookup(chosen: npt.NDArray[np.int64], parts: Sequence[pa.Array]) -> pa.Array:
    """For each row, take the next value of the part whose number is in `chosen`."""
    places, start = np.zeros(len(chosen), np.int64), 0
    for number, part in enumerate(parts):
        places[chosen == number] = np.arange(start, start + len(part))
        start += len(part)
    return pa.concat_arrays(parts).take(pa.array(places))


def _numbers(values: pa.Array, rows: _Rows) -> list[pa.Array]:
    return [_varints(_int64(values))]


def _int64(values: pa.Array) -> npt.NDArray[np.int64]:
    type = values.type
    if pa.types.is_date32(type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(type) or pa.types.is_time64(type) or pa.types.is_duration(type):
        values = values.view(pa.int64())
    found: npt.NDArray[np.int64] = np.asarray(values.cast(pa.int64()))
    return found


def _thousands(values: pa.Array, rows: _Rows) -> list[pa.Array]:
    return [_varints(_int64(values) // 1000)]


def _little_endian(kind: pa.DataType) -> _Encode:
    size = kind.bit_width // 8
    return lambda values, rows: [_binary(np.asarray(values.cast(kind)).view(np.uint8), size, len(values))]


def _always(data: bytes) -> _Encode:
    return lambda values, rows: [_constant(data, len(values))]


_nothing = _always(b"")


def _strings(values: pa.Array, rows: _Rows) -> list[pa.Array]:
    data = values.cast(pa.binary())
    return [_varints(np.asarray(pc.binary_length(data).cast(pa.int64()))), data]


def _text(path: str) -> _Encode:
    def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
        row = first_not_utf8(values.cast(pa.binary()))
        if row is not None:
            _refused(rows[row:], [True], path, "is not UTF-8")
        return _strings(values, rows)

    return encode


def _big_endian(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the 16 bytes of each decimal, most significant byte first."""
    start = 16 * values.offset
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)[start : start + 16 * len(values)]
    return data.reshape(-1, 16)[:, ::-1]


def _decimal_bytes(values: pa.Array, rows: _Rows) -> list[pa.Array]:
    """Encode each decimal in the shortest two's complement, length first."""
    data = _big_endian(values)
    sign = np.where(data[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    is_redundant = (data[:, :-1] == sign) & ((data[:, 1:] ^ sign) < 0x80)
    sizes = 16 - np.logical_and.accumulate(is_redundant, axis=1).sum(axis=1)
    kept = np.arange(16) >= 16 - sizes[:, None]
    return [_varints(sizes), _binary(data[kept], sizes, len(values))]


# --- Types -------------------------------------------------------------------------------------------------------------


class _Encoders(TypeVisitor[AvroType, _Encode]):
    """Makes the function that encodes a column by a schema. `problems` collects parts that do not fit the schema."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def visit(self, type: pa.DataType, avro: AvroType, path: str = "") -> _Encode:
        """Return the function for values that may be null."""
        marks = {branch: varint(number) for number, branch in enumerate(avro.branches)}
        null = next((mark for branch, mark in marks.items() if branch.kind == "null"), None)
        if null is not None and pa.types.is_null(type):
            return _always(null)
        values = avro.values
        if wider_kind(values) is not None:
            values = [value for value in values if _scalar(value, type) is not None][:1] or values[-1:]
        if len(values) == 1:
            mark, plain = marks.get(values[0]), super().visit(type, values[0], path)
        else:
            mark, plain = None, self._members(type, avro, path, marks)

        def encode(found: pa.Array, rows: _Rows) -> list[pa.Array]:
            if found.null_count and avro.kind != "null":
                if null is None:
                    _refused(rows, found.is_null(), path, f"is null, which the schema's {avro} does not allow")
                is_valid = np.asarray(found.is_valid())
                encoded = _joined(encode(found.drop_null(), rows[is_valid]))
                return [_lookup(is_valid.astype(np.int64), [_constant(null or b"", found.null_count), encoded])]
            encoded = plain(found, rows)
            return encoded if mark is None else [_constant(mark, len(found)), *encoded]

        return encode

    def _members(self, type: pa.DataType, avro: AvroType, path: str, marks: dict[AvroType, bytes]) -> _Encode:
        """Return the function for a union of several types. Its struct has a field per type, and sets at most one field."""
        values = avro.values
        names = [f"member{number}" for number in range(len(values))]
        if not pa.types.is_struct(type) or [f.name for f in type] != names:
            expected = f"a struct of {listing(names)}" if names else "null"
            return self._unfit(f"{path or 'the column'} is {spark_name(type)}, and the union needs {expected}")
        pairs = zip(values, type, strict=True)
        inner = [super(_Encoders, self).visit(f.type, value, inner_path(path, f.name)) for value, f in pairs]
        null = next((mark for branch, mark in marks.items() if branch.kind == "null"), b"")

        def encode(found: pa.Array, rows: _Rows) -> list[pa.Array]:
            chosen, set_members = np.full(len(found), len(names)), np.zeros(len(found), np.int64)
            for number in range(len(names)):
                is_set = np.asarray(found.field(number).is_valid())
                chosen[is_set] = number
                set_members += is_set
            _refused(rows, set_members > 1, path, "has more than one member that is set")
            if not avro.is_nullable:
                _refused(rows, chosen == len(names), path, "has no member that is set")
            parts = []
            for number, (value, encode_one) in enumerate(zip(values, inner, strict=True)):
                is_chosen = chosen == number
                members = found.field(number).filter(pa.array(is_chosen))
                parts.append(_joined([_constant(marks[value], len(members)), *encode_one(members, rows[is_chosen])]))
            return [_lookup(chosen, [*parts, _constant(null, int((chosen == len(names)).sum()))])]

        return encode

    # The functions that these methods return take values without nulls.

    def of_struct(self, type: pa.DataType, avro: AvroType, path: str) -> _Encode:
        if avro.kind != "record":
            return self._unlike(type, avro, path)
        names = {f.name for f in avro.fields}
        self.problems += [f"{inner_path(path, f.name)} is not in the schema" for f in type if f.name not in names]
        encoders: list[tuple[int, _Encode]] = []
        for field in avro.fields:
            inner, index = inner_path(path, field.name), type.get_field_index(field.name)
            if index >= 0:
                encoders.append((index, self.visit(type[index].type, field.type, inner)))
            elif field.type.is_nullable:
                encoders.append((0, _always(encode_default(field.type, field.default, inner))))
            else:
                self.problems.append(f"{inner} is missing, and {field.type} in the schema is not nullable")

        def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
            parts = [encode_one(values.field(index) if len(type) else values, rows) for index, encode_one in encoders]
            return [*chain.from_iterable(parts)] or _nothing(values, rows)

        return encode

    def of_list(self, type: pa.DataType, avro: AvroType, path: str) -> _Encode:
        if avro.kind != "array":
            return self._unlike(type, avro, path)
        return _blocks(None, self.visit(type.value_type, avro.item, inner_path(path, "element")))

    def of_map(self, type: pa.DataType, avro: AvroType, path: str) -> _Encode:
        if avro.kind != "map" or type.key_type not in STRINGS:
            return self._unlike(type, avro, path)
        return _blocks(_text(inner_path(path, "key")), self.visit(type.item_type, avro.item, inner_path(path, "value")))

    def of_scalar(self, type: pa.DataType, avro: AvroType, path: str) -> _Encode:
        if avro.kind == "string" and type in STRINGS:
            return _text(path)
        if avro.kind == "enum" and type in STRINGS:
            return _enum(avro, path)
        if avro.kind == "fixed" and type in BINARIES and avro.logical != "decimal":
            return _fixed(avro, path)
        return _scalar(avro, type) or self._unlike(type, avro, path)

    def _unlike(self, type: pa.DataType, avro: AvroType, path: str) -> _Encode:
        return self._unfit(f"{path or 'the column'} is {spark_name(type)}, and the schema has {_described(avro)}")

    def _unfit(self, problem: str) -> _Encode:
        self.problems.append(problem)
        return _nothing


def _described(avro: AvroType) -> str:
    logical = f"decimal({avro.precision},{avro.scale})" if avro.logical.endswith("decimal") else avro.logical
    return f"{avro} ({logical})" if logical else str(avro)


def _scalar(avro: AvroType, type: pa.DataType) -> _Encode | None:
    """Return the function for a type without parts. None if the column's type does not fit.

    Follows the rules of to_avro, but also widens smaller integers and floats, and decimals of smaller precision.
    """
    kind, logical = avro.kind, avro.logical
    if pa.types.is_decimal128(type):
        fits = logical == "decimal" and avro.scale == type.scale and avro.precision >= type.precision
        return (_decimal_bytes if kind == "bytes" else _decimal_fixed(avro.size)) if fits else None
    if pa.types.is_timestamp(type):
        name = "timestamp" if type.tz else "local-timestamp"
        encoders = {"": _thousands, f"{name}-millis": _thousands, f"{name}-micros": _numbers}
        return encoders.get(logical) if kind == "long" and type.unit == "us" else None
    if pa.types.is_time64(type):
        return _thousands if logical == "time-micros" and type.unit == "ns" else None
    if pa.types.is_integer(type) and pa.types.is_signed_integer(type):
        return _numbers if kind == "long" or (kind == "int" and type.bit_width <= 32) else None
    if pa.types.is_floating(type):
        fits = kind == "double" or (kind == "float" and type.bit_width == 32)
        return _little_endian(pa.float64() if kind == "double" else pa.float32()) if fits else None
    fitting: dict[str, tuple[bool, _Encode]] = {
        "null": (pa.types.is_null(type), _nothing),
        "boolean": (pa.types.is_boolean(type), _little_endian(pa.uint8())),
        "int": (pa.types.is_date32(type), _numbers),
        "long": (pa.types.is_duration(type), _numbers),
        "bytes": (type in BINARIES and logical != "decimal", _strings),
    }
    fits, encode = fitting.get(kind, (False, _nothing))
    return encode if fits else None


def _decimal_fixed(size: int) -> _Encode:
    def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
        data = _big_endian(values)
        sign = np.where(data[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        data = np.hstack([np.repeat(sign, max(0, size - 16), axis=1), data])
        return [_binary(data[:, data.shape[1] - size :], size, len(values))]

    return encode


def _enum(avro: AvroType, path: str) -> _Encode:
    symbols = pa.array(avro.symbols, pa.string())

    def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
        found = pc.index_in(values.cast(pa.string()), symbols)
        _refused(rows, found.is_null(), path, f"is not a symbol of the enum {avro.name}: {listing(avro.symbols)}")
        return _numbers(found, rows)

    return encode


def _fixed(avro: AvroType, path: str) -> _Encode:
    def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
        data = values.cast(pa.binary())
        _refused(
            rows, np.asarray(pc.binary_length(data)) != avro.size, path, f"does not have the {avro.size} bytes of {avro}"
        )
        return [data]

    return encode


def _blocks(key: _Encode | None, item: _Encode) -> _Encode:
    """Encode lists, or maps if `key` encodes their keys, as one block. An empty list or map is only the end mark."""

    def encode(values: pa.Array, rows: _Rows) -> list[pa.Array]:
        offsets = np.asarray(values.offsets).astype(np.int64)
        start, sizes = offsets[0] if len(offsets) else 0, np.diff(offsets)
        count, item_rows = int(sizes.sum()), np.repeat(rows, sizes)
        parts = values.values if key is None else values.items
        encoded = item(parts.slice(start, count), item_rows)
        if key is not None:
            encoded = [*key(values.keys.slice(start, count), item_rows), *encoded]
        lists = pa.ListArray.from_arrays(pa.array(offsets - start, pa.int32()), _joined(encoded))
        ends = pc.if_else(pa.array(sizes > 0), pa.scalar(b"\0", pa.binary()), pa.scalar(b"", pa.binary()))
        return [_varints(sizes), pc.binary_join(lists, b""), ends]

    return encode


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
