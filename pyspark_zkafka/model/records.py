"""Columns of records that are read: their names and types, and batches of messages in these columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA, MALFORMED_TIMESTAMP, MALFORMED_UTF8
from pyspark_zkafka.errors import UnreadableRecord, listing
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.spark_types import spark_name

_HEADER = [("key", pa.string()), ("value", pa.binary())]
_TIMESTAMP = pa.timestamp("us", tz="UTC")
COLUMNS: dict[str, tuple[pa.DataType, ...]] = {
    "key": (pa.binary(), pa.string()),
    "value": (pa.binary(), pa.string()),
    "topic": (pa.string(),),
    "partition": (pa.int32(),),
    "offset": (pa.int64(),),
    "timestamp": (_TIMESTAMP,),
    "timestampType": (pa.int32(),),
    "headers": (pa.list_(pa.struct(_HEADER)),),
}
"""The Arrow types that each column may be declared with. The first is the default."""
RAW_HEADERS = pa.list_(pa.struct([(name, pa.binary()) for name, _ in _HEADER]))
"""The type of headers that are read only for ids of schemas: their names need not be UTF-8."""
CORRUPT_COLUMNS: dict[str, tuple[pa.DataType, ...]] = {"_corrupt_record": (pa.binary(),), "_corrupt_reason": (pa.string(),)}
"""The columns of records that cannot be decoded: their bytes, and the reason."""

UNREADABLE_HEADERS = (SystemError, UnicodeDecodeError)
"""confluent-kafka's errors for a header whose name is not UTF-8.

With the error, `Message.headers` creates a list with a null pointer, and any access to the list crashes. Call it through
map(), as `read_headers` does: a plain call does not always detect the error. Do not call it again for the same message,
which keeps the list.
"""

_MAX_TIMESTAMP_MS = (2**63 - 1) // 1000


class Message(Protocol):
    """A consumed message; confluent_kafka.Message implements it."""

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...


def read_headers(message: Message) -> list[tuple[str, bytes | None]]:
    """Return a message's headers. Raises one of `UNREADABLE_HEADERS` if a name is not UTF-8. Call it once."""
    [found] = map(type(message).headers, [message])
    return found or []


def frame_schema(include_headers: bool) -> pa.Schema:
    """Return the source's columns, as in Spark's own Kafka source."""
    return pa.schema([(name, types[0]) for name, types in COLUMNS.items() if include_headers or name != "headers"])


def require_projection(
    schema: pa.Schema, decoded: Mapping[str, pa.DataType | None] | None = None, has_corrupt_columns: bool = False
) -> None:
    """Raise OptionError with all problems of a user's schema.

    The schema may have any of the columns in any order, each with its type. `key` and `value` may be string (UTF-8).

    `decoded` has the types of decoded columns. None allows any type whose parts may all be null. A user's schema may leave
    out fields of structs. `CORRUPT_COLUMNS` are allowed with `has_corrupt_columns`.
    """
    decoded = decoded or {}
    own: dict[str, tuple[pa.DataType, ...]] = COLUMNS | (CORRUPT_COLUMNS if has_corrupt_columns else {})
    problems = [f"there are several columns {name}" for name in own if schema.names.count(name) > 1]
    for column in schema:
        if column.name in ("key", "value", "headers", *CORRUPT_COLUMNS) and not column.nullable:
            problems.append(f"{column.name} cannot be NOT NULL: Kafka has records without one")
        is_list = column.name == "headers" and _same_type(column.type, own["headers"][0])
        if is_list and not column.type.value_type.field("value").nullable:
            problems.append("value of headers cannot be NOT NULL: headers may have none")
        if column.name in decoded:
            found = decoded[column.name]
            if found is None:
                problems += not_null_problems(column.name, column.type)
            else:
                problems += projection_problems(column.name, column.type, found)
            continue
        types = own.get(column.name)
        if types is None:
            only = "; only mode=PERMISSIVE has it" if column.name in CORRUPT_COLUMNS else ""
            problems.append(f"there is no column {column.name!r}{only}; there are {', '.join(own)}")
        elif not any(_same_type(column.type, t) for t in types):
            names = " or ".join(map(spark_name, types))
            hint = (
                f", or set {column.name}.format"
                if column.name in ("key", "value") and pa.types.is_nested(column.type)
                else ""
            )
            problems.append(f"{column.name} cannot be {spark_name(column.type)}; declare it {names}{hint}")
    if set(schema.names).isdisjoint(decoded) and not set(schema.names).isdisjoint(CORRUPT_COLUMNS):
        advice = f"add {' or '.join(decoded)}" if decoded else "set value.format or key.format"
        problems.append(f"{' and '.join(CORRUPT_COLUMNS)} need a decoded column; {advice}")
    if problems:
        raise INVALID_SCHEMA("The schema cannot be read: " + "; ".join(problems))


