"""Write with formats: the schemas of a frame's columns, planned on the driver, and the encoding of rows in tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import InvalidRow, OptionError, SchemaRegistryRefused, listing
from pyspark_zkafka.formats.format import Encoder, Format, Schema, format_of, named_errors
from pyspark_zkafka.formats.registry import Registry, StoredSchema, open_registry
from pyspark_zkafka.formats.types import TypeLimits, depth, nullable_type
from pyspark_zkafka.model.rows import Encode, OutgoingBatch, as_bytes
from pyspark_zkafka.options.values import ColumnFormat, FormatOptions, WriteOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """The schema of a column's payloads, and its id if it is in a registry. Pickle-safe."""

    schema: Schema
    id: int | None


@dataclass(frozen=True, slots=True)
class EncodingPlan:
    """The encoded columns of a frame: their formats and types, and schemas by column and topic. Pickle-safe.

    The topic is empty if the schema does not depend on it. Tasks look up the schemas of other topics.
    """

    options: FormatOptions
    types: Mapping[str, pa.DataType]
    schemas: Mapping[tuple[str, str], WriterSchema]


def plan_encoding(options: WriteOptions, frame: pa.Schema) -> EncodingPlan | None:
    """Find the schemas to write by, and register them. Return None without formats. May ask the registry.

    Raises INVALID_SCHEMA for a column that its schema does not accept, and SchemaRegistryError.
    """
    formats = options.formats
    if formats is None:
        return None
    types = {column.column: frame.field(column.column).type for column in formats.columns}
    for name, type in types.items():
        if (levels := depth(type)) > TypeLimits.MOST_DEPTH:
            raise INVALID_SCHEMA(
                f"The column {name} has {levels} levels, and Arrow sends at most {TypeLimits.MOST_DEPTH} to Python. "
                "Leave out the deepest levels, or write them as text with to_json"
            )
    schemas: dict[tuple[str, str], WriterSchema] = {}
    plan = EncodingPlan(formats, types, schemas)
    for column in formats.columns:
        format_of(column.base).require_native()
        if options.topic is not None or not _depends_on_topic(column):
            column_and_topic = column.column, _key_topic(column, options.topic or "")
            schemas[column_and_topic] = _writer_schema(plan, column, options.topic or "")
        elif not formats.use_latest:
            _own_schema(column, types[column.column])
    return plan


def _depends_on_topic(column: ColumnFormat) -> bool:
    return column.is_confluent and column.subject is None and column.strategy != "record"


def _key_topic(column: ColumnFormat, topic: str) -> str:
    return topic if _depends_on_topic(column) else ""


def _own_schema(column: ColumnFormat, type: pa.DataType) -> tuple[Schema, StoredSchema]:
    """Return the schema in the options, or a schema made from the column's type. Checks that the column fits."""
    format, given = format_of(column.base), column.schema
    with _naming(column):
        if given is None:
            stored = format.schema_of(type, is_registered=column.is_confluent)
            schema = format.schema(stored, column.message).made_from(type)
        else:
            stored = StoredSchema(given, format.kind)
            schema = format.schema(stored, column.message)
            if column.is_confluent:
                stored = StoredSchema(format.registrable(given), format.kind)
        schema.encoder(type)
    return schema, stored


def _writer_schema(plan: EncodingPlan, column: ColumnFormat, topic: str) -> WriterSchema:
    """Return the schema for a topic. Asks the registry."""
    if not column.is_confluent:
        return WriterSchema(_own_schema(column, plan.types[column.column])[0], None)
    formats = plan.options
    if formats.registry is None:
        raise INVALID_OPTION("A format of Confluent needs schema.registry.url")
    format, registry = format_of(column.base), open_registry(formats.registry)
    if formats.use_latest:
        found = registry.subject(column.subject_of(topic, None))
        latest = format.schema(found, column.message)
        with _naming(column):
            latest.encoder(plan.types[column.column])
        return WriterSchema(latest, found.id)
    schema, stored = _own_schema(column, plan.types[column.column])
    if schema.name is None and column.subject is None and column.strategy != "topic":
        raise INVALID_OPTION(
            f"The schema of {column.column} has no name, which its subject needs; set {column.column}.subject instead "
            f"of {column.column}.subject.name.strategy"
        )
    subject = column.subject_of(topic, schema.name)
    if format.numbers_fields and column.schema is None and formats.auto_register:
        known = _if_known(lambda: registry.register(subject, stored, auto=False, normalize=formats.normalize))
        if known is not None:
            return WriterSchema(schema, known)
        _refuse_moved_fields(column, format, schema, registry, subject)
    return WriterSchema(schema, registry.register(subject, stored, auto=formats.auto_register, normalize=formats.normalize))


