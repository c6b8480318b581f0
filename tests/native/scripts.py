"""Scripts of messages that ``fake_librdkafka.c`` hands out, and the C code that reads them."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import COLUMNS, build_batch
from pyspark_zkafka.transport.native import library
from pyspark_zkafka.transport.native.consumer import ArrowConsumer
from pyspark_zkafka.transport.native.record_decoder import RecordDecoder
from pyspark_zkafka.transport.native.reports import open_client
from tests.support.compiler import compiler

HERE = Path(__file__).parent
SOURCES = Path(library.__file__).parent
PARTITION = TopicPartition("orders", 3)
ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]


def compile_c(out: Path, *arguments: str | Path) -> Path:
    """What the C compiler makes of sources; tests fail where there is none."""
    command = [compiler(), *WARNINGS, "-o", out, *arguments, "-ldl"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@dataclass(frozen=True)
class Record:
    """A message as `build_batch` takes it, and as the script writes it down."""

    at: int
    k: bytes | None = None
    v: bytes | None = None
    time: tuple[int, int] = (1, 0)
    heads: tuple[tuple[str, bytes | None], ...] | None = None

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def topic(self) -> str:
        return PARTITION.topic

    def partition(self) -> int:
        return PARTITION.partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None if not self.heads else list(self.heads)

    def size(self, with_headers: bool) -> int:
        heads = (self.heads or ()) if with_headers else ()
        return sum(len(part or b"") for part in (self.k, self.v, *(x for k, v in heads for x in (k.encode(), v))))

    def script(self) -> bytes:
        heads = b"".join(_string(name.encode()) + _string(value) for name, value in self.heads or ())
        count = struct.pack("<i", -1 if self.heads is None else len(self.heads))
        times = struct.pack("<iq", *self.time)
        return b"\0" + struct.pack("<q", self.at) + _string(self.k) + _string(self.v) + times + count + heads


@dataclass(frozen=True)
class Event:
    """What librdkafka hands out in place of a record."""

    code: int
    at: int = 0

    def script(self) -> bytes:
        return b"\1" + struct.pack("<iq", self.code, self.at)


class Pause:
    """Nothing comes for the time of one fetch."""

    def script(self) -> bytes:
        return b"\2"


Entry = Record | Event | Pause
END, PASSING = KafkaError._PARTITION_EOF, KafkaError._TRANSPORT


def _string(data: bytes | None) -> bytes:
    return struct.pack("<i", -1) if data is None else struct.pack("<i", len(data)) + data


# --- The C code with the fake


class Native:
    """A consumer of the compiled path that reads a script."""

    def __init__(self, functions: Any, fake: ctypes.CDLL) -> None:
        self.functions = functions
        self.fake = fake
        self.fake.fake_live.restype = ctypes.c_int64
        self.handle = open_client(functions.consumer_new, {})

    def close(self) -> None:
        self.functions.consumer_close(self.handle)
        assert self.fake.fake_live() == 0

    def consumer(self, schema: pa.Schema, entries: Sequence[Entry]) -> ArrowConsumer:
        """A consumer at the beginning of a script."""
        script = b"".join(entry.script() for entry in entries)
        self.fake.fake_script(script, ctypes.c_size_t(len(script)))
        client: Any = SimpleNamespace(native=self.functions, handle=self.handle)
        return ArrowConsumer(client, PARTITION, schema)


@dataclass(frozen=True)
class Limits:
    """How much a poll may bring, and where the range ends."""

    records: int = 1000
    size_bytes: int = 1 << 20
    until: int = 2**62


def gathered(
    native: Native, schema: pa.Schema, entries: Sequence[Entry], limits: Limits, polls_a_batch: int = 1
) -> Iterator[tuple[int, Any]]:
    """Batches of a script, each with its number of records; an error stands in the place of its batch."""
    not_records = sum(not isinstance(entry, Record) for entry in entries)
    with native.consumer(schema, entries) as consumer:
        consumer.seek(0)
        rows, polls, quiet, last = 0, 0, 0, -1
        while rows or (quiet <= not_records and last + 1 < limits.until):
            poll = consumer.poll(limits.records, limits.size_bytes, limits.until, 0)
            assert poll.records <= limits.records
            if poll.first is not None and poll.last is not None:
                assert last < poll.first <= poll.last
                last = poll.last
            rows, polls = rows + poll.records, polls + 1
            quiet = quiet + 1 if poll.first is None else 0
            if rows and (polls >= polls_a_batch or quiet):
                yield rows, taken(consumer)
                rows = polls = quiet = 0


def taken(consumer: ArrowConsumer | RecordDecoder) -> Any:
    """The batch, or the error's text."""
    try:
        batch = consumer.take()
    except ZKafkaError as error:
        return str(error)
    batch.validate(full=True)
    return batch


def built(messages: Sequence[Any], schema: pa.Schema) -> Any:
    """What the Python path makes of messages."""
    try:
        return build_batch(messages, schema)
    except ZKafkaError as error:
        return str(error)


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, pa.RecordBatch):
        assert isinstance(found, pa.RecordBatch), found
        assert (found.num_rows, found.schema) == (expected.num_rows, expected.schema)
        assert [c.null_count for c in found.columns] == [c.null_count for c in expected.columns]
        assert found.equals(expected), f"{found.to_pylist()} != {expected.to_pylist()}"
    else:
        assert found == expected


def assert_script(native: Native, schema: pa.Schema, entries: Sequence[Entry], limits: Limits, polls: int = 1) -> None:
    """Every record of a script is in one batch, in its order, as Python builds it."""
    visible = [entry for entry in entries if isinstance(entry, Record) and entry.at < limits.until]
    done = 0
    for rows, batch in gathered(native, schema, entries, limits, polls):
        assert_same(batch, built(visible[done : done + rows], schema))
        done += rows
    assert done == len(visible)
