"""Chosen schedules of exactly-once writes: known limits, and cases that random schedules rarely meet or leave out.

A task fences only the slot that it writes. An attempt of an earlier run can therefore commit in a slot that the new run
does not have, or has not begun yet. In the same layout its rows are those of the slot, and the new run finds them recorded;
in another layout they may be rows of slots that are already written. Random schedules have no such attempts after a change
of the layout.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.exactly_once import Commit, Send, Step
from tests.simulation.jobs import JobFailed
from tests.simulation.micro_batches import PREFIX, Form, Query, Settings
from tests.simulation.plans import Plan, Repeats
from tests.simulation.tasks import MAX_WAIT_MS, Task
from tests.simulation.transactions import Broker, Fenced, Row

SETTINGS = Settings(Form.SINK, writes=1, is_named=False, tries=1, cores=(1,), max_failures=1)


class PlanByHand(Plan):
    """Rows by number, and the slots of each layout, chosen by hand."""

    def __init__(self, layouts: Mapping[int, Sequence[Sequence[int]]]) -> None:
        super().__init__(0, Repeats.THE_SAME)
        self._layouts = layouts

    def rows(self, batch: int, write: int) -> Sequence[tuple[int, ...]]:
        return [(batch, write, n) for slot in self._layouts[0] for n in slot]

    def _slots(self, batch: int, write: int, layout: int) -> Sequence[Sequence[tuple[int, ...]]]:
        return [[(batch, write, n) for n in slot] for slot in self._layouts[layout]]


class Steps:
    """A query or a batch job that is stepped by hand."""

    def __init__(self, *layouts: Sequence[Sequence[int]], form: Form = Form.SINK) -> None:
        self.visible: Counter[tuple[int, ...]] = Counter()
        self.broker = Broker(self._note_visible)
        chance = random.Random(0)
        chance.random = lambda: 0.4  # type: ignore[method-assign]  # every abandoned attempt and every worker lives on
        plan, settings = PlanByHand(dict(enumerate(layouts))), replace(SETTINGS, form=form)
        self.query = Query(self.broker, plan, settings, chance)

    def _note_visible(self, row: Row) -> None:
        self.visible[row.identity] += 1

    @property
    def duplicates(self) -> list[tuple[int, ...]]:
        return sorted(row for row, times in self.visible.items() if times > 1)

    def begin(self, layout: int, *cores: int) -> None:
        """Start a new run, and the job of its micro-batch."""
        self.query.end()
        self.query.start(layout, cores)
        self.query.advance()

    def copy(self, slot: int) -> Task:
        """Start a speculative second attempt of a slot on the last executor."""
        assert self.query.run is not None
        assert self.query.run.job is not None
        self.query.run.job._start(slot, self.query.run.executors[-1])
        return self.query.tasks[-1]

    def task(self, slot: int) -> Task:
        """Return the attempt of a slot that the run waits for."""
        return next(task for task in self.query.tasks if task.slot == slot)

    def finish(self, *slots: int) -> None:
        """Let tasks of the run return, one after another."""
        for slot in slots:
            task = self.task(slot)
            while task in self.query.tasks:
                self.step(task)
                self.let_pass()

    def step(self, task: Task) -> None:
        assert self.query.run is not None
        assert self.query.run.job is not None
        self.query.run.job.step(task)

    def run(self) -> None:
        """Let the run complete its micro-batch; raises JobFailed."""
        until = self.query.completed + 1
        while self.query.completed < until:
            for task in self.query.tasks:
                self.step(task)
            self.let_pass()
            self.query.advance()

    def let_pass(self) -> None:
        """Let some time pass, in which the coordinator completes decided transactions."""
        self.broker.complete_all()
        self.broker.pass_time(MAX_WAIT_MS // 100)


def let_return(task: Task, steps: Steps) -> None:
    """Let an abandoned attempt return."""
    while task.step():
        steps.let_pass()
    steps.let_pass()


def step_until(task: Task, holds: Callable[[Task], bool]) -> None:
    while not holds(task):
        assert task.step()


def test_zombie_of_another_layout() -> None:
    """Rows are duplicated if an earlier run's attempt commits after a run in another layout has read the ledger."""
    steps = Steps([[1], [2]], [[1, 2]])
    steps.begin(0, 2)
    zombie = steps.task(1)
    step_until(zombie, lambda task: task._is_open)
    steps.begin(1, 2)
    steps.run()
    assert not steps.duplicates
    let_return(zombie, steps)
    assert steps.duplicates == [(0, 0, 2)]


