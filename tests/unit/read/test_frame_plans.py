"""Frames in micro-batches: which plans may be outdated, and when a task warns of one."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.frame_plans import FramePlan, MicroBatch, PlanReuse

FIRST, SECOND = MicroBatch("q", "0"), MicroBatch("q", "1")


class Worker:
    """A worker with a clock that the test sets. Its plans are made at 1000 s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._reuse = PlanReuse(lambda: self.now, lambda: self.now)

    def plan(self, frame: str = "the frame of t") -> FramePlan:
        """Return a new plan, as a task unpickles it."""
        return FramePlan(frame, 1000.0, f"{frame} {self.now}")

    def read(self, plan: FramePlan | None, reader: MicroBatch | None, age_s: float) -> None:
        """Read by a plan of this age."""
        self.now = 1000.0 + age_s
        self._reuse.check(plan and pickle.loads(pickle.dumps(plan)), reader)


@pytest.mark.parametrize(
    ("options", "frame"),
    [
        ({"subscribe": "t,u"}, "the frame of t, u"),
        ({"subscribePattern": "t.*"}, "the frame of t.*"),
        ({"assign": '{"t": [0]}'}, "the frame of t"),
        ({"subscribe": "t", "endingOffsets": '{"t": {"0": 5, "1": -1}}'}, "the frame of t"),
        ({"subscribe": "t", "endingTimestamp": "10 minutes ago"}, "the frame of t"),
        ({"view": "topics", "subscribe": ""}, "the view topics"),
        ({"subscribe": "t", "endingOffsets": '{"t": {"0": 5, "1": 6}}'}, None),
        ({"subscribe": "t", "endingTimestamp": "1700000000000"}, None),
    ],
)
def test_frames_that_grow(options: dict[str, str], frame: str | None) -> None:
    """A frame that ends at the end of a log, or at a relative time, grows. A frame that ends at given offsets does not."""
    given = {"kafka.bootstrap.servers": "broker1:9092", **options}
    found = FramePlan.of(parse_read({name: value for name, value in given.items() if value}), lambda: 7.0)
    assert (found and (found.frame, found.at)) == (frame and (frame, 7.0))


def test_plan_of_an_earlier_micro_batch(caplog: pytest.LogCaptureFixture) -> None:
    """A worker warns, once a minute for each frame, when a second micro-batch reads by a plan."""
    worker = Worker()
    plan, other = worker.plan(), worker.plan("the frame of u")
    for age_s, read, reader in (
        (1, plan, FIRST),
        (2, plan, FIRST),
        (3, plan, SECOND),
        (4, plan, SECOND),
        (5, other, FIRST),
        (6, other, MicroBatch("q2", "0")),
        (64, plan, SECOND),
    ):
        worker.read(read, reader, age_s)
    found = [(record.levelname, record.message.partition(".")[0]) for record in caplog.records]
    assert found == [
        ("WARNING", "Micro-batch 1 reads the frame of t by a plan that is 3 s old, of an earlier micro-batch"),
        ("WARNING", "Micro-batch 0 reads the frame of u by a plan that is 6 s old, of an earlier micro-batch"),
        ("WARNING", "Micro-batch 1 reads the frame of t by a plan that is 64 s old, of an earlier micro-batch"),
    ]
    assert "call load() inside foreachBatch" in caplog.text


def test_old_plan_in_a_new_worker(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that has not read by a plan before warns if the plan is old, as Spark may have replaced the worker."""
    worker = Worker()
    worker.read(worker.plan(), FIRST, 299)
    assert not caplog.messages
    worker.read(worker.plan(), FIRST, 301)
    assert "301 s old. If an earlier micro-batch made it, later records are missing" in caplog.text


def test_plans_that_micro_batches_make(caplog: pytest.LogCaptureFixture) -> None:
    """A batch job, a frame that does not grow, and a frame that each micro-batch loads, cause no warning."""
    worker = Worker()
    plan = worker.plan()
    for number in range(2000):
        worker.read(FramePlan("the frame of t", 1000.0 + number, str(number)), MicroBatch("q", str(number)), number)
    worker.read(plan, None, 5000)
    worker.read(None, FIRST, 5000)
    assert not caplog.messages
    assert len(worker._reuse._first) == 1000


def test_micro_batch_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task names its micro-batch by Spark's local properties; without a task, or in a batch job, there is none."""
    assert MicroBatch.present() is None
    for properties, expected in (
        ({"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}, MicroBatch("q", "3")),
        ({}, None),
    ):
        context = SimpleNamespace(getLocalProperty=properties.get)
        monkeypatch.setattr("pyspark.taskcontext.TaskContext.get", lambda context=context: context)
        assert MicroBatch.present() == expected
