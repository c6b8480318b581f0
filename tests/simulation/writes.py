"""A query's exactly-once writes under random schedules, and their invariants after each event."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import LedgerKey
from tests.simulation.jobs import JobFailed
from tests.simulation.micro_batches import PREFIX, Form, Naming, Query, Settings
from tests.simulation.plans import LAYOUTS, Plan, Repeats
from tests.simulation.schedules import Failure, simulated
from tests.simulation.tasks import MAX_WAIT_MS, Executor, Task
from tests.simulation.transactions import TRANSACTION_TIMEOUT_MS, Broker, Fenced, Row

STEPS = 250
KINDS = ("exactly-once",)
FOREIGN = "committed by hand"

# Why a query may stop with a condition: events since its micro-batch was first tried, or the way it is written.
REASONS = {
    "ROWS_DIFFER": {"layout", "plan", "same name"},
    "LAYOUT_CHANGED": {"layout", "plan", "same name", "cores", "zombie", "stall"},
    # A write of a foreachBatch waits for other recorded ones. It waits in vain if a stall ends the wait before their marks
    # are visible, or if the plan gave it no rows before: then it waits for writes that come after it.
    "LEDGER_MOVED": {"renamed", "plan", "stall"},
    "CHECKPOINT_ROLLED_BACK": {"rollback"},
    "WRITTEN_TWICE": {"same name", "second try"},
    "UNREADABLE_LEDGER": {"unreadable"},
    "CHECKPOINT_SHARED": {"zombie"},  # verifies a slot after the run that replaced its own
}


class TaskDied(Exception):
    """A task died with its process."""


class Writes:
    """A query that owes each row of its completed micro-batches, visible once."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = Broker(self._note_visible)
        self.events: list[str] = []
        self._visible: Counter[tuple[int, ...]] = Counter()
        self._values: dict[int, Counter[str]] = {}
        self._reasons: set[str] = set()
        self._latest: int | None = None
        self._kept_since = 0
        self._unreadable: dict[LedgerKey, str] = {}
        self._is_calm = False
        self._completing = self.chance.choice((0.3, 5))
        self._changing = self.chance.choice((0.1, 0.5))
        self._killing = self.chance.choice((0.1, 1.5))
        self._renaming = self.chance.choice((0, 0, 1))
        repeats = self.chance.choices(tuple(Repeats), (6, 1, 1, 3))[0]
        self.query = Query(self.broker, Plan(seed, repeats), self._settings(), self.chance)
        self._renumbering = 1 if self.query.settings.is_named and not self._renaming else 0
        self.query.on_completed = self._check_completed
        self.query.start(0, self.query.settings.cores)

    def _settings(self) -> Settings:
        form = self.chance.choices(tuple(Form), (5, 4, 1, 1))[0]
        writes = {Form.FOREACH: self.chance.choice((1, 1, 2)), Form.SAME_NAME: 2}.get(form, 1)
        is_named = form is Form.FOREACH and self.chance.random() < 0.7
        cores = tuple(self.chance.randint(1, 2) for _ in range(self.chance.randint(1, 2)))
        return Settings(form, writes, is_named, self.chance.randint(1, 3), cores, self.chance.choice((1, 2, 4, 4)))

    # --- events --------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Run a random schedule, then a time without faults."""
        for _ in range(steps):
            self.something()
        self.come_to_rest()

    def something(self) -> None:
        """Make one event happen and note it."""
        actions: Sequence[tuple[float, Callable[[], None]]] = (
            (60, self._step),
            (12, self._step_zombie),
            (self._completing, self._complete),
            (2, self._pass_time),
            (0.6, self._stall),
            (2, self._die),
            (0.5, self._lose_executor),
            (1, self._speculate),
            (1, self._repeat_stage),
            (self._killing, self._kill),
            (0.5, self._bury),
            (4, self._restart),
            (2, self._roll_back),
            (self._renaming, self._rename),
            (self._renumbering, self._renumber),
            (0.5, self._expire),
            (0.2, self._overwrite),
            (0.5, self._repair),
        )
        action = self.chance.choices([action for _, action in actions], [weight for weight, _ in actions])[0]
        self.events.append(action.__name__.strip("_"))
        action()

    def _step(self) -> None:
        if self.query.tasks:
            self._step_task(self.chance.choice(self.query.tasks))
        else:
            self._advance()

    def _advance(self) -> None:
        try:
            self.query.advance()
        except JobFailed as failed:
            self._fail(failed)

    def _step_task(self, task: Task) -> None:
        assert self.query.run is not None
        assert self.query.run.job is not None
        try:
            self.query.run.job.step(task)
        except JobFailed as failed:
            self._fail(failed)

    def _step_zombie(self) -> None:
        if self.query.zombies:
            self._reasons.add("zombie")
            task = self.chance.choice(self.query.zombies)
            try:
                lives = task.step()
            except (Fenced, LedgerError):
                lives = False
            if not lives:
                self.query.zombies.remove(task)

    def _complete(self) -> None:
        decided = self.broker.decided()
        if decided:
            self.broker.complete(self.chance.choice(decided))

    def _pass_time(self) -> None:
        self.broker.pass_time(self.chance.randint(100, 5_000))

    def _stall(self) -> None:
        """Let time pass until all waits are over, and perhaps all transactions."""
        self._reasons.add("stall")
        self.broker.pass_time(self.chance.choice((MAX_WAIT_MS, TRANSACTION_TIMEOUT_MS)) + 1)

    def _die(self) -> None:
        if self.query.tasks:
            self._let_fail(self.chance.choice(self.query.tasks))

    def _let_fail(self, task: Task) -> None:
        assert self.query.run is not None
        assert self.query.run.job is not None
        try:
            self.query.run.job.fail(task, TaskDied())
        except JobFailed as failed:
            self._fail(failed)

    def _lose_executor(self) -> None:
        run = self.query.run
        if run is None:
            return
        lost = self.chance.choice(run.executors)
        replacement = [Executor(lost.cores)] if len(run.executors) == 1 or self.chance.random() < 0.7 else []
        if not replacement:
            self._reasons.add("cores")
        run.executors = [*(one for one in run.executors if one is not lost), *replacement]
        if run.job is not None:
            run.job.lose(lost, replacement)

    def _speculate(self) -> None:
        if self.query.run is not None and self.query.run.job is not None:
            self.query.run.job.speculate(self.chance)

    def _repeat_stage(self) -> None:
        if self.query.run is not None and self.query.run.job is not None:
            self.query.run.job.repeat_stage()

    def _kill(self) -> None:
        self.query.end()

    def _bury(self) -> None:
        if self.query.zombies:
            self.query.zombies.remove(self.chance.choice(self.query.zombies))

    def _restart(self) -> None:
        if self.query.run is not None:
            return
        layout = self.chance.randrange(LAYOUTS) if self.chance.random() < self._changing else self.query.layout
        cores = self.query.settings.cores if self.chance.random() < 0.8 else (1,)
        if cores != self.query.settings.cores:
            self._reasons.add("cores")
        self.query.start(layout, cores)

    def _roll_back(self) -> None:
        """Replace the checkpoint by an older copy, as long as the ledger still has what came after it."""
        query, batches = self.query, self.chance.randint(1, 2)
        if query.run is None and self._latest is None and query.completed - batches >= self._kept_since:
            self._latest, query.completed = query.completed, query.completed - batches
            self._reasons.add("rollback")

    def _rename(self) -> None:
        """Change the prefix while the query does not run and no task of earlier runs is left."""
        if self.query.run is None:
            self.query.zombies.clear()
            self.broker.complete_all()
            self.query.prefix = self.chance.choice((PREFIX, "team", "other"))

    def _renumber(self) -> None:
        """Set or omit batchId while the query does not run and no task of earlier runs is left.

        Where Spark does not name the micro-batch, a write that has had a batchId may omit it, but not set it again: it
        would then find its old ledger, and look no further.
        """
        query = self.query
        if query.run is None and self._latest is None:
            query.zombies.clear()
            self.broker.complete_all()
            had_number = any(found is not Naming.UNNUMBERED for tried in query.namings.values() for found in tried)
            is_back = query.naming is Naming.UNNUMBERED and had_number
            namings = [one for one in Naming if not (is_back and one is Naming.CONNECT)]
            query.naming = self.chance.choice(namings)
            self._kept_since = query.completed

    def _expire(self) -> None:
        """Delete some of the ledger between two micro-batches, when no task of earlier ones is left."""
        if self.query.completed in self.query.layouts:
            return
        self.query.zombies.clear()
        self.broker.complete_all()
        self._kept_since = self.query.completed
        for key in [key for key in self.broker.offsets if self.chance.random() < 0.7]:
            del self.broker.offsets[key]

    def _overwrite(self) -> None:
        """Commit an offset under a key of the ledger, as another program could."""
        readable = sorted(self.broker.offsets.keys() - self._unreadable.keys())
        if readable:
            key = self.chance.choice(readable)
            self._unreadable[key], self.broker.offsets[key] = self.broker.offsets[key], FOREIGN
            self._reasons.add("unreadable")

    def _repair(self) -> None:
        for key, metadata in self._unreadable.items():
            if self.broker.offsets.get(key) == FOREIGN:
                self.broker.offsets[key] = metadata
        self._unreadable.clear()

    def _fail(self, failed: JobFailed) -> None:
        """Stop the query after a task has failed too often, unless its own function tries again."""
        if isinstance(failed.error, LedgerError):
            reasons = self._all_reasons()
            assert REASONS[failed.error.condition] & reasons, f"stopped, after {sorted(reasons)}: {failed}"
        if not self._is_calm and self.query.try_again():
            self._reasons |= {"second try", "zombie"}
        else:
            self.query.end()

    # --- end -----------------------------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """End all faults: zombies continue for a while, then are gone.

        The query continues in one of the layouts, and under one of the names, with which it tried its micro-batch.
        """
        self.query.end()
        for _ in range(self.chance.choice((0, 200))):
            self._step_zombie()
        self.query.zombies.clear()
        self._repair()
        self.query.completed = self._latest or self.query.completed
        self.broker.complete_all()
        self.broker.pass_time(2 * TRANSACTION_TIMEOUT_MS)
        self._reasons, self._is_calm = set(), True
        layouts = self.query.layouts.get(self.query.completed, [self.query.layout])
        prefixes = self.query.prefixes.get(self.query.completed, [self.query.prefix])
        namings = self.query.namings.get(self.query.completed, [self.query.naming])
        ways = product(*(dict.fromkeys(reversed(tried)) for tried in (prefixes, namings, layouts)))
        goes_on = any(self._completes(*way) for way in ways)
        assert goes_on or self._all_reasons() & {"plan", "same name"}, "the query completes its micro-batch in no layout"

    def _completes(self, prefix: str, naming: Naming, layout: int) -> bool:
        """Return True if a run in a layout completes the micro-batch and another one."""
        until = self.query.completed + 2
        self.query.prefix, self.query.naming = prefix, naming
        self.query.start(layout, self.query.settings.cores)
        for _ in range(2_000):
            if self.query.run is None or self.query.completed >= until:
                break
            self._advance()
            for task in list(self.query.tasks):
                if task in self.query.tasks:
                    self._step_task(task)
            self.broker.complete_all()
            self.broker.pass_time(1_000)
        return self.query.completed >= until

    # --- invariants ----------------------------------------------------------------------------------------------------

    def _note_visible(self, row: Row) -> None:
        self._visible[row.identity] += 1
        self._values.setdefault(row.identity[0], Counter())[row.value] += 1
        is_twice = self._visible[row.identity] > 1 and self.query.plan.repeats is not Repeats.MOVED
        assert not is_twice, f"row {row.identity} is visible twice"

    def _check_completed(self, batch: int) -> None:
        """Check that a completed micro-batch's rows are visible, or will be when the coordinator writes its markers."""
        written = self._values.get(batch, Counter()) + Counter(
            row.value for row in self.broker.decided_rows() if row.identity[0] == batch
        )
        accepted = Counter(row.value for row in self.query.accepted)
        # A write without rows does not ask for entries under its other names.
        may_differ = self._has_moved(batch) and self.query.plan.repeats in (Repeats.OTHER_ROWS, Repeats.MOVED)
        assert may_differ or written == accepted, f"micro-batch {batch} has {written}, and its tasks had {accepted}"
        if self.query.plan.repeats in (Repeats.THE_SAME, Repeats.OTHER_VALUES):
            decided = {row.identity for row in self.broker.decided_rows()}
            lost = [row for row in self.query.rows(batch) if not self._visible[row] and row not in decided]
            assert not lost, f"micro-batch {batch} is complete without {lost}"
        self._reasons = {"unreadable"} if self._unreadable else set()
        if self._latest is not None and self.query.completed < self._latest:
            self._reasons.add("rollback")
        else:
            self._latest = None

    def _has_moved(self, batch: int) -> bool:
        """Return True if a micro-batch was tried under several names."""
        return any(len(set(tried.get(batch, ()))) > 1 for tried in (self.query.prefixes, self.query.namings))

    def _all_reasons(self) -> set[str]:
        lasting = {
            "layout": len(set(self.query.layouts.get(self.query.completed, ()))) > 1,
            "renamed": self._has_moved(self.query.completed),
            "plan": self.query.plan.repeats is not Repeats.THE_SAME,
            "same name": self.query.settings.form is Form.SAME_NAME,
        }
        return self._reasons | {reason for reason, holds in lasting.items() if holds}


def simulate(seed: int, kind: str = KINDS[0], *, steps: int = STEPS) -> Failure | None:
    """Return the failure of a schedule, or None."""
    return simulated(Writes(seed), seed, kind, steps)
