"""Exactly-once copies that run for minutes while applications, workers and brokers are killed at random moments.

``python -m tests.faults.exactly_once.soak 20`` runs for 20 minutes, then heals, drains and counts. The exit status is 1 if
a row is lost, if a reader of committed records sees it twice, or if a query found that it does not repeat its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from pyspark_zkafka.brokers.ledger_offsets import Ledger
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.ledger import QueryName
from pyspark_zkafka.testing import LocalCluster
from tests.faults.harness.checker import Figures
from tests.faults.harness.report import ANY_FAULT, Row
from tests.faults.harness.summary import Episode, next_number, next_run, recorded
from tests.support.applications import Application, Outcome, Request
from tests.support.numbered_rows import numbers
from tests.support.processes import alive, parent_of

SOURCE, PARTITIONS, SLOTS = "source", 4, 4
SINKS = "exactly-once", "exactly-once-foreach"
ROWS_PER_S = 200
SAFE = {"min.insync.replicas": "2"}
QUIET_S = 2.0, 12.0
"""Range of the time between two faults."""
HALT_S = 1.0, 20.0
DOWN_S = 0.0, 15.0
SELF_INFLICTED = {
    *("ROWS_DIFFER", "LAYOUT_CHANGED", "CHECKPOINT_ROLLED_BACK", "WRITTEN_TWICE"),
    *("UNREADABLE_LEDGER", "LEDGER_MOVED", "LEDGER_FORGOTTEN", "CHECKPOINT_SHARED"),
}


class Rows(threading.Thread):
    """Adds numbered rows to the source until `stop`."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="rows", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "delivery.timeout.ms": 0, "linger.ms": 20}
        )
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._acknowledged = 0
        self.count = 0

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.1):
                self._send(ROWS_PER_S // 10)
        except Exception as error:  # noqa: BLE001 - raised by `stop`
            self._failure = error

    def stop(self) -> int:
        """Stop, and return the number of rows, all acknowledged by the brokers. Raises the error that ended the thread."""
        self._stopped.set()
        self.join()
        if self._failure is not None:
            raise self._failure
        assert self._producer.flush(120) == 0
        assert self._acknowledged == self.count, f"{self.count} rows were sent, and {self._acknowledged} acknowledged"
        return self.count

    def _send(self, rows: int) -> None:
        for _ in range(rows):
            key, place = str(self.count % 10), self.count % PARTITIONS
            self._producer.produce(SOURCE, str(self.count), key, partition=place, on_delivery=self._note)
            self.count += 1
        self._producer.poll(0)

    def _note(self, error: object, message: object) -> None:
        self._acknowledged += error is None


class Query(threading.Thread):
    """A query that restarts whenever it ends; after `drain`, it runs until it has read everything."""

    def __init__(self, cluster: LocalCluster, folder: Path, sink: str, *, foreach: bool) -> None:
        super().__init__(name=sink, daemon=True)
        self.sink, self.checkpoint = sink, folder / "checkpoint"
        self.application = Application(folder, cores=SLOTS, task_failures=3)
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        reading = {"subscribe": SOURCE, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2000"}
        writing = {"topic": sink, "deliveryGuarantee": "exactly-once", "kafka.transaction.timeout.ms": "60000"}
        self._request = Request(
            checkpoint=str(self.checkpoint),
            source={**servers, **reading},
            writes=[{**servers, **writing}],
            repartition=[SLOTS],
            foreach=foreach,
            trigger={"processingTime": "0 seconds"},
        )
        self._writer = sink if foreach else ""
        self._servers = cluster.bootstrap_servers
        self._is_draining = threading.Event()
        self._begun_at = time.monotonic()
        self.figures: Counter[str] = Counter()

    def run(self) -> None:
        while True:
            drains = self._is_draining.is_set()
            outcome = self._run_once(replace(self._request, trigger={"availableNow": True}) if drains else self._request)
            if drains and not outcome.killed and outcome.error is None:
                return
            self.figures["starts"] += 1
            if outcome.error is not None:
                self._note(outcome.error)
            if (found := self._recorded()) > 0:
                self.figures["replays that find recorded slots"] += 1
                self.figures["recorded slots"] += found

    def drain(self) -> None:
        """Kill the query and let it run until it has read everything; returns when it has."""
        self._is_draining.set()
        self.application.kill_processes()
        self.join(600)
        assert not self.is_alive(), f"{self.sink} is not drained after 600 s"

    @property
    def batches(self) -> int:
        """Number of completed micro-batches."""
        return last_number(self.checkpoint / "commits") + 1

    def _note(self, error: str) -> None:
        condition = condition_of(error)
        self.figures[f"errors {condition}"] += 1
        if condition in SELF_INFLICTED:
            sys.stdout.write(f"{self.sink}, after {time.monotonic() - self._begun_at:.0f} s: {error}\n")
            sys.stdout.flush()

    def _run_once(self, request: Request) -> Outcome:
        self.application.start(request)
        return self.application.wait(timeout_s=1e6)

    def _recorded(self) -> int:
        """Return the number of the incomplete micro-batch's slots in the ledger, which the next run will find."""
        pending = last_number(self.checkpoint / "offsets")
        if pending < self.batches:
            return 0
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        ledger = Ledger(self._servers, {}, QueryName("zkafka", query, self._writer), self.sink, PARTITIONS)
        with suppress(ZKafkaError):  # brokers are down: not counted
            return sum(entry.batch == pending for entry in ledger.entries().values())
        return 0


def condition_of(error: str) -> str:
    """Return the condition of this package's error within Spark's text, or Spark's own condition."""
    found = re.findall(r"\[([A-Z][A-Z0-9_.]+)\]", error)
    ours = [name for name in found if name in SELF_INFLICTED]
    return (ours or found[-1:] or ["of Spark"])[0]


def last_number(folder: Path) -> int:
    """Return the greatest number that is a file name in the folder; -1 without one."""
    return max((int(entry.name) for entry in folder.glob("*") if entry.name.isdigit()), default=-1)


class Faults:
    """Random faults, one after another; `figures` counts them."""

    def __init__(self, cluster: LocalCluster, queries: list[Query], seed: int) -> None:
        self._cluster = cluster
        self._queries = queries
        self._random = random.Random(seed)
        self._restarting: Future[None] | None = None
        self._later = ThreadPoolExecutor()
        self.figures: Counter[str] = Counter()
        self._kinds = (self.kill_application, self.kill_worker, self.halt_worker, self.kill_broker)

    def inject(self, until: float) -> None:
        """Inject faults until a time; returns when every halted or stopped process runs again."""
        while time.monotonic() < until:
            time.sleep(self._random.uniform(*QUIET_S))
            if (done := self._random.choice(self._kinds)(self._random.choice(self._queries))) is not None:
                self.figures[done] += 1
        self._later.shutdown()
        if self._restarting is not None:
            self._restarting.result()

    def kill_application(self, query: Query) -> str:
        """Send SIGKILL to all processes."""
        query.application.kill_processes()
        return "applications killed"

    def kill_worker(self, query: Query) -> str | None:
        """Send SIGKILL to one worker."""
        worker = self._worker(query)
        if worker is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        return "workers killed"

    def halt_worker(self, query: Query) -> str | None:
        """Send SIGSTOP to one worker, and SIGCONT later; if its application dies meanwhile, the kernel ends it."""
        worker = self._worker(query)
        if worker is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGSTOP)
        self._later.submit(resume, worker, self._random.uniform(*HALT_S))
        return "workers halted"

    def kill_broker(self, query: Query) -> str | None:
        """Send SIGKILL to the next broker in turn and restart it later; one broker is down at a time."""
        if self._restarting is not None and not self._restarting.done():
            return None
        broker = self.figures["brokers killed"] % self._cluster.brokers
        self._cluster.kill(broker)
        pause_s = self._random.uniform(*DOWN_S)
        self._restarting = self._later.submit(lambda: (time.sleep(pause_s), self._cluster.restart(broker))[1])
        return "brokers killed"

    def _worker(self, query: Query) -> int | None:
        """Return a random Python worker, a child of Spark's daemon."""
        daemons = {pid for pid, line in query.application.processes.items() if "pyspark.daemon" in line}
        with suppress(ProcessLookupError, FileNotFoundError):
            workers = sorted(pid for pid in daemons if parent_of(pid) in daemons)
            return self._random.choice(workers) if workers else None
        return None


def resume(pid: int, after_s: float) -> None:
    """Resume a halted worker after a pause."""
    time.sleep(after_s)
    if alive(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def started(folder: Path) -> Iterator[tuple[LocalCluster, Rows, list[Query]]]:
    """Start a cluster, the rows and two queries: one plain, one with foreachBatch."""
    with ExitStack() as opened:
        cluster = opened.enter_context(LocalCluster(brokers=3))
        for topic in (SOURCE, *SINKS):
            cluster.create_topic(topic, partitions=PARTITIONS, replication=3, config=SAFE)
        queries = [Query(cluster, folder / sink, sink, foreach=sink == SINKS[1]) for sink in SINKS]
        for query in queries:
            opened.callback(query.application.close)
        rows = Rows(cluster.bootstrap_servers)
        for thread in (rows, *queries):
            thread.start()
        yield cluster, rows, queries


def soak(minutes: float, seed: int, folder: Path) -> Iterator[Row]:
    """Copy rows under faults, then heal, drain and judge each query."""
    with started(folder) as (cluster, rows, queries):
        faults = Faults(cluster, queries, seed)
        faults.inject(time.monotonic() + minutes * 60)
        cluster.wait_ready()
        healed_at, total = time.monotonic(), rows.stop()
        assert total, "no row was sent"
        assert faults.figures, "no fault was injected"
        for query in queries:
            query.drain()
        rest_s = time.monotonic() - healed_at
        sys.stdout.write("".join(f"{name}: {count}\n" for name, count in sorted(faults.figures.items())))
        for query in queries:
            yield judged(query, numbers(cluster.bootstrap_servers, query.sink), total, faults.figures, rest_s)


def judged(query: Query, seen: Counter[int], total: int, faults: Counter[str], rest_s: float) -> Row:
    """Compare the rows in a query's sink with the rows of the source, numbered from 0 up to `total`."""
    lost, twice = len(range(total) - seen.keys()), sum(count > 1 for count in seen.values())
    unknown = len(seen.keys() - set(range(total)))
    shown = {"rows": total, "lost": lost, "twice": twice, "micro-batches": query.batches, **query.figures}
    sys.stdout.write(f"{query.sink}: " + ", ".join(f"{count} {name}" for name, count in shown.items()) + "\n")
    errors = {name: count for name, count in query.figures.items() if name.startswith("errors ")}
    wrong = {"rows lost": lost, "rows twice": twice, "rows that nobody sent": unknown}
    wrong |= {name: count for name, count in errors.items() if name.removeprefix("errors ") in SELF_INFLICTED}
    figures = Figures(
        faults=dict(faults),
        acknowledged=total,
        unacknowledged=0,
        batches=query.batches,
        lost=lost,
        duplicated=twice,
        runs=query.figures["starts"] + 1,
        failures=sum(errors.values()),
        recovery_s=rest_s,
    )
    return Row(ANY_FAULT, query.sink, figures, tuple(f"{name}: {count}" for name, count in wrong.items() if count))


def main() -> int:
    """Run the soak; the exit status is 1 if it found a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.exactly_once.soak")
    parser.add_argument("minutes", nargs="?", type=float, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="of the faults; their effects vary")
    parser.add_argument("--append", type=Path, metavar="FOLDER", help="add the run to those in a folder, and report on all")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sys.stdout.write(f"seed {given.seed}\n")
    sys.stdout.flush()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        rows: list[Row] = []
        if given.append is not None:
            episode = Episode(
                run=next_run(given.append, given.seed, given.minutes),
                number=next_number(given.append),
                seed=given.seed,
                duration_s=given.minutes * 60,
                faults=ANY_FAULT,
                workloads=SINKS,
            )
            rows = opened.enter_context(recorded(given.append, episode))
        rows += soak(given.minutes, given.seed, folder)
    failed = any(row.violations for row in rows)
    sys.stdout.write("failed\n" if failed else "each row once\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
