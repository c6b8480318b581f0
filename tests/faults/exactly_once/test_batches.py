"""Exactly-once writes in foreachBatch and in batch jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy, fail

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2)]

NewTopic = Callable[..., str]


@pytest.fixture
def second(new_topic: NewTopic) -> str:
    """A second topic to write to."""
    return new_topic(partitions=2)


def test_foreach_batch(copy: Copy) -> None:
    """A restarted query that repeats a write in foreachBatch finds its rows in the log."""
    copy.failed(fail("foreach_batch.after"), foreach=True)
    copy.complete(foreach=True)
    copy.expect_each_once()


def test_two_topics(copy: Copy, second: str) -> None:
    """A foreachBatch that writes to two topics writes each row once to each, wherever the query fails."""
    writes = [copy.sink_options(), copy.sink_options(second)]
    of_the_first = {"point": "begin.after", "batch": 1, "slot": 2, "action": "wait"}
    copy.failed(of_the_first, fail("begin.after", 2), foreach=True, writes=writes)
    copy.failed(fail("foreach_batch.after"), foreach=True, writes=writes)
    copy.complete(foreach=True, writes=writes)
    copy.expect_each_once()
    copy.expect_each_once(second)


def test_one_topic_without_names(copy: Copy) -> None:
    """A foreachBatch that writes twice to one topic is refused until the second write has its own name."""
    error = copy.refused("WRITTEN_TWICE", foreach=True, writes=[copy.sink_options(), copy.sink_options()])
    assert "writerName" in error
    copy.expect_each_once(rows=range(400))
    copy.complete(foreach=True, writes=[copy.sink_options(), copy.sink_options(writerName="second")])
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))


def test_one_topic_with_names(copy: Copy) -> None:
    """A foreachBatch with two named writes to one topic writes each row once per name."""
    writes = [copy.sink_options(writerName=name) for name in ("first", "second")]
    copy.failed(fail("foreach_batch.after"), foreach=True, writes=writes)
    copy.complete(foreach=True, writes=writes)
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))


@pytest.mark.parametrize("action", ["raise", "kill_worker"])
@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
def test_batch_job(copy: Copy, retrying: Application, point: str, action: str) -> None:
    """A retried task of a batch job writes its rows once, whether it failed before or after its commit."""
    fails = {"point": point, "slot": 2, "attempt": 0, "action": action}
    source = {name: value for name, value in copy.request.source.items() if name != "maxOffsetsPerTrigger"}
    writes = [copy.sink_options(writerName=copy.sink, batchId="0")]
    outcome = copy.run(fails, on=retrying, is_batch=True, source=source, writes=writes)
    assert outcome.error is None
    assert (retrying.marks / "fired-0").exists()
    copy.expect_each_once()


@pytest.mark.parametrize("action", ["raise", "kill_worker"])
def test_retried_task_of_a_stream(copy: Copy, retrying: Application, action: str) -> None:
    """A micro-batch task that is retried after its commit finds its rows in the log."""
    fails = {"point": "commit.after", "batch": 1, "slot": 2, "attempt": 0, "action": action}
    assert copy.run(fails, on=retrying).error is None
    assert (retrying.marks / "fired-0").exists()
    copy.expect_each_once()


def test_two_jobs(copy: Copy) -> None:
    """A batch job repeated under its batchId writes nothing; under the next batchId it writes again."""
    source = {name: value for name, value in copy.request.source.items() if name != "maxOffsetsPerTrigger"}
    copy.refused("UNNAMED_WRITE", is_batch=True, source=source)
    for number in ("0", "0", "1"):
        copy.complete(is_batch=True, source=source, writes=[copy.sink_options(writerName=copy.sink, batchId=number)])
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))
