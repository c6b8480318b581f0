"""``zkafka topics tail`` and ``produce``: records as lines of text, JSON or hexadecimal digits, and lines as records."""

from __future__ import annotations

import base64
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BufferedReader
from typing import Annotated, Any, Literal, cast

import pyarrow as pa
import typer
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient
from pyspark_zkafka.brokers.librdkafka_errors import kafka_errors
from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.cluster import bootstrap_servers
from pyspark_zkafka.conditions import INVALID_OPTION, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC
from pyspark_zkafka.errors import printable
from pyspark_zkafka.model.nouns import LAST_MS, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import LATEST, NamedPosition, OffsetSpec, resolve
from pyspark_zkafka.model.records import CORRUPT_COLUMNS, UNREADABLE_HEADERS, build_batch, read_headers
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.kinds import TOPIC, parse_position, parse_time
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.message_consumer import PartitionEvents
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.tools.command import (
    Target,
    Topic,
    find_partitions,
    open_servers,
    parse_pairs,
    parse_text,
    reads_cluster,
)
from pyspark_zkafka.tools.output import columns, iso_time

Format = Literal["text", "json", "hex"]

Fields = Callable[[Message], tuple[Any, Any]]
"""Returns a record's key and value: bytes, or decoded."""

_RETRY = Retry(3, 1.0, time.sleep)
_MOST_MESSAGES, _POLL_S = 500, 0.2
_FETCH_WAIT_MS = 500
_MISSING_S = 5.0
_GROUP = "zkafka-tail"  # brokers see it, but no group is joined
_FROM_FORM = 'earliest, latest, latest-10, earliest+10, an offset, a time such as 2026-01-31T10:00:00Z, or "10 minutes ago"'
_From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="START",
        help='Where to start: earliest, earliest+10, latest, latest-10, an offset, an ISO time, or "10 minutes ago".',
    ),
]

_INPUT_BYTES = 1024 * 1024
_PRODUCED = columns("topic records")
_ANY_BYTES = "surrogateescape"  # as Python decodes arguments that are not UTF-8
_LINE_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
_Header = Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header; repeatable.")]


@reads_cluster
def tail(
    target: Target,
    topic: Topic,
    start: _From = "latest-10",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, metavar="N", help="A partition; repeatable; all by default.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="End after this many records.")] = None,
    until_end: Annotated[bool, typer.Option("--exit", help="Stop at the current ends of the logs.")] = False,
    key: Annotated[bool, typer.Option("--key", help="Write the key and a tab before the value.")] = False,
    meta: Annotated[
        bool, typer.Option("--meta", help="Write partition, offset, time and headers before each record.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="json writes all fields, one object per line.")] = "text",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="A read option that decodes records, such as value.format=avro; repeatable.",
        ),
    ] = None,
) -> None:
    """Write a topic's records, one on each line, until Ctrl-C. The command joins no group and commits nothing.

    Examples: zkafka topics tail orders --from "10 minutes ago" --format json;
    zkafka topics tail orders --from earliest --exit --key;
    zkafka topics tail orders --option value.format=avro-confluent --option schema.registry.url=http://registry1:8081
    """
    TOPIC.read("TOPIC", topic)
    spec = OffsetSpec("--from", everywhere=parse_text("--from", start, parse_start)).at(time.time_ns() // 1_000_000)
    fields = as_text if option is None else decoder(target, topic, dict(parse_pairs(option, "--option")))
    form = "json" if target.output.as_json else form
    to_line = line_writer(form, fields, key=key, meta=meta, escape=sys.stdout.isatty())
    try:
        with open_servers(target) as servers:
            requested = [(topic, number) for number in partition] if partition else [(topic, None)]
            partitions = find_partitions(requested, servers.admin.snapshot([topic]))
            end = OffsetSpec("--exit", everywhere=LATEST)
            found = resolve(partitions, spec, end, servers.admin, retry=_RETRY, no_match="latest")
            addresses = bootstrap_servers(target.connection, servers.snapshot())
        for outside in found.outside:
            target.output.note(f"{outside}. Starting at the nearer end.")
        properties = consumer_properties(target.connection, addresses, _GROUP, environment=os.environ)
        # The end of a log may stay as it is for hours: let the brokers wait for records.
        properties["fetch.wait.max.ms"] = target.connection.kafka.get("fetch.wait.max.ms", _FETCH_WAIT_MS)
        pipe = select.poll()  # reports that the reader of the output has ended, also while no record arrives
        with suppress(OSError):  # a notebook's output has no descriptor
            pipe.register(sys.stdout, 0)
        with MessageClient(properties) as client:
            left = count
            for messages in read_records(client, found.ranges, until_end=until_end):
                shown = messages[:left]
                sys.stdout.buffer.writelines(map(to_line, shown))
                sys.stdout.buffer.flush()
                has_ended = any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))
                if (left is not None and (left := left - len(shown)) == 0) or has_ended:
                    return
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # the reader of the pipe has ended; the interpreter must not flush into it either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse_start(text: str) -> NamedPosition:
    """Return the position of ``--from``; a number is an offset. Raises ValueError with the expected forms."""
    if text.strip().isdecimal() and len(text.strip()) <= len(str(2**62)) - 1:
        return int(text)
    if (position := parse_position(text)) is not None:
        return position
    try:
        return parse_time(text)
    except ValueError:
        raise ValueError(_FROM_FORM) from None


