"""The interface of formats, the formats by their names in the options, and the format string."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.registry import StoredSchema
from pyspark_zkafka.formats.types import STRINGS
from pyspark_zkafka.model.rows import first_not_utf8
from pyspark_zkafka.model.spark_types import spark_name
from pyspark_zkafka.records.native.library import require

if TYPE_CHECKING:
    from typing_extensions import Self

_PARSED = 256


class Decoder(Protocol):
    """Decodes payloads of one writer's schema to a column of one type."""

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Decode a binary array, which may be sliced and have nulls, without the first `skip` bytes of each payload."""
        ...


class Encoder(Protocol):
    """Encodes a column of one type by one schema."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return a binary array, with null for a null row.

        Raises InvalidRow, with row and field, for a value that the schema does not allow.
        """
        ...


class Schema(ABC):
    """A parsed schema of a format. Pickle-safe. Compiled at first use, once in a process."""

    __slots__ = ()

    @property
    @abstractmethod
    def type(self) -> pa.DataType:
        """The Arrow type of the column, in the form of Spark's `to_arrow_type`.

        Raises INVALID_SCHEMA if Spark has no such type, for example if the schema contains itself.
        """

    @property
    @abstractmethod
    def name(self) -> str | None:
        """The full name of the record or message, or the title of a JSON Schema. None if the schema has no name."""

    @property
    def message_indexes(self) -> bytes:
        """The indexes of a Protobuf message in its file, which Confluent's serializers write before the message."""
        return b""

    @abstractmethod
    def projection(self, wanted: pa.DataType) -> pa.DataType:
        """Return the schema's type, with `NOT_WANTED` for fields that the wanted type lacks. Raises INVALID_SCHEMA."""

    @abstractmethod
    def decoder(self, writer: Self | None, type: pa.DataType, *, confluent: bool = False) -> Decoder:
        """Return a decoder to a type: the schema's own type or a projection of it.

        The payloads have the writer's schema, or without a writer this schema. With `confluent`, they have the form that
        Confluent's serializers write after the id. Raises INVALID_SCHEMA if this schema cannot read the writer's schema.
        """

    @abstractmethod
    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> Encoder:
        """Return an encoder of columns of the type. Raises OptionError if the schema does not accept the type.

        With `confluent`, values have the form of Confluent's serializers, without id and message indexes.
        """

    def made_from(self, type: pa.DataType) -> Self:
        """Return a form of this schema, which was made from the type, that remembers details which its text lacks."""
        return self

    def moved_fields(self, before: Self) -> list[str]:
        """Return the fields whose name or number belongs to another field in an earlier version, such as ``st.x = 2``."""
        return []


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format: how its schemas are parsed, made from columns, and registered.

    Attributes
    ----------
    name : str
        The name in the options, without ``-confluent``.
    kind : str
        The type of its schemas in a registry.
    parse : callable
        Parses a text, given the texts of its references by name, and the name of a message or None. Raises OptionError.
    text_of : callable
        Makes the text of a schema from a column's type. Raises OptionError with the fields that the format does not have.
    evolving_text_of : callable, optional
        Does the same, and adds parts that later versions of the schema need to be compatible.
    registrable : callable
        Returns the form of a text that registries accept. Raises OptionError if there is no such form.
    reads_writers_schema : bool
        False if payloads are decoded without their writer's schema.
    has_message_indexes : bool
        True if payloads in Confluent's format start with message indexes, unless headers have these indexes.
    numbers_fields : bool
        True if a schema made from a column numbers the fields by position, so that a new version may move them.
    needs_native : bool
        True if the compiled code encodes and decodes payloads.
    """

    name: str
    kind: str
    parse: Callable[[str, Mapping[str, str], str | None], Schema]
    text_of: Callable[[pa.DataType], str]
    evolving_text_of: Callable[[pa.DataType], str] | None = None
    registrable: Callable[[str], str] = str
    reads_writers_schema: bool = True
    has_message_indexes: bool = False
    numbers_fields: bool = False
    needs_native: bool = False

    def require_native(self) -> None:
        """Raise OptionError (NO_NATIVE_PATH) if this process lacks the compiled code that the format needs."""
        if self.needs_native:
            require()

    def schema(self, stored: StoredSchema, message: str | None = None) -> Schema:
        """Parse a schema, once in a process. Raises OptionError with the reason."""
        self.require_kind(stored)
        return _parsed(self, stored.text, tuple(stored.references.items()), message)

    def require_kind(self, stored: StoredSchema) -> None:
        """Raise INVALID_SCHEMA for a schema of another format."""
        if stored.kind != self.kind:
            raise INVALID_SCHEMA(
                f"the schema is of the type {stored.kind}, and the format is {self.name}; correct the format"
            )

    def schema_of(self, type: pa.DataType, *, is_registered: bool = False) -> StoredSchema:
        """Make a schema from a column's type. Raises OptionError with the fields that the format does not have.

        With `is_registered`, the schema also has parts that later versions need to be compatible.
        """
        text_of = self.evolving_text_of if is_registered and self.evolving_text_of else self.text_of
        return StoredSchema(text_of(type), self.kind)


@lru_cache(_PARSED)
def _parsed(format: Format, text: str, references: tuple[tuple[str, str], ...], message: str | None) -> Schema:
    return format.parse(text, dict(references), message)


def format_of(name: str) -> Format:
    """Return the format with a name in the options, without ``-confluent``.

    Imports only this format: each of Spark's worker processes starts from scratch, and most processes need one format or
    none.
    """
    if name == "avro":
        from pyspark_zkafka.formats.avro import AVRO

        return AVRO
    if name == "protobuf":
        from pyspark_zkafka.formats.protobuf import PROTOBUF

        return PROTOBUF
    if name == "json":
        from pyspark_zkafka.formats.json import JSON

        return JSON
    if name == "string":
        return STRING
    raise ValueError(f"no format has the name {name}")


@contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Put `what`, a description of the attempt, before the message of an OptionError that the ``with`` block raises."""
    try:
        yield
    except OptionError as error:
        raise type(error)(error.condition, f"{what}: {error.message}") from error


@dataclass(frozen=True, slots=True)
class StringSchema(Schema):
    """The only schema of the format string, UTF-8, and its decoder and encoder."""

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    @property
    def name(self) -> str | None:
        return None

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        return self.type

    def decoder(self, writer: StringSchema | None, type: pa.DataType, *, confluent: bool = False) -> Decoder:
        return self

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> Encoder:
        if type not in STRINGS:
            raise INVALID_SCHEMA(
                f"the format string needs a column of type string, and the column is {spark_name(type)}; cast it"
            )
        return self

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        try:
            return Decoded(payloads.cast(pa.string()))
        except pa.ArrowInvalid:
            malformed = dict(_not_utf8(payloads))
            is_text = pa.array([row not in malformed for row in range(len(payloads))])
            return Decoded(pc.if_else(is_text, payloads, pa.scalar(None, payloads.type)).cast(pa.string()), malformed)

    def encode(self, column: pa.Array) -> pa.Array:
        data = column.cast(pa.binary())
        row = first_not_utf8(data)
        if row is not None:
            raise INVALID_VALUE(f"Row {row} of a batch has a value in the column that is not UTF-8; correct the row")
        return data


def _not_utf8(payloads: pa.Array) -> Iterator[tuple[int, str]]:
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            (payload or b"").decode()
        except UnicodeDecodeError as error:
            yield row, f"byte {error.start} is not UTF-8"


STRING = Format("string", "", parse=lambda text, references, message: StringSchema(), text_of=lambda type: "")
