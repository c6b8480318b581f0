"""A streaming query that writes exactly once: its checkpoint, its runs, and the tasks that outlive them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark_zkafka.model.exactly_once import Attempt
from pyspark_zkafka.model.ledger import QueryName
from tests.simulation.jobs import Cluster, Job
from tests.simulation.plans import LAYOUTS, Plan
from tests.simulation.tasks import QUERY, Executor, Task
from tests.simulation.transactions import Broker, Row

PREFIX = "zkafka"


class Form(Enum):
    """The way in which a query writes."""

    SINK = "writeStream"
    FOREACH = "foreachBatch with writes that have names of their own"
    SAME_NAME = "foreachBatch with two writes under the same name"
    BATCH_JOB = "numbered batch jobs, each run again until it is complete"


class Naming(Enum):
    """How a write that has a name is identified."""

    UNNUMBERED = "by the id of its query: without batchId"
    NUMBERED = "with batchId"
    CONNECT = "with batchId, where Spark does not say which micro-batch it belongs to"


@dataclass(frozen=True)
class Settings:
    """A query as its user wrote it.

    Attributes
    ----------
    writes : int
        The number of writes of a micro-batch.
    is_named : bool
        True if the user gave each write a name.
    tries : int
        How often a foreachBatch function tries a write.
    cores : tuple of int
        The cores of each executor.
    max_failures : int
        How often a task may fail: 4 by default, 1 in local mode.
    """

    form: Form
    writes: int
    is_named: bool
    tries: int
    cores: tuple[int, ...]
    max_failures: int

    @property
    def is_foreach(self) -> bool:
        return self.form in (Form.FOREACH, Form.SAME_NAME)


class Run:
    """A run of the query: a driver, its executors and the current job.

    `write` counts the finished writes of the micro-batch, `tries` the failed tries of the next one.
    """

    def __init__(self, name: str, cores: Sequence[int]) -> None:
        self.name = name
        self.executors = [Executor(number) for number in cores]
        self.job: Job | None = None
        self.write = 0
        self.tries = 0


class Query:
    """A checkpoint, and the runs on it, one after another.

    Attributes
    ----------
    completed : int
        The number of completed micro-batches, which is the number of the next one.
    layout : int
        The layout of the run, or of the last one.
    run : Run, optional
        The current run.
    zombies : list of Task
        Attempts that no run waits for any more.
    layouts : dict
        The layouts with which each micro-batch was tried, in order.
    prefix : str
        The prefix of its names.
    prefixes : dict
        The prefixes with which each micro-batch was tried, in order.
    naming : Naming
        How its writes are identified.
    namings : dict
        The namings with which each micro-batch was tried, in order.
    accepted : list of Row
        The rows of the tasks of the micro-batch that have succeeded, in the complete writes of this run.
    """

    def __init__(self, broker: Broker, plan: Plan, settings: Settings, chance: random.Random) -> None:
        self.broker = broker
        self.plan = plan
        self.settings = settings
        self.completed = 0
        self.layout = 0
        self.run: Run | None = None
        self.zombies: list[Task] = []
        self.layouts: dict[int, list[int]] = {}
        self.prefix = PREFIX
        self.prefixes: dict[int, list[str]] = {}
        self.naming = Naming.UNNUMBERED
        self.namings: dict[int, list[Naming]] = {}
        self.on_completed: Callable[[int], None] = lambda batch: None
        self.accepted: list[Row] = []
        self._chance = chance
        self._names = 0

    @property
    def tasks(self) -> list[Task]:
        """The attempts that the run waits for."""
        return self.run.job.tasks if self.run is not None and self.run.job is not None else []

    def rows(self, batch: int) -> list[tuple[int, ...]]:
        """Return the identities of all rows of a micro-batch."""
        return [row for write in range(self.settings.writes) for row in self.plan.rows(batch, write)]

    def start(self, layout: int, cores: Sequence[int]) -> None:
        """Start another run."""
        self._change_layout(layout)
        self.run = Run(self._unique("run"), cores)
        self.accepted = []

    def end(self) -> None:
        """End the run; some of its tasks live on."""
        if self.run is not None:
            self._stop_job(self.run)
        self.run = None

    def advance(self) -> None:
        """Make the driver's next move: start a write, go to the next one, or complete the micro-batch.

        Raises JobFailed if the driver refuses what its tasks have done.
        """
        if self.run is None or (self.run.job is not None and not self.run.job.is_complete):
            return
        if self.run.job is not None:
            self.run.job.commit()
            self.accepted += [row for task in self.run.job.accepted.values() for row in task.rows]
            self._stop_job(self.run)
            self.run.write, self.run.tries = self.run.write + 1, 0
        elif self.run.write < self.settings.writes:
            self.run.job = self._job(self.run)
        else:
            self._complete(self.run)

    def try_again(self) -> bool:
        """Retry the failed write, perhaps in another layout; returns False if the user's function does not try again."""
        run = self.run
        if run is None or not self.settings.is_foreach or run.tries + 1 >= self.settings.tries:
            return False
        self._stop_job(run)
        run.tries += 1
        if self.settings.writes == 1 and self._chance.random() < 0.7:
            self._change_layout(self._chance.randrange(LAYOUTS))
        return True

    def _change_layout(self, layout: int) -> None:
        """Write in another layout from now on, without zombies of the last one: test_known_limits has their effects."""
        if layout != self.layout:
            self.zombies.clear()
        self.layout = layout

    def _leave(self, tasks: Sequence[Task]) -> None:
        """Let each of these tasks die with its process or live on."""
        self.zombies += [task for task in tasks if self._chance.random() < 0.5]

    def _complete(self, run: Run) -> None:
        batch, self.completed, run.write = self.completed, self.completed + 1, 0
        if self.settings.form is Form.BATCH_JOB:
            run.name = self._unique("job")
        self.on_completed(batch)
        self.accepted = []

    def _stop_job(self, run: Run) -> None:
        if run.job is not None:
            run.job.stop()
        run.job = None

    def _job(self, run: Run) -> Job:
        batch, write, layout = self.completed, run.write, self.layout
        self.layouts.setdefault(batch, []).append(layout)
        self.prefixes.setdefault(batch, []).append(self.prefix)
        self.namings.setdefault(batch, []).append(self.naming)
        slots = len(self.plan.slots(batch, write, layout))

        def compute(slot: int) -> Sequence[Row]:
            return self.plan.compute(batch, write, layout, slot, self._chance)

        def has_fresh_worker() -> bool:
            return self._chance.random() < 0.2

        cluster = Cluster(self.broker, run.executors, self.settings.max_failures, self._leave, has_fresh_worker)
        return Job(cluster, self._writer(run), self._attempt(run), slots, compute)

    def _writer(self, run: Run) -> QueryName:
        own = f"writer{run.write}" if self.settings.form is Form.FOREACH else "orders"
        if self.naming is not Naming.UNNUMBERED:
            return QueryName.numbered(self.prefix, own)
        return QueryName(self.prefix, QUERY, own if self.settings.is_foreach else "")

    def _attempt(self, run: Run) -> Attempt:
        write = self._unique("write") if self.settings.is_foreach else ""
        if self.naming is Naming.CONNECT:
            return Attempt(0, self.completed, write, is_job=True)
        is_job = self.settings.form is Form.BATCH_JOB
        return Attempt(0, self.completed, run.name, write, is_named=self.settings.is_named, is_job=is_job)

    def _unique(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"