def job_at(step: type[Step]) -> tuple[Steps, Task]:
    """Return a job's task that has reached a step, after another run of the job wrote its rows in another layout."""
    steps = Steps([[1], [2]], [[1, 2]], form=Form.BATCH_JOB)
    steps.begin(0, 2)
    task = steps.task(1)
    step_until(task, lambda task: isinstance(task.at, step))
    steps.begin(1, 2)
    steps.run()
    assert not steps.duplicates
    return steps, task


def test_two_runs_of_a_job() -> None:
    """A job's task that is still sending finds the rows that another run wrote in another layout, and gives up."""
    steps, task = job_at(Send)
    with pytest.raises(LedgerError, match="LAYOUT_CHANGED"):
        let_return(task, steps)
    assert not steps.duplicates


def test_two_runs_of_a_job_that_commit_at_once() -> None:
    """Rows are duplicated if two runs of a job commit after both have read the ledger for the last time."""
    steps, task = job_at(Commit)
    let_return(task, steps)
    assert steps.duplicates == [(0, 0, 2)]


def test_late_zombie_of_another_layout() -> None:
    """Rows are duplicated even if the earlier run's attempt starts afterwards, because it trusts its slot's last entry."""
    steps = Steps([[1], [2]], [[1, 2]])
    steps.begin(0, 2)
    steps.run()
    steps.query.advance()
    zombie = steps.task(1)
    steps.begin(1, 2)
    steps.run()
    assert not steps.duplicates
    let_return(zombie, steps)
    assert steps.duplicates == [(1, 0, 2)]


@pytest.mark.parametrize("requests", range(12))
def test_zombie_of_the_same_layout(requests: int) -> None:
    """In the same layout, an earlier run's attempt is fenced or its rows are found recorded, whatever its progress."""
    steps = Steps([[1], [2]])
    steps.begin(0, 2)
    zombie = steps.task(1)
    for _ in range(requests):
        zombie.step()
    steps.begin(0, 2)
    new = steps.task(0)
    while new in steps.query.tasks and not new._is_open:
        steps.step(new)
        steps.let_pass()
    with suppress(Fenced, LedgerError):
        let_return(zombie, steps)
    steps.run()
    assert steps.visible == {(0, 0, 1): 1, (0, 0, 2): 1}


def test_zombie_that_waits() -> None:
    """A waiting attempt is refused after a run in another layout has written a later micro-batch."""
    steps = Steps([[1], [2], [3]], [[1], [2, 3]])
    steps.begin(0, 3)
    steps.finish(0)
    steps.begin(0, 3)
    zombie = steps.task(2)
    step_until(zombie, lambda task: task._is_open)
    steps.begin(1, 2)
    steps.run()
    steps.query.advance()
    steps.run()
    with pytest.raises(LedgerError, match="CHECKPOINT_ROLLED_BACK"):
        let_return(zombie, steps)
    assert not steps.duplicates


def test_next_micro_batch_of_an_earlier_run() -> None:
    """A checkpoint rolled back by one micro-batch is detected while that micro-batch is verified, not after the next."""
    steps = Steps([[1], [2]], [[1, 2]])
    steps.begin(1, 2)
    steps.run()
    steps.begin(0, 2)
    steps.finish(1)
    steps.query.end()
    steps.query.completed -= 1
    steps.begin(1, 2)
    with pytest.raises(JobFailed, match="CHECKPOINT_ROLLED_BACK"):
        steps.run()
    assert not steps.duplicates


def test_next_micro_batch_under_another_name() -> None:
    """A rollback by one micro-batch is detected even if the later one was written under a name that was changed back."""
    steps = Steps([[1], [2]])
    steps.begin(0, 2)
    steps.run()
    steps.query.prefix = "team"
    steps.begin(0, 2)
    steps.finish(1)
    steps.query.end()
    steps.query.completed -= 1
    steps.query.prefix = PREFIX
    steps.begin(0, 2)
    with pytest.raises(JobFailed, match="CHECKPOINT_ROLLED_BACK"):
        steps.run()
    assert not steps.duplicates


def test_fewer_cores() -> None:
    """If as many slots wait as there are cores, recorded slots never start: the run stops, and needs another core.

    The same happens with as many cores if Spark started the slots out of order before, as it does by locality.
    """
    steps = Steps([[1], [2], [3], [4]])
    steps.begin(0, 4)
    steps.finish(1, 3)
    for cores in (1, 1):
        steps.begin(0, cores)
        with pytest.raises(JobFailed, match="LAYOUT_CHANGED"):
            steps.run()
    steps.query.zombies.clear()
    steps.begin(0, 3)
    steps.run()
    assert steps.visible == {(0, 0, n): 1 for n in (1, 2, 3, 4)}