def read_records(
    client: MessageClient, ranges: Sequence[OffsetRange], *, until_end: bool, missing_s: float = _MISSING_S
) -> Iterator[list[Message]]:
    """Yield the records of ranges as they arrive, in the order of each partition; with `until_end`, up to their ends.

    Yields an empty list when no record has arrived for 0.2 s. A topic is gone if no broker knows it for `missing_s`.

    Raises ZKafkaError if the brokers refuse, a topic is gone, or records at the position are gone.
    """
    open_ = {r.partition: r.until for r in ranges if not until_end or r.start < r.until}
    events = {tp: PartitionEvents(tp) for tp in open_}

    def note(error: KafkaError) -> None:
        for one in events.values():
            one.note(error)

    client.note = note
    with kafka_errors("reading records"):
        client.consumer.assign([KafkaTopicPartition(*r.partition, r.start) for r in ranges if r.partition in open_])
        client.warm_up(ranges[0].partition.topic)
        while open_:
            messages: list[Message] = []
            polls = {tp: Poll() for tp in open_}
            for message in client.consumer.consume(_MOST_MESSAGES, _POLL_S):
                tp, offset = TopicPartition(message.topic() or "", message.partition() or 0), message.offset() or 0
                if tp not in open_:
                    continue
                if (error := message.error()) is not None:
                    events[tp].take(error, offset, polls[tp])
                    position = offset
                else:
                    polls[tp].first = offset
                    position = offset + 1
                    if not until_end or offset < open_[tp]:
                        messages.append(message)
                if until_end and position >= open_[tp]:
                    del open_[tp]
                    client.consumer.pause([KafkaTopicPartition(*tp)])
            for tp, poll in polls.items():
                finished = events[tp].finish(poll)
                if finished.gone and _is_missing(client, tp, missing_s):
                    raise UNKNOWN_TOPIC(f"{tp} is gone: its topic was deleted; correct the name")
                if finished.out_of_range:
                    raise OFFSET_OUT_OF_RANGE(
                        f"The records of {tp} at the position were deleted; start with a later --from"
                    )
            yield messages


def _is_missing(client: MessageClient, partition: TopicPartition, missing_s: float) -> bool:
    """Return True if no broker knows the partition for some seconds. A broker that has just started knows no topics."""
    until = time.monotonic() + missing_s
    while True:
        found = client.consumer.list_topics(partition.topic, _MISSING_S).topics[partition.topic]
        if found.error is None and partition.partition in found.partitions:
            return False
        if time.monotonic() > until:
            return True
        time.sleep(_POLL_S)


def as_text(message: Message) -> tuple[str | bytes | None, str | bytes | None]:
    """Return key and value as text; bytes that are not UTF-8 stay as they are."""
    return _text(message.key()), _text(message.value())


def _text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data


