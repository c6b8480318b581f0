"""What ``make bench`` measures, by default and quickly."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.job import TINY_RECORDS, Case, Job
from benchmarks.session import STANDALONE
from benchmarks.shapes import POOL, SHAPES

COMPARED = ["ours", "python", "jvm", "jvm-tuned"]
EVERYTHING = [
    "ours",
    "python",
    "ours-nocrc",
    "ours-noidem",
    "jvm",
    "jvm-tuned",
    "mapinarrow",
    "librdkafka",
    "arrow",
]
LARGE = ["ours", "jvm-tuned", "arrow"]
WRITTEN = ["ours", "ours-once", *EVERYTHING[1:]]
STREAMED = ["ours", "ours-joined", "python", "jvm", "jvm-tuned", "arrow"]
MAIN = ["ours", "jvm", "jvm-tuned"]
_TWO = ("small", "big")


@dataclass(frozen=True)
class Extras:
    """How much is measured beside throughput."""

    latency_s: float = 20.0
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
    once_batches: int = 50
    once_rounds: int = 3


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
    once_batches=25,
    once_rounds=1,
)


def full(scale: float, rounds: int, *, unix_sockets: bool) -> list[Job]:
    """Everything at local[2]; reads and keyed writes of small and big records, half as many, at the other masters.

    Streams are of twice as many records: a query's start is a second or so of its time. Reads of small records are also of
    twice and of ten times as many, by the engines for which fixed costs count.
    """
    local = [Case("read", shape, scale, EVERYTHING, rounds) for shape in _TWO]
    local += [Case("read", shape, scale, COMPARED, rounds) for shape in ("events-lz4", "events-zstd")]
    local += [Case("value", shape, scale, COMPARED, rounds) for shape in _TWO]
    local += [Case("group", shape, scale, COMPARED, rounds) for shape in _TWO]
    sizes = [(factor, work) for factor in (2, 10) for work in ("read", "value")]
    local += [Case(work, "small", factor * scale, LARGE, min(rounds, 3), warm_up=1) for factor, work in sizes]
    local += [Case("stream20", shape, 2 * scale, STREAMED, rounds) for shape in _TWO]
    local += [tiny(200, ["ours", "ours-joined", "jvm", "jvm-tuned", "arrow"], min(rounds, 2))]
    local += [Case("write", shape, scale, WRITTEN, rounds) for shape in _TWO]
    local += [Case("write-nokey", shape, scale, MAIN, rounds) for shape in _TWO]
    others = [Case(work, shape, scale / 2, MAIN, rounds) for work in ("read", "write") for shape in _TWO]
    masters = ("local[1]", "local[4]", STANDALONE)
    return [Job("local[2]", local, unix_sockets), *(Job(master, others, unix_sockets) for master in masters)]


def quick(scale: float, rounds: int, *, unix_sockets: bool) -> list[Job]:
    """A little of everything, at local[2]: to see that it works."""
    cases = [Case("read", "small", scale, EVERYTHING, rounds), Case("read", "big", scale, MAIN, rounds)]
    cases += [Case("read", shape, scale, ["ours", "python"], rounds) for shape in ("events-lz4", "events-zstd")]
    cases += [Case(work, "small", scale, ["ours", "jvm-tuned"], rounds) for work in ("value", "group", "stream20")]
    cases += [tiny(20, ["ours", "jvm"], rounds)]
    cases += [Case("write", "small", scale, WRITTEN, rounds), Case("write", "big", scale, MAIN, rounds)]
    cases += [Case("write-nokey", "small", scale, ["ours", "jvm"], rounds)]
    return [Job("local[2]", [replace(case, warm_up=0) for case in cases], unix_sockets)]


def tiny(batches: int, engines: list[str], rounds: int) -> Case:
    """So many micro-batches of a few records each; of a topic of their own."""
    records = max(batches * TINY_RECORDS, POOL)
    return Case("stream200", "small", records / SHAPES["small"].full_records, engines, rounds, warm_up=1)
