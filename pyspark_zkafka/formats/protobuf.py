"""Protobuf: schemas as .proto text or descriptors, columns from messages, and messages from columns.

Google's runtime parses and serializes. protoc, from grpcio-tools, compiles .proto text. Types match Spark's `from_protobuf`
with its default options (SchemaConverters); tests/vectors/record_protobuf.py compares them.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module  # noqa: TID251 - the names are constants
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_zkafka.conditions import FORMAT_LIBRARY_MISSING, INVALID_SCHEMA, PROTOC_STOPPED
from pyspark_zkafka.errors import excerpt, listing, nearest
from pyspark_zkafka.formats.codec import varint
from pyspark_zkafka.formats.format import Format, Schema
from pyspark_zkafka.formats.protobuf_messages import (
    DURATION,
    TIMESTAMP,
    ProtobufDecoder,
    ProtobufEncoder,
    scalar_type,
    time_type,
)
from pyspark_zkafka.formats.types import NOT_WANTED, RECORD, TypeLimits, inner_path, is_list
from pyspark_zkafka.model.spark_types import spark_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_MAIN = "schema.proto"
_MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARK = "no_standard_descriptor_accessor"  # marks map entries for protoc, in texts that do not use it
_PROTOC_TIMEOUT_S = 60
_BINARY = re.compile("[\0-\x08\x0e-\x1f]")
_INSTALL = "run pip install 'pyspark-zkafka[protobuf]'"
_BUILTIN = {
    "google.protobuf": "any api descriptor duration empty field_mask source_context struct timestamp type wrappers",
    "google.type": (
        "calendar_period color date datetime dayofweek decimal expr fraction interval latlng localized_text money month "
        "phone_number postal_address quaternion timeofday"
    ),
    "confluent_kafka.schema_registry.confluent": "meta type.decimal type.variant types.decimal",
}
"""The files that Confluent's serializers import without a reference, as modules by package."""


@dataclass(frozen=True, slots=True)
class ProtobufSchema(Schema):
    """A message of compiled files. `files` is a serialized FileDescriptorSet, with the schema's own file at the end."""

    files: bytes
    message: str

    @property
    def type(self) -> pa.DataType:
        return self.projection(None)

    @property
    def name(self) -> str | None:
        return self.message

    def projection(self, wanted: pa.DataType | None) -> pa.DataType:
        kind = _struct_type(_message_class(self).DESCRIPTOR, (), TypeLimits(wanted))
        if not kind.num_fields:
            raise INVALID_SCHEMA(
                f"The Protobuf message {self.message} has no fields that Spark has a type for; choose another message"
            )
        return kind

    @property
    def message_indexes(self) -> bytes:
        descriptor, indexes = _message_class(self).DESCRIPTOR, list[int]()
        while descriptor is not None:
            outer = descriptor.containing_type
            names = list(descriptor.file.message_types_by_name if outer is None else outer.nested_types_by_name)
            indexes.insert(0, names.index(descriptor.name))
            descriptor = outer
        return b"\0" if indexes == [0] else b"".join(varint(number) for number in (len(indexes), *indexes))

    def decoder(self, writer: ProtobufSchema | None, type: pa.DataType, *, confluent: bool = False) -> ProtobufDecoder:
        """Return a decoder, which finds fields by their numbers in this schema.

        With `confluent`, message indexes precede each message, and choose a message of the writer's schema. A record with a
        message of another name is malformed.
        """
        file = _message_class(writer or self).DESCRIPTOR.file if confluent else None
        return ProtobufDecoder(_message_class(self), type, file)

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> ProtobufEncoder:
        return ProtobufEncoder(_message_class(self), type)

    def moved_fields(self, before: ProtobufSchema) -> list[str]:
        found: list[str] = []

        def compare(now: Any, old: Any, path: str) -> None:
            for number, field in now.fields_by_number.items():
                inner, other = inner_path(path, field.name), old.fields_by_number.get(number)
                if other is None and field.name not in old.fields_by_name:
                    continue
                if other is None or other.name != field.name:
                    found.append(f"{inner} = {number}")
                elif field.message_type is not None and other.message_type is not None:
                    compare(field.message_type, other.message_type, inner)

        compare(_message_class(self).DESCRIPTOR, _message_class(before).DESCRIPTOR, "")
        return found


