"""The C code that turns messages into Arrow columns, against the Python code that does the same, on made-up messages.

librdkafka is played by ``fake_librdkafka.c``, which hands out what a script says.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import COLUMNS, build_batch
from pyspark_zkafka.transport.native import library
from pyspark_zkafka.transport.native.consumer import ArrowConsumer
from pyspark_zkafka.transport.native.reports import open_client

HERE = Path(__file__).parent
SOURCES = Path(library.__file__).parent
PARTITION = TopicPartition("orders", 3)
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}"]


def compile_c(out: Path, *arguments: str | Path) -> Path:
    """What the C compiler makes of sources; tests fail where there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "the tests of the compiled path need a C compiler: cc or gcc"
    command = [compiler, *WARNINGS, "-o", out, *arguments, "-ldl"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


# --- Scripts


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


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """The installed C code, in a copy with globals of its own, with the fake in librdkafka's place."""
    built = library._built()
    assert built is not None, "the compiled path is not built: pip install -e . with a C compiler"
    folder = tmp_path_factory.mktemp("native")
    fake = compile_c(folder / "fake.so", "-shared", "-fPIC", "-fvisibility=hidden", HERE / "fake_librdkafka.c")
    functions: Any = library._Functions(ctypes.CDLL(str(shutil.copy(built, folder / "copy.so"))))
    why = ctypes.create_string_buffer(512)
    assert functions.bind(str(fake).encode(), why, 512), why.value
    found = Native(functions, ctypes.CDLL(str(fake)))
    yield found
    found.close()


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


def taken(consumer: ArrowConsumer) -> Any:
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


# --- Made-up messages

TEXTS = st.text(max_size=12)
DATA = st.none() | st.binary(max_size=20) | TEXTS.map(str.encode) | st.binary(min_size=1, max_size=3).map(lambda b: b * 100)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
HEADS = st.none() | st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=9)), max_size=4).map(tuple)
TIMES = st.tuples(st.integers(0, 2), st.integers(-1, 2**43) | st.integers(-(2**63), 2**63 - 1))
RECORDS = st.builds(Record, st.integers(1, 3) | st.integers(1, 5000), DATA, DATA, TIMES, HEADS)
GOOD_TIMES = st.tuples(st.integers(0, 2), st.integers(-1, 2**43))
TAME = st.builds(Record, st.integers(1, 2), DATA, DATA, GOOD_TIMES, HEADS)
EVENTS = st.builds(Event, st.sampled_from([END, PASSING]))
FIELDS = [st.sampled_from([pa.field(name, kind) for kind in kinds]) for name, kinds in COLUMNS.items()]
SCHEMAS = (
    st.tuples(*FIELDS)
    .flatmap(lambda fields: st.lists(st.sampled_from(fields), unique_by=lambda field: field.name))
    .map(pa.schema)
)
LIMITS = st.builds(Limits, st.integers(1, 300), st.integers(1, 3000), st.integers(1, 300) | st.just(2**62))


def scripts(records: st.SearchStrategy[Record]) -> st.SearchStrategy[list[Entry]]:
    """Entries whose records have rising offsets: what they are made with is the distance to the one before."""
    return st.lists(records | records | records | EVENTS | st.builds(Pause), max_size=60).map(_risen)


def _risen(entries: Sequence[Entry]) -> list[Entry]:
    at, risen = -1, []
    for entry in entries:
        if isinstance(entry, Record):
            at += entry.at
            entry = replace(entry, at=at)
        elif isinstance(entry, Event):
            entry = replace(entry, at=at + 1)
        risen.append(entry)
    return risen


ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])


@given(entries=scripts(RECORDS), schema=SCHEMAS, limits=LIMITS, polls=st.integers(1, 4))
@example(entries=[], schema=ALL, limits=Limits(), polls=1)
@example(entries=[Record(0)], schema=pa.schema([]), limits=Limits(), polls=1)
@example(entries=[Record(n, heads=()) for n in range(9)], schema=ALL, limits=Limits(records=1), polls=3)
def test_any_script(native: Native, entries: list[Entry], schema: pa.Schema, limits: Limits, polls: int) -> None:
    """Whatever messages and events come, in whatever portions, columns and errors are those of the Python path."""
    assert_script(native, schema, entries, limits, polls)


@given(entries=scripts(TAME), limits=LIMITS, polls=st.integers(1, 4))
def test_scripts_without_flaws(native: Native, entries: list[Entry], limits: Limits, polls: int) -> None:
    """All columns of messages that Spark can hold are those of the Python path."""
    assert_script(native, ALL, entries, limits, polls)


@given(entries=scripts(TAME), limits=LIMITS)
def test_polls_keep_to_their_limits(native: Native, entries: list[Entry], limits: Limits) -> None:
    """A batch ends with the record that reaches its bytes, and a poll stops at an event."""
    sizes = [e.size(with_headers=True) for e in entries if isinstance(e, Record)]
    for rows, batch in gathered(native, ALL, entries, limits):
        assert batch.num_rows == rows
        assert rows == 1 or sum(sizes[: rows - 1]) < limits.size_bytes
        del sizes[:rows]


