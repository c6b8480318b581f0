"""Columns from Protobuf messages, and messages from columns, by Google's runtime.

Values match Spark's ProtobufDeserializer and ProtobufSerializer with default options, apart from the differences in
docs/format-types-protobuf.md; tests/vectors/record_protobuf.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from pyspark_zkafka.errors import listing, nearest
from pyspark_zkafka.formats.codec import (
    Decoded,
    decode_rows,
    dictionaries,
    encode_rows,
    grouped,
    masked,
    offsets_of,
    require_fit,
)
from pyspark_zkafka.formats.types import BINARIES, STRINGS, TypeVisitor, inner_path, is_list
from pyspark_zkafka.model.spark_types import spark_name

if TYPE_CHECKING:
    import numpy.typing as npt
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
    from google.protobuf.message import Message

    Mask: TypeAlias = npt.NDArray[np.bool_]

TIMESTAMP = pa.timestamp("us", "UTC")
DURATION = pa.duration("us")
_CPP_TYPES = {
    1: pa.int32(), 2: pa.int64(), 3: pa.int32(), 4: pa.int64(), 5: pa.float64(), 6: pa.float32(), 7: pa.bool_(),
    8: pa.string(), 9: pa.string(),
}  # fmt: skip
"""Arrow types by FieldDescriptor.CPPTYPE_*: int32, int64, uint32, uint64, double, float, bool, enum, string or bytes."""
_UNSIGNED = {3: (np.uint32, np.int32), 4: (np.uint64, np.int64)}
_BYTES = 12  # FieldDescriptor.TYPE_BYTES
_TIME_FIELDS = [("seconds", 2, False), ("nanos", 1, False)]


def scalar_type(field: FieldDescriptor) -> pa.DataType:
    """Return the Arrow type of a single value. The value must not be a message."""
    return pa.binary() if field.type == _BYTES else _CPP_TYPES[field.cpp_type]


def time_type(message: Descriptor) -> pa.DataType | None:
    """Return the type of a Timestamp or Duration of any package, as Spark recognizes them. None for other messages."""
    if [(field.name, field.cpp_type, field.is_repeated) for field in message.fields] != _TIME_FIELDS:
        return None
    return {"Timestamp": TIMESTAMP, "Duration": DURATION}.get(message.name)


# Decoding

_Values: TypeAlias = Callable[[list[Any], "Mask | None"], pa.Array]
"""Makes a column of values, with null where the mask is true."""


class ProtobufDecoder:
    """Decodes messages to a column of one type; see `ProtobufSchema.decoder`.

    With the writer's file, message indexes precede each message.
    """

    def __init__(self, message_class: Any, type: pa.DataType, writer: FileDescriptor | None) -> None:
        self._class = message_class
        self._name = message_class.DESCRIPTOR.full_name
        self._writer = writer
        self._read = _Readers().of_message(self._class, type)
        self._numbers = {field.number for field in self._class.DESCRIPTOR.fields}
        self._has_required = _has_required(self._class.DESCRIPTOR)
        self._written: dict[tuple[int, ...], str] = {}

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        from google.protobuf.message import DecodeError

        messages: list[Message | None] = []
        malformed: dict[int, str] = {}
        for row, payload in enumerate(payloads.to_pylist()):
            message = None
            if payload is not None:
                try:
                    message = self._message(payload, self._after_indexes(payload, skip))
                except DecodeError as exc:
                    malformed[row] = f"the bytes are no {self._name}: {str(exc).rpartition(': ')[2]}"
                except ValueError as exc:
                    malformed[row] = str(exc)
            messages.append(message)
        empty = self._class()

        def build(part: list[Message | None]) -> pa.Array:
            mask = np.array([message is None for message in part], dtype=np.bool_)
            return self._read([empty if message is None else message for message in part], mask)

        return decode_rows(messages, build, malformed)

    def _message(self, payload: bytes, start: int) -> Message:
        from google.protobuf.unknown_fields import UnknownFieldSet

        message: Message = self._class.FromString(payload[start:] if start else payload)
        for unknown in UnknownFieldSet(message):  # a known number here means that the wire has another type
            if unknown.field_number in self._numbers:
                field = self._class.DESCRIPTOR.fields_by_number[unknown.field_number]
                raise ValueError(f"field {field.name}, number {field.number}, has a value that its type does not allow")
        if self._has_required and not self._class.IsInitialized(message):
            raise ValueError(f"required fields are missing: {listing(self._class.FindInitializationErrors(message))}")
        return message

    def _after_indexes(self, payload: bytes, start: int) -> int:
        """Check that the message indexes choose the column's message, and return where they end."""
        if self._writer is None:
            return start
        indexes, end = _read_indexes(payload, start)
        name = self._written.get(indexes)
        if name is None:
            name = self._written[indexes] = _name_at(self._writer, indexes)
        if name != self._name:
            raise ValueError(f"the record has a {name}, and the column's message is {self._name}")
        return end


