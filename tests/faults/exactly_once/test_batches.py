"""Writes in foreachBatch, and jobs that are no streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy, fail

pytestmark = pytest.mark.long

NewTopic = Callable[..., str]


@pytest.fixture
def second(new_topic: NewTopic) -> str:
    """Another topic to write to."""
    return new_topic(partitions=2)


def test_foreach_batch(copy: Copy) -> None:
    """A write in foreachBatch that is repeated by a restarted query finds its rows in the log."""
    copy.failed(fail("foreach_batch.after"), foreach=True)
    copy.complete(foreach=True)
    copy.expect_each_once()


def test_two_topics(copy: Copy, second: str) -> None:
    """Two writes of one foreachBatch to two topics are each written once, wherever the query fails."""
    writes = [copy.sink_options(), copy.sink_options(second)]
    of_the_first = {"point": "begin.after", "batch": 1, "slot": 2, "action": "wait"}
    copy.failed(of_the_first, fail("begin.after", 2), foreach=True, writes=writes)
    copy.failed(fail("foreach_batch.after"), foreach=True, writes=writes)
    copy.complete(foreach=True, writes=writes)
    copy.expect_each_once()
    copy.expect_each_once(second)


def test_one_topic_without_names(copy: Copy) -> None:
    """A second write of one foreachBatch to the same topic is refused if it has no name of its own; with one it goes on."""
    error = copy.refused("WRITTEN_TWICE", foreach=True, writes=[copy.sink_options(), copy.sink_options()])
    assert "writerName" in error
    copy.expect_each_once(rows=range(400))
    copy.complete(foreach=True, writes=[copy.sink_options(), copy.sink_options(writerName="second")])
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))


def test_one_topic_with_names(copy: Copy) -> None:
    """Two writes of one foreachBatch to the same topic are each written once if they have names."""
    writes = [copy.sink_options(writerName=name) for name in ("first", "second")]
    copy.failed(fail("foreach_batch.after"), foreach=True, writes=writes)
    copy.complete(foreach=True, writes=writes)
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))


@pytest.mark.parametrize("action", ["raise", "kill_worker"])
@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
def test_batch_job(copy: Copy, retrying: Application, point: str, action: str) -> None:
    """A task of a batch job that is tried again, before its commit or after it, writes its rows once."""
    fails = {"point": point, "slot": 2, "attempt": 0, "action": action}
    source = {name: value for name, value in copy.request.source.items() if name != "maxOffsetsPerTrigger"}
    writes = [copy.sink_options(writerName=copy.sink, batchId="0")]
    outcome = copy.run(fails, on=retrying, is_batch=True, source=source, writes=writes)
    assert outcome.error is None
    assert (retrying.marks / "fired-0").exists()
    copy.expect_each_once()


@pytest.mark.parametrize("action", ["raise", "kill_worker"])
def test_retried_task_of_a_stream(copy: Copy, retrying: Application, action: str) -> None:
    """A task of a micro-batch that is tried again after its commit finds its rows in the log."""
    fails = {"point": "commit.after", "batch": 1, "slot": 2, "attempt": 0, "action": action}
    assert copy.run(fails, on=retrying).error is None
    assert (retrying.marks / "fired-0").exists()
    copy.expect_each_once()


def test_two_jobs(copy: Copy) -> None:
    """A batch job that is run again under its number writes nothing; under the next one it is another job."""
    source = {name: value for name, value in copy.request.source.items() if name != "maxOffsetsPerTrigger"}
    copy.refused("UNNAMED_WRITE", is_batch=True, source=source)
    for number in ("0", "0", "1"):
        copy.complete(is_batch=True, source=source, writes=[copy.sink_options(writerName=copy.sink, batchId=number)])
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))
