"""The measurements of ``make bench``, in parts of less than half an hour on two idle cores, or a quick selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.job import TINY_RECORDS, WIDE_RECORDS, Case, Job
from benchmarks.session import STANDALONE
from benchmarks.shapes import PARTITIONS, POOL, SHAPES, WIDE

MAIN_MASTER = "local[2]"
READ = ["ours", "ours-librdkafka", "jvm", "jvm-tuned", "arrow"]
WRITTEN = ["ours", "ours-librdkafka", "ours-once", "jvm", "jvm-tuned", "jvm-idempotent", "arrow"]
STREAMED = ["ours", "ours-joined", "jvm", "jvm-tuned", "arrow"]
COPIED = ["ours", "ours-once", "jvm"]
MAIN = ["ours", "jvm", "jvm-tuned", "jvm-idempotent"]
ALTERNATIVES = ["ours", "ours-noidem", "mapinarrow", "librdkafka"]
_TWO = ("small", "big")


@dataclass(frozen=True)
class Extras:
    """Sizes of measurements other than throughput."""

    latency_s: float = 60.0
    memory_scale: float = 0.5
    layout_scale: float = 0.5
    many_partitions: int = 10_000
    layout_rounds: int = 3
    start_rounds: int = 3
    idle_s: float = 10.0
    plan_sizes: tuple[int, ...] = (8, 1_000, 10_000)
    plan_rounds: int = 3
    large_sizes: tuple[int, ...] = (10_000, 100_000)
    group_sizes: tuple[int, ...] = (2, 5, 20)
    group_rounds: int = 3
    avro_records: int = 1_000_000
    avro_rounds: int = 5
    sail_scale: float = 1.0
    sail_rounds: int = 3


FULL = Extras()
QUICK = Extras(
    latency_s=2.0,
    memory_scale=0.05,
    layout_scale=0.05,
    many_partitions=1_000,
    layout_rounds=1,
    start_rounds=1,
    idle_s=2.0,
    plan_sizes=(8, 1_000),
    plan_rounds=1,
    large_sizes=(10_000,),
    group_sizes=(2,),
    group_rounds=1,
    avro_records=200_000,
    avro_rounds=3,
    sail_scale=0.1,
    sail_rounds=2,
)


def quick(scale: float, rounds: int) -> list[Job]:
    """Return the most common works, with local[2]."""
    read = [engine for engine in READ if engine != "ours-librdkafka"]
    written = [engine for engine in WRITTEN if engine not in ("ours-librdkafka", "ours-once")]
    cases = [Case("read", shape, scale, read, rounds, warm_up=1) for shape in _TWO]
    # Checking a write writes, which warms up.
    cases += [Case("write", shape, scale, written, rounds, warm_up=0) for shape in _TWO]
    cases += [Case("write", "small", scale / 2, ["ours", "ours-once"], rounds, warm_up=0)]
    cases += [tiny("copy", 20, ["ours", "ours-once"], min(rounds, 2))]
    cases += [Case("stream20", "small", 2 * scale, STREAMED, min(rounds, 2), warm_up=1)]
    return [Job(MAIN_MASTER, cases)]


def _reads(scale: float, rounds: int) -> list[Job]:
    cases = [Case("read", shape, scale, READ, rounds) for shape in _TWO]
    return [Job(MAIN_MASTER, cases + [Case("value", shape, scale, READ, rounds, warm_up=1) for shape in _TWO])]


def _compressed(scale: float, rounds: int) -> list[Job]:
    """Return reads and writes of JSON, with headers to read, in compressed record batches."""
    some, shapes = min(rounds, 3), [f"events-{codec}" for codec in ("lz4", "zstd", "snappy", "gzip")]
    cases = [Case("read", shape, scale, ["ours", "jvm-tuned"], some, warm_up=1) for shape in shapes]
    written = ["ours", "jvm-tuned", "jvm-idempotent"]
    return [Job(MAIN_MASTER, cases + [Case("write", shape, scale / 2, written, some, warm_up=0) for shape in shapes])]


def _groupings(scale: float, rounds: int) -> list[Job]:
    """Return reads into a grouping query."""
    return [Job(MAIN_MASTER, [Case("group", shape, scale, MAIN, rounds) for shape in _TWO])]


def _reads_by_size(scale: float, rounds: int) -> list[Job]:
    """Return reads of twice and ten times as many small records, where fixed costs count less."""
    engines = ["ours", "jvm-tuned", "arrow"]
    sizes = [(factor, work) for factor in (2, 10) for work in ("read", "value")]
    return [Job(MAIN_MASTER, [Case(w, "small", n * scale, engines, min(rounds, 3), warm_up=1) for n, w in sizes])]


def _writes(scale: float, rounds: int) -> list[Job]:
    return [Job(MAIN_MASTER, [Case("write", shape, scale, WRITTEN, rounds) for shape in _TWO])]


def _alternatives(scale: float, rounds: int) -> list[Job]:
    """Return writes without idempotence and without keys, and hand-written reads and writes."""
    cases = [Case(work, shape, scale, ALTERNATIVES, rounds) for work in ("read", "write") for shape in _TWO]
    return [Job(MAIN_MASTER, cases + [Case("write-nokey", shape, scale, MAIN, rounds, warm_up=1) for shape in _TWO])]


def _exactly_once(scale: float, rounds: int) -> list[Job]:
    """Return writes of 1 M and 4 M rows, and micro-batches of 8 tasks on two cores or eight threads."""
    writes = [Case("write", "small", factor * scale, ["ours", "ours-once"], rounds) for factor in (0.5, 2)]
    copies = [tiny("copy", 25, COPIED, min(rounds, 3))]
    return [Job(MAIN_MASTER, writes + copies), Job("local[8]", copies)]


def _streams(scale: float, rounds: int) -> list[Job]:
    """Return streams of twice as many records, since the start of a query takes about a second."""
    return [Job(MAIN_MASTER, [Case("stream20", shape, 2 * scale, STREAMED, rounds, warm_up=1) for shape in _TWO])]


def _tiny_streams(scale: float, rounds: int) -> list[Job]:
    return [Job(MAIN_MASTER, [tiny("stream-tiny", 100, STREAMED, min(rounds, 3))])]


def _many_partitions(scale: float, rounds: int) -> list[Job]:
    """Return 20 micro-batches of few records in each of many partitions."""
    records = 20 * WIDE_RECORDS * WIDE.partitions
    engines = ["ours", "ours-joined", "jvm-tuned"]
    case = Case("stream-wide", "small", records / SHAPES["small"].full_records, engines, min(rounds, 3), warm_up=0)
    return [Job(MAIN_MASTER, [case])]


def _masters(scale: float, rounds: int) -> list[Job]:
    """Return reads and writes of half as many records with other numbers of cores."""
    some = min(rounds, 3)
    cases = [Case(work, shape, scale / 2, MAIN, some, warm_up=1) for work in ("read", "write") for shape in _TWO]
    return [Job(master, cases) for master in ("local[1]", "local[4]", STANDALONE)]


PARTS: dict[str, Callable[[float, int], list[Job]]] = {
    "reads": _reads,
    "writes": _writes,
    "exactly-once": _exactly_once,
    "streams": _streams,
    "tiny-streams": _tiny_streams,
    "many-partitions": _many_partitions,
    "compressed": _compressed,
    "groupings": _groupings,
    "reads-by-size": _reads_by_size,
    "alternatives": _alternatives,
    "masters": _masters,
}
"""The jobs of each part, given a scale and a number of rounds."""


def tiny(work: str, batches: int, engines: list[str], rounds: int) -> Case:
    """Return a case with this many micro-batches of few records, in a separate topic."""
    records = max(batches * TINY_RECORDS * (PARTITIONS if work == "copy" else 1), POOL)
    return Case(work, "small", records / SHAPES["small"].full_records, engines, rounds, warm_up=1)