def parse(text: str, references: Mapping[str, str] = {}, message: str | None = None) -> ProtobufSchema:
    """Compile a schema, and choose a message by name, by default the first message.

    `text` is .proto text, or a descriptor set or FileDescriptorProto in base64. A set has the schema's own file at the
    end, as protoc writes it. `references` has each imported file, in the same form, by the name in its import. Google's
    common types, and Confluent's, need no reference. Compiling .proto text takes about 0.2 s. Raises INVALID_SCHEMA if the
    text cannot be compiled, or the message does not exist.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
    except ImportError as exc:
        raise FORMAT_LIBRARY_MISSING(f"The format protobuf needs the package protobuf: {exc}; {_INSTALL}") from exc
    files = _compiled(text, references)
    package = files[-1].package
    names = list(_names(package, files[-1].message_type))
    if not names:
        raise INVALID_SCHEMA("The Protobuf schema has no message; add a message, or name another file")
    name = names[0] if message is None else next((n for n in (message, f"{package}.{message}") if n in names), None)
    if name is None:
        similar = nearest(str(message), names)
        advice = f"use {similar}" if similar else f"use one of {listing(names)}"
        raise INVALID_SCHEMA(f"The Protobuf schema has no message {message}; {advice}")
    return ProtobufSchema(FileDescriptorSet(file=files).SerializeToString(deterministic=True), name)


# Compiling


def _names(scope: str, messages: Iterable[Any]) -> Iterator[str]:
    """Yield the full names of messages and of the messages inside them."""
    for message in messages:
        name = f"{scope}.{message.name}" if scope else message.name
        yield name
        yield from _names(name, (nested for nested in message.nested_type if not nested.options.map_entry))


def _compiled(text: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return all files that the text imports, then the text's own file."""
    if is_proto_text(text):
        return _run_protoc(text, references)
    *others, own = _descriptors(text, "schema")[0]
    known = _builtin_files() | {file.name: file for file in others}
    for name, given in references.items():
        known[name] = _descriptors(given, name)[0][-1]
        known[name].name = name
    ordered: dict[str, FileDescriptorProto] = {}
    _add_after_imports(own, known, ordered)
    return list(ordered.values())


def _descriptors(text: str, name: str) -> tuple[list[FileDescriptorProto], bool]:
    """Return the files of a serialized FileDescriptorSet, or of one FileDescriptorProto, which may be in base64.

    Also returns whether it is a set.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:  # descriptors may happen to be text
        data = text.encode() if _BINARY.search(text) else base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise INVALID_SCHEMA(
            f"The Protobuf schema {name} is {excerpt(text)!r}, which is neither .proto text nor base64; correct the text"
        ) from None
    kinds: tuple[Any, ...] = (FileDescriptorSet, FileDescriptorProto)
    for kind in kinds:  # one kind may parse as the other, but then its fields are not where they belong
        try:
            found = kind.FromString(data)
        except DecodeError:
            continue
        files = list(found.file) if kind is FileDescriptorSet else [found]
        if files and all(file.name and (file.message_type or file.enum_type or file.dependency) for file in files):
            for file in files:
                file.ClearField("source_code_info")
            return files, kind is FileDescriptorSet
    raise INVALID_SCHEMA(
        f"The Protobuf schema {name} has no descriptors; write a descriptor set by protoc --include_imports "
        "--descriptor_set_out"
    )


def is_proto_text(text: str) -> bool:
    """True if a schema is .proto text, and not descriptors."""
    return ("{" in text or ";" in text) and not _BINARY.search(text)


def _registrable(text: str) -> str:
    """Return the text. Raises INVALID_SCHEMA for a FileDescriptorSet, which registries do not know."""
    if not is_proto_text(text) and _descriptors(text, "schema")[1]:
        raise INVALID_SCHEMA(
            "A descriptor set cannot be registered; write .proto text or the descriptor of one file, or leave the schema "
            "out and set use.latest.version=true"
        )
    return text


def _run_protoc(text: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    main = _MAIN if _MAIN not in references else f"main-{_MAIN}"
    texts = {**references, main: text}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        # Java's serializer has registered maps as it reads them, in a form that protoc refuses.
        has_entries = any(map(_MAP_ENTRY.search, texts.values())) and not any(_MARK in text for text in texts.values())
        for file, text in texts.items():
            path = (root / "in" / file).resolve()
            if not path.is_relative_to(root / "in"):
                raise INVALID_SCHEMA(
                    f"The Protobuf schema has the reference {file!r}, which is no relative path; rename it"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_MAP_ENTRY.sub(f"option {_MARK} = true;", text) if has_entries else text, encoding="utf-8")
        (root / "known").write_bytes(FileDescriptorSet(file=_builtin_files().values()).SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"--proto_path={root / 'in'}"]
        command += [f"--descriptor_set_in={root / 'known'}", f"--descriptor_set_out={root / 'out'}", main]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PROTOC_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise PROTOC_STOPPED(
                f"protoc did not end within {_PROTOC_TIMEOUT_S} s; try again, with more processors"
            ) from error
        if "No module named" in done.stderr:
            raise FORMAT_LIBRARY_MISSING(f"The format protobuf needs grpcio-tools to compile .proto text; {_INSTALL}")
        if done.returncode < 0:
            raise PROTOC_STOPPED(f"protoc was ended by signal {-done.returncode}; try again, with more memory")
        if done.returncode:
            output = done.stderr.replace(f"{root / 'in'}/", "").splitlines()
            lines = [line for line in output if ": warning:" not in line and not re.match("WARNING|[IW][0-9]{4} ", line)]
            raise INVALID_SCHEMA(
                f"protoc cannot compile the Protobuf schema: {listing(lines, 5, '; ')}; correct the schema"
            )
        files = list(FileDescriptorSet.FromString((root / "out").read_bytes()).file)
        if has_entries:
            for found in files:
                _mark_map_entries(found.message_type)
        return files


def _mark_map_entries(messages: Iterable[Any]) -> None:
    for message in messages:
        if message.options.no_standard_descriptor_accessor:
            message.options.ClearField(_MARK)
            message.options.map_entry = True
        _mark_map_entries(message.nested_type)


def _builtin_files() -> dict[str, FileDescriptorProto]:
    """Return the files that need no reference, if their packages are installed and fit this protobuf."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.runtime_version import VersionError

    found = {}
    for package, names in _BUILTIN.items():
        for name in names.split():
            with suppress(ImportError, VersionError):
                file = import_module(f"{package}.{name}_pb2").DESCRIPTOR
                found[file.name] = FileDescriptorProto.FromString(file.serialized_pb)
    return found