def _has_required(descriptor: Descriptor) -> bool:
    messages, names = [descriptor], {descriptor.full_name}
    for message in messages:
        if any(field.is_required for field in message.fields):
            return True
        inner = {field.message_type.full_name: field.message_type for field in message.fields if field.message_type}
        messages += [found for name, found in inner.items() if name not in names]
        names |= inner.keys()
    return False


def _name_at(file: FileDescriptor, indexes: tuple[int, ...]) -> str:
    siblings = list(file.message_types_by_name.values())
    found = None
    for index in indexes:
        if not 0 <= index < len(siblings):
            raise ValueError(f"the message indexes {list(indexes)} are not in the writer's schema")
        found = siblings[index]
        siblings = list(found.nested_types)
    return str(found.full_name) if found is not None else ""


def _read_indexes(payload: bytes, start: int) -> tuple[tuple[int, ...], int]:
    if payload[start : start + 1] == b"\0":
        return (0,), start + 1
    count, at = _read_zigzag(payload, start)
    if not 0 < count <= len(payload) - at:
        raise ValueError(f"the number of message indexes is {count}, and {len(payload) - at} bytes are left")
    indexes = []
    for _ in range(count):
        index, at = _read_zigzag(payload, at)
        indexes.append(index)
    return tuple(indexes), at