def test_each_poll_has_its_own_limits(native: Native) -> None:
    """What earlier polls have gathered does not count against the limits of the next."""
    records = [Record(n, None, b"v" * 100) for n in range(40)]
    with native.consumer(ALL, records) as consumer:
        consumer.seek(0)
        polls = [consumer.poll(1000, 1000, 2**62, 0).records for _ in range(4)]
        polls += [consumer.poll(7, 1 << 20, 2**62, 0).records for _ in range(2)]
        assert (polls, taken(consumer).num_rows) == ([10, 10, 10, 10, 0, 0], 40)


@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 2048, 5000, 70_000])
@pytest.mark.parametrize("first_null", [0, 1, 1024, 4999, None])
def test_columns_that_grow(native: Native, rows: int, first_null: int | None) -> None:
    """Columns are whole where their buffers have grown, with and without nulls before."""
    numbers = random.Random(rows)

    def data(n: int) -> bytes | None:
        is_null = first_null is not None and (n == first_null or (n > first_null and numbers.random() < 0.1))
        return None if is_null else numbers.randbytes(numbers.randrange(20))

    entries: list[Entry] = [
        Record(n, data(n), data(n), (1, n), ((f"h{n}", data(n)),) * numbers.randrange(3)) for n in range(min(rows, 20_000))
    ]
    assert_script(native, ALL, entries, Limits(records=rows, size_bytes=1 << 30), polls=10)


def test_large_values(native: Native) -> None:
    """Values of megabytes are whole, and batches after them as well."""
    values = [bytes([n]) * (3_000_000 * (n % 3)) for n in range(12)]
    entries = [Record(n, v, v, heads=(("h", v),)) for n, v in enumerate(values)]
    assert_script(native, ALL, entries, Limits(size_bytes=20_000_000))


def test_take_without_records(native: Native) -> None:
    """A batch of nothing has all columns, each with buffers that can be read."""
    with native.consumer(ALL, []) as consumer:
        for _ in range(3):
            assert_same(taken(consumer), pa.RecordBatch.from_pylist([], ALL))


