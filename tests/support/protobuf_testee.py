"""The program that Protobuf's conformance runner tests: the decoder and encoder of the format protobuf, as a process.

Its arguments are the folder of the runner's .proto files, and how often a recursive message contains itself in the frame.
It answers requests on standard input until that ends. Each payload becomes a row, and the row a payload again. Cases
of JSON, of the text format and of unstable editions are skipped.
"""

from __future__ import annotations

import struct
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.formats.format import Decoder, Encoder
from pyspark_zkafka.formats.protobuf import ProtobufSchema, parse

_FILES = {
    "protobuf_test_messages.proto2": "test_messages_proto2",
    "protobuf_test_messages.proto3": "test_messages_proto3",
    "protobuf_test_messages.editions.proto2": "test_messages_proto2_editions",
    "protobuf_test_messages.editions.proto3": "test_messages_proto3_editions",
    "protobuf_test_messages.editions": "test_messages_edition2023",
}
"""The file of each package, in the runner's folder."""
_PROTOBUF = 1  # WireFormat
_LENGTH = struct.Struct("<I")


def schema_of(folder: Path, message: str) -> ProtobufSchema:
    """Compile the file of a message of the runner."""
    package = message.rpartition(".")[0]
    file = "conformance.proto" if package == "conformance" else f"messages/{_FILES[package]}.proto"
    return parse((folder / "conformance" / file).read_text(encoding="utf-8"), message=message)


def message_class(schema: ProtobufSchema) -> Any:
    """Return the class of the schema's message in Google's runtime, independently of the decoder's classes."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(schema.message))


class Column:
    """A frame's column with a message of the runner, in which a recursive message contains itself `depth` times.

    Fields with a declared default are left out: a row does not distinguish the default from an absent field, so that each
    encoded message would have these fields.
    """

    def __init__(self, schema: ProtobufSchema, depth: int) -> None:
        self._schema = schema
        self._depth = depth

    @cached_property
    def type(self) -> pa.DataType:
        wanted = _wanted(message_class(self._schema).DESCRIPTOR, (), self._depth)
        return _pruned(self._schema.projection(wanted), wanted)

    @cached_property
    def decoder(self) -> Decoder:
        return self._schema.decoder(None, self.type)

    @cached_property
    def encoder(self) -> Encoder:
        return self._schema.encoder(self.type)


def _wanted(message: Descriptor, outer: tuple[str, ...], depth: int) -> pa.DataType:
    """Return the names of the fields that the frame has, in the form of a type. All its scalars are strings."""
    inner = (*outer, message.full_name)
    return pa.struct([(f.name, kind) for f in message.fields if (kind := _wanted_field(f, inner, depth)) is not None])


def _wanted_field(field: FieldDescriptor, outer: tuple[str, ...], depth: int) -> pa.DataType | None:
    message = field.message_type
    if message is None:
        return None if field.has_default_value else pa.string()
    if message.GetOptions().map_entry:
        value = _wanted_field(message.fields_by_name["value"], outer, depth)
        return None if value is None else pa.map_(pa.string(), value)
    if outer.count(message.full_name) > depth:
        return None
    kind = _wanted(message, outer, depth)
    return (pa.list_(kind) if field.is_repeated else kind) if kind.num_fields else None


def _pruned(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type without the fields that are not wanted."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_pruned(kind.item_type, wanted.item_type)))
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return pa.list_(kind.value_field.with_type(_pruned(kind.value_type, wanted.value_type)))
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([kind.field(f.name).with_type(_pruned(kind.field(f.name).type, f.type)) for f in wanted])


class Testee:
    """Answers the requests of a runner."""

    def __init__(self, folder: Path, depth: int) -> None:
        self._folder = folder
        self._depth = depth
        self._columns: dict[str, Column] = {}
        self.request = message_class(schema_of(folder, "conformance.ConformanceRequest"))
        self._response = message_class(schema_of(folder, "conformance.ConformanceResponse"))

    def answer(self, request: Any) -> Any:
        if request.message_type == "conformance.FailureSet":
            return self._response(protobuf_payload=b"")
        if request.WhichOneof("payload") != "protobuf_payload" or request.requested_output_format != _PROTOBUF:
            return self._response(skipped="only binary payloads")
        if request.message_type.rpartition(".")[0] not in _FILES:
            return self._response(skipped="only editions that protoc compiles without a flag")
        if request.message_type not in self._columns:
            self._columns[request.message_type] = Column(schema_of(self._folder, request.message_type), self._depth)
        column = self._columns[request.message_type]
        decoded = column.decoder.decode(pa.array([request.protobuf_payload], pa.binary()))
        if decoded.malformed:
            return self._response(parse_error=decoded.malformed[0])
        try:
            (payload,) = column.encoder.encode(decoded.column).to_pylist()
        except ZKafkaError as error:
            return self._response(serialize_error=str(error))
        return self._response(protobuf_payload=payload)


def main() -> None:
    testee = Testee(Path(sys.argv[1]), int(sys.argv[2]))
    while size := sys.stdin.buffer.read(_LENGTH.size):
        request = testee.request.FromString(sys.stdin.buffer.read(*_LENGTH.unpack(size)))
        answer = testee.answer(request).SerializeToString()
        sys.stdout.buffer.write(_LENGTH.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