def _read_zigzag(payload: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift, byte in enumerate(payload[at : at + 5]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise ValueError(f"the message index at byte {at} does not end")


class _Readers(TypeVisitor["FieldDescriptor", _Values]):
    """Makes the function that builds the column of a field's values, or of the single values of a repeated field."""

    def of_message(self, message_class: Any, kind: pa.DataType) -> _Values:
        """Return a function that builds a column of structs from messages of a class."""
        columns = [self._column_of(message_class, message_class.DESCRIPTOR.fields_by_name[f.name], f.type) for f in kind]

        def read(messages: list[Any], mask: Mask | None) -> pa.Array:
            arrays = [column(messages) for column in columns]
            mask = np.zeros(len(messages), np.bool_) if mask is None else mask  # the length of a struct without fields
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(mask))

        return read

    def _column_of(self, message_class: Any, field: FieldDescriptor, kind: pa.DataType) -> Callable[[list[Any]], pa.Array]:
        """Return a function that builds the column of a field from messages."""
        # A field may have the name of a method. Therefore get methods from the class.
        get, has, name = attrgetter(field.name), message_class.HasField, field.name
        values = self.visit(kind, field)
        if field.is_repeated or field.has_default_value or field.is_required:
            return lambda messages: values(list(map(get, messages)), None)
        if field.has_presence:
            return lambda messages: values(
                list(map(get, messages)), ~np.fromiter((has(m, name) for m in messages), np.bool_, len(messages))
            )

        def read_implicit(messages: list[Any]) -> pa.Array:
            # The default is not on the wire, and Spark returns null for it. -0.0 is not the default.
            found = list(map(get, messages))
            if pa.types.is_floating(kind):
                return values(found, np.array(found, dtype=np.float64).view(np.int64) == 0)
            return values(found, np.fromiter((not value for value in found), np.bool_, len(found)))

        return read_implicit

    def of_struct(self, kind: pa.DataType, field: FieldDescriptor, path: str) -> _Values:
        from google.protobuf.message_factory import GetMessageClass

        return self.of_message(GetMessageClass(field.message_type), kind)

    def of_list(self, kind: pa.DataType, field: FieldDescriptor, path: str) -> _Values:
        elements = self.visit(kind.value_type, field)

        def read_lists(lists: list[Any], mask: Mask | None) -> pa.Array:
            return pa.ListArray.from_arrays(offsets_of(lists), elements(list(chain.from_iterable(lists)), None), type=kind)

        return read_lists

    def of_map(self, kind: pa.DataType, field: FieldDescriptor, path: str) -> _Values:
        entry = field.message_type.fields_by_name
        keys, items = self.visit(kind.key_type, entry["key"]), self.visit(kind.item_type, entry["value"])

        def read_maps(maps: list[Any], mask: Mask | None) -> pa.Array:
            # The runtime's own order differs from process to process, and a repeated task must return the same rows.
            try:
                found = [(key, entries[key]) for entries in maps for key in sorted(entries)]
            except TypeError:  # the runtime returns keys of proto2 that are not UTF-8 as bytes
                raise ValueError(f"a key of field {field.name}, number {field.number}, is not UTF-8") from None
            columns = keys([key for key, _ in found], None), items([item for _, item in found], None)
            return pa.MapArray.from_arrays(offsets_of(maps), *columns, type=kind)

        return read_maps

    def of_scalar(self, kind: pa.DataType, field: FieldDescriptor, path: str) -> _Values:
        if field.message_type is not None:

            def read_times(times: list[Any], mask: Mask | None) -> pa.Array:
                # Nanoseconds are cut as Java does: towards zero.
                micros = [time.seconds * 1_000_000 + int(time.nanos / 1000) for time in times]
                try:
                    return pa.array(micros, pa.int64(), mask=mask).cast(kind)
                except OverflowError:
                    raise ValueError(
                        f"a time in field {field.name}, number {field.number}, is outside 64 bits of microseconds"
                    ) from None

            return read_times
        if field.enum_type is not None:
            names = {value.number: value.name for value in reversed(field.enum_type.values)}  # the first name, as Java
            unknown = f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_"
            return lambda numbers, mask: pa.array([names.get(n) or f"{unknown}{n}" for n in numbers], kind, mask=mask)
        if field.cpp_type in _UNSIGNED:
            unsigned, signed = _UNSIGNED[field.cpp_type]
            return lambda numbers, mask: pa.array(np.array(numbers, dtype=unsigned).view(signed), kind, mask=mask)
        return lambda values, mask: pa.array(values, kind, mask=mask)


# Encoding

_Converter: TypeAlias = Callable[[pa.Array], list[Any]]
"""Returns the values of a column in the form that the runtime takes. None for null."""
_TO_LIST: _Converter = pa.Array.to_pylist
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_ACCEPTED = {
    1: (*_INTEGERS, pa.date32()), 2: _INTEGERS, 3: _INTEGERS, 4: _INTEGERS, 5: (pa.float32(), pa.float64()),
    6: (pa.float32(),), 7: (pa.bool_(),), 8: STRINGS, 9: STRINGS,
}  # fmt: skip
"""Accepted Arrow types by FieldDescriptor.CPPTYPE_*. Numbers of another width are checked in each row."""


class ProtobufEncoder:
    """Encodes a column of structs as messages; see `ProtobufSchema.encoder`."""

    def __init__(self, message_class: Any, type: pa.DataType) -> None:
        self._class = message_class
        self._name = message_class.DESCRIPTOR.full_name
        self._has_required = _has_required(self._class.DESCRIPTOR)
        self._type = type
        problems: list[str] = []
        self._convert = _converter_to(self._class.DESCRIPTOR, type, "", problems)
        require_fit(problems, f"the Protobuf message {self._name}")

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the messages, with null for a null row. Does not set null fields.

        Raises INVALID_VALUE if a value is outside the field's range, no value of the enum, or not UTF-8. Also raises it if
        an element of a list or map, or a required field, is null, or if several fields of a oneof are not null.
        """
        return encode_rows(column, self._encode, f"the Protobuf message {self._name}")

    def _encode(self, column: pa.Array) -> list[bytes | None]:
        convert = self._convert if column.type == self._type else _converter_to(self._class.DESCRIPTOR, column.type, "", [])
        return [None if row is None else self._bytes(row, column.type == self._type) for row in convert(column)]

    def _bytes(self, row: dict[str, Any], is_whole: bool) -> bytes:
        message = self._class(**row)
        if is_whole and self._has_required and not self._class.IsInitialized(message):
            raise ValueError(f"required fields are null: {listing(self._class.FindInitializationErrors(message))}")
        return bytes(self._class.SerializePartialToString(message, deterministic=True))


def _converter_to(descriptor: Descriptor, kind: pa.DataType, path: str, problems: list[str]) -> _Converter:
    """Return a converter from a column of structs to keyword arguments of the message. Adds misfits to `problems`."""
    if not pa.types.is_struct(kind):
        problems.append(f"{path or 'the column'} is {spark_name(kind)}, and {descriptor.full_name} needs a struct")
        return _TO_LIST
    converters = []
    for column in kind:
        inner = inner_path(path, column.name)
        field = descriptor.fields_by_name.get(column.name)
        if field is None:
            similar = nearest(column.name, descriptor.fields_by_name)
            advice = f", {similar} is" if similar else ""
            problems.append(f"{inner} is no field of {descriptor.full_name}{advice}")
        else:
            converters.append(_field_converter(field, column.type, inner, problems))
    problems += [
        f"{inner_path(path, field.name)} is required and missing"
        for field in descriptor.fields
        if field.is_required and kind.get_field_index(field.name) < 0
    ]
    names = [column.name for column in kind]
    oneofs = [
        (oneof.name, indices)
        for oneof in descriptor.oneofs
        if len(indices := [names.index(field.name) for field in oneof.fields if field.name in names]) > 1
    ]

    def convert(column: pa.Array) -> list[Any]:
        children = column.flatten()
        for oneof, indices in oneofs:
            if (np.sum([children[index].is_valid() for index in indices], axis=0) > 1).any():
                members = listing(names[index] for index in indices)
                raise ValueError(f"{path or 'the row'} has more than one member of the oneof {oneof}: {members}")
        values = [converter(child) for converter, child in zip(converters, children, strict=True)]
        rows = zip(*values, strict=True) if values else repeat((), len(column))
        return masked(column, [dict(zip(names, row, strict=True)) for row in rows])

    return convert


def _field_converter(field: FieldDescriptor, kind: pa.DataType, path: str, problems: list[str]) -> _Converter:
    if not field.is_repeated:
        return _value_converter(field, kind, path, problems)
    entry = field.message_type
    is_map = entry is not None and entry.GetOptions().map_entry
    if is_map and pa.types.is_map(kind):
        keys = _value_converter(entry.fields_by_name["key"], kind.key_type, f"{path}.key", problems)
        items = _value_converter(entry.fields_by_name["value"], kind.item_type, f"{path}.value", problems)
        return lambda column: dictionaries(column, keys, lambda found: items(_filled(found, f"{path}.value")))
    if not is_map and is_list(kind):
        elements = _value_converter(field, kind.value_type, f"{path}.element", problems)
        return lambda column: grouped(column, lambda found: elements(_filled(found, f"{path}.element")))
    problems.append(f"{path} is {spark_name(kind)}, and the field is {_proto_type(field)}")
    return _TO_LIST


def _filled(values: pa.Array, path: str) -> pa.Array:
    if values.null_count:
        raise ValueError(f"{path} is null")
    return values


def _value_converter(field: FieldDescriptor, kind: pa.DataType, path: str, problems: list[str]) -> _Converter:
    if field.message_type is not None:
        if kind != time_type(field.message_type):
            return _converter_to(field.message_type, kind, path, problems)
        return lambda column: [
            None if v is None else _seconds_and_nanos(v, kind) for v in column.cast(pa.int64()).to_pylist()
        ]
    accepted = BINARIES if field.type == _BYTES else _ACCEPTED[field.cpp_type]
    if kind not in accepted:
        problems.append(f"{path} is {spark_name(kind)}, and the field is {_proto_type(field)}")
    if kind == pa.date32():
        return lambda column: column.cast(pa.int32()).to_pylist()
    if field.cpp_type in _UNSIGNED and _CPP_TYPES[field.cpp_type] == kind:  # the bits, as Spark does
        unsigned = pa.from_numpy_dtype(_UNSIGNED[field.cpp_type][0])
        return lambda column: column.view(unsigned).to_pylist()
    return _TO_LIST


def _seconds_and_nanos(micros: int, kind: pa.DataType) -> dict[str, int]:
    # A Timestamp's nanos are never negative, and a Duration's have the sign of its seconds.
    sign = -1 if micros < 0 and pa.types.is_duration(kind) else 1
    seconds, rest = divmod(sign * micros, 1_000_000)
    return {"seconds": sign * seconds, "nanos": sign * rest * 1000}


def _proto_type(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return "a map"
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    named = field.message_type if field.message_type is not None else field.enum_type
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower() if named is None else named.full_name
    return f"repeated {name}" if field.is_repeated else str(name)