def _refuse_moved_fields(column: ColumnFormat, format: Format, schema: Schema, registry: Registry, subject: str) -> None:
    """Raise INVALID_SCHEMA if a schema made from a column would move fields: it numbers fields by their position.

    Registries compare numbers, not names, and may accept such a schema. Readers would then confuse the values of fields.
    """
    latest = _if_known(lambda: registry.subject(subject))
    if latest is None or latest.kind != format.kind:
        return
    with named_errors(f"The latest version of subject {subject} cannot be used"):
        before = format.schema(latest)
        with suppress(OptionError):  # it may have several messages
            before = format.schema(latest, schema.name)
    if moved := schema.moved_fields(before):
        raise INVALID_SCHEMA(
            f"The schema made from the column {column.column} would change fields of the latest version of subject "
            f"{subject}: {listing(moved)}. Add new columns at the end and keep the others, or set {column.column}.schema"
        )


def _if_known(ask: Callable[[], T]) -> T | None:
    """Return the registry's answer. None if it does not know the subject, or the schema under the subject."""
    try:
        return ask()
    except SchemaRegistryRefused as error:
        if error.condition != "UNKNOWN_SUBJECT":
            raise
    return None


def _naming(column: ColumnFormat) -> AbstractContextManager[None]:
    return named_errors(f"The column {column.column} cannot be written with {column.column}.format={column.name}")


def row_encoder(plan: EncodingPlan | None) -> Encode | None:
    """Return the function that encodes a task's rows. None without formats. The function makes each encoder once."""
    if plan is None:
        return None
    formats = {column.column: column for column in plan.options.columns}
    # Arrow refuses to cast a null struct whose fields are not null.
    types = {name: nullable_type(type) for name, type in plan.types.items()}
    encoders: dict[tuple[str, str], tuple[Encoder, bytes | None]] = {}
    id_headers = pa.array([f"__{name}_schema_id" for name, column in formats.items() if column.is_confluent], pa.string())

    def encoder_of(column: ColumnFormat, topic: str) -> tuple[Encoder, bytes | None]:
        column_and_topic = column.column, _key_topic(column, topic)
        if column_and_topic not in encoders:
            writer = plan.schemas.get(column_and_topic) or _writer_schema(plan, column, topic)
            with _naming(column):
                encoder = writer.schema.encoder(types[column.column], confluent=column.is_confluent)
            id_bytes = None if writer.id is None else b"\0" + writer.id.to_bytes(4, "big") + writer.schema.message_indexes
            encoders[column_and_topic] = encoder, id_bytes
        return encoders[column_and_topic]

    def encoded(name: str, column: pa.Array, topic: str) -> pa.Array:
        if name not in formats:
            return as_bytes(column)
        encoder, prefix = encoder_of(formats[name], topic)
        type = types[name]
        try:
            # The driver plans with times in UTC, and Spark sends them in the session's time zone.
            payloads = encoder.encode(column if column.type == type else column.cast(type))
        except InvalidRow as error:
            raise INVALID_VALUE(
                f"The column {name} of rows for topic {topic} cannot be encoded: {error.message}"
            ) from error
        return payloads if prefix is None else pc.binary_join_element_wise(prefix, payloads, b"")

    def encode(part: OutgoingBatch) -> OutgoingBatch:
        if part.headers is not None and len(id_headers):
            _refuse_headers(part.topic, part.headers, id_headers)
        key = None if part.key is None else encoded("key", part.key, part.topic)
        return replace(part, value=encoded("value", part.value, part.topic), key=key)

    return encode


def _refuse_headers(topic: str, headers: pa.Array, names: pa.Array) -> None:
    """Raise INVALID_VALUE for headers with the id of a schema: readers would prefer it to the id before the payload."""
    keys = pc.struct_field(headers.flatten(), "key")
    if pc.any(pc.is_in(keys, value_set=names)).as_py():
        raise INVALID_VALUE(
            f"Rows for topic {topic} have a header {' or '.join(names.to_pylist())}, perhaps copied from other records. "
            "Readers would use its schema id; remove it"
        )