def decoder(target: Target, topic: str, given: Mapping[str, str]) -> Fields:
    """Return the function that decodes records by the formats in options of a read. May ask the schema registry.

    The bytes of a record that cannot be decoded or shown stay as they are, and the reason is a note. Raises OptionError.
    """
    from pyspark_zkafka.formats.decoding import BatchDecoder, pin_formats

    pinned = pin_formats(parse_read({**target.options, "subscribe": topic, **given}))
    if pinned is None:
        raise INVALID_OPTION("--option names no format; use value.format=... or key.format=...")
    unknown = [name for name, type in pinned.types.items() if type is None]
    if unknown:
        raise INVALID_OPTION(f"The type of the column {unknown[0]} is unknown; use --option {unknown[0]}.schema=...")
    types: dict[str, pa.DataType] = {"key": pa.binary(), "value": pa.binary(), **pinned.types}
    types |= {name: kinds[0] for name, kinds in CORRUPT_COLUMNS.items()}
    batches = BatchDecoder(replace(pinned, mode="PERMISSIVE"), pa.schema(list(types.items())))

    def fields(message: Message) -> tuple[Any, Any]:
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        decoded = batches.decode(build_batch([message], batches.raw), partition)
        try:
            (row,) = decoded.to_pylist()
        except (OverflowError, ValueError) as error:  # Spark's dates and times have more years than Python's
            row = {"_corrupt_reason": f"a date or time cannot be shown: {error}"}
        if (reason := row["_corrupt_reason"]) is not None:
            target.output.note(f"{partition} at offset {message.offset()}: {reason}")
        found = {"key": message.key(), "value": message.value()}
        found |= {name: _objects(row[name], types[name]) for name in pinned.columns if row.get(name) is not None}
        return tuple(_text(one) if isinstance(one, bytes) else one for one in found.values())  # type: ignore[return-value]

    return fields