def _add_after_imports(
    file: FileDescriptorProto, known: Mapping[str, FileDescriptorProto], ordered: dict[str, FileDescriptorProto]
) -> None:
    for name in file.dependency:
        if name in ordered:
            continue
        if name not in known:
            raise INVALID_SCHEMA(f"The Protobuf schema {file.name} imports {name}, which is not given; add the reference")
        _add_after_imports(known[name], known, ordered)
    ordered[file.name] = file


@lru_cache(maxsize=256)
def _message_class(schema: ProtobufSchema) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(schema.files).file:
            pool.AddSerializedFile(file.SerializeToString())
        return GetMessageClass(pool.FindMessageTypeByName(schema.message))
    except (TypeError, KeyError) as exc:
        raise INVALID_SCHEMA(f"The Protobuf schema of {schema.message} is inconsistent: {exc}; correct the schema") from exc
    except RecursionError:
        raise INVALID_SCHEMA(
            f"The messages inside {schema.message} are nested too deeply for Google's Protobuf runtime; correct the schema"
        ) from None


# Types


def _struct_type(descriptor: Descriptor, outer: tuple[str, ...], limits: TypeLimits) -> pa.DataType:
    if descriptor.full_name in outer and limits.is_whole:
        cycle = " > ".join((*outer, descriptor.full_name))
        raise INVALID_SCHEMA(
            f"The Protobuf message {descriptor.full_name} is recursive ({cycle}), and Spark has no type for it; declare "
            "the frame's schema without this field"
        )
    fields = []
    for field in descriptor.fields:
        if not limits.wants(field.name):
            fields.append(pa.field(field.name, NOT_WANTED))
            continue
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        with limits.level(field.name, *(["value"] if is_map else ["element"] if field.is_repeated else [])):
            kind = _field_type(field, (*outer, descriptor.full_name), limits)
        if kind is not None:
            fields.append(pa.field(field.name, kind, nullable=not field.is_required))
    return pa.struct(fields)


