"""``zkafka topics produce``: a record for each line of the standard input."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Annotated, cast

import pyarrow as pa
import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.tools.command import Target, Topic, parse_pairs, reads_cluster
from pyspark_zkafka.tools.output import columns

_READ_BYTES = 1024 * 1024
_PRODUCED = columns("topic records")
_ANY_BYTES = "surrogateescape"  # as Python decodes arguments that are not UTF-8
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

_Header = Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header; repeatable.")]


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
        bool, typer.Option("--empty-as-null", help="An empty key or value is null; a null value deletes its key.")
    ] = False,
) -> None:
    """Write each line of the standard input as a record, until its end or Ctrl-C, which drops an unfinished line.

    Example: printf 'k1=a\\nk2=b\\n' | zkafka topics produce orders --key-separator = --header source=cli
    """
    from pyspark_zkafka.model.rows import check_columns
    from pyspark_zkafka.records.producer import producer_properties
    from pyspark_zkafka.records.select import hash_function, open_producer
    from pyspark_zkafka.write.writers import RowSender, plan_write

    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode(errors=_ANY_BYTES)
    if separator == b"":
        raise INVALID_OPTION("--key-separator is empty; write the text between key and value")
    headers = [(name, value.encode(errors=_ANY_BYTES)) for name, value in parse_pairs(header, "--header")]
    target.require_cluster()
    options = parse_write({"kafka.allow.auto.create.topics": "false", **target.options, "topic": topic})
    check_columns(_SCHEMA, topic)
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
    """Yield lines as they arrive, without their line breaks; the last one need not have one.

    `read` returns what has arrived, at most the given number of bytes; nothing at the end.
    """
    rest = b""
    while data := read(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


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
    return pa.RecordBatch.from_pydict({"key": keys, "value": values, **others}, schema=_SCHEMA)