def _objects(found: Any, kind: pa.DataType) -> Any:
    """Return a decoded value with dictionaries for maps, which Arrow returns as pairs."""
    if found is None or not pa.types.is_nested(kind):
        return found
    if pa.types.is_struct(kind):
        return {field.name: _objects(found[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {key: _objects(value, kind.item_type) for key, value in found}
    return [_objects(element, kind.value_type) for element in found]


def line_writer(form: Format, fields: Fields, *, key: bool, meta: bool, escape: bool) -> Callable[[Message], bytes]:
    """Return the function that makes a line of a record. With `escape`, text cannot control a terminal."""

    def text(found: Any) -> bytes:
        if not isinstance(found, str | bytes | None):
            found = _json(found)
        if not escape or found is None:
            return found.encode() if isinstance(found, str) else found or b""
        shown = found if isinstance(found, str) else found.decode(errors="backslashreplace")
        return "\t".join(map(printable, shown.split("\t"))).encode()

    def line(message: Message) -> bytes:
        if form == "json":
            return _json(json_record(message, fields), escape=escape).encode() + b"\n"
        before = _meta(message) if meta else []  # reads the headers first: see `UNREADABLE_HEADERS`
        if form == "hex":
            found = [(data or b"").hex().encode() for data in (message.key(), message.value())]
        else:
            found = list(map(text, fields(message)))
        return b"\t".join([*before, *found[0 if key else 1 :]]) + b"\n"

    return line


def json_record(message: Message, fields: Fields) -> Row:
    """Return a record for JSON. What is not UTF-8 is in ``key_base64``, ``value_base64`` and ``base64`` of a header."""
    headers = [{"name": name, **_json_field("value", _text(value))} for name, value in _headers(message)]
    key, value = fields(message)
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": _time(message),
        "headers": headers,
        **_json_field("key", key),
        **_json_field("value", value),
    }


def _json(found: Any, *, escape: bool = False) -> str:
    """Return JSON, with `escape` in printable ASCII.

    Bytes are in base64; other values that JSON has no form for, NaN among them, are strings.
    """
    try:
        text = json.dumps(found, ensure_ascii=escape, allow_nan=False, default=_plain)
    except ValueError:
        text = json.dumps(_without_nan(found), ensure_ascii=escape, default=_plain)
    return text.replace("\x7f", "\\u007f")


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _without_nan(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_without_nan(value) for value in found]
    return json.dumps(found) if isinstance(found, float) and not math.isfinite(found) else found


def _json_field(name: str, found: Any) -> Mapping[str, Any]:
    return {f"{name}_base64": base64.b64encode(found).decode()} if isinstance(found, bytes) else {name: found}


def _meta(message: Message) -> list[bytes]:
    headers = ",".join(
        f"{name}={'' if value is None else value.decode(errors='backslashreplace')}" for name, value in _headers(message)
    )
    fields = (message.partition(), message.offset(), _time(message) or "-", printable(headers) or "-")
    return [str(field).encode() for field in fields]


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    try:
        return read_headers(message)
    except UNREADABLE_HEADERS as error:
        raise INVALID_OPTION(
            f"The record at offset {message.offset()} of {message.topic()}-{message.partition()} has a header with a name "
            "that is not UTF-8; use --format text without --meta"
        ) from error


def _time(message: Message) -> str | None:
    """Return the time of a record; as milliseconds after the year 9999, for which ISO 8601 has no form."""
    kind, ms = message.timestamp()
    if not kind or ms < 0:
        return None
    return iso_time(ms * 1000) if ms <= LAST_MS else str(ms)


@reads_cluster
def produce(
    target: Target,
    topic: Topic,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="The text between key and value; \\t is a tab.")
    ] = None,
    header: _Header = None,
    partition: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, metavar="N", help="The partition; by default, as Java's producer chooses it."),
    ] = None,
    empty_as_null: Annotated[
        bool,
        typer.Option(
            "--empty-as-null",
            help="Write empty keys and values as null. In a compacted topic, a null value deletes its key.",
        ),
    ] = False,
) -> None:
    """Write each line of standard input as a record, until the input ends or Ctrl-C, which drops an unfinished line.

    Example: printf 'k1=a\\nk2=b\\n' | zkafka topics produce orders --key-separator = --header source=cli
    """
    # Other commands start faster without these.
    from pyspark_zkafka.model.rows import check_columns
    from pyspark_zkafka.records.producer import producer_properties
    from pyspark_zkafka.records.select import hash_function, open_producer
    from pyspark_zkafka.write.plan import plan_write
    from pyspark_zkafka.write.rows import RowSender

    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode(errors=_ANY_BYTES)
    if separator == b"":
        raise INVALID_OPTION("--key-separator is empty; write the text between key and value")
    headers = [(name, value.encode(errors=_ANY_BYTES)) for name, value in parse_pairs(header, "--header")]
    target.require_cluster()
    options = parse_write({"kafka.allow.auto.create.topics": "false", **target.options, "topic": topic})
    check_columns(_LINE_SCHEMA, topic)
    done = sent = 0
    try:
        plan = plan_write(options)
        with open_producer(options.connection, producer_properties(options.connection, plan.bootstrap_servers)) as producer:
            sender = RowSender(options, plan, producer, 0, hash_function(options.connection))
            for lines in read_lines(cast("BufferedReader", sys.stdin.buffer).read1):
                batch = make_batch(lines, done, separator, headers, partition, empty_as_null=empty_as_null)
                with interrupted_afterwards():
                    sent += len(lines)
                    sender.send(batch)
                    producer.flush()  # typed lines are written before more are read
                    done = sent
    except KeyboardInterrupt:
        if done < sent:
            target.output.note(f"Produced {done} record(s) to {topic}. Some of the next {sent - done} may be written, too.")
            raise
    if target.output.as_json:
        target.output.rows([{"topic": topic, "records": done}], _PRODUCED)
    target.output.note(f"Produced {done} record(s) to {topic}.")


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Delay Ctrl-C to the end of the ``with`` block. A second Ctrl-C interrupts the block."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:  # ignored, as in a shell's background jobs
        yield
        return
    pressed = False

    def remember(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(number, handler)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt


def read_lines(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """Yield lines as they arrive, without their line breaks (LF or CRLF); the last one need not have one.

    `read` returns what has arrived, at most the given number of bytes; nothing at the end.
    """
    rest = b""
    while data := read(_INPUT_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def make_batch(
    lines: list[bytes],
    before: int,
    separator: bytes | None,
    headers: list[tuple[str, bytes]],
    partition: int | None,
    *,
    empty_as_null: bool,
) -> pa.RecordBatch:
    """Return the records of lines that follow `before` others. Raises OptionError for a line without separator."""
    keys: list[bytes | None] = [None] * len(lines)
    values: list[bytes | None] = [*lines]
    if separator is not None:
        for number, line in enumerate(lines):
            key, found, value = line.partition(separator)
            if not found:
                shown = separator.decode(errors=_ANY_BYTES)
                raise INVALID_OPTION(
                    f"Line {before + number + 1} has no key separator {shown!r}; {before} records before it "
                    "are written. Correct the line, or leave --key-separator out"
                )
            keys[number], values[number] = key, value
    if empty_as_null:
        keys, values = [key or None for key in keys], [value or None for value in values]
    others = {"partition": [partition] * len(lines), "headers": [headers or None] * len(lines)}
    return pa.RecordBatch.from_pydict({"key": keys, "value": values, **others}, schema=_LINE_SCHEMA)