def projection_problems(path: str, declared: pa.DataType, own: pa.DataType) -> Iterator[str]:
    """Yield the problems of a declared type, which may have fewer fields of structs than a decoded column."""
    if declared.id != own.id or not pa.types.is_nested(own):
        if declared != own:
            remedy = "; declare this type, with the fields that you need" if parts_of(own) else ""
            yield f"{path} cannot be {spark_name(declared)}; the schema has {shape_of(own)}{remedy}"
        return
    known = {field.name: field for field in parts_of(own)}
    if pa.types.is_struct(own):
        if len({field.name for field in declared}) < declared.num_fields:
            yield f"{path} has two fields of one name"
        for field in declared:
            if field.name not in known:
                yield f"there is no field {path}.{field.name}; there are {listing(known)}"
    pairs = [(field, known[field.name]) for field in parts_of(declared) if field.name in known]
    if pa.types.is_map(own):
        pairs.insert(0, (declared.key_field.with_name("key"), own.key_field))
    for field, found in pairs:
        if found.nullable and not field.nullable:
            yield f"{path}.{field.name} cannot be NOT NULL: the schema allows null"
        yield from projection_problems(f"{path}.{field.name}", field.type, found.type)


def parts_of(type: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, the field "element" of a list, or the field "value" of a map; otherwise, no field."""
    if pa.types.is_struct(type):
        return list(type)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return [type.value_field.with_name("element")]
    return [type.item_field.with_name("value")] if pa.types.is_map(type) else []


def shape_of(type: pa.DataType) -> str:
    """Format a type for an error message, showing field names only."""
    if pa.types.is_struct(type):
        return f"struct<{listing(field.name for field in type)}>"
    for inner in parts_of(type):
        element = shape_of(inner.type)
        return f"map<{spark_name(type.key_type)},{element}>" if pa.types.is_map(type) else f"array<{element}>"
    return spark_name(type)


def not_null_problems(path: str, declared: pa.DataType) -> Iterator[str]:
    """Yield the parts of a declared type that cannot be null. Keys of maps never are."""
    for field in parts_of(declared):
        if not field.nullable:
            yield f"{path}.{field.name} cannot be NOT NULL: a record may lack it"
        yield from not_null_problems(f"{path}.{field.name}", field.type)


def _same_type(declared: pa.DataType, own: pa.DataType) -> bool:
    if pa.types.is_list(own):
        # Equality would include whether the fields of the struct may be null.
        has_fields = pa.types.is_list(declared) and pa.types.is_struct(declared.value_type)
        return has_fields and [(f.name, f.type) for f in declared.value_type] == _HEADER
    return bool(declared == own)


def build_batch(messages: Sequence[Message], schema: pa.Schema) -> pa.RecordBatch:
    """Build a batch with one row for each message, in order, and the columns of the schema.

    There is at least one message. All messages are of one partition and without errors. `require_projection` accepts the
    schema, except that its headers may be `RAW_HEADERS`. Then the headers of a message are null if the name of a header is
    not UTF-8.

    Raises UnreadableRecord: MALFORMED_UTF8 if a column is declared string and a record is not UTF-8, MALFORMED_TIMESTAMP if
    a timestamp does not fit Spark's microseconds.
    """
    columns = [_BUILDERS[field.name](messages, field.type) for field in schema]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(messages), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _bytes_column(name: str, messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    read: Callable[[Message], bytes | None] = getattr(type(messages[0]), name)
    # Unbound methods in map() need no Python frame for each record: about a third faster than a comprehension.
    raw = pa.array(list(map(read, messages)), pa.binary())
    if kind == pa.binary():
        return raw
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        bad = next(m for m in messages if (data := read(m) or b"").decode(errors="ignore").encode() != data)
        raise malformed_utf8(name, _partition_of(bad), bad.offset()) from None


def malformed_utf8(column: str, partition: TopicPartition, offset: int) -> UnreadableRecord:
    """Return the error for a key or value declared as string, or a header's name, that is not UTF-8."""
    if column == "headers":
        text, remedy = "name of a header", "leave the column headers out of the schema to read the record"
    else:
        text, remedy = column, f"declare {column} as binary in the schema and decode it there"
    return MALFORMED_UTF8(f"The {text} of {partition} at offset {offset} is not UTF-8; {remedy}")


def _partition_of(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def _constant(name: str, messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(getattr(messages[0], name)(), kind), len(messages))


def _offset(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first + 1 == len(messages):
        return pa.array(np.arange(first, last + 1, dtype=np.int64), kind)
    return pa.array(_integers(map(type(messages[0]).offset, messages), len(messages)), kind)


def _integers(values: Iterable[int], count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter(values, dtype=np.int64, count=count)


def _timestamps(messages: Sequence[Message]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return type and milliseconds of each message, as rows of two."""
    pairs = chain.from_iterable(map(type(messages[0]).timestamp, messages))
    return _integers(pairs, 2 * len(messages)).reshape(-1, 2)


def _timestamp(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    found = _timestamps(messages)
    # Without timestamps (message format 0), librdkafka returns 0. Java, and so Spark's own source, returns -1.
    milliseconds = np.where(found[:, 0] == 0, -1, found[:, 1])
    if _beyond_spark(milliseconds).any():
        bad = int(np.argmax(_beyond_spark(milliseconds)))
        raise malformed_timestamp(_partition_of(messages[bad]), messages[bad].offset(), milliseconds[bad])
    return pa.array(milliseconds * 1000).cast(kind)


def _beyond_spark(milliseconds: Any) -> Any:
    # The absolute value of the least int64 would overflow.
    return (milliseconds > _MAX_TIMESTAMP_MS) | (milliseconds < -_MAX_TIMESTAMP_MS)


def malformed_timestamp(partition: TopicPartition, offset: int, timestamp_ms: int) -> UnreadableRecord:
    """Return the error for a timestamp that does not fit Spark's microseconds."""
    return MALFORMED_TIMESTAMP(
        f"The timestamp of {partition} at offset {offset} is {timestamp_ms} ms, outside the range of Spark's timestamps; "
        "leave the column timestamp out of the schema to read the record",
    )


def _timestamp_type(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    # None, create and append are 0, 1 and 2 in librdkafka, and -1, 0 and 1 in Kafka's Java client and Spark.
    return pa.array(_timestamps(messages)[:, 0] - 1).cast(kind)


def _headers(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    found: list[list[tuple[str, bytes | None]] | None] = []
    headers = map(type(messages[0]).headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(headers)
        except UNREADABLE_HEADERS:
            if kind != RAW_HEADERS:
                bad = messages[len(found)]
                raise malformed_utf8("headers", _partition_of(bad), bad.offset()) from None
            found.append(None)  # none of the message's headers can be read
    return pa.array(found, kind)


_BUILDERS: dict[str, Callable[[Sequence[Message], pa.DataType], pa.Array]] = {
    "key": partial(_bytes_column, "key"),
    "value": partial(_bytes_column, "value"),
    "topic": partial(_constant, "topic"),
    "partition": partial(_constant, "partition"),
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
