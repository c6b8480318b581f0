"""Reads one topic repeatedly in a separate application, on one core, with Spark's defaults.

Run as a module: ``python -m benchmarks.backfill ENGINE`` writes a line when it is warm, starts after a line of input, and
ends with its input. Then it writes the number of records read, and the seconds.
"""

from __future__ import annotations

import select
import sys
import time

from benchmarks import topics
from benchmarks.cluster import running
from benchmarks.engines import ENGINES
from benchmarks.session import opened
from benchmarks.works import Read

_SCALE = 1.0


def main(engine: str) -> None:
    """Read the topic repeatedly until the input ends."""
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    topic = topics.filled(cluster, "small", _SCALE)
    with opened("local[1]", cluster, "defaults") as bench:
        read = Read(bench, topic)
        read.act(ENGINES[engine])
        _say("warm")
        sys.stdin.readline()
        begin, times = time.monotonic(), 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            read.act(ENGINES[engine])
            times += 1
        _say(f"{times * topic.facts.records} {time.monotonic() - begin:.1f}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