@pytest.mark.parametrize("milliseconds", [2**63 // 1000, 2**63 - 1, -(2**63) // 1000, -(2**63), -1, 0])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_edges_of_time(native: Native, milliseconds: int, more: int) -> None:
    """Times are microseconds up to the last that Spark can hold, and an error beyond it, on both sides."""
    far = max(-(2**63), min(2**63 - 1, milliseconds + more))
    assert_script(native, ALL, [Record(n, time=(1, t)) for n, t in enumerate((5, far, far))], Limits(), polls=9)


@pytest.mark.parametrize("name", ["key", "value"])
def test_first_flaw_is_told(native: Native, name: str) -> None:
    """Of several records that cannot be held, the first is named, and the next batch is told of its own."""
    schema = pa.schema([(name, pa.string()), ("timestamp", COLUMNS["timestamp"][0])])
    bad = [Record(n, **{name[0]: b"\xff"}) for n in range(3)]
    late = [Record(n, time=(1, 2**62 + n)) for n in range(3, 6)]
    good = [Record(n, b"k", b"v") for n in range(6, 9)]
    for records in (bad, late, [*bad, *late], good):
        assert_script(native, schema, records, Limits(), polls=9)
    assert_script(native, schema, [*bad, *late, *good], Limits(records=3))


@pytest.mark.parametrize(
    ("offsets", "ordered"),
    [((5, 6, 9), True), ((5, 6, 6), False), ((5, 4), False), ((7, 9, 8), False), ((0,), True), ((0, 0), False)],
)
def test_offsets_that_do_not_rise(native: Native, offsets: tuple[int, ...], ordered: bool) -> None:
    """A poll says whether offsets rose."""
    with native.consumer(ALL, [Record(offset) for offset in offsets]) as consumer:
        consumer.seek(0)
        assert consumer.poll(1000, 1 << 20, 2**62, 0).ordered is ordered


def test_a_poll_ends_with_the_range(native: Native) -> None:
    """A poll looks at nothing behind the last record of its range, nor waits for it."""
    with native.consumer(ALL, [Record(n) for n in range(10)]) as consumer:
        consumer.seek(0)
        poll = consumer.poll(1000, 1 << 20, 5, 0)
        assert (poll.records, poll.first, poll.last) == (5, 0, 4)


def test_seek_drops_what_was_fetched(native: Native) -> None:
    """What was fetched before a seek, and not gathered, does not come after it."""
    with native.consumer(ALL, [Record(n, b"key") for n in range(600)]) as consumer:
        consumer.seek(0)
        assert consumer.poll(1000, 5, 2**62, 0).last == 1
        consumer.seek(256)
        assert consumer.poll(1000, 5, 2**62, 0).first == 256


def test_seek_keeps_what_was_gathered(native: Native) -> None:
    """What is in the batch stays there over a seek; what was fetched beyond it is dropped."""
    records = [Record(n, b"k", b"v") for n in range(600)]
    with native.consumer(ALL, records) as consumer:
        consumer.seek(0)
        assert consumer.poll(10, 1 << 20, 2**62, 0).records == 10
        consumer.seek(50)
        assert_same(taken(consumer), built(records[:10], ALL))


def test_a_consumer_left_with_a_batch(native: Native) -> None:
    """A consumer that is left in the middle of a batch leaves nothing of it to the next one."""
    with native.consumer(ALL, [Record(n, b"\xff" * n, heads=(("h", b""),)) for n in range(300)]) as consumer:
        consumer.seek(0)
        assert consumer.poll(100, 1 << 20, 2**62, 0).records == 100
    assert native.fake.fake_live() == 2  # the client and its queue
    assert_script(native, pa.schema([("key", pa.string())]), [Record(7, b"x")], Limits())


def test_a_batch_outlives_its_consumer(native: Native) -> None:
    """A batch is its own: neither the next batch nor the end of its consumer change it."""
    records = [Record(n, b"%d" % n, b"v" * n, heads=((f"{n}", None),)) for n in range(500)]
    kept = [batch for _, batch in gathered(native, ALL, records, Limits(records=50))]
    assert pa.Table.from_batches(kept).equals(pa.Table.from_batches([built(records, ALL)]))


# --- UTF-8

_EDGES = """
00 7f 80 bf c080 c1bf c2 c280 c27f dfbf e08080 e09fbf e0a080 e0a0 ecbfbf ed9fbf eda080 edbfbf ee8080 efbfbf efbf f0808080
f08fbfbf f0908080 f09080 f3bfbfbf f48fbfbf f4908080 f5808080 f888808080 fe ff efbbbf c28080 e180c0 f18080ff
"""
EDGES = tuple(map(bytes.fromhex, _EDGES.split()))


def is_text(native: Native, texts: Sequence[bytes]) -> list[bool]:
    """What the C code takes for UTF-8."""
    schema, found = pa.schema([("value", pa.string())]), []
    for text in texts:
        [(_, batch)] = gathered(native, schema, [Record(5, None, text)], Limits())
        assert isinstance(batch, pa.RecordBatch) or "orders-3 at offset 5 is not UTF-8" in batch
        found.append(isinstance(batch, pa.RecordBatch))
    return found


def is_python_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def assert_texts(native: Native, texts: Sequence[bytes]) -> None:
    assert dict(zip(texts, is_text(native, texts), strict=True)) == {text: is_python_text(text) for text in texts}


@pytest.mark.parametrize("before", [b"", b"a", b"1234567", b"12345678", "\u00e4\u4e2d".encode()], ids=repr)
@pytest.mark.parametrize("behind", [b"", b"z", b"12345678"], ids=repr)
def test_edges_of_utf8(native: Native, before: bytes, behind: bytes) -> None:
    """Overlong forms, surrogates, what is beyond U+10FFFF and what is cut off are no UTF-8, wherever they are."""
    assert_texts(native, [before + edge + behind for edge in EDGES])


def test_all_pairs_of_bytes(native: Native) -> None:
    """Two bytes are UTF-8 where Python says so: a column of texts is rejected at the same record."""
    firsts = range(256)
    for first in (0x7F, 0x80, *range(0xC0, 0xE2), 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF):
        pairs = [bytes((first, second)) for second in firsts]
        good = [pair for pair in pairs if is_python_text(pair)]
        assert_script(
            native, pa.schema([("value", pa.string())]), [Record(n, None, t) for n, t in enumerate(good)], Limits()
        )
        assert_texts(native, random.Random(first).sample(pairs, 12))


MIXED = st.binary(max_size=24) | st.lists(st.sampled_from(EDGES), max_size=5).map(b"".join) | TEXTS.map(str.encode)


@given(st.lists(MIXED, max_size=9))
def test_any_bytes_as_text(native: Native, texts: list[bytes]) -> None:
    """Bytes are UTF-8 where Python's decoder says so."""
    assert_texts(native, texts)


# --- Memory


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The C code and the fake as one program, which watches every access to memory."""
    sources = sorted(SOURCES.glob("*.c"))
    checks = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    out = tmp_path_factory.mktemp("driver") / "driver"
    compile_c(out, *checks, "-rdynamic", HERE / "driver.c", HERE / "fake_librdkafka.c", *sources)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run([str(out), *arguments], capture_output=True, text=True, env=environment, check=False)

    return run


@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_fault_of_memory(driver: Callable[..., subprocess.CompletedProcess[str]], seed: str) -> None:
    """300,000 messages read and as many written, in random portions, touch no memory that is not theirs, and leave none."""
    done = driver(seed, "300000")
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) >= 300_000


def test_the_watch_is_on(driver: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A leak made on purpose is found."""
    done = driver("1", "100", "leak")
    assert done.returncode != 0
    assert "LeakSanitizer: detected memory leaks" in done.stderr
