"""Plans of batch frames in micro-batches: Spark plans a frame once, and each micro-batch of a query reads by that plan."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from pyspark_zkafka.model.planning import SubscribePattern, requested_topics
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.retries import OncePerMinute

_log = logging.getLogger(__name__)

_OLD_S = 300.0
_MOST_PLANS = 1_000
_REMEDY = "call load() inside foreachBatch, for each micro-batch, to read them"


class FramePlan(NamedTuple):
    """The plan of a frame that would contain more records if it were planned later. `at` is in seconds since the epoch."""

    frame: str
    at: float
    token: str

    @classmethod
    def of(cls, options: ReadOptions, now: Callable[[], float] = time.time) -> FramePlan | None:
        """Return a new plan; None if the frame's end is given by offsets or times, so that every plan is equal."""
        if options.view is not None:
            return cls(f"the view {options.view}", now(), uuid.uuid4().hex)
        if not options.end.moves:
            return None
        subscription = options.require_subscription()
        if isinstance(subscription, SubscribePattern):
            name = subscription.pattern
        else:
            name = ", ".join(requested_topics(subscription))
        return cls(f"the frame of {name}", now(), uuid.uuid4().hex)


class MicroBatch(NamedTuple):
    """A micro-batch, as Spark names it in the local properties of its tasks."""

    query: str
    number: str

    @classmethod
    def present(cls) -> MicroBatch | None:
        """Return the micro-batch whose task runs in this worker; None outside of streaming queries."""
        from pyspark.taskcontext import TaskContext

        context = TaskContext.get()
        if context is None:
            return None
        query, number = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
        return None if query is None or number is None else cls(query, number)


class PlanReuse:
    """Warnings, once a minute for each frame, that a micro-batch reads by the plan of an earlier micro-batch.

    A worker that has read by the same plan in another micro-batch can be certain. Other workers can only compare the plan's
    age, which proves nothing: a micro-batch may also run for long. Spark ends workers that are idle for a minute.
    """

    def __init__(self, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._limit = OncePerMinute(clock)
        self._first: dict[str, MicroBatch] = {}

    def check(self, plan: FramePlan | None, reader: MicroBatch | None) -> None:
        """Warn if the plan is, or may be, older than the micro-batch that reads by it."""
        if plan is None or reader is None:
            return
        first = self._first.setdefault(plan.token, reader)
        if len(self._first) > _MOST_PLANS:
            del self._first[next(iter(self._first))]
        age_s = self._now() - plan.at
        if first == reader and age_s <= _OLD_S:
            return
        if not self._limit.is_due(plan.frame):
            return
        planned = f"Micro-batch {reader.number} reads {plan.frame} by a plan that is {max(0.0, age_s):.0f} s old"
        if first != reader:
            _log.warning("%s, of an earlier micro-batch. Later records are missing: %s", planned, _REMEDY)
        else:
            _log.warning("%s. If an earlier micro-batch made it, later records are missing: %s", planned, _REMEDY)


PLAN_REUSE = PlanReuse()
"""The plans that this worker has read by."""
