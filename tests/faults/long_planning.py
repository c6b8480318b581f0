"""A planner that lives for days, in fast motion: its resources must stay flat over many micro-batches.

``python -m tests.faults.long_planning 100000`` plans 100,000 micro-batches with each kind of group, and without one.
The exit status is 1 if memory, threads, open files, or ZooKeeper's watches and connections have grown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count as numbers
from pathlib import Path

from pyspark_zkafka.testing import LocalCluster
from tests.faults.harness.health import Growth, Limit, growth
from tests.faults.harness.sampling import process_sample, zookeeper_sample
from tests.support.fill import fill

__all__ = ["GROUPS", "grown"]

GROUPS: dict[str, dict[str, str]] = {
    "none": {},
    "ZooKeeper": {"group.id": "long-lived"},
    "Kafka": {"group.id": "long-lived", "groupMembership": "kafka"},
}
"""Stream options for each kind of group."""

DRIVER = Path(__file__).parent / "drivers" / "planner.py"
PARTITIONS = 4
_SAMPLES = 60
_LIMITS = {
    "rss_mb": Limit(0, 16),
    "threads": Limit(0, 1),
    "file_handles": Limit(0, 2),
    "watches": Limit(0, 2),
    "connections": Limit(0, 1),
}
_names = numbers()


def grown(cluster: LocalCluster, group: str, count: int) -> Iterator[Growth]:
    """Yield the growth of each figure over `count` micro-batches of a new topic, each with one record per partition.

    `group` is a key of `GROUPS`. Raises RuntimeError if the planner fails.
    """
    topic = f"planned-{next(_names)}"
    cluster.create_topic(topic, partitions=PARTITIONS)
    fill(cluster, topic, count, range(PARTITIONS))
    options = {
        "zookeeper.connect": cluster.zookeeper_connect,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(PARTITIONS),
        **GROUPS[group],
    }
    arguments = [json.dumps(options), str(count), str(max(count // _SAMPLES, 1))]
    series: dict[str, list[float]] = {name: [] for name in _LIMITS}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(DRIVER), *arguments], stdin=pipe, stdout=pipe, text=True) as planner:
        assert planner.stdout is not None
        for _ in planner.stdout:
            samples = process_sample(group, planner.pid), zookeeper_sample(cluster.port("zookeeper"))
            for name, value in (figure for sample in samples for figure in sample.figures):
                series[name].append(value)
            if len(series["rss_mb"]) == _SAMPLES:
                break
        planner.communicate()
    if planner.returncode != 0:
        raise RuntimeError(f"the planner has ended with {planner.returncode}")
    for name, values in series.items():
        yield growth(group, name, values, _LIMITS[name])


def main(count: int) -> int:
    """Plan with every kind of group and return the exit status."""
    failed = False
    with LocalCluster(brokers=1) as cluster:
        for group in GROUPS:
            began = time.monotonic()
            for found in grown(cluster, group, count):
                sys.stdout.write(f"group {group}: {found.figure} {found.first:.1f}, then {found.last:.1f}\n")
                failed |= not found.flat
            sys.stdout.write(f"group {group}: {count} micro-batches in {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
    sys.stdout.write("something has grown\n" if failed else "all is flat\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
