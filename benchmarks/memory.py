"""Memory of a new worker over its tasks, compared with a worker that only passes batches on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.cluster import BenchCluster
from benchmarks.engines import ENGINES, Engine
from benchmarks.job import Case, opened_work
from benchmarks.session import Bench, opened
from benchmarks.usage import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

ENGINE_NAMES = ("ours", "ours-librdkafka", "arrow")
WORKS = (
    ("read", "small", 1.0),
    ("read", "big", 1.0),
    ("read", "events-zstd", 1.0),
    ("read", "huge", 1.0),
    ("read", "tiny", 0.1),
    ("write", "small", 1.0),
    ("write", "big", 1.0),
    ("write", "huge", 1.0),
    ("write", "tiny", 0.1),
)
"""Work, shape, and the number of records in proportion to the scale."""
_MASTER = "local[1]"


def task_memory(cluster: BenchCluster, scale: float, settings: str) -> list[dict[str, Any]]:
    """Return a row in MiB for each work, shape and engine, each with a new session and so new workers."""
    with opened(_MASTER, cluster, settings) as bench:
        bare = _peak(bench, lambda: _pass_on(bench))
    rows = []
    for work, shape, part in WORKS:
        for name in ENGINE_NAMES:
            with opened(_MASTER, cluster, settings) as bench:
                peak = _task(bench, Case(work, shape, scale * part, [name], 1), ENGINES[name])
            rows.append(
                {
                    "work": f"{work} {shape}",
                    "engine": ENGINES[name].label,
                    "worker MiB": round(peak),
                    "bare worker MiB": round(bare),
                    "above it MiB": round(peak - bare),
                }
            )
    return rows


def _task(bench: Bench, case: Case, engine: Engine) -> float:
    with opened_work(bench, case) as work:

        def act() -> None:
            work.begin()
            work.verify(engine, work.act(engine))

        return _peak(bench, act)


def _peak(bench: Bench, act: Callable[[], None]) -> float:
    meter = Meter(bench.cluster.pid)
    meter.start()
    act()
    return meter.stop().worker_peak_mb


def _pass_on(bench: Bench) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy  # noqa: F401  # as every path does

        yield from batches

    bench.spark.range(1_000_000).mapInArrow(same, "id long").write.format("noop").mode("overwrite").save()
