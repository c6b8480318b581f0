"""A query of Spark's connector and one of ours through the same random histories: ours reads whatever Spark's reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from tests.faults.use.steps import Step, Use, steps_of
from tests.faults.use.topics import Log, Topics
from tests.support.stream import start_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2), pytest.mark.timeout(1200)]

_SCHEDULES, _LENGTH = 8, 16
_ENDS_IN_S = 120
_TOPIC_STEPS = {"produce", "grow", "recreate", "delete", "truncate", "compact"}
_LOSS = ("DATA_LOSS", "TOPIC_REPLACED", "failOnDataLoss")

Place = tuple[Log, int]


class Follower:
    """A query of one connector; each run reads what is available, starting from the checkpoint of the last run.

    Attributes
    ----------
    rows : Counter
        How often each record was read since the checkpoint started.
    may_lose : bool
        True if records were deleted since the last run without an error.
    is_tolerant : bool
        True after a loss was reported: the next run ignores it.
    """

    def __init__(self, spark: SparkSession, source: str, topics: Topics, folder: Path) -> None:
        self._spark, self._source, self._topics, self._folder = spark, source, topics, folder
        self._checkpoints = 0
        self.rows: Counter[Place] = Counter()
        self.may_lose = self.is_tolerant = False

    def begin_again(self) -> None:
        """Start with an empty checkpoint."""
        self._checkpoints += 1
        self.rows.clear()
        self.may_lose = self.is_tolerant = False

    def run(self, use: Use) -> Exception | None:
        """Read what is available. Returns the error that ended the run, or None."""
        options = self._options(use)
        error = start_until(lambda: self._start(options), lambda query: not query.isActive, _ENDS_IN_S).exception()
        self.is_tolerant = error is not None
        self.may_lose &= error is not None
        return error

    def _start(self, options: dict[str, str]) -> StreamingQuery:
        def note(frame: DataFrame, _: int) -> None:
            places = [(TopicPartition(row.topic, row.partition), row.offset) for row in frame.collect()]
            self.rows.update((self._topics.log_of(tp), offset) for tp, offset in places)

        frame = self._spark.readStream.format(self._source).options(**options).load().select("topic", "partition", "offset")
        place = str(self._folder / f"{self._source}-{self._checkpoints}")
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", place)
        return writer.trigger(availableNow=True).start()

    def _options(self, use: Use) -> dict[str, str]:
        limit = {"maxOffsetsPerTrigger": str(use.limit)} if use.limit else {}
        return {
            "kafka.bootstrap.servers": self._topics.cluster.bootstrap_servers,
            "startingOffsets": use.start,
            "failOnDataLoss": str(use.fails and not self.is_tolerant).lower(),
            **self._topics.subscription(use.topics),
            **limit,
        }


class History:
    """The topics and both queries of one history."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path) -> None:
        self.topics = Topics(cluster, self._note_loss)
        self.ours, self.theirs = (Follower(spark, name, self.topics, folder) for name in ("zkafka", "kafka"))
        self.compared = 0

    def run(self, steps: list[Step]) -> None:
        """Take all steps, then read the rest unless topic b is deleted by then."""
        self.topics.create("a", 2)
        self.topics.create("b", 1)
        for step in steps:
            if step.name in _TOPIC_STEPS:
                getattr(self.topics, step.name)(*step.arguments)
            elif step.name == "start":
                self.compare(step.arguments[0]._replace(trigger="available"))
            elif step.name == "fresh":
                self.ours.begin_again()
                self.theirs.begin_again()
        if "b" in self.topics.partitions:
            for _ in range(2):
                self.compare(Use(fails=False))

    def compare(self, use: Use) -> None:
        """Run both, and check that ours has read whatever theirs has, each record once.

        Ours may fail only if records were deleted or a topic is missing.
        """
        may_lose = self.ours.may_lose
        theirs, ours = self.theirs.run(use), self.ours.run(use)
        twice = {place for place, times in self.ours.rows.items() if times > 1}
        assert not twice, f"read again: {twice}"
        if ours is not None:
            is_missing = set(self._named(use)) - set(self.topics.partitions)
            assert (may_lose and any(word in str(ours) for word in _LOSS)) or is_missing, ours
            return
        skipped = {place for place in self.theirs.rows if self.topics.exists(place[0])} - set(self.ours.rows)
        assert not skipped, f"Spark's connector has read records that ours has not: {skipped}"
        self.compared += theirs is None and sum(self.ours.rows.values()) > 0

    def _named(self, use: Use) -> str:
        return {"a": "a", "ab": "ab", "assign": "a"}.get(use.topics, "")

    def _note_loss(self, topic: str, life: int | None) -> None:
        self.ours.may_lose = True


def test_nothing_is_skipped(
    spark: SparkSession, one_broker: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Our connector misses no record that Spark's connector has read."""
    first, compared = 1000 * request.config.getoption("--zkafka-seed"), 0
    for seed in range(first, first + _SCHEDULES):
        history = History(spark, one_broker, tmp_path / str(seed))
        steps = steps_of(seed, "alone", _LENGTH)
        try:
            history.run(steps)
        except AssertionError as error:
            raise AssertionError("\n  ".join([f"seed {seed}: {error}", *map(str, steps)])) from error
        finally:
            history.topics.close()
        compared += history.compared
    assert compared > _SCHEDULES
