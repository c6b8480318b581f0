"""Spark jobs that write one write of a micro-batch: their tasks, attempts, failures and copies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.exactly_once import Attempt, require_repeated
from pyspark_zkafka.model.ledger import QueryName, newest
from tests.simulation.tasks import Executor, Task
from tests.simulation.transactions import Broker, Fenced, Row


@dataclass(frozen=True)
class Cluster:
    """Environment of jobs: a broker, executors, the allowed number of task failures, and the fate of abandoned attempts.

    `has_fresh_worker` is True if the next task runs in a new worker.
    """

    broker: Broker
    executors: Sequence[Executor]
    max_failures: int
    leave: Callable[[Sequence[Task]], None]
    has_fresh_worker: Callable[[], bool]


class JobFailed(Exception):
    """A task has failed too often; `error` is its last error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Job:
    """A job that writes the slots of a frame; slots start in order as cores become free, retried ones first.

    Attributes
    ----------
    tasks : list of Task
        The running attempts.
    accepted : dict
        By slot, the attempt that succeeded.
    """

    def __init__(
        self, cluster: Cluster, name: QueryName, attempt: Attempt, slots: int, compute: Callable[[int], Sequence[Row]]
    ) -> None:
        self._cluster = cluster
        self._executors = cluster.executors
        self._name = name
        self._attempt = attempt
        self._compute = compute
        self._pending = list(range(slots))
        self._unfinished = set(range(slots))
        self._failures: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        self.tasks: list[Task] = []
        self.accepted: dict[int, Task] = {}
        self._launch()

    @property
    def is_complete(self) -> bool:
        return not self._unfinished

    def step(self, task: Task) -> None:
        """Take one request of a task; raises JobFailed."""
        try:
            if not task.step():
                self._finish(task)
        except (Fenced, LedgerError) as error:
            self.fail(task, error)

    def fail(self, task: Task, error: Exception) -> None:
        """Retry a task unless a copy of it still runs; raises JobFailed after too many failures."""
        self.tasks.remove(task)
        self._failures[task.slot] += 1
        if self._failures[task.slot] >= self._cluster.max_failures:
            raise JobFailed(error)
        self._retry([task.slot])

    def lose(self, executor: Executor, replacement: Sequence[Executor]) -> None:
        """Lose an executor, and rerun its tasks elsewhere, although some of them may live on."""
        lost = [task for task in self.tasks if task.executor is executor]
        self.tasks = [task for task in self.tasks if task.executor is not executor]
        self._cluster.leave(lost)
        self._executors = [*(one for one in self._executors if one is not executor), *replacement]
        self._retry([task.slot for task in lost])

    def speculate(self, chance: random.Random) -> None:
        """Start a second attempt of a task if a core is free."""
        alone = [task.slot for task in self.tasks if self._copies(task.slot) == 1]
        free = self._free()
        if alone and free is not None:
            self._start(chance.choice(alone), free)

    def repeat_stage(self) -> None:
        """Run the unfinished tasks again as another attempt of the stage, which numbers its attempts anew."""
        left, self.tasks = self.tasks, []
        self._cluster.leave(left)
        self._attempts.clear()
        self._pending = sorted(self._unfinished)
        self._launch()

    def commit(self) -> None:
        """Compare the slots without rows with the ledger, as the driver does. Raises JobFailed."""
        broker = self._cluster.broker
        empty = [task.attempt for task in self.accepted.values() if task.is_open]
        if not empty:
            return
        keys = [key for group in broker.groups(self._name) for key in broker.keys(group)]
        broker.complete_decided(keys)
        try:
            require_repeated(empty, newest(broker.entries(keys)))
        except LedgerError as error:
            raise JobFailed(error) from error

    def stop(self) -> None:
        """End the job."""
        left, self.tasks, self._pending = self.tasks, [], []
        self._cluster.leave(left)

    def _finish(self, task: Task) -> None:
        self.accepted[task.slot] = task
        copies = [one for one in self.tasks if one.slot == task.slot]
        self.tasks = [one for one in self.tasks if one.slot != task.slot]
        self._cluster.leave([one for one in copies if one is not task])
        self._unfinished.discard(task.slot)
        self._launch()

    def _retry(self, slots: Sequence[int]) -> None:
        again = {slot for slot in slots if slot in self._unfinished and not self._copies(slot)}
        self._pending = [*sorted(again), *self._pending]
        self._launch()

    def _launch(self) -> None:
        while self._pending and (free := self._free()) is not None:
            self._start(self._pending.pop(0), free)

    def _start(self, slot: int, executor: Executor) -> None:
        attempt = replace(self._attempt, slot=slot, is_retry=self._attempts[slot] > 0)
        self._attempts[slot] += 1
        if self._cluster.has_fresh_worker():
            executor.seen.clear()
        self.tasks.append(Task(self._cluster.broker, executor, self._name, attempt, self._compute(slot)))

    def _copies(self, slot: int) -> int:
        return sum(task.slot == slot for task in self.tasks)

    def _free(self) -> Executor | None:
        busy = Counter(id(task.executor) for task in self.tasks)
        return next((one for one in self._executors if busy[id(one)] < one.cores), None)