def _field_type(field: FieldDescriptor, outer: tuple[str, ...], limits: TypeLimits) -> pa.DataType | None:
    """Return a field's type. None for messages without fields, which Spark leaves out."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (_field_type(message.fields_by_name[name], outer, limits) for name in ("key", "value"))
        return None if value is None else pa.map_(key, pa.field("value", value, nullable=False))
    kind = scalar_type(field) if message is None else time_type(message) or _struct_type(message, outer, limits)
    if pa.types.is_struct(kind) and not kind.num_fields:
        return None
    return pa.list_(pa.field("element", kind, nullable=False)) if field.is_repeated else kind


# Schemas of types

_PROTO_TYPES = {
    pa.bool_(): "bool", pa.int8(): "int32", pa.int16(): "int32", pa.int32(): "int32", pa.int64(): "int64",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.large_string(): "string",
    pa.binary(): "bytes", pa.large_binary(): "bytes", pa.date32(): "int32",
    TIMESTAMP: "google.protobuf.Timestamp", DURATION: "google.protobuf.Duration",
}  # fmt: skip
_KEYS = frozenset({"bool", "int32", "int64", "string"})


def schema_of(type: pa.DataType) -> str:
    """Return the proto3 text of a struct. Scalars are optional, so that nulls survive.

    Raises INVALID_SCHEMA if Protobuf has no such type, as for decimals or arrays of arrays, if a name is no identifier, or
    if protoc derives the same name from two names.
    """
    is_struct = pa.types.is_struct(type)
    problems = [] if is_struct else [f"the column is {spark_name(type)}, and a message needs a struct"]
    message = _message_text(type, RECORD, "", problems) if is_struct else []
    if problems:
        reasons = listing(problems, separator="; ")
        raise INVALID_SCHEMA(f"The column has no Protobuf schema: {reasons}; cast or rename these fields, or give a schema")
    text = "\n".join([*message, ""])
    files = [file for file in ("duration", "timestamp") if f"google.protobuf.{file.capitalize()}" in text]
    return "\n".join(['syntax = "proto3";', *(f'import "google/protobuf/{file}.proto";' for file in files), text])


def _message_text(kind: pa.DataType, name: str, path: str, problems: list[str]) -> list[str]:
    """Return the lines of a message, with the messages of its structs inside."""
    nested: list[str] = []
    taken = {column.name for column in kind}

    def text_of(kind: pa.DataType, column: str, path: str) -> str:
        if pa.types.is_struct(kind):
            inner = f"{column[:1].upper()}{column[1:]}Value"
            while inner in taken:
                inner += "_"
            taken.add(inner)
            nested.extend(_message_text(kind, inner, path, problems))
            return inner
        if kind not in _PROTO_TYPES:
            problems.append(f"{path} is {spark_name(kind)}")
        return _PROTO_TYPES.get(kind, "")

    lines = []
    owners = {f"message name {column.name}": column.name for column in kind}  # of the names that protoc derives
    for number, column in enumerate(kind, 1):
        inner = inner_path(path, column.name)
        json_name = re.sub("_+(.?)", lambda found: found[1].upper(), column.name)
        derived = [f"JSON name {json_name}"]
        derived += [f"message name {json_name[:1].upper()}{json_name[1:]}Entry"] * pa.types.is_map(column.type)
        problems += [f"{inner} and {owners[same]} have the same {same}" for same in derived if same in owners]
        owners |= dict.fromkeys(derived, column.name)
        if not (column.name.isascii() and column.name.isidentifier()):
            problems.append(f"{inner} is no name of a Protobuf field")
        if pa.types.is_map(column.type):
            key = text_of(column.type.key_type, column.name, f"{inner}.key")
            if key not in _KEYS:
                problems.append(
                    f"{inner}.key is {spark_name(column.type.key_type)}, and keys are strings, integers or booleans"
                )
            type_text = f"map<{key}, {text_of(column.type.item_type, column.name, f'{inner}.value')}>"
        elif is_list(column.type):
            type_text = f"repeated {text_of(column.type.value_type, column.name, f'{inner}.element')}"
        else:
            type_text = f"optional {text_of(column.type, column.name, inner)}"
        lines.append(f"  {type_text} {column.name} = {number};")
    return [f"message {name} {{", *(f"  {line}" for line in nested), *lines, "}"]


PROTOBUF = Format(
    "protobuf",
    "PROTOBUF",
    parse,
    text_of=schema_of,
    registrable=_registrable,
    has_message_indexes=True,
    numbers_fields=True,
)