def test_verified_by_a_zombie() -> None:
    """An earlier run's attempt that verifies a slot late makes others wait in vain; only the next run completes."""
    steps = Steps([[1], [2]])
    steps.begin(0, 2, 1)
    zombie = steps.copy(0)
    steps.finish(0)
    steps.begin(0, 1)
    steps.finish(0)
    let_return(zombie, steps)
    with pytest.raises(JobFailed, match="LAYOUT_CHANGED"):
        steps.run()
    assert steps.visible == {(0, 0, 1): 1}
    steps.begin(0, 1)
    steps.run()
    assert steps.visible == {(0, 0, 1): 1, (0, 0, 2): 1}


def rows_of(steps: Steps, slots: Sequence[Sequence[int]], batch: int = 0) -> None:
    """Let tasks that start from now on have these rows, which are of one micro-batch."""
    found = [[(batch, 0, n) for n in slot] for slot in slots]
    steps.query.plan.slots = lambda *_: found  # type: ignore[assignment]


def copied(*, is_warm: bool, goes_on: bool) -> Steps:
    """Return a query that has read rows 1 and 3; a copy of its checkpoint has read 1, 3 and 2; next, the query reads 2.

    With `goes_on`, the query is still in the same run. With `is_warm`, its workers remember this run.
    """
    steps = Steps([[1], [3]])
    steps.begin(0, 2)
    steps.run()
    run = steps.query.run
    rows_of(steps, [[1], [3], [2]])
    steps.query.completed = 0
    steps.begin(0, 3)
    steps.run()
    rows_of(steps, [[2], []])
    if not goes_on:
        steps.begin(0, 2)
        return steps
    assert run is not None
    steps.query.end()
    steps.query.run = run
    if not is_warm:
        run.executors[0].seen.clear()
    steps.query.advance()
    return steps


def test_copied_checkpoint() -> None:
    """A run whose workers remember it finds that a copy of its checkpoint has written a micro-batch, and writes nothing."""
    steps = copied(is_warm=True, goes_on=True)
    with pytest.raises(JobFailed, match="CHECKPOINT_SHARED"):
        steps.run()
    assert not steps.duplicates


@pytest.mark.parametrize("goes_on", [True, False])
def test_copied_checkpoint_unknown_to_workers(goes_on: bool) -> None:
    """Rows are duplicated if no worker and no entry shows that the copy has written during the run."""
    steps = copied(is_warm=False, goes_on=goes_on)
    steps.run()
    assert steps.duplicates == [(0, 0, 2)]


def moving() -> Steps:
    """Return a run whose slot 0 has committed row 1, which is in slot 1 from now on."""
    steps = Steps([[1], []])
    steps.query.settings = replace(SETTINGS, max_failures=4)
    steps.begin(0, 2)
    while not steps.visible:
        steps.step(steps.task(0))
        steps.let_pass()
    rows_of(steps, [[], [1]])
    return steps


def die(steps: Steps, slot: int) -> None:
    """Let a task die, and Spark try it again."""
    assert steps.query.run is not None
    assert steps.query.run.job is not None
    steps.query.run.job.fail(steps.task(slot), RuntimeError())


def test_rows_that_move_within_a_run() -> None:
    """A task that has committed, and has no rows when Spark tries it again, stops the query before they are repeated."""
    steps = moving()
    die(steps, 0)
    with pytest.raises(JobFailed, match="ROWS_DIFFER"):
        steps.run()
    assert not steps.duplicates


def test_rows_that_move_to_a_slot_that_commits_first() -> None:
    """The query stops only after the rows are duplicated, if the slot to which they moved commits before the retry."""
    steps = moving()
    die(steps, 1)
    steps.finish(1)
    assert steps.duplicates == [(0, 0, 1)]
    die(steps, 0)
    with pytest.raises(JobFailed, match="ROWS_DIFFER"):
        steps.run()


def test_copy_that_commits_after_its_micro_batch() -> None:
    """Rows are duplicated if a copy of a task has rows that the task does not have, and outlives the micro-batch."""
    steps = Steps([[1], []])
    rows_of(steps, [[], [1]])
    steps.begin(0, 3)
    rows_of(steps, [[1], []])
    copy = steps.copy(0)
    steps.finish(0, 1)
    steps.run()
    assert not steps.duplicates
    let_return(copy, steps)
    assert steps.duplicates == [(0, 0, 1)]
